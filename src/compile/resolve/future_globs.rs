//! Finds the patterns that would match a path that does not exist yet.

use std::sync::Arc;

use crate::compile::layers::Project;
use crate::host::Host;
use crate::policy::{AbsPath, Rule};

use super::anchored;
use super::pattern::{self, Component, Pattern};

/// The globs of a policy, prepared for the search by path.
pub struct FutureGlobs<'r> {
    host: &'r Host,
    globs: Vec<FutureGlob<'r>>,
}

struct FutureGlob<'r> {
    rule: &'r Rule,
    prefix: AbsPath,
    components: Vec<Component>,
}

/// A path that a pattern would match at a start.
pub struct FutureMatch<'p> {
    pub rule: &'p Rule,
    /// The outermost match on the way. The pattern does not search below a match (SPEC G2).
    pub at: AbsPath,
    /// The part of the pattern before its first wildcard (SPEC G3).
    pub fixed_prefix: &'p AbsPath,
}

impl<'r> FutureGlobs<'r> {
    pub fn of(host: &'r Host, project: &Project, rules: &'r [Arc<Rule>]) -> Self {
        let mut prepared = Vec::new();
        for rule in rules {
            let (anchor, text) = anchored(rule, &project.home);
            let Ok(Pattern::Globs(globs)) = pattern::parse(text) else { continue };
            for glob in globs {
                // The compiler has refused a rule whose prefix cannot be resolved.
                let Ok(resolved) = host.resolve(&anchor.as_path().join(&glob.prefix)) else { continue };
                prepared.push(FutureGlob { rule, prefix: resolved.path, components: glob.components });
            }
        }
        Self { host, globs: prepared }
    }

    /// The patterns that match `path`, or a directory around it, whether or not that exists and is
    /// in reach.
    pub fn matching(&self, path: &AbsPath) -> Vec<FutureMatch<'_>> {
        let matching = |glob| self.first(glob, path, |at| self.skipped(glob, at).is_none());
        self.globs.iter().filter_map(matching).collect()
    }

    /// The patterns that would match if they entered a certain directory on the way (SPEC P5), and
    /// that directory.
    pub fn stopped_before(&self, path: &AbsPath) -> Vec<(FutureMatch<'_>, AbsPath)> {
        let stopped = |glob| {
            let found = self.first(glob, path, |_| true)?;
            // Every deeper match lies below this directory, too.
            let directory = self.skipped(glob, &found.at)?;
            Some((found, directory))
        };
        self.globs.iter().filter_map(stopped).collect()
    }

    /// The outermost match of `glob` at or around `path` that `counts`.
    fn first<'g>(
        &self,
        glob: &'g FutureGlob,
        path: &AbsPath,
        counts: impl Fn(&AbsPath) -> bool,
    ) -> Option<FutureMatch<'g>> {
        let FutureGlob { rule, prefix, components } = glob;
        let is_excepted = |at: &AbsPath| at.file_name().is_some_and(|name| rule.excepts(name));
        let is_match = |at: &AbsPath| {
            let names = at.relative_to(prefix);
            names.is_some_and(|names| pattern::matches_path(components, names)) && !is_excepted(at) && counts(at)
        };
        let at = path.ancestors().take_while(|at| at.is_below(prefix)).filter(is_match).last()?;
        Some(FutureMatch { rule, at, fixed_prefix: prefix })
    }

    /// The outermost directory around `path` that the walk does not enter for the rule (SPEC P5).
    fn skipped(&self, glob: &FutureGlob, path: &AbsPath) -> Option<AbsPath> {
        let refinements = &glob.rule.refinements;
        let has_sibling = |directory: &AbsPath, name: &str| {
            directory.parent().is_some_and(|parent| self.host.exists(&parent.child(name)).unwrap_or(false))
        };
        let is_skipped = |directory: &AbsPath| {
            let name = directory.file_name();
            refinements.skip_directories.iter().any(|skipped| name == Some(skipped.as_ref()))
                && refinements.skip_beside.is_none_or(|name| has_sibling(directory, name))
        };
        path.ancestors().skip(1).take_while(|directory| directory.is_below(&glob.prefix)).filter(is_skipped).last()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::policy::origin::Origin;
    use crate::policy::rule::{Access, LayerKind, Refinements};

    /// The part of `path` that the rule would match on an empty host.
    fn matched(text: &str, refinements: Refinements, path: &str) -> Option<String> {
        asked(text, refinements, |patterns| {
            patterns.matching(&AbsPath::root().join(path)).first().map(|matching| matching.at.to_string())
        })
    }

    fn asked<T>(text: &str, refinements: Refinements, ask: impl Fn(&FutureGlobs) -> T) -> T {
        let at = |path: &str| AbsPath::root().join(path);
        let rule = Rule::exact(Access::Ro, at("/r"), LayerKind::Preset, Origin::BuiltIn("a test"));
        let rules = [Arc::new(Rule { text: text.into(), refinements, ..rule })];
        let project = Project::plain(&at("/r"), at("/h"));
        let host = Host::at(PathBuf::from("/nonexistent"));
        ask(&FutureGlobs::of(&host, &project, &rules))
    }

    // SPEC X4
    #[test]
    fn future_matches_agree_with_the_walk() {
        for (pattern, path, expected) in [
            ("**/.env", "/r/.env", Some("/r/.env")),
            ("**/.env", "/r/a/b/.env", Some("/r/a/b/.env")),
            ("**/.env", "/r/a/.env/in/.env", Some("/r/a/.env")),
            ("**/.env", "/other/.env", None),
            ("~/*.pem", "/h/a.pem", Some("/h/a.pem")),
            ("~/*.pem", "/h/d/a.pem", None),
            ("{a,b}/x", "/r/b/x/y", Some("/r/b/x")),
            ("exact", "/r/exact", None),
        ] {
            let found = matched(pattern, Refinements::NONE, path);
            assert_eq!(found.as_deref(), expected, "{pattern} at {path}");
        }
    }

    #[test]
    fn paths_that_a_pattern_skips_or_excepts_do_not_match() {
        let refinements =
            Refinements { skip_directories: &["node_modules"], except: &[".env.example"], ..Refinements::NONE };
        assert_eq!(matched("**/.env*", refinements, "/r/a/.env.local").as_deref(), Some("/r/a/.env.local"));
        assert_eq!(matched("**/.env*", refinements, "/r/a/.env.example"), None);
        assert_eq!(matched("**/.env*", refinements, "/r/node_modules/x/.env"), None);
        assert_eq!(matched("**/node_*", refinements, "/r/node_modules").as_deref(), Some("/r/node_modules"));
    }

    #[test]
    fn a_pattern_names_the_directory_that_it_does_not_enter() {
        let refinements = Refinements { skip_directories: &["node_modules"], ..Refinements::NONE };
        let stopped = |path: &str| {
            asked("**/.env", refinements, |patterns| {
                let stopped = patterns.stopped_before(&AbsPath::root().join(path));
                stopped.first().map(|(matching, directory)| (matching.at.to_string(), directory.to_string()))
            })
        };
        let expected = ("/r/node_modules/a/node_modules/.env".to_owned(), "/r/node_modules".to_owned());
        assert_eq!(stopped("/r/node_modules/a/node_modules/.env"), Some(expected));
        assert_eq!(stopped("/r/node_modules/a"), None);
        assert_eq!(stopped("/r/a/.env"), None);
        // The pattern matched above the directory, so skipping the directory loses no match.
        assert_eq!(stopped("/r/.env/node_modules/.env"), None);
    }
}
