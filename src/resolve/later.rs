//! Patterns and what does not exist yet.

use crate::host::Host;
use crate::layers::Project;
use crate::path::AbsPath;
use crate::rule::Rule;

use super::anchored;
use super::pattern::{self, Component, Pattern};
use super::sockets::matches;

/// The patterns of a policy, ready to be asked about paths.
pub struct Patterns<'r>(Vec<Prepared<'r>>);

struct Prepared<'r> {
    rule: &'r Rule,
    prefix: AbsPath,
    components: Vec<Component>,
}

impl<'r> Patterns<'r> {
    pub fn of(host: &Host, project: &Project, rules: &'r [Rule]) -> Self {
        let mut patterns = Vec::new();
        for rule in rules {
            let (anchor, text) = anchored(rule, &project.home);
            let Ok(Pattern::Globs(globs)) = pattern::parse(text) else { continue };
            for glob in globs {
                // A rule whose start cannot be looked at has been refused.
                let Ok(resolved) = host.resolve(&anchor.as_path().join(&glob.prefix)) else { continue };
                patterns.push(Prepared { rule, prefix: resolved.path, components: glob.components });
            }
        }
        Self(patterns)
    }

    /// The rules that would apply at a start, if `path` existed by then, and what they would match: `path`, or the outermost
    /// directory around it (SPEC G2).
    pub fn matching(&self, path: &AbsPath) -> Vec<(&'r Rule, AbsPath)> {
        let mut way: Vec<AbsPath> = path.ancestors().collect();
        way.reverse();
        let matched = |pattern: &Prepared<'r>| {
            let at = way.iter().find(|at| matches(&pattern.prefix, &pattern.components, at) && pattern.means(at))?;
            Some((pattern.rule, at.clone()))
        };
        self.0.iter().filter(|pattern| path.is_below(&pattern.prefix)).filter_map(matched).collect()
    }
}

impl Prepared<'_> {
    /// As the walk sees it: some names are not entered, and some not meant (SPEC P5).
    fn means(&self, path: &AbsPath) -> bool {
        let refinements = &self.rule.refinements;
        let is_skipped = |directory: AbsPath| {
            let name = directory.file_name();
            refinements.skip_directories.iter().any(|skipped| name == Some(skipped.as_ref()))
        };
        let mut entered = path.ancestors().skip(1).take_while(|directory| directory.is_below(&self.prefix));
        let is_excepted = path.file_name().is_some_and(|name| refinements.except.iter().any(|except| except == name));
        !is_excepted && !entered.any(is_skipped)
    }
}
