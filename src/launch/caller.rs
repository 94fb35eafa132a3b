//! Whether this caller may start a sandbox.

use crate::diagnostic::{Code, Diagnostic};
use crate::host::Host;
use crate::host::session::Session;

use super::{availability, is_inside};

/// Refuses a caller inside a sandbox, and root. Root may go on with `--allow-root`, and where it is
/// often the only user: in a container and in CI. There the result holds one warning.
pub fn check_caller(host: &Host, session: &Session, allow_root: bool) -> Result<Option<Diagnostic>, Diagnostic> {
    if is_inside(host) {
        return Err(Diagnostic::new(Code::AlreadyInside, "this is a sandbox already, and sandboxes do not nest yet")
            .help("run the command as it is: it has the protection of the sandbox around it"));
    }
    if !session.is_root() || allow_root {
        return Ok(None);
    }
    match root_is_expected(host, session) {
        Some(why) => Ok(Some(
            Diagnostic::new(Code::RootAllowed, format!("running as root, because {why}"))
                .help("run as an ordinary user, or silence this warning with `--allow-root`"),
        )),
        None => Err(Diagnostic::new(Code::RootRefused, "refusing to run as root")
            .help("run as an ordinary user, or add `--allow-root`")),
    }
}

/// Why root is likely to be the only user here, if it is.
fn root_is_expected(host: &Host, session: &Session) -> Option<String> {
    match availability::container_marker(host) {
        Some(marker) => Some(format!("this is a container (`{marker}` exists)")),
        None => session.var("CI").map(|_| "this is CI (`CI` is set)".to_owned()),
    }
}
