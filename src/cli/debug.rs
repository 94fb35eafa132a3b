//! `--debug`: the result of each stage, in the order of the pipeline.

use std::fmt::Display;
use std::iter;

use crate::compile::Compiled;
use crate::compile::environment::Fate;
use crate::compile::lower::{Argv, Machine};
use crate::policy::path::escape_for_display;
use crate::policy::rule::{Exactness, Rule};
use crate::trust::Widening;

pub(super) fn stages(compiled: &Compiled, widening: Option<&Widening>) -> String {
    let mut sections = vec![
        ("files".to_owned(), files(compiled)),
        ("layers, lowest first".to_owned(), layers(compiled)),
        ("merged".to_owned(), merged(compiled)),
        ("rules".to_owned(), rules(compiled)),
        ("decisions".to_owned(), decisions(compiled)),
        ("dropped mounts".to_owned(), dropped(compiled)),
        ("environment".to_owned(), environment(compiled)),
    ];
    if let Some(Widening { name, grants, .. }) = widening {
        sections.push((format!("opened by {name}"), grants.iter().map(ToString::to_string).collect()));
    }
    let mut out = project(compiled);
    for (title, lines) in sections {
        out.push_str(&format!("{title}:\n"));
        out.extend(lines.iter().map(|line| format!("  {line}\n")));
    }
    out
}

/// The capabilities of the machine.
pub(super) fn machine(machine: &Machine, compiled: &Compiled) -> String {
    let has = |has: bool| if has { "yes" } else { "no" };
    format!(
        "machine: {}; guard: {}; seccomp: {}; Landlock scope: {}\n",
        machine.bwrap,
        has(compiled.guard),
        has(machine.kernel.seccomp),
        has(machine.kernel.landlock)
    )
}

pub(super) fn argv(argv: &Argv) -> String {
    format!("argv:\n{}", argv.to_shell())
}

fn project(compiled: &Compiled) -> String {
    let project = &compiled.layers.project;
    let here = format!("project: root {}, working directory {}, home {}\n", project.root, project.cwd, project.home);
    let repository = project.repository.as_ref();
    let repository =
        repository.map(|found| format!("repository: {}, shared part {}\n", found.git_dir, found.common_dir));
    here + &repository.unwrap_or_default()
}

fn files(compiled: &Compiled) -> Vec<String> {
    let read = compiled.layers.layers.iter().filter_map(|layer| {
        let part = if layer.protective_only { ", above the root: only what it forbids counts" } else { "" };
        layer.file.as_ref().map(|file| format!("{file} ({}{part})", layer.kind.name()))
    });
    read.chain(compiled.layers.absent.iter().map(|path| format!("{path} (absent)"))).collect()
}

fn layers(compiled: &Compiled) -> Vec<String> {
    let layers = compiled.layers.layers.iter().map(|layer| {
        let filesystem = &layer.config.filesystem;
        let presets = filesystem.presets.iter().map(|preset| format!(" {}", escape_for_display(preset.value.as_ref())));
        let (ro, rw, exclude) = (filesystem.ro.len(), filesystem.rw.len(), filesystem.exclude.len());
        let presets: String = presets.collect();
        format!("{}: {ro} ro, {rw} rw, {exclude} exclude, presets:{presets}", layer.kind.name())
    });
    layers.collect()
}

fn merged(compiled: &Compiled) -> Vec<String> {
    let policy = &compiled.policy;
    let presets = policy.presets.iter().map(|(name, layer)| format!("preset @{name} (on by: {})", layer.name()));
    let mut lines: Vec<String> = presets.collect();
    lines.push(format!("network = {} ({})", policy.network.value, policy.network.origin));
    lines.push(format!("docker = {} ({})", policy.docker.value, policy.docker.origin));
    lines.push(format!("nested = {} ({})", policy.nested.value, policy.nested.origin));
    let require = policy.require.iter();
    lines.extend(require.map(|(protection, origin)| format!("require {} ({origin})", protection.name())));
    let sockets = policy.sockets.iter();
    lines.extend(sockets.map(|one| format!("socket {} ({})", escape_for_display(&one.text), one.origin)));
    lines.push(format!("tmp = {:?} ({})", policy.tmp.value, policy.tmp.origin));
    lines.push(format!("inherit = {} ({})", policy.inherit.value, policy.inherit.origin));
    lines
}

fn rules(compiled: &Compiled) -> Vec<String> {
    let resolution = &compiled.resolution;
    let line = |rule: &Rule, result: &dyn Display| {
        format!("{} {} → {result}  [{}]", rule.access, escape_for_display(&rule.text), rule.origin)
    };
    let matches = resolution.matches.iter().map(|found| {
        let how = if found.exactness == Exactness::Glob { " (glob)" } else { "" };
        let links: String = found.links.iter().map(|link| format!(" via {link}")).collect();
        let same = found.alias_of.as_ref().map(|of| format!(", the same as {}", of.path)).unwrap_or_default();
        line(&found.rule, &format_args!("{}{how}{links}{same}", found.path))
    });
    let mut lines: Vec<String> = matches.collect();
    let (missing, left_alone) = (resolution.missing.iter(), resolution.left_alone.iter());
    lines.extend(missing.map(|(rule, path)| line(rule, &format_args!("nothing at {path}"))));
    lines.extend(left_alone.map(|(rule, path)| line(rule, &format_args!("{path} left alone, git has it"))));
    let placeholders = compiled.plan.placeholders.iter();
    lines.extend(placeholders.map(|one| format!("blocked by a placeholder: {}  [{}]", one.path, one.origin)));
    let created = resolution.create.iter().chain(resolution.new_files.iter().map(|file| &file.path));
    lines.extend(created.map(|path| format!("created before the start: {path}")));
    lines
}

fn decisions(compiled: &Compiled) -> Vec<String> {
    let lines = compiled.decisions.iter().flat_map(|(path, decision)| {
        let losers = decision.losers.iter().map(|loser| {
            let rule = &loser.rule;
            format!("  over {} {}  [{}]", rule.access, escape_for_display(&rule.text), rule.origin)
        });
        iter::once(format!("{} {path}  [{}]", decision.access, decision.origin)).chain(losers)
    });
    lines.collect()
}

fn dropped(compiled: &Compiled) -> Vec<String> {
    let lines = compiled.plan.redundant.iter().map(|dropped| {
        format!("{} {} is {} already  [{}]", dropped.access, dropped.path, dropped.inherited, dropped.because)
    });
    lines.collect()
}

/// Names without values, which may be the caller's secrets.
fn environment(compiled: &Compiled) -> Vec<String> {
    let lines = compiled.environment.outcomes.iter().map(|(name, outcome)| {
        let fate = match outcome.fate {
            Fate::Passed => "pass",
            Fate::Dropped => "unset",
            Fate::Set => "set",
        };
        format!("{fate} {}  [{}]", escape_for_display(name), outcome.because)
    });
    lines.collect()
}
