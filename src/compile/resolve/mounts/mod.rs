//! Other names of the same files. A tree that is mounted in two places shows its protected files in
//! both (SPEC W3).

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::compile::layers::OwnFile;
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::MOUNT_TABLE;
use crate::host::mountinfo::{self, MountEntry};
use crate::policy::{AbsPath, Mask, places};

use super::{Match, Resolver};

/// The name that a rule reached, for a match at another name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AliasOf {
    pub path: AbsPath,
    /// The rule is on a folder around `path`, so any rule on the other name itself is more
    /// specific.
    pub inherited: bool,
}

impl Resolver<'_> {
    /// The mounts of the host, if a file may have two names.
    pub(super) fn mounts(&mut self) -> Option<Mounts> {
        match self.host.mount_table() {
            Ok(table) => Mounts::read(&table.unwrap_or_default()),
            Err(e) => {
                self.unreadable_alias(MOUNT_TABLE, &e);
                None
            }
        }
    }

    /// Adds a match at each other name of each protected path. `decide` keeps the matches that
    /// tighten.
    pub(super) fn aliases(&mut self, mounts: &Mounts, own: &[OwnFile]) {
        // A minimal base shows none of the host's other mounts. A rule that only shows a path
        // protects nothing.
        let is_part_of_base = |found: &Match| {
            found.rule.refinements.only_shows || found.path.is_root() && found.rule.refinements.mask == Mask::OwnPlace
        };
        let protective =
            |found: &&Match| found.rule.access.is_protective() && !found.rule.shows_socket && !is_part_of_base(found);
        let protected: Vec<Match> = self.found.matches.iter().filter(protective).cloned().collect();
        for found in protected {
            for (path, alias_of) in self.reachable_aliases(mounts, &found.path) {
                let alias = Match::new(found.rule.clone(), path, found.kind, found.exactness);
                let (names, copy) = (found.names, found.copy.clone());
                self.found.matches.push(Match { names, copy, alias_of: Some(alias_of), ..alias });
            }
        }
        for file in own {
            for (path, _) in self.reachable_aliases(mounts, &file.path) {
                self.found.own_aliases.push(OwnFile { path, links: Vec::new(), ..file.clone() });
            }
        }
    }

    /// The other names that the command can reach. It runs with our rights, so it cannot enter a
    /// directory that we cannot enter.
    fn reachable_aliases(&mut self, mounts: &Mounts, path: &AbsPath) -> Vec<(AbsPath, AliasOf)> {
        let mut aliases: Vec<(AbsPath, AliasOf)> = mounts.aliases(path).into_iter().collect();
        aliases.retain(|(alias, _)| {
            !is_of_the_sandbox(alias)
                && match self.host.exists(alias) {
                    Ok(exists) => exists,
                    Err(e) if e.kind() == io::ErrorKind::PermissionDenied => false,
                    Err(e) => {
                        self.unreadable_alias(&alias.to_string(), &e);
                        false
                    }
                }
        });
        aliases
    }

    fn unreadable_alias(&mut self, path: &str, error: &io::Error) {
        let message = format!("cannot look for other mounts at `{path}`: {}", reason(error));
        let help = "make it readable: a folder that is mounted in two places must be protected in both";
        self.diagnostics.push(Diagnostic::new(Code::UnreadablePath, message).help(help));
    }
}

#[derive(Debug)]
pub(super) struct Mounts {
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
        // Containers mount parts of `/proc` and `/dev` several times.
        let mut counted = mounts.iter().filter(|mount| !is_of_the_sandbox(&mount.point));
        let mut devices = BTreeSet::new();
        if counted.all(|mount| devices.insert(mount.device.as_slice())) {
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

    /// Every other name of `path`, or of something in it, with the name that the rule reached.
    fn aliases(&self, path: &AbsPath) -> BTreeMap<AbsPath, AliasOf> {
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

/// Whether `path` is in a private place.
fn is_of_the_sandbox(path: &AbsPath) -> bool {
    [places::PROC, places::DEV].iter().any(|place| path.as_path().starts_with(place))
}

#[cfg(test)]
mod tests;
