//! `--debug`: the result of each stage, in the order of the pipeline.

use std::fmt::Display;
use std::iter;

use crate::compile::Compiled;
use crate::compile::environment::Fate;
use crate::compile::lower::Machine;
use crate::policy::{Exactness, Rule, escape_for_display};
use crate::trust::Widening;

pub(super) fn stages(compiled: &Compiled, widening: Option<&Widening>) -> String {
    let project = &compiled.layers.project;
    let mut out = format!("project: root {}, working directory {}, home {}\n", project.root, project.cwd, project.home);
    if let Some(found) = &project.repository {
        out.push_str(&format!("repository: {}, shared part {}\n", found.git_dir, found.common_dir));
    }
    let mut section = |title: &str, lines: Vec<String>| {
        out.push_str(&format!("{title}:\n"));
        out.extend(lines.iter().map(|line| format!("  {line}\n")));
    };
    let layers = &compiled.layers.layers;
    let read = layers.iter().filter_map(|layer| {
        let part = if layer.protective_only { ", above the root: only its prohibitions count" } else { "" };
        layer.file.as_ref().map(|file| format!("{file} ({}{part})", layer.kind.name()))
    });
    let absent = compiled.layers.absent.iter().map(|path| format!("{path} (absent)"));
    section("files", read.chain(absent).collect());
    let layers = layers.iter().map(|layer| {
        let filesystem = &layer.config.filesystem;
        let presets = filesystem.presets.iter().map(|preset| format!(" {}", escape_for_display(preset.value.as_ref())));
        let (ro, rw, exclude) = (filesystem.ro.len(), filesystem.rw.len(), filesystem.exclude.len());
        let private = filesystem.private.len();
        let presets: String = presets.collect();
        format!("{}: {ro} ro, {rw} rw, {exclude} exclude, {private} private, presets:{presets}", layer.kind.name())
    });
    section("layers, lowest first", layers.collect());
    section("merged", merged(compiled));
    section("rules", rules(compiled));
    let decisions = compiled.decisions.iter().flat_map(|(path, decision)| {
        let losers = decision.losers.iter().map(|loser| {
            let rule = &loser.rule;
            format!("  over {} {}  [{}]", rule.access, escape_for_display(&rule.text), rule.origin)
        });
        iter::once(format!("{} {path}  [{}]", decision.access, decision.origin)).chain(losers)
    });
    section("decisions", decisions.collect());
    let dropped = compiled.plan.redundant.iter().map(|dropped| {
        format!("{} {} is {} already  [{}]", dropped.access, dropped.path, dropped.inherited, dropped.because)
    });
    section("dropped mounts", dropped.collect());
    // Names without values, which may be the caller's secrets.
    let environment = compiled.environment.outcomes.iter().map(|(name, outcome)| {
        let fate = match outcome.fate {
            Fate::Passed => "pass",
            Fate::Dropped => "unset",
            Fate::Set => "set",
        };
        format!("{fate} {}  [{}]", escape_for_display(name), outcome.because)
    });
    section("environment", environment.collect());
    if let Some(Widening { name, grants, .. }) = widening {
        section(&format!("opened by {name}"), grants.iter().map(ToString::to_string).collect());
    }
    out
}

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

fn merged(compiled: &Compiled) -> Vec<String> {
    let policy = &compiled.policy;
    let presets = policy.presets.iter().map(|(name, layer)| format!("preset @{name} (on by: {})", layer.name()));
    let mut lines: Vec<String> = presets.collect();
    lines.push(format!("network = {} ({})", policy.network.value, policy.network.origin));
    lines.push(format!("docker = {} ({})", policy.docker.value, policy.docker.origin));
    lines.push(format!("nested = {} ({})", policy.nested.value, policy.nested.origin));
    let require = policy.require.iter();
    lines.extend(require.map(|(protection, origin)| format!("require {protection} ({origin})")));
    let sockets = policy.sockets.iter();
    lines.extend(sockets.map(|one| format!("socket {} ({})", escape_for_display(&one.text), one.origin)));
    lines.push(format!("tmp = {:?} ({})", policy.tmp.value, policy.tmp.origin));
    lines.extend(policy.limits.values().map(|limit| format!("limit {} ({})", limit.value, limit.origin)));
    lines.push(format!("home = {:?} ({})", policy.home.value, policy.home.origin));
    lines.push(format!("base = {:?} ({})", policy.base.value, policy.base.origin));
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
    let harmless = resolution.without_credentials.iter();
    lines.extend(harmless.map(|it| line(&it.rule, &format_args!("{} left alone, it holds no credentials", it.path))));
    let placeholders = compiled.plan.placeholders.iter();
    lines.extend(placeholders.map(|one| format!("blocked by a placeholder: {}  [{}]", one.path, one.origin)));
    let created = resolution.create.iter().chain(resolution.new_files.iter().map(|file| &file.path));
    lines.extend(created.map(|path| format!("created before the start: {path}")));
    lines
}
