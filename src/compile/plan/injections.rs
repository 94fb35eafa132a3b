//! Injections that a run refuses because of other rules (SPEC J4).

use crate::compile::decide::{Decision, Decisions};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::policy::{AbsPath, Injected, LayerKind};
use crate::sys::ablate::{self, Mitigation};

use super::{Plan, links};

/// Refuses an injection through a symlink that the command can replace, and an injection whose
/// source the command could not read itself.
pub fn check_injections(plan: &Plan, decisions: &Decisions, diagnostics: &mut Diagnostics) {
    for (path, decision) in decisions.iter().filter(|(_, decision)| decision.injected.is_some()) {
        let mut refuse = |message: String, help: &str| {
            diagnostics.push(Diagnostic::new(Code::InjectionRefused, message).at(&decision.origin).help(help));
        };
        if let Some(link) =
            links::writable_link(plan, &decision.links).filter(|_| !ablate::is_off(Mitigation::LinkChecks))
        {
            let message = format!("`{path}` is reached through `{link}`, a symlink that a command can replace");
            refuse(message, "name the target itself, or move the link to a place that is not writable");
        }
        if let Some(hidden) =
            hidden_source(plan, decisions, decision).filter(|_| !ablate::is_off(Mitigation::InjectedSources))
        {
            let message = format!("`{hidden}` is hidden from the command, and would be injected at `{path}`");
            refuse(message, "inject another file, or show this one with a `ro` rule");
        }
    }
}

/// The injected file or folder, or a part of it, that is hidden from the command at its own path.
/// The user may inject files that only a private home or a minimal base hides. The project's file
/// may not, nor may a symlink that the command can replace: an earlier run may have chosen its
/// target.
fn hidden_source<'d>(plan: &Plan, decisions: &'d Decisions, decision: &'d Decision) -> Option<&'d AbsPath> {
    let Some(Injected::Source { path: source, links }) = decision.injected.as_deref() else { return None };
    let is_trusted = decision.layer != LayerKind::Project && links::writable_link(plan, links).is_none();
    let is_brought = |path: &AbsPath| decisions.governing(path).is_some_and(|(_, there)| there.is_own_place());
    let is_hidden = |path: &AbsPath| !(plan.view(path).shows_host() || is_trusted && is_brought(path));
    let below = decisions.iter().map(|(at, _)| at).filter(|at| at.is_below(source));
    std::iter::once(source).chain(below).find(|at| is_hidden(at))
}
