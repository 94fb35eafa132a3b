//! Directories that must stay where they are, because a rule names a path below them.
//!
//! `.git/hooks` is read-only, but `.git` is not. Without pins, a command could rename `.git`, and
//! the mount would move with it. The command could then create another `.git` with hooks, and git
//! on the host would run them. The kernel refuses to rename, exchange or remove a directory on
//! which something is mounted in this mount namespace, even if another mount covers it. So each
//! directory on the way is bound onto itself, and the writable bind then covers that mount. The
//! command sees no difference, and files can still be moved across (tests/model_kernel/pins.rs).

use std::collections::BTreeMap;
use std::path::Path;

use crate::compile::decide::{Decision, Decisions};
use crate::compile::layers::OwnFile;
use crate::compile::resolve::UnnamedAncestors;
use crate::policy::{AbsPath, Access, Origin};

pub(super) struct Pins {
    /// The pinned directories. Each has the path below it that could otherwise be moved away or
    /// replaced, and the rule about that path.
    pub pins: BTreeMap<AbsPath, (AbsPath, Origin)>,
    /// The outermost writable folders around the pins. With a minimal base they are bound first,
    /// because nothing else shows the host's folders below the writable binds.
    pub roots: BTreeMap<AbsPath, Origin>,
}

/// The directories to pin, parents first (SPEC B12, B13). Each has the first path below it that
/// could otherwise be moved away or replaced, and the rule about that path.
///
/// A protective rule counts even if it needs no mount: `ro = ["a/b/c"]` names `a` although a
/// `**/b` makes `b` read-only already. A `rw` rule needs no pin: if its path is moved away, the
/// rule opens less in the next run, and the replacement comes out of a writable folder. A glob
/// that is out of reach needs no pin either: the rule that excludes the directory around its match
/// keeps all of it excluded.
pub(super) fn pins(decisions: &Decisions, own: &[OwnFile], own_root: bool) -> Pins {
    let (mut pins, mut roots) = (BTreeMap::new(), BTreeMap::new());
    let mut pin = |way: &[_], path: &AbsPath, unnamed: Option<&UnnamedAncestors>, because: &Origin| {
        let may_move = |directory, root| unnamed.is_some_and(|unnamed| unnamed.may_move(directory, root));
        for (directory, root) in movable(way, path).filter(|(directory, root)| !may_move(directory, root)) {
            if own_root {
                roots.entry(root.clone()).or_insert_with(|| because.clone());
            }
            pins.entry(AbsPath::from_normal(directory)).or_insert_with(|| (path.clone(), because.clone()));
        }
    };
    let mut way: Vec<(&AbsPath, &Decision)> = Vec::new();
    for (path, decision) in decisions.iter() {
        while way.pop_if(|(at, _)| !path.is_within(at)).is_some() {}
        if decision.access.is_protective() && !decision.out_of_reach {
            pin(&way, path, decision.unnamed.as_deref(), &decision.origin);
        }
        way.push((path, decision));
    }
    // A preset's `ro` on an excluded path has no decision. The rule that excludes the path may be a
    // glob with `**`, and such a glob names fewer directories on the way (SPEC B13).
    for found in decisions.pinned_although_ignored() {
        pin(&decisions.way_to(&found.path), &found.path, found.unnamed.as_deref(), &found.rule.origin);
    }
    // Our own files have no decision if a rule around them protects them. That rule, too, may be a
    // glob with `**`.
    for file in own {
        pin(&decisions.way_to(&file.path), &file.path, None, &Origin::BuiltIn(OwnFile::CONFIGURATION));
    }
    Pins { pins, roots }
}

/// The directories on the way to `path` that a command could rename, given the decisions on it.
/// Each has the outermost folder that is writable together with it: the kernel refuses a rename
/// from mount to mount (EXDEV). A `rw` rule inside a writable folder counts as part of it, because
/// the optimiser drops its mount.
fn movable<'p>(
    way: &[(&'p AbsPath, &'p Decision)],
    path: &'p AbsPath,
) -> impl Iterator<Item = (&'p Path, &'p AbsPath)> {
    let mut root: Option<&AbsPath> = None;
    let ends = way.iter().skip(1).map(|(at, _)| *at).chain([path]);
    way.iter().zip(ends).flat_map(move |((at, decision), end)| {
        let is_part = decision.access == Access::Rw && root.is_some();
        // Both ends of this part of the way are mount points, and the kernel refuses to move a
        // mount point.
        root = (decision.access == Access::Rw).then(|| root.unwrap_or(at));
        let shortest = at.bytes().len() + usize::from(!is_part);
        let between = end.folders().take_while(move |directory| directory.as_os_str().len() >= shortest);
        root.into_iter().flat_map(move |root| between.clone().map(move |directory| (directory, root)))
    })
}
