//! Files that would be shown without their credentials (SPEC P16).

use std::collections::BTreeSet;

use crate::compile::decide::Decisions;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::policy::{AbsPath, Mask};

/// Warns if a file is hidden as a whole, because no copy can be made. A command can create many
/// such files; one diagnostic for each reason is enough.
pub fn check_copies(decisions: &Decisions, without_copy: &[(AbsPath, String)], diagnostics: &mut Diagnostics) {
    let mut said = BTreeSet::new();
    for (path, why) in without_copy {
        // Another rule may decide here.
        let decided = decisions.get(path).filter(|decision| matches!(decision.mask, Mask::Redacted(_)));
        if let Some(decision) = decided.filter(|_| said.insert(why)) {
            let message = format!("`{path}` is hidden: no copy without its credentials can be made, because {why}");
            let help = "repair or move the file, or show it as it is with a `ro` rule of your own";
            diagnostics.push(Diagnostic::new(Code::NoCopy, message).at(&decision.origin).help(help));
        }
    }
}
