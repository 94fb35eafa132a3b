//! A second implementation of SPEC D1, D2, G3 and G5 for a few rules, without the compiler.

use std::path::{Path, PathBuf};

use crate::dimensions::Access;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    pub access: Access,
    /// The greater layer wins.
    pub layer: u8,
    /// The path that the rule names or matches.
    pub names: PathBuf,
    /// The target of that path. `None` if it is missing, or if an `rw` glob matched a link (G5).
    pub lands: Option<PathBuf>,
    /// The fixed part of a glob, and `None` for an exact rule.
    pub prefix: Option<PathBuf>,
}

impl Said {
    /// Whether the rule came through a link, and so may restrict but not open (G5).
    fn only_tightens(&self) -> bool {
        self.lands.as_ref().is_some_and(|lands| *lands != self.names) && self.access != Access::Rw
    }
}

/// The rule that governs `path`: the deepest one (D2). At one path, an exact rule wins, then the
/// later layer, then the more restrictive access (D1).
pub fn governing<'r>(rules: &'r [Said], path: &Path) -> Option<&'r Said> {
    let strongest = |at: &Path| {
        let here = rules.iter().filter(|rule| rule.lands.as_deref() == Some(at) && counts(rules, rule));
        let reached = |rule: &Said| rule.only_tightens() || reaches(rules, rule);
        let strongest = here.max_by_key(|rule| (rule.prefix.is_none(), rule.layer, rule.access, reached(rule)));
        strongest.filter(|rule| reached(rule))
    };
    path.ancestors().find_map(strongest)
}

/// A rule that only tightens counts if it is stricter than the other rules at its target, and not
/// out of reach in a folder that they exclude.
fn counts(rules: &[Said], rule: &Said) -> bool {
    let others: Vec<Said> = rules.iter().filter(|rule| !rule.only_tightens()).cloned().collect();
    let stricter = || rule.access > access(&others, rule.lands.as_ref().unwrap());
    !rule.only_tightens() || (stricter() && reaches(&others, rule))
}

/// A glob reaches into an excluded folder only if the folder is at or above its fixed part (G3).
fn reaches(rules: &[Said], rule: &Said) -> bool {
    let Some(prefix) = &rule.prefix else { return true };
    let around = governing(rules, rule.names.parent().unwrap());
    let excluded = around.filter(|rule| rule.access == Access::Exclude);
    excluded.is_none_or(|excluded| prefix.starts_with(excluded.lands.as_ref().unwrap()))
}

/// Without any rule the host is read-only (D3).
pub fn access(rules: &[Said], path: &Path) -> Access {
    governing(rules, path).map_or(Access::Ro, |rule| rule.access)
}
