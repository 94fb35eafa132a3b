//! Which of the missing paths that rules block need a placeholder: those that the command could create.

use super::Decisions;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::placeholder::Placeholder;
use crate::resolve::Resolution;
use crate::rule::{Access, LayerKind};

/// Keeps a decision at a missing path only where a placeholder will stand. Elsewhere there is nothing, so nothing is
/// decided, as for a rule that is skipped.
pub(super) fn settle(decisions: &mut Decisions, resolution: &Resolution, diagnostics: &mut Diagnostics) {
    let mut without = Vec::new();
    // Parents first: what governs around a path is settled when the path is reached.
    for placeholder in &resolution.placeholders {
        let path = &placeholder.path;
        let is_protected = decisions.get(path).is_some_and(|decision| decision.access.is_protective());
        let around = decisions.0.nearest_above(path).map(|(_, decision)| decision.access);
        let is_needed = is_protected && around == Some(Access::Rw);
        if is_needed && resolution.can_journal {
            if let Some(decision) = decisions.0.get_mut(path) {
                decision.placeholder = Some(placeholder.clone());
            }
            continue;
        }
        decisions.0.remove(path);
        if is_needed && placeholder.layer == LayerKind::Preset {
            without.push(path.to_string());
        } else if is_needed {
            diagnostics.push(cannot_block(placeholder, resolution));
        }
    }
    if let Some(first) = without.first() {
        let more = match without.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        diagnostics.push(
            Diagnostic::new(
                Code::PlaceholdersOff,
                format!("`{first}`{more} can be created inside: `{}` cannot be written", resolution.state),
            )
            .help(HELP),
        );
    }
}

const HELP: &str =
    "make the folder writable, or name another with XDG_STATE_HOME: what is put up for a run is noted there";

fn cannot_block(placeholder: &Placeholder, resolution: &Resolution) -> Diagnostic {
    let message = format!("`{}` cannot be blocked: `{}` cannot be written", placeholder.path, resolution.state);
    Diagnostic::new(Code::PlaceholderFailed, message).at(&placeholder.origin).help(HELP)
}
