//! Patterns and what does not exist yet.

use crate::host::Host;
use crate::layers::Project;
use crate::path::AbsPath;
use crate::rule::Rule;

use super::anchored;
use super::pattern::{self, Component, Pattern};
use super::sockets::matches;

/// The patterns of a policy, ready to be asked about paths.
pub struct Patterns<'r> {
    host: &'r Host,
    prepared: Vec<Prepared<'r>>,
}

struct Prepared<'r> {
    rule: &'r Rule,
    prefix: AbsPath,
    components: Vec<Component>,
}

/// What a pattern would match at a start.
pub struct Matching<'p> {
    pub rule: &'p Rule,
    /// The outermost of what it matches on the way: that is one rule for the pattern (SPEC G2).
    pub at: AbsPath,
    /// What the pattern names before its first wildcard (SPEC G3).
    pub fixed_prefix: &'p AbsPath,
}

impl<'r> Patterns<'r> {
    pub fn of(host: &'r Host, project: &Project, rules: &'r [Rule]) -> Self {
        let mut prepared = Vec::new();
        for rule in rules {
            let (anchor, text) = anchored(rule, &project.home);
            let Ok(Pattern::Globs(globs)) = pattern::parse(text) else { continue };
            for glob in globs {
                // A rule whose start cannot be looked at has been refused.
                let Ok(resolved) = host.resolve(&anchor.as_path().join(&glob.prefix)) else { continue };
                prepared.push(Prepared { rule, prefix: resolved.path, components: glob.components });
            }
        }
        Self { host, prepared }
    }

    /// The patterns that match `path`, or a directory around it, whether or not that exists and is in reach.
    pub fn matching(&self, path: &AbsPath) -> Vec<Matching<'_>> {
        let mut way: Vec<AbsPath> = path.ancestors().collect();
        way.reverse();
        let mut matching = Vec::new();
        for Prepared { rule, prefix, components } in
            self.prepared.iter().filter(|pattern| path.is_below(&pattern.prefix))
        {
            let is_matched = |at: &&AbsPath| matches(prefix, components, at) && self.is_meant(rule, prefix, at);
            let at = way.iter().find(is_matched).cloned();
            matching.extend(at.map(|at| Matching { rule, at, fixed_prefix: prefix }));
        }
        matching
    }

    /// As the walk sees it: some names are not entered, and some not meant (SPEC P5).
    fn is_meant(&self, rule: &Rule, prefix: &AbsPath, path: &AbsPath) -> bool {
        let refinements = &rule.refinements;
        let is_beside = |directory: &AbsPath, name: &String| {
            directory.parent().is_some_and(|parent| self.host.exists(&parent.child(name)).unwrap_or(false))
        };
        let is_skipped = |directory: AbsPath| {
            let name = directory.file_name();
            refinements.skip_directories.iter().any(|skipped| name == Some(skipped.as_ref()))
                && refinements.skip_beside.as_ref().is_none_or(|name| is_beside(&directory, name))
        };
        let mut entered = path.ancestors().skip(1).take_while(|directory| directory.is_below(prefix));
        let is_excepted = path.file_name().is_some_and(|name| refinements.except.iter().any(|except| except == name));
        !is_excepted && !entered.any(is_skipped)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use super::*;
    use crate::layers::git;
    use crate::origin::Origin;
    use crate::rule::{Access, LayerKind, Refinements};

    /// What of `path` the rule would match, on a host without anything.
    fn matched(text: &str, refinements: Refinements, path: &str) -> Option<String> {
        let at = |path: &str| AbsPath::root().join(path);
        let rule = Rule::exact(Access::Ro, at("/r"), LayerKind::Preset, Origin::BuiltIn("a test"));
        let rules = [Rule { text: text.into(), refinements: Arc::new(refinements), ..rule }];
        let project = Project {
            cwd: at("/r"),
            home: at("/h"),
            root: at("/r"),
            outermost: at("/r"),
            repository: None,
            git_top: None,
            git_pointer: None,
            git_named: git::Named::default(),
            git_nested: git::NestedRepositories::default(),
        };
        let host = Host::at(PathBuf::from("/nonexistent"));
        let patterns = Patterns::of(&host, &project, &rules);
        patterns.matching(&at(path)).first().map(|matching| matching.at.to_string())
    }

    #[test]
    fn a_pattern_is_asked_about_paths_as_the_walk_would_match_them() {
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
            let found = matched(pattern, Refinements::default(), path);
            assert_eq!(found.as_deref(), expected, "{pattern} at {path}");
        }
    }

    #[test]
    fn what_a_preset_does_not_enter_or_mean_does_not_match() {
        let refinements = || Refinements {
            skip_directories: vec!["node_modules".to_owned()],
            except: vec![".env.example".into()],
            ..Refinements::default()
        };
        assert_eq!(matched("**/.env*", refinements(), "/r/a/.env.local").as_deref(), Some("/r/a/.env.local"));
        assert_eq!(matched("**/.env*", refinements(), "/r/a/.env.example"), None);
        assert_eq!(matched("**/.env*", refinements(), "/r/node_modules/x/.env"), None);
        assert_eq!(matched("**/node_*", refinements(), "/r/node_modules").as_deref(), Some("/r/node_modules"));
    }
}
