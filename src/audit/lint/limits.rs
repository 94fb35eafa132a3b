//! Limits that conflict.

use crate::compile::Compiled;
use crate::diagnostic::{Code, Diagnostic};
use crate::policy::LimitKind;

use super::LintFinding;

/// Files in the private `/tmp` lie in memory, so a `/tmp` that is larger than the memory is never
/// full: the kernel kills a process first.
pub(super) fn findings(compiled: &Compiled, found: &mut Vec<LintFinding>) {
    let limit = |kind| compiled.policy.limits.get(&kind);
    let (Some(tmp), Some(memory)) = (limit(LimitKind::Tmp), limit(LimitKind::Memory)) else { return };
    if tmp.value.amount() < memory.value.amount() {
        return;
    }
    let (tmp, origin) = (tmp.value.value(), &memory.origin);
    let message = format!("files in `/tmp` (up to {tmp}) count as memory: a full `/tmp` kills the command");
    let help = "give `tmp` in `[limits]` less than `memory`";
    found.push(LintFinding::of(Diagnostic::new(Code::TmpBeyondMemory, message).at(origin).help(help)));
}
