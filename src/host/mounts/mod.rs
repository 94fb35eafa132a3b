//! Other names of the same files: a tree that is mounted in two places shows its files in both.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::policy::{AbsPath, places};
use crate::sys::ablate::{self, Mitigation};

use super::Host;
use super::mountinfo::{self, MountEntry};

/// The name by which another name of a file was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AliasOf {
    pub path: AbsPath,
    /// The search was for a folder around `path`.
    pub inherited: bool,
}

impl Host {
    /// The mounts of this host, if a file may have two names.
    pub(crate) fn mounts(&self) -> io::Result<Option<Mounts>> {
        Ok(self.mount_table()?.and_then(|table| Mounts::read(&table)))
    }
}

/// The mounts of a host on which a file may have two names.
#[derive(Debug)]
pub struct Mounts {
    mounts: Vec<MountEntry>,
    /// The mounts by parent. The key is `None` if the parent is not in the table.
    children: BTreeMap<Option<u64>, Vec<usize>>,
}

impl Mounts {
    /// `None` if each file system is mounted once, which is the usual case: then no file has two
    /// names.
    fn read(table: &[u8]) -> Option<Self> {
        // A mount whose root was removed has no path, and so no other name.
        let mounts: Vec<MountEntry> = mountinfo::parse(table).flatten().filter(|mount| mount.root.is_some()).collect();
        let mut counts: BTreeMap<&[u8], usize> = BTreeMap::new();
        for mount in &mounts {
            *counts.entry(&mount.device).or_default() += 1;
        }
        // Containers mount parts of `/proc` and `/dev` several times, and there alone.
        let mut outside = mounts.iter().filter(|mount| !is_of_the_sandbox(&mount.point));
        let is_usual = outside.all(|mount| counts[mount.device.as_slice()] == 1);
        if is_usual || ablate::is_off(Mitigation::BindAliases) {
            return None;
        }
        let ids: BTreeSet<u64> = mounts.iter().map(|mount| mount.id).collect();
        let mut children: BTreeMap<Option<u64>, Vec<usize>> = BTreeMap::new();
        for (index, mount) in mounts.iter().enumerate() {
            let parent = Some(mount.parent).filter(|parent| *parent != mount.id && ids.contains(parent));
            children.entry(parent).or_default().push(index);
        }
        Some(Self { mounts, children })
    }

    /// The mount that shows at `path`. The search goes down from the root, as the kernel does, so
    /// mounts below a later mount do not count.
    fn showing(&self, path: &AbsPath) -> Option<usize> {
        let mut current: Option<usize> = None;
        for _ in 0..self.mounts.len() {
            let parent = current.map(|index| self.mounts[index].id);
            let on_the_way = self.children.get(&parent).into_iter().flatten().copied();
            let on_the_way = on_the_way.filter(|index| path.is_within(&self.mounts[*index].point));
            // The outermost mount. Of several mounts on one mount point, the last one counts.
            let depth = |index: &usize| (self.mounts[*index].point.ancestors().count(), usize::MAX - index);
            let Some(next) = on_the_way.min_by_key(depth) else { break };
            current = Some(next);
        }
        current
    }

    /// Every other name of `path`.
    pub(crate) fn names(&self, path: &AbsPath) -> impl Iterator<Item = AbsPath> + use<> {
        self.aliases(path).into_iter().filter(|(_, of)| !of.inherited).map(|(alias, _)| alias)
    }

    /// Every other name of `path`, or of something in it, with its name at or below `path`.
    pub(crate) fn aliases(&self, path: &AbsPath) -> BTreeMap<AbsPath, AliasOf> {
        let mut aliases = BTreeMap::new();
        if let Some(mount) = self.showing(path) {
            self.aliases_of(mount, path, false, &mut aliases);
        }
        for (index, mount) in self.mounts.iter().enumerate() {
            if mount.point.is_below(path) && self.showing(&mount.point) == Some(index) {
                self.aliases_of(index, &mount.point, true, &mut aliases);
            }
        }
        aliases.remove(path);
        aliases
    }

    /// Adds the other names of `path`, which the mount `index` shows.
    fn aliases_of(&self, index: usize, path: &AbsPath, inherited: bool, aliases: &mut BTreeMap<AbsPath, AliasOf>) {
        let mount = &self.mounts[index];
        let Some(below) = path.relative_to(&mount.point) else { return };
        let Some(inner) = mount.root.as_ref().map(|root| root.join(below)) else { return };
        let others = self.mounts.iter().enumerate();
        for (other_index, other) in others.filter(|(i, other)| *i != index && other.device == mount.device) {
            let Some(root) = &other.root else { continue };
            let alias = if let Some(below) = inner.relative_to(root) {
                Some((other.point.join(below), AliasOf { path: path.clone(), inherited }))
            } else if let Some(below) = root.relative_to(&inner) {
                let named = path.join(below);
                let shows = self.showing(&named) == Some(index);
                shows.then(|| (other.point.clone(), AliasOf { path: named, inherited: true }))
            } else {
                None
            };
            if let Some((alias, of)) = alias
                && self.showing(&alias) == Some(other_index)
            {
                // A path that the rule names itself outranks one that it only contains.
                let known: &mut AliasOf = aliases.entry(alias).or_insert_with(|| of.clone());
                if known.inherited && !of.inherited {
                    *known = of;
                }
            }
        }
    }
}

/// Whether `path` is in `/proc` or `/dev`, of which the sandbox has its own.
pub(crate) fn is_of_the_sandbox(path: &AbsPath) -> bool {
    [places::PROC, places::DEV].iter().any(|place| path.as_path().starts_with(place))
}

#[cfg(test)]
mod tests;
