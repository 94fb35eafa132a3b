//! Paths that belong to the sandbox itself (SPEC D4).

use crate::diagnostic::{Code, Diagnostic};
use crate::host::FileKind;
use crate::policy::path::AbsPath;
use crate::policy::places;
use crate::policy::rule::Access;

use super::{Match, Resolver};

impl Resolver<'_> {
    /// Records a match, unless its path is one that no rule may name (SPEC D4).
    pub(super) fn accept(&mut self, found: Match) {
        let refused = if let Some((why, help)) = reserved(&found.path, found.rule.access) {
            Some(Diagnostic::new(Code::ReservedPath, format!("`{}` {why}", found.path)).help(help))
        } else if found.kind == FileKind::Device && found.rule.access == Access::Ro {
            Some(
                Diagnostic::new(
                    Code::ReadOnlyDevice,
                    format!("`{}` is a device, and no mount makes a device read-only", found.path),
                )
                .help("use `rw` to grant it or `exclude` to hide it"),
            )
        } else {
            None
        };
        match refused {
            Some(diagnostic) => self.diagnostics.push(diagnostic.at(&found.rule.origin)),
            None => self.found.matches.push(found),
        }
    }
}

/// Why no rule of this access may name `path`, and what to do instead.
fn reserved(path: &AbsPath, access: Access) -> Option<(&'static str, &'static str)> {
    let below = |top: &str| path.bytes().strip_prefix(top.as_bytes());
    let is = |top: &str| below(top).is_some_and(<[u8]>::is_empty);
    let within = |top: &str| matches!(below(top), Some([] | [b'/', ..]));
    if path.is_root() && access != Access::Ro {
        Some(("is the whole file system", "name the folders that you mean"))
    } else if within(places::PROC) {
        Some(("belongs to the sandbox, which has its own `/proc`", "remove the rule"))
    } else if is(places::DEV) || (within(places::DEV) && access != Access::Rw) {
        Some(("belongs to the sandbox, which has its own `/dev`", "grant a single device with `rw = [\"/dev/NAME\"]`"))
    } else if is(places::RUN) || within(places::OURS) {
        Some(("belongs to the sandbox, which has its own `/run`", "name the folder below `/run` that you mean"))
    } else {
        None
    }
}
