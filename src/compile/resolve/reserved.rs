//! Paths that belong to the sandbox itself (SPEC D4).

use crate::diagnostic::Code;
use crate::host::FileKind;
use crate::policy::{AbsPath, Access, places};

use super::{Match, Resolver};

impl Resolver<'_> {
    /// Records a match, unless its path is one that no rule may name (SPEC D4).
    pub(super) fn accept(&mut self, found: Match) {
        let Match { rule, path, kind, .. } = &found;
        if let Some((why, help)) = reserved(path, rule.access) {
            self.report(rule, Code::ReservedPath, format!("`{path}` {why}"), help);
        } else if *kind == FileKind::Device && rule.access == Access::Ro {
            let message = format!("`{path}` is a device, and no mount makes a device read-only");
            self.report(rule, Code::ReadOnlyDevice, message, "use `rw` to grant it or `exclude` to hide it");
        } else {
            self.found.matches.push(found);
        }
    }
}

/// Why no rule of this access may name `path`, and what to do instead.
fn reserved(path: &AbsPath, access: Access) -> Option<(&'static str, &'static str)> {
    let is = |top: &str| path.as_os_str() == top;
    let within = |top: &str| path.lies_in(top.as_ref());
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
