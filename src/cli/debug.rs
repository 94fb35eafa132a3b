//! `--debug`: what each stage came to, in the order of the pipeline.

use std::fmt::Write;

use crate::cli::print::command_for_people;
use crate::compile::Compiled;
use crate::compile::environment::Fate;
use crate::compile::lower::{Argv, Engine};
use crate::policy::path::shown;
use crate::policy::rule::Exactness;
use crate::trust::Widening;

/// Writing to a `String` cannot fail, so the results of `writeln!` are not looked at.
pub(super) fn stages(compiled: &Compiled, widening: Option<&Widening>) -> String {
    let mut out = String::new();
    files(compiled, &mut out);
    merged(compiled, &mut out);
    rules(compiled, &mut out);
    decisions(compiled, &mut out);
    dropped(compiled, &mut out);
    environment(compiled, &mut out);
    opened(widening, &mut out);
    out
}

/// What the machine was found to have.
pub(super) fn engine(engine: &Engine, compiled: &Compiled) -> String {
    let has = |has: bool| if has { "yes" } else { "no" };
    format!(
        "machine: {}; guard: {}; seccomp: {}; Landlock scope: {}\n",
        engine.bwrap,
        has(compiled.guard),
        has(engine.kernel.seccomp),
        has(engine.kernel.landlock)
    )
}

pub(super) fn argv(argv: &Argv) -> String {
    format!("argv:\n{}", command_for_people(argv))
}

fn files(compiled: &Compiled, out: &mut String) {
    let layers = &compiled.layers;
    let project = &layers.project;
    let _ = writeln!(out, "project: root {}, working directory {}, home {}", project.root, project.cwd, project.home);
    if let Some(repository) = &project.repository {
        let _ = writeln!(out, "repository: {}, shared part {}", repository.git_dir, repository.common_dir);
    }
    let _ = writeln!(out, "files:");
    for layer in &layers.layers {
        let Some(file) = &layer.file else { continue };
        let part = if layer.protective_only { ", above the root: only what it forbids counts" } else { "" };
        let _ = writeln!(out, "  {} ({}{part})", file, layer.kind.name());
    }
    for path in &layers.absent {
        let _ = writeln!(out, "  {path} (absent)");
    }
}

fn merged(compiled: &Compiled, out: &mut String) {
    let policy = &compiled.policy;
    let _ = writeln!(out, "layers, lowest first:");
    for layer in &compiled.layers.layers {
        let filesystem = &layer.config.filesystem;
        let presets: String =
            filesystem.presets.iter().map(|preset| format!(" {}", shown(preset.value.as_ref()))).collect();
        let (ro, rw, exclude) = (filesystem.ro.len(), filesystem.rw.len(), filesystem.exclude.len());
        let _ = writeln!(out, "  {}: {ro} ro, {rw} rw, {exclude} exclude, presets:{presets}", layer.kind.name());
    }
    let _ = writeln!(out, "merged:");
    for (name, layer) in &policy.presets {
        let _ = writeln!(out, "  preset @{name} (on by: {})", layer.name());
    }
    let _ = writeln!(out, "  network = {} ({})", policy.network.value, policy.network.origin);
    let _ = writeln!(out, "  docker = {} ({})", policy.docker.value, policy.docker.origin);
    let _ = writeln!(out, "  nested = {} ({})", policy.nested.value, policy.nested.origin);
    for (protection, origin) in &policy.require {
        let _ = writeln!(out, "  require {} ({origin})", protection.name());
    }
    for socket in &policy.sockets {
        let _ = writeln!(out, "  socket {} ({})", shown(&socket.text), socket.origin);
    }
    let _ = writeln!(out, "  tmp = {:?} ({})", policy.tmp.value, policy.tmp.origin);
    let _ = writeln!(out, "  inherit = {} ({})", policy.inherit.value, policy.inherit.origin);
}

fn rules(compiled: &Compiled, out: &mut String) {
    let resolution = &compiled.resolution;
    let _ = writeln!(out, "rules:");
    for found in &resolution.matches {
        let how = if found.exactness == Exactness::Glob { " (glob)" } else { "" };
        let links: String = found.links.iter().map(|link| format!(" via {link}")).collect();
        let same = found.alias_of.as_ref().map(|of| format!(", the same as {}", of.path)).unwrap_or_default();
        let rule = &found.rule;
        let _ = writeln!(
            out,
            "  {} {} → {}{how}{links}{same}  [{}]",
            rule.access,
            shown(&rule.text),
            found.path,
            rule.origin
        );
    }
    for (rule, path) in &resolution.missing {
        let _ = writeln!(out, "  {} {} → nothing at {path}  [{}]", rule.access, shown(&rule.text), rule.origin);
    }
    for (rule, path) in &resolution.left_alone {
        let _ =
            writeln!(out, "  {} {} → {path} left alone, git has it  [{}]", rule.access, shown(&rule.text), rule.origin);
    }
    for placeholder in &compiled.plan.placeholders {
        let _ = writeln!(out, "  blocked by a placeholder: {}  [{}]", placeholder.path, placeholder.origin);
    }
    for path in resolution.create.iter().chain(resolution.new_files.iter().map(|file| &file.path)) {
        let _ = writeln!(out, "  created before the start: {path}");
    }
}

fn decisions(compiled: &Compiled, out: &mut String) {
    let _ = writeln!(out, "decisions:");
    for (path, decision) in compiled.decisions.iter() {
        let _ = writeln!(out, "  {} {path}  [{}]", decision.access, decision.origin);
        for loser in &decision.losers {
            let _ =
                writeln!(out, "    over {} {}  [{}]", loser.rule.access, shown(&loser.rule.text), loser.rule.origin);
        }
    }
}

fn dropped(compiled: &Compiled, out: &mut String) {
    let _ = writeln!(out, "dropped mounts:");
    for dropped in &compiled.plan.dropped {
        let _ = writeln!(
            out,
            "  {} {} is {} already  [{}]",
            dropped.access, dropped.path, dropped.inherited, dropped.because
        );
    }
}

/// Names, and no values: whoever is shown this need not know the caller's secrets.
fn environment(compiled: &Compiled, out: &mut String) {
    let _ = writeln!(out, "environment:");
    for (name, outcome) in &compiled.environment.outcomes {
        let fate = match outcome.fate {
            Fate::Passed => "pass",
            Fate::Dropped => "unset",
            Fate::Set => "set",
        };
        let _ = writeln!(out, "  {fate} {}  [{}]", shown(name), outcome.because);
    }
}

fn opened(widening: Option<&Widening>, out: &mut String) {
    let Some(widening) = widening else { return };
    let _ = writeln!(out, "opened by {}:", widening.name);
    for granted in &widening.grants {
        let _ = writeln!(out, "  {granted}");
    }
}
