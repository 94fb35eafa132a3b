//! Turns the hits of the walk into matches of rules.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::diagnostic::Code;
use crate::host::{FileKind, Resolved};
use crate::policy::{AbsPath, Access, Exactness, IfMissing, PathMap, Precedence, escape_for_display, places};

use super::tracked::TrackedFiles;
use super::unnamed_ancestors::UnnamedAncestors;
use super::walk::{self, Hit, WalkPattern};
use super::{Match, Resolver};

/// Folders that every program needs, or of which the sandbox has its own.
const SYSTEM: [&str; 11] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/dev", "/proc", "/run"];

/// Whether `path` is one of these folders, lies directly in one, or contains one. If a protective
/// pattern followed a link to such a folder, a command could make the link and so keep every
/// program from starting in the next run.
fn is_of_system(path: &AbsPath) -> bool {
    let parent = path.parent();
    SYSTEM.iter().any(|folder| {
        let folder = places::at(folder);
        folder.is_within(path) || parent.as_ref() == Some(&folder)
    })
}

impl Resolver<'_> {
    /// Expands all globs with one walk.
    ///
    /// `exact` holds the winners among exact rules. With `within` the walk enters only these
    /// directories, and those on the way to them.
    pub(super) fn globs(&mut self, patterns: &[&WalkPattern], exact: &PathMap<Precedence>, within: Option<&[AbsPath]>) {
        let walked = walk::walk(self.host, patterns, exact, within);
        let mut reported = BTreeSet::new();
        for (pattern, path, error) in &walked.unreadable {
            let rule = &patterns[*pattern].rule;
            // An `rw` glob opens nothing in a directory that it cannot read.
            if rule.access.is_protective() && reported.insert(path) {
                self.unreadable(rule, path, error);
            }
        }
        let mut tracked = TrackedFiles::new(self.host);
        let mut matched = vec![false; patterns.len()];
        self.found.walk_snapshot.add(walked.snapshot);
        for hit in walked.hits {
            let pattern = patterns[hit.pattern];
            matched[hit.pattern] = true;
            self.warn_if_ambiguous(pattern, &hit);
            let may_be_held = pattern.rule.refinements.leave_tracked && hit.kind == FileKind::File;
            if may_be_held && !self.has_no_credentials(&pattern.rule, &hit.path) && tracked.holds(&hit.path) {
                self.found.left_alone.push((pattern.rule.clone(), hit.path));
            } else {
                if may_be_held && tracked.names(&hit.path) {
                    self.found.tracked_and_changed.push(hit.path.clone());
                }
                self.hit(pattern, hit);
            }
        }
        for (pattern, matched) in patterns.iter().zip(matched) {
            if !matched && pattern.literal.is_none() {
                self.missing(&pattern.rule, pattern.prefix.clone());
            }
        }
        self.literal_names(patterns);
        // At least one alternative of a glob with `if-missing = "error"` must have matched.
        for pattern in patterns.iter().filter(|pattern| pattern.rule.if_missing == IfMissing::Error) {
            if !self.found.matches.iter().any(|found| Arc::ptr_eq(&found.rule, &pattern.rule)) {
                self.report_missing(&pattern.rule);
            }
        }
    }

    fn hit(&mut self, pattern: &WalkPattern, hit: Hit) {
        let resolved = if !hit.is_symlink {
            let (path, kind) = (hit.path.clone(), Some(hit.kind));
            hit.names.map(|names| Resolved { path, links: Vec::new(), kind, names })
        } else if pattern.rule.access == Access::Rw {
            // An `rw` glob does not follow the link (SPEC G5).
            return self.found.missing.push((pattern.rule.clone(), hit.path));
        } else {
            self.host.resolve(hit.path.as_path())
        };
        match resolved {
            Ok(resolved) => {
                // A rule that came through a symlink names every directory on the way (SPEC B13).
                let unnamed = if hit.is_symlink { None } else { UnnamedAncestors::of(pattern, &hit.path) };
                self.found_by_glob(pattern, hit.path, resolved, unnamed);
            }
            Err(e) => self.unreadable(&pattern.rule, &hit.path, &e),
        }
    }

    fn found_by_glob(
        &mut self,
        pattern: &WalkPattern,
        matched: AbsPath,
        resolved: Resolved,
        unnamed: Option<UnnamedAncestors>,
    ) {
        let rule = &pattern.rule;
        let Resolved { path, links, kind, names } = resolved;
        // A command that can write the directory chooses the target, so `rw` does not follow it
        // (SPEC G5).
        let follows = links.is_empty() || rule.access != Access::Rw;
        let Some(kind) = kind.filter(|_| follows) else {
            return self.found.missing.push((rule.clone(), matched));
        };
        let is_broad = self.project.home.is_within(&path) || self.project.cwd.is_within(&path);
        if let Some(link) = links.first()
            && (is_broad || kind != FileKind::File && is_of_system(&path))
        {
            let text = escape_for_display(&rule.text);
            let message = format!("`{text}` matches the symlink `{link}`, which leads to `{path}`");
            let help = format!(
                "remove the link, or write a pattern that it does not match: `{}` would apply to all of `{path}`",
                rule.access
            );
            return self.report(rule, Code::BroadSymlink, message, help);
        }
        let links = pattern.links.iter().cloned().chain(links).collect();
        let (fixed_prefix, unnamed) = (pattern.prefix.clone(), unnamed.map(Box::new));
        let found = Match::new(rule.clone(), path, kind, Exactness::Glob);
        self.accept(Match { matched, links, fixed_prefix, names, unnamed, ..found });
    }

    /// Adds the file that has the text of the pattern as its name (SPEC G4). It counts as a glob
    /// match and not as an exact one, because a command that can write the directory can create it.
    fn literal_names(&mut self, patterns: &[&WalkPattern]) {
        for pattern in patterns {
            let known = |path: &AbsPath| {
                self.found.matches.iter().any(|m| Arc::ptr_eq(&m.rule, &pattern.rule) && m.path == *path)
            };
            if let Some(literal) = pattern.literal.as_ref().filter(|literal| !known(&literal.path)) {
                let matched = literal.links.first().unwrap_or(&literal.path).clone();
                self.found_by_glob(pattern, matched, literal.clone(), None);
            }
        }
    }

    fn warn_if_ambiguous(&mut self, pattern: &WalkPattern, hit: &Hit) {
        if pattern.literal.as_ref().is_some_and(|literal| literal.path != hit.path) {
            let text = escape_for_display(&pattern.rule.text);
            let message = format!("`{text}` is the name of a file, and as a pattern it matches others too");
            let help = "put `\\` before each of `* ? [ ] { }` to mean the file alone; the rule covers all of them now";
            self.report(&pattern.rule, Code::AmbiguousPattern, message, help);
        }
    }
}

/// The strongest exact rule at each path that has one.
pub(super) fn exact_winners(matches: &[Match]) -> PathMap<Precedence> {
    // Rules that only tighten (SPEC G5, P12, W3) do not decide which globs are in reach.
    let only_tightens = |found: &Match| found.only_tightens() || found.rule.is_preset_ro() || found.alias_of.is_some();
    let decides = |found: &&Match| found.exactness == Exactness::Exact && !only_tightens(found);
    let mut winners = PathMap::default();
    for found in matches.iter().filter(decides) {
        let rank = found.rule.precedence(found.exactness);
        winners.entry(found.path.clone()).and_modify(|winner| *winner = rank.max(*winner)).or_insert(rank);
    }
    winners
}
