//! Directories that have to stay where they are, because a rule names what lies below them.
//!
//! `.git/hooks` is read-only, `.git` is not: without more, a command renames `.git`, builds another one, and the host finds a
//! hook of its making. The mount went along with the old folder. But the kernel refuses to rename, exchange or remove a
//! directory on which something is mounted in this mount namespace, even where the mount itself cannot be seen. So each
//! directory on the way is bound onto itself, and the writable bind above covers that again: every access goes through the
//! bind, nothing looks different, and files can still be moved across (tests/model_kernel/pins.rs).

use std::collections::BTreeMap;

use crate::decide::{Decisions, OUR_OWN};
use crate::layers::OwnFile;
use crate::origin::Origin;
use crate::path::AbsPath;
use crate::resolve::Loose;
use crate::rule::Access;

/// Why a directory is pinned. Many rules may need it; this is the first of them.
#[derive(Clone, Debug)]
pub(super) struct Pin {
    /// What would come to another place, or another thing to its place.
    pub keeps: AbsPath,
    pub because: Origin,
}

/// The directories to pin, parents first (SPEC B12, B13).
///
/// What protects counts, also where it changes nothing as things are: `ro = ["a/b/c"]` names `a` even if a `**/b` makes `b`
/// read-only already. What opens (`rw`) needs nothing of its own. In the next run it opens less if it was moved away, and
/// what was put in its place came out of a writable folder. Nor does a glob that does not reach into the excluded directory
/// around its match: as long as that one is excluded, which is for its own rule to see to, so is all below.
pub(super) fn pins(decisions: &Decisions, own: &[OwnFile]) -> BTreeMap<AbsPath, Pin> {
    let protective = decisions.iter().filter(|(_, decision)| decision.access.is_protective() && !decision.out_of_reach);
    let rules = protective.map(|(path, decision)| (path, &decision.origin, decision.loose.as_ref()));
    // Also those that need no decision, because a rule around them protects them: that rule may be a loose one.
    let own = own.iter().map(|file| (&file.path, &OUR_OWN, None));
    let mut pins = BTreeMap::new();
    for (path, because, loose) in rules.chain(own) {
        for Movable { directory, root } in movable(decisions, path) {
            if !loose.is_some_and(|loose: &Loose| loose.may_move(&directory, &root)) {
                pins.entry(directory).or_insert_with(|| Pin { keeps: path.clone(), because: because.clone() });
            }
        }
    }
    pins
}

/// A directory that a command could rename, to anywhere below `root`: the outermost folder that is writable together with it.
/// Farther it does not get, because a rename from mount to mount is refused (EXDEV).
struct Movable {
    directory: AbsPath,
    root: AbsPath,
}

/// The directories on the way to `path` that could be moved. A `rw` rule inside a writable folder counts as part of it: the
/// optimiser drops its mount.
fn movable(decisions: &Decisions, path: &AbsPath) -> Vec<Movable> {
    let mut way: Vec<AbsPath> = path.ancestors().skip(1).collect();
    way.reverse();
    let mut found = Vec::new();
    let mut root: Option<AbsPath> = None;
    for directory in way {
        match (decisions.get(&directory).map(|decision| decision.access), &root) {
            // Mount points both, and the kernel refuses to move one.
            (Some(Access::Rw), None) => root = Some(directory),
            (Some(Access::Ro | Access::Exclude), _) => root = None,
            (Some(Access::Rw) | None, Some(root)) => found.push(Movable { directory, root: root.clone() }),
            (None, None) => {}
        }
    }
    found
}
