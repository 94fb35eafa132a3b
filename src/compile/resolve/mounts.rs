//! The paths of the policy under their other names. A tree that is mounted in two places shows its
//! protected files in both (SPEC W3).

use std::io;

use crate::compile::layers::{Layers, OwnFile};
use crate::compile::placeholder::Placeholder;
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::{AliasOf, FileKind, is_of_the_sandbox};
use crate::policy::{AbsPath, Access, Exactness, LayerKind, Mask, Origin, Rule, places};

use super::{Match, Resolver};

/// Private places of the sandbox. Nothing of the host is visible in them unless a rule opens it.
pub(super) const PRIVATE: [&str; 4] = [places::RUN, places::TMP, places::DEV, places::PROC];

const OF_PRIVATE: &str = "another name of a private place";

impl Resolver<'_> {
    /// Adds a match at each other name of each protected path, with a placeholder if the path is
    /// missing. `decide` keeps the matches that tighten.
    pub(super) fn aliases(&mut self) {
        // A minimal base shows none of the host's other mounts. A rule that only shows a path
        // protects nothing. A `ro` of `/` changes nothing (SPEC D4).
        let is_part_of_base = |found: &Match| {
            let is_of_root = found.rule.access == Access::Ro || found.rule.refinements.mask == Mask::OwnPlace;
            found.rule.refinements.only_shows || found.path.is_root() && is_of_root
        };
        let protective =
            |found: &&Match| found.rule.access.is_protective() && !found.rule.shows_socket && !is_part_of_base(found);
        if self.project.mounts.is_none() {
            return;
        }
        let protected: Vec<Match> = self.found.matches.iter().filter(protective).cloned().collect();
        for found in protected {
            let blocked = self.blocked.contains_key(&found.path);
            // The user has mounted a part of the read-only home in a writable folder to write it.
            let is_whole = found.rule.access == Access::Ro && found.path == self.project.home;
            let mut aliases = self.reachable_aliases(&found.path, blocked);
            aliases.retain(|(_, of)| !(is_whole && of.inherited));
            for (path, alias_of) in aliases {
                if blocked {
                    self.block_alias(&found.path, &path);
                }
                let alias = Match::new(found.rule.clone(), path, found.kind, found.exactness);
                let (names, copy) = (found.names, found.copy.clone());
                self.found.matches.push(Match { names, copy, alias_of: Some(alias_of), ..alias });
            }
        }
        self.found.placeholders.sort_by(|a, b| a.path.cmp(&b.path));
        self.found.placeholders.dedup_by(|next, kept| next.path == kept.path);
    }

    /// Records the same placeholder under another name.
    fn block_alias(&mut self, path: &AbsPath, alias: &AbsPath) {
        let known = self.found.placeholders.iter().find(|known| known.path == *path).cloned();
        if let Some((known, parents)) = known.zip(self.missing_parents(alias)) {
            self.found.placeholders.push(Placeholder { path: alias.clone(), parents, ..known });
        }
    }

    /// Finds the other names of our own files, of the folders with copies and reports, and of
    /// private places.
    pub(super) fn own_aliases(&mut self, layers: &Layers) {
        for file in &layers.own_files {
            for (path, _) in self.reachable_aliases(&file.path, file.is_missing) {
                self.found.own_aliases.push(OwnFile { path, links: Vec::new(), ..file.clone() });
            }
        }
        for name in [Layers::PRIVATE, Layers::REPORTS] {
            let aliases = self.reachable_aliases(&layers.state.child(name), true);
            self.found.record_aliases.extend(aliases.into_iter().map(|(path, _)| (name, path)));
        }
        for place in PRIVATE.map(places::at) {
            if self.found.matches.iter().any(|found| found.path == place && found.rule.access != Access::Exclude) {
                continue;
            }
            for (path, _) in self.reachable_aliases(&place, false).into_iter().filter(|(_, of)| !of.inherited) {
                let origin = Origin::Alias { of: place.clone(), origin: Box::new(Origin::BuiltIn(OF_PRIVATE)) };
                let rule = Rule::exact(Access::Exclude, path.clone(), LayerKind::Base, origin);
                self.found.matches.push(Match::new(rule.into(), path, FileKind::Directory, Exactness::Exact));
            }
        }
    }

    /// The other names that the command can reach. It runs with our rights, so it cannot enter a
    /// directory that we cannot enter.
    fn reachable_aliases(&mut self, path: &AbsPath, may_be_missing: bool) -> Vec<(AbsPath, AliasOf)> {
        let Some(mounts) = &self.project.mounts else { return Vec::new() };
        let mut aliases: Vec<(AbsPath, AliasOf)> = mounts.aliases(path).into_iter().collect();
        aliases.retain(|(alias, _)| {
            !is_of_the_sandbox(alias)
                && match self.host.exists(alias) {
                    Ok(exists) => exists || may_be_missing,
                    Err(e) if e.kind() == io::ErrorKind::PermissionDenied => false,
                    Err(e) => {
                        let message = format!("cannot look for other mounts at `{alias}`: {}", reason(&e));
                        let help = "make it readable: a folder that is mounted in two places must be protected in both";
                        self.diagnostics.push(Diagnostic::new(Code::UnreadablePath, message).help(help));
                        false
                    }
                }
        });
        aliases
    }
}
