//! Patterns and what does not exist yet.

use std::sync::Arc;

use crate::host::Host;
use crate::layers::Project;
use crate::path::AbsPath;
use crate::rule::Rule;

use super::anchored;
use super::pattern::{self, Pattern};
use super::sockets::matches;
use super::walk::WalkPattern;

/// What the pattern of `rule` would match at a start, if `path` existed by then: `path`, or the outermost directory around it (SPEC
/// G2). `None` for what is no pattern, too.
pub fn would_match(host: &Host, project: &Project, rule: &Rule, path: &AbsPath) -> Option<AbsPath> {
    let (anchor, text) = anchored(rule, &project.home);
    let Ok(Pattern::Globs(globs)) = pattern::parse(text) else { return None };
    let mut way: Vec<AbsPath> = path.ancestors().collect();
    way.reverse();
    let rule = Arc::new(rule.clone());
    globs.into_iter().find_map(|glob| {
        // A rule whose start cannot be looked at has been refused.
        let prefix = host.resolve(&anchor.as_path().join(&glob.prefix)).ok()?.path;
        let links = Vec::new();
        let pattern = WalkPattern { rule: &rule, prefix, links, components: glob.components, literal: None };
        way.iter().find(|at| matches(&pattern, at) && is_meant(&pattern, at)).cloned()
    })
}

/// As the walk sees it: some names are not entered, and some not meant (SPEC P5).
fn is_meant(pattern: &WalkPattern, path: &AbsPath) -> bool {
    let refinements = &pattern.rule.refinements;
    let is_skipped = |directory: AbsPath| {
        let name = directory.file_name();
        refinements.skip_directories.iter().any(|skipped| name == Some(skipped.as_ref()))
    };
    let mut entered = path.ancestors().skip(1).take_while(|directory| directory.is_below(&pattern.prefix));
    let is_excepted = path.file_name().is_some_and(|name| refinements.except.iter().any(|except| except == name));
    !is_excepted && !entered.any(is_skipped)
}
