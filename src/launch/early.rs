//! Starting bwrap before the placeholders stand. Its namespaces and mounts take longer than all that is put up and looked at before a run, and its
//! second stage waits for the plan: so both happen at the same time, on a machine that has two processors.

use crate::lower::Argv;
use crate::path::AbsPath;
use crate::pipeline::Compiled;
use crate::placeholder::Placeholder;
use crate::plan::{Mount, Planned};

/// Whether no mount of bwrap's own needs what is yet to be put up, and a second stage is there to wait for the rest.
pub fn can_begin_early(compiled: &Compiled, argv: &Argv) -> bool {
    let is_to_come = |path: &AbsPath| is_to_come(&argv.placeholders, path);
    let needs = |planned: &&Planned| match &planned.mount {
        Mount::Elsewhere { path, source } => is_to_come(path) || is_to_come(source),
        mount => is_to_come(mount.path()),
    };
    argv.guard.is_some() && !compiled.plan.split(true).bwrap.iter().any(needs)
}

/// Whether `path` is there only when the placeholders are.
pub(super) fn is_to_come(placeholders: &[Placeholder], path: &AbsPath) -> bool {
    let parents = || placeholders.iter().flat_map(|placeholder| &placeholder.parents);
    placeholders.iter().map(|placeholder| &placeholder.path).chain(parents()).any(|placed| path.is_within(placed))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::host::FileKind;
    use crate::origin::Origin;
    use crate::rule::LayerKind;

    use super::*;

    #[test]
    fn what_bwrap_mounts_below_a_placeholder_waits_for_it() {
        let abs = |path: &str| AbsPath::normalize(path).unwrap();
        let placeholder = Placeholder {
            path: abs("/p/a/b"),
            kind: FileKind::Directory,
            parents: vec![abs("/p/a")],
            layer: LayerKind::Base,
            origin: Origin::BuiltIn("test"),
        };
        for (path, waits) in [("/p/a/b", true), ("/p/a/b/c", true), ("/p/a", true), ("/p/a/d", true), ("/p", false)] {
            assert_eq!(is_to_come(std::slice::from_ref(&placeholder), &abs(path)), waits, "{path}");
        }
        assert!(!is_to_come(&[], &abs("/p/a")));
    }
}
