//! The flags of bwrap that a policy can come to, and what a given bwrap has of them.
//!
//! A version would only let us guess: distributions carry patches, and wrappers stand in for bwrap.
//! Its help tells.

use std::collections::BTreeSet;

use crate::diagnostic::{Code, Diagnostic, Diagnostics, listed};
use crate::host::identity::Snapshot;

use super::Argv;

pub(super) const PERMS: &str = "--perms";
pub(super) const DISABLE_USERNS: &str = "--disable-userns";

/// A flag, how many words follow it, and a release that has it. What is said to need 0.4 may be
/// older: that is the oldest that was tried.
struct Flag(&'static str, usize, &'static str);

const FLAGS: [Flag; 23] = [
    Flag("--bind", 2, "0.4"),
    Flag("--bind-try", 2, "0.4"),
    Flag("--cap-add", 1, "0.4"),
    Flag("--cap-drop", 1, "0.4"),
    Flag("--chdir", 1, "0.4"),
    Flag("--dev", 1, "0.4"),
    Flag("--dev-bind", 2, "0.4"),
    Flag("--dev-bind-try", 2, "0.4"),
    Flag("--die-with-parent", 0, "0.4"),
    Flag("--dir", 1, "0.4"),
    Flag(DISABLE_USERNS, 0, "0.8"),
    Flag(PERMS, 1, "0.5"),
    Flag("--proc", 1, "0.4"),
    Flag("--remount-ro", 1, "0.4"),
    Flag("--ro-bind", 2, "0.4"),
    Flag("--ro-bind-data", 2, "0.4"),
    Flag("--ro-bind-try", 2, "0.4"),
    Flag("--seccomp", 1, "0.4"),
    Flag("--share-net", 0, "0.4"),
    Flag("--symlink", 2, "0.4"),
    Flag("--tmpfs", 1, "0.4"),
    Flag("--unshare-all", 0, "0.4"),
    Flag("--unshare-user", 0, "0.4"),
];

/// Which of the flags that matter here a bwrap has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features {
    flags: BTreeSet<&'static str>,
    /// The binary that was asked just now; `None` where the answer was known.
    told_by: Option<Snapshot>,
}

impl Features {
    /// Those of a bwrap that has them all.
    pub fn all() -> Self {
        Self { flags: FLAGS.iter().map(|flag| flag.0).collect(), told_by: None }
    }

    /// Those among `words`, which are the words of a help, or what was noted of one.
    pub fn among<'w>(words: impl IntoIterator<Item = &'w str>) -> Self {
        let words: BTreeSet<&str> = words.into_iter().collect();
        let flags = FLAGS.iter().map(|flag| flag.0).filter(|flag| words.contains(flag)).collect();
        Self { flags, told_by: None }
    }

    /// The same, by the help of this binary.
    pub fn told<'w>(words: impl IntoIterator<Item = &'w str>, binary: Snapshot) -> Self {
        Self { told_by: Some(binary), ..Self::among(words) }
    }

    pub fn told_by(&self) -> Option<&Snapshot> {
        self.told_by.as_ref()
    }

    #[must_use]
    pub fn without(mut self, flag: &str) -> Self {
        self.flags.remove(flag);
        self
    }

    pub fn has(&self, flag: &str) -> bool {
        self.flags.contains(flag)
    }

    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.flags.iter().copied()
    }

    /// What this bwrap does not have, although some policy could need it.
    pub fn lacking(&self) -> impl Iterator<Item = &'static str> {
        FLAGS.iter().map(|flag| flag.0).filter(|flag| !self.has(flag))
    }
}

/// Says which flags of `argv` this bwrap does not have: it would stop at the first, and name
/// neither cause nor remedy.
pub(super) fn refuse_unknown(argv: &Argv, features: &Features, diagnostics: &mut Diagnostics) {
    let mut unknown: Vec<&Flag> = FLAGS.iter().filter(|flag| !features.has(flag.0) && uses(argv, flag)).collect();
    // The youngest tells which release has them all.
    unknown.sort_by_key(|flag| flag.2);
    let Some(youngest) = unknown.last() else { return };
    let names = listed(unknown.iter().map(|flag| format!("`{}`", flag.0)), "and");
    diagnostics.push(
        Diagnostic::new(
            Code::BwrapTooOld,
            format!("`{}` does not have {names}, which this policy needs", argv.program),
        )
        .help(format!("bubblewrap {} and newer have it", youngest.2)),
    );
}

fn uses(argv: &Argv, flag: &Flag) -> bool {
    argv.operations.iter().any(|operation| {
        let mut words = operation.words.iter();
        while let Some(word) = words.next() {
            if word == flag.0 {
                return true;
            }
            let follow = FLAGS.iter().find(|known| word == known.0).map_or(0, |known| known.1);
            for _ in 0..follow {
                words.next();
            }
        }
        false
    })
}
