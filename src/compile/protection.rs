//! What this machine cannot give: an error where the policy insists on it, a warning otherwise,
//! never a silent lack.

use std::collections::BTreeMap;

use crate::diagnostic::{Code, Diagnostic, Diagnostics, listed};
use crate::policy::origin::Origin;
use crate::policy::rule::Protection;

/// A protection that is lacking, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    pub protection: Protection,
    pub why: String,
}

/// Says what is lacking, all of it in one warning.
pub fn report(lacking: &[Lack], required: &BTreeMap<Protection, Origin>, diagnostics: &mut Diagnostics) {
    for Lack { protection, why } in lacking {
        if let Some(origin) = required.get(protection) {
            let message = format!("the policy requires {}, but {why}", name(*protection));
            diagnostics.push(
                Diagnostic::new(Code::ProtectionRequired, message)
                    .at(origin)
                    .help("run on a machine that has it, or remove it from `require`"),
            );
        }
    }
    let other: Vec<&Lack> = lacking.iter().filter(|lack| !required.contains_key(&lack.protection)).collect();
    if !other.is_empty() {
        let message = format!(
            "without {}",
            listed(other.iter().map(|lack| format!("{} ({})", name(lack.protection), lack.why)), "and")
        );
        let open: Vec<&str> = other.iter().map(|lack| leaves_open(lack.protection)).collect();
        diagnostics.push(
            Diagnostic::new(Code::ProtectionMissing, message)
                .help(format!("that leaves open: {}; `require` makes it an error", open.join("; "))),
        );
    }
}

fn name(protection: Protection) -> &'static str {
    match protection {
        Protection::Guard => "the guard",
        Protection::Seccomp => "the filter of system calls",
        Protection::Landlock => "Landlock's scope",
    }
}

/// What an attacker gains.
pub(crate) fn leaves_open(protection: Protection) -> &'static str {
    match protection {
        Protection::Guard => "mounts are neither compared with the plan nor locked",
        Protection::Seccomp => {
            "terminal injection, the session's keys, and user namespaces where bwrap cannot forbid them"
        }
        Protection::Landlock => {
            "abstract sockets of the host while the network is on, signals to the caller's process group, and before Linux \
             5.19 names in a folder that another sandbox hands over"
        }
    }
}
