//! Checks whether this machine can make a sandbox. If it cannot, names the cause and the remedy.
//!
//! The message of bwrap names neither. Three small files show the common causes. If they do not
//! decide, one trial start does: before an unsupervised start, and after a supervised start that
//! failed.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::diagnostic::{Code, Diagnostic};
use crate::host::{Host, Session};
use crate::policy::{AbsPath, escape_for_display};
use crate::sys::process::output_within;

use super::apparmor;
use super::bwrap::{LARGEST_ANSWER, PATIENCE};

pub(crate) fn check(host: &Host, session: &Session, bwrap: &AbsPath) -> Result<(), Diagnostic> {
    if is_setuid(host, bwrap) {
        return Ok(());
    }
    if setting(host, "proc/sys/user/max_user_namespaces").as_deref() == Some("0") {
        return Err(unavailable("user namespaces are off on this machine (`user.max_user_namespaces` is 0)")
            .help("turn them on with `sudo sysctl user.max_user_namespaces=15000`"));
    }
    if !session.is_root() && setting(host, "proc/sys/kernel/unprivileged_userns_clone").as_deref() == Some("0") {
        return Err(unavailable("user namespaces are only for root here (`kernel.unprivileged_userns_clone` is 0)")
            .help("open them to users with `sudo sysctl kernel.unprivileged_userns_clone=1`"));
    }
    Ok(())
}

/// Calls [`check`], and starts a trial sandbox if the files do not decide. A caller that executes
/// bwrap in its own process needs the trial, because it cannot find the cause afterwards.
pub(super) fn check_with_trial(host: &Host, session: &Session, bwrap: &AbsPath) -> Result<(), Diagnostic> {
    check(host, session, bwrap)?;
    let is_doubtful = (is_restricted(host) && !session.is_root()) || in_container(host, session);
    if is_doubtful && !is_setuid(host, bwrap) { trial(host, bwrap) } else { Ok(()) }
}

/// Whether AppArmor restricts the user namespaces of programs without a profile.
pub(crate) fn is_restricted(host: &Host) -> bool {
    setting(host, "proc/sys/kernel/apparmor_restrict_unprivileged_userns").as_deref() == Some("1")
}

fn unavailable(message: &str) -> Diagnostic {
    Diagnostic::new(Code::SandboxUnavailable, message)
}

/// Whether bwrap has the setuid bit, with which it needs no user namespaces.
pub(crate) fn is_setuid(host: &Host, bwrap: &AbsPath) -> bool {
    const SETUID: u32 = 0o4000;
    std::fs::metadata(host.real(bwrap)).is_ok_and(|found| found.permissions().mode() & SETUID != 0)
}

/// A kernel setting; `None` where this kernel does not have it.
pub(crate) fn setting(host: &Host, path: &str) -> Option<String> {
    let text = host.kernel_file(path).ok()??;
    Some(String::from_utf8_lossy(&text).trim().to_owned())
}

pub(crate) fn in_container(host: &Host, session: &Session) -> bool {
    session.var("container").is_some() || container_marker(host).is_some()
}

/// The file by which Docker or podman marks a container, if there is one.
pub(crate) fn container_marker(host: &Host) -> Option<AbsPath> {
    let markers = [".dockerenv", "run/.containerenv"].map(|path| AbsPath::root().join(path));
    markers.into_iter().find(|marker| std::fs::exists(host.real(marker)).unwrap_or(false))
}

/// Starts the smallest sandbox with the namespaces of a real one. Reports the reason that bwrap
/// gives if it fails.
pub(super) fn trial(host: &Host, bwrap: &AbsPath) -> Result<(), Diagnostic> {
    let mut command = Command::new(bwrap.as_path());
    command.args([
        "--unshare-all",
        "--die-with-parent",
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--",
    ]);
    command.arg(bwrap.as_path()).arg("--version");
    let output =
        output_within(&mut command, PATIENCE, LARGEST_ANSWER).map_err(|e| super::exec::cannot_execute(bwrap, &e))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().next().unwrap_or_default().trim_start_matches("bwrap: ").to_owned();
    Err(explain_refusal(&said, is_restricted(host)))
}

/// Explains `said`, the message of a bwrap that could not make a sandbox, and names the remedy.
/// `restricted` means that AppArmor restricts user namespaces.
pub fn explain_refusal(said: &str, restricted: bool) -> Diagnostic {
    let diagnostic = match said {
        "" => unavailable("bwrap cannot make a sandbox here, and gives no reason"),
        said => unavailable(&format!("bwrap cannot make a sandbox here: {}", escape_for_display(OsStr::new(said)))),
    };
    if restricted {
        diagnostic.help(format!(
            "install agent-sandbox in `/usr/local/bin`, and its profile with `{}`: AppArmor restricts user namespaces \
             (Ubuntu)",
            apparmor::INSTALL_PROFILE
        ))
    } else if said.contains("max_*_namespaces") || said.contains("No space left") {
        diagnostic.help("raise `user.max_user_namespaces` and `user.max_mnt_namespaces` with `sudo sysctl`")
    } else if said.contains("proc") {
        diagnostic.help(
            "start this container with `--security-opt systempaths=unconfined` (Docker) or `--security-opt unmask=ALL` \
             (podman): it hides parts of /proc",
        )
    } else {
        diagnostic.help(
            "start this container with `--security-opt seccomp=unconfined` and, on AppArmor hosts, `--security-opt \
             apparmor=unconfined`: it forbids namespaces",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::fs;

    fn checked(settings: &[(&str, &str)], uid: u32) -> Result<(), Diagnostic> {
        let root = tempfile::tempdir().map_err(|e| unavailable(&e.to_string()))?;
        for (path, value) in settings {
            let path = root.path().join(path);
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder).map_err(|e| unavailable(&e.to_string()))?;
            }
            fs::write(path, value).map_err(|e| unavailable(&e.to_string()))?;
        }
        let session = Session { cwd: AbsPath::root(), uid, env: BTreeMap::new(), executable: None, memory: u64::MAX };
        check(&Host::at(root.path()), &session, &AbsPath::root().join("usr/bin/bwrap"))
    }

    fn message(result: Result<(), Diagnostic>) -> String {
        result.err().map(|d| d.message).unwrap_or_default()
    }

    #[test]
    fn a_machine_without_restrictions_is_fine() {
        assert_eq!(checked(&[("proc/sys/user/max_user_namespaces", "96343\n")], 1000), Ok(()));
    }

    #[test]
    fn user_namespaces_that_are_off_are_named_as_the_cause() {
        let said = message(checked(&[("proc/sys/user/max_user_namespaces", "0\n")], 1000));
        assert!(said.contains("user.max_user_namespaces"), "{said}");
    }

    #[test]
    fn the_debian_switch_matters_to_users_and_not_to_root() {
        let switch = [("proc/sys/kernel/unprivileged_userns_clone", "0\n")];
        assert!(message(checked(&switch, 1000)).contains("unprivileged_userns_clone"));
        assert_eq!(checked(&switch, 0), Ok(()));
    }
}
