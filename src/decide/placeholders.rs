//! Which of the missing paths that rules block need a placeholder: those that the command could create.

use super::{Decision, Decisions};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::path::{AbsPath, Growing};
use crate::placeholder::Placeholder;
use crate::resolve::Resolution;
use crate::rule::{Access, LayerKind};

/// Keeps a decision at a missing path only where a placeholder will stand. Elsewhere there is nothing, so nothing is
/// decided, as for a rule that is skipped.
pub(super) fn settle(decisions: &mut Decisions, resolution: &Resolution, diagnostics: &mut Diagnostics) {
    if resolution.placeholders.is_empty() {
        return;
    }
    let mut without = Vec::new();
    // As sorted as decisions are.
    let mut placeholders = resolution.placeholders.iter().peekable();
    // Parents first: what governs around a path is settled when the path is reached.
    let mut settled = Growing::default();
    for (path, mut decision) in std::mem::take(&mut decisions.0) {
        settled.reach(&path);
        let mut placeholder = None;
        while let Some(next) = placeholders.next_if(|next| next.path <= path) {
            placeholder = Some(next).filter(|next| next.path == path);
        }
        if let Some(placeholder) = placeholder {
            let around: Option<(&AbsPath, &Decision)> = settled.nearest();
            let is_open = around.is_some_and(|(_, decision)| decision.access == Access::Rw);
            let is_needed = decision.access.is_protective() && is_open;
            if !is_needed || !resolution.can_journal {
                if is_needed && placeholder.layer == LayerKind::Preset {
                    without.push(path.to_string());
                } else if is_needed {
                    diagnostics.push(cannot_block(placeholder, resolution));
                }
                continue;
            }
            decision.placeholder = Some(Box::new(placeholder.clone()));
        }
        settled.put(path, decision);
    }
    decisions.0 = settled.done();
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
