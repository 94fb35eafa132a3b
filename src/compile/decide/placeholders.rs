//! Finds the blocked missing paths that need a placeholder: the command could create them.

use std::collections::BTreeSet;

use super::Decisions;
use crate::compile::resolve::{MissingTarget, Resolution};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::policy::{AbsPath, Access, LayerKind, Mask, places};

const HELP: &str =
    "make the folder writable, or name another with XDG_STATE_HOME: the placeholders of a run are noted there";

/// Keeps a decision at a missing path only if the path gets a placeholder. Everywhere else the path
/// stays missing and needs no decision, as with a skipped rule.
pub(super) fn settle(
    decisions: &mut Decisions,
    resolution: &Resolution,
    state: &AbsPath,
    diagnostics: &mut Diagnostics,
) {
    let mut without = Vec::new();
    let mut needed = Vec::new();
    let mut gone: BTreeSet<&AbsPath> = BTreeSet::new();
    // Parents first: the decisions around a path are known when the path is reached.
    for placeholder in &resolution.placeholders {
        let path = &placeholder.path;
        let Some(decision) = decisions.get(path).filter(|decision| decision.injected.is_none()) else { continue };
        let way = decisions.way_to(path);
        let mut around = way.iter().rev().filter(|(at, _)| !gone.contains(at)).map(|(_, decision)| decision.access);
        let around = (around.next(), around.next());
        let is_needed = decision.access.is_protective() && around.0 == Some(Access::Rw);
        // An empty folder of SPEC P17 in a read-only folder needs a mount point, so it gets a
        // placeholder, too.
        let is_fresh = decision.mask == Mask::Fresh && around == (Some(Access::Ro), Some(Access::Rw));
        if (is_needed || is_fresh) && resolution.can_journal {
            needed.push(placeholder);
            continue;
        }
        gone.insert(path);
        if is_needed && placeholder.layer == LayerKind::Preset {
            without.push(path.to_string());
        } else if is_needed {
            let message = format!("`{path}` cannot be blocked: `{state}` cannot be written");
            let diagnostic = Diagnostic::new(Code::PlaceholderFailed, message);
            diagnostics.push(diagnostic.at(&placeholder.origin).help(HELP));
        }
    }
    for placeholder in needed {
        if let Some(decision) = decisions.by_path.get_mut(&placeholder.path) {
            decision.placeholder = Some(Box::new(placeholder.clone()));
        }
    }
    for path in gone {
        decisions.by_path.remove(path);
    }
    if let Some(first) = without.first() {
        let more = match without.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        let message = format!("`{first}`{more} cannot be blocked: `{state}` cannot be written");
        let help = format!("{HELP}; `--no-placeholders` gives this protection up");
        diagnostics.push(Diagnostic::new(Code::PlaceholdersOff, message).help(help));
    }
}

/// Puts a placeholder at the missing target of an injection if the directory around the target is
/// the host's. In such a directory bwrap cannot make a mount point, or would leave it behind. In a
/// private place, bwrap makes the mount point.
pub(super) fn settle_injections(
    decisions: &mut Decisions,
    resolution: &Resolution,
    state: &AbsPath,
    diagnostics: &mut Diagnostics,
) {
    for MissingTarget { placeholder, can_create } in &resolution.missing_targets {
        let path = &placeholder.path;
        let is_injected = decisions.get(path).is_some_and(|decision| decision.injected.is_some());
        if !is_injected || !shows_host_around(decisions, path) {
            continue;
        }
        let problem = if resolution.puts_nothing_up {
            let help = "run without that flag, or create the file";
            Some(("`--exec` and `--no-placeholders` create no placeholder for it".to_owned(), help))
        } else if !can_create {
            Some(("it does not exist, and you cannot create it".to_owned(), "create it, or name another target"))
        } else if !resolution.can_journal {
            Some((format!("`{state}` cannot be written"), HELP))
        } else {
            None
        };
        let Some((problem, help)) = problem else {
            if let Some(decision) = decisions.by_path.get_mut(path) {
                decision.placeholder = Some(Box::new(placeholder.clone()));
            }
            continue;
        };
        let is_of_preset = placeholder.layer == LayerKind::Preset;
        let code = if is_of_preset { Code::InjectionSkipped } else { Code::InjectionRefused };
        let message = format!("nothing can be injected at `{path}`: {problem}");
        diagnostics.push(Diagnostic::new(code, message).at(&placeholder.origin).help(help));
        decisions.by_path.remove(path);
    }
}

/// Whether the command sees a directory of the host around `path`.
pub(super) fn shows_host_around(decisions: &Decisions, path: &AbsPath) -> bool {
    let own = [places::TMP, places::RUN, places::DEV, places::PROC];
    match decisions.around(path) {
        Some(around) => around.access != Access::Exclude,
        None => !own.iter().any(|own| path.lies_in(own.as_ref())),
    }
}
