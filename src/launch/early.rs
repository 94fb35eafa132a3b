//! What is not there yet when bwrap is started before the placeholders stand. Its namespaces take longer than all that is put up and looked at
//! before a run, and its second stage waits for the plan: so both happen at the same time, on a machine that has two processors.
//!
//! No mount of bwrap's own needs a placeholder: it makes the root and `/proc`, and what rules ask for is in the plan (SPEC C1).

use crate::path::{AbsPath, PathMap};
use crate::placeholder::Placeholder;

/// What is there only when the placeholders are.
pub(super) struct ToCome(PathMap<()>);

impl ToCome {
    pub(super) fn new(placeholders: &[Placeholder]) -> Self {
        let placed = placeholders.iter().flat_map(|placeholder| placeholder.parents.iter().chain([&placeholder.path]));
        Self(placed.map(|path| (path.clone(), ())).collect())
    }

    pub(super) fn holds(&self, path: &AbsPath) -> bool {
        self.0.nearest(path).is_some()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::host::FileKind;
    use crate::origin::Origin;
    use crate::rule::LayerKind;

    use super::*;

    #[test]
    fn what_lies_in_a_placeholder_is_there_only_with_it() {
        let abs = |path: &str| AbsPath::normalize(path).unwrap();
        let placeholder = Placeholder {
            path: abs("/p/a/b"),
            kind: FileKind::Directory,
            parents: vec![abs("/p/a")],
            layer: LayerKind::Base,
            origin: Origin::BuiltIn("test"),
        };
        let to_come = ToCome::new(&[placeholder]);
        for (path, waits) in [("/p/a/b", true), ("/p/a/b/c", true), ("/p/a", true), ("/p/a/d", true), ("/p", false)] {
            assert_eq!(to_come.holds(&abs(path)), waits, "{path}");
        }
        assert!(!ToCome::new(&[]).holds(&abs("/p/a")));
    }
}
