//! The directories on the way to a match that a pattern does not name.

use std::ffi::OsStr;
use std::path::Path;

use super::pattern::Component;
use super::walk::WalkPattern;
use crate::policy::AbsPath;

/// The directories that the first `**` of a pattern matched on the way to one match. The command
/// can rename them and move them anywhere below `within`, and the rule still applies to their
/// contents (SPEC B13).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnnamedAncestors {
    /// The directory in which the `**` starts. The pattern no longer matches a file that leaves it.
    within: AbsPath,
    /// The deepest of them, or `within` if there is none. The pattern names the components after
    /// it: `secrets` in `**/secrets/*.pem`.
    down_to: AbsPath,
}

impl UnnamedAncestors {
    /// The directories on the way to `path` that `pattern` does not name. `None` if the pattern has
    /// no `**`.
    pub(super) fn of(pattern: &WalkPattern, path: &AbsPath) -> Option<Self> {
        let is_any_depth = |component: &Component| matches!(component, Component::AnyDepth);
        let first = pattern.components.iter().position(is_any_depth)?;
        let names: Vec<&OsStr> = path.relative_to(&pattern.prefix)?.iter().collect();
        // Match each part between two `**` as late as possible, from the end: that leaves the most
        // directories unnamed.
        let mut parts = pattern.components[first + 1..].rsplit(is_any_depth);
        // As the last component, `**` matches at least one name.
        let end = parts.next()?.len().max(1);
        let mut named_from = names.len().checked_sub(end)?;
        for part in parts {
            let latest = named_from.checked_sub(part.len())?;
            let is_here = |at: &usize| part.iter().zip(&names[*at..]).all(|(component, name)| component.matches(name));
            named_from = (first..=latest).rev().find(is_here)?;
        }
        let above = |count: usize| path.as_path().ancestors().nth(count).map(AbsPath::from_normal);
        Some(Self { within: above(names.len() - first)?, down_to: above(names.len() - named_from)? })
    }

    /// Whether the rule still applies after `directory` moves to any place below `root`.
    pub fn may_move(&self, directory: &Path, root: &AbsPath) -> bool {
        root.is_within(&self.within) && self.down_to.lies_in(directory)
    }

    /// The directories that neither of two rules at one path names.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        // All of these lie on the way to the same path, so one of two is always within the other.
        Self {
            within: AbsPath::max(self.within.clone(), other.within.clone()),
            down_to: AbsPath::min(self.down_to.clone(), other.down_to.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::pattern::{Pattern, parse};
    use super::*;
    use crate::policy::origin::Origin;
    use crate::policy::rule::{Access, LayerKind, Rule};

    /// The directories on the way from `root` to `path` that `pattern` does not name.
    fn free(pattern: &str, root: &str, path: &str) -> Vec<String> {
        let abs = |path: &str| AbsPath::root().join(path);
        let Ok(Pattern::Globs(mut globs)) = parse(OsStr::new(pattern)) else { return vec!["no glob".to_owned()] };
        let glob = globs.remove(0);
        let rule = Rule::exact(Access::Ro, AbsPath::root(), LayerKind::Project, Origin::BuiltIn("a test"));
        let (prefix, components) = (AbsPath::root().join(&glob.prefix), glob.components);
        let pattern = WalkPattern { rule: Arc::new(rule), prefix, links: Vec::new(), components, literal: None };
        let (root, path) = (abs(root), abs(path));
        let unnamed = UnnamedAncestors::of(&pattern, &path);
        let may_move =
            |directory: &AbsPath| unnamed.as_ref().is_some_and(|unnamed| unnamed.may_move(directory.as_path(), &root));
        let way = path.ancestors().skip(1).filter(|directory| directory.is_below(&root) && may_move(directory));
        way.map(|directory| directory.to_string()).collect()
    }

    // SPEC B13
    #[test]
    fn each_kind_of_pattern_names_its_part_of_the_way() {
        for (pattern, root, path, expected) in [
            ("/r/*/x", "/r", "/r/a/x", &[][..]),
            ("/r/**/x", "/r", "/r/a/b/x", &["/r/a/b", "/r/a"]),
            // Either the whole writable folder lies below the start of the `**`, or it does not.
            ("/r/**/x", "/r/a", "/r/a/b/x", &["/r/a/b"]),
            ("/r/a/**/x", "/r", "/r/a/b/x", &[]),
            ("/r/*/**/x", "/r/a", "/r/a/b/x", &["/r/a/b"]),
            ("/r/*/**/x", "/r", "/r/a/b/x", &[]),
            // The components after the `**` are named again.
            ("/r/**/n/*", "/r", "/r/a/n/x", &["/r/a"]),
            ("/r/**/n*/x", "/r", "/r/n/n/x", &["/r/n"]),
            ("/r/**", "/r", "/r/x", &[]),
            // Only the first `**` of several counts, and it matches as much as it can.
            ("/r/**/n/**/x", "/r", "/r/a/n/b/x", &["/r/a"]),
            ("/r/**/n/**/x", "/r", "/r/n/n/b/x", &["/r/n"]),
            ("/r/**/n/**", "/r", "/r/a/n/x", &["/r/a"]),
        ] {
            assert_eq!(free(pattern, root, path), expected, "{pattern} at {path} in {root}");
        }
    }
}
