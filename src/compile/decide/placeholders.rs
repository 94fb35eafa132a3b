//! Decides which blocked missing paths need a placeholder: those that the command could create.

use std::collections::BTreeSet;

use super::Decisions;
use crate::compile::resolve::Resolution;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::policy::{AbsPath, Access, LayerKind};

/// Keeps a decision at a missing path only where a placeholder will stand. Everywhere else the path
/// stays missing and needs no decision, as with a skipped rule.
pub(super) fn settle(
    decisions: &mut Decisions,
    resolution: &Resolution,
    state: &AbsPath,
    diagnostics: &mut Diagnostics,
) {
    const HELP: &str =
        "make the folder writable, or name another with XDG_STATE_HOME: what is put up for a run is noted there";
    let mut without = Vec::new();
    let mut needed = Vec::new();
    let mut gone: BTreeSet<&AbsPath> = BTreeSet::new();
    // Parents first: what governs around a path is settled when the path is reached.
    for placeholder in &resolution.placeholders {
        let path = &placeholder.path;
        let Some(decision) = decisions.get(path) else { continue };
        let around = decisions.way_to(path).into_iter().rfind(|(at, _)| !gone.contains(at));
        let is_open = around.is_some_and(|(_, decision)| decision.access == Access::Rw);
        let is_needed = decision.access.is_protective() && is_open;
        if is_needed && resolution.can_journal {
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
