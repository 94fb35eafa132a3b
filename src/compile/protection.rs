//! Protections that this machine lacks: an error if the policy requires one, and otherwise a
//! warning.

use std::collections::BTreeMap;

use crate::diagnostic::{Code, Diagnostic, Diagnostics, listed};
use crate::policy::{Origin, Protection};

/// Reports all lacking protections, and the reasons, in one warning.
pub fn report(
    lacking: &[(Protection, String)],
    required: &BTreeMap<Protection, Origin>,
    diagnostics: &mut Diagnostics,
) {
    for (protection, why) in lacking {
        if let Some(origin) = required.get(protection) {
            let message = format!("the policy requires {}, but {why}", name(*protection));
            let help = "run on a machine that has it, or remove it from `require`";
            diagnostics.push(Diagnostic::new(Code::ProtectionRequired, message).at(origin).help(help));
        }
    }
    let other = || lacking.iter().filter(|(protection, _)| !required.contains_key(protection));
    if other().next().is_some() {
        let names = other().map(|(protection, why)| format!("{} ({why})", name(*protection)));
        let message = format!("without {}", listed(names, "and"));
        let open: Vec<&str> = other().map(|(protection, _)| leaves_open(*protection)).collect();
        let help = format!("add it to `require` to make this an error; until then, {}", open.join("; "));
        diagnostics.push(Diagnostic::new(Code::ProtectionMissing, message).help(help));
    }
}

fn name(protection: Protection) -> &'static str {
    match protection {
        Protection::Guard => "the guard",
        Protection::Seccomp => "the filter of system calls",
        Protection::Landlock => "Landlock's scope",
    }
}

/// The gain of an attacker if the protection is missing.
pub(crate) fn leaves_open(protection: Protection) -> &'static str {
    match protection {
        Protection::Guard => "mounts are neither compared with the plan nor locked",
        Protection::Seccomp => {
            "the command can reach the terminal's input, the session's keys, and user namespaces that bwrap cannot \
             forbid"
        }
        Protection::Landlock => {
            "the command can reach abstract sockets of the host while the network is on, and send signals to the \
             caller's process group; before Linux 5.19 it can also change names in a folder that another sandbox hands \
             over"
        }
    }
}
