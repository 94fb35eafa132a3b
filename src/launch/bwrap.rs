//! Which bwrap. It decides everything, so it must not be one that the command could have planted.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::symlink_metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{Access, access};

use crate::ablate::{self, Mitigation};
use crate::diagnostic::{Code, Diagnostic};
use crate::host::{FileKind, Host, Resolved};
use crate::path::AbsPath;
use crate::pipeline::Compiled;
use crate::plan::View;
use crate::session::Session;

/// The first `bwrap` on PATH. Relative entries of PATH do not count: they mean the project.
fn first(host: &Host, session: &Session) -> Option<Resolved> {
    let path = session.var("PATH").unwrap_or_default();
    let folders = path.as_bytes().split(|b| *b == b':').map(|folder| Path::new(OsStr::from_bytes(folder)));
    folders.filter(|folder| folder.is_absolute()).find_map(|folder| {
        let resolved = host.resolve(&folder.join("bwrap")).ok()?;
        let is_program =
            resolved.kind == Some(FileKind::File) && access(host.real(&resolved.path), Access::EXEC_OK).is_ok();
        is_program.then_some(resolved)
    })
}

/// The same, unless a sandboxed command can have planted it.
pub fn find(host: &Host, session: &Session, compiled: &Compiled) -> Result<AbsPath, Diagnostic> {
    let Some(resolved) = first(host, session) else {
        return Err(Diagnostic::new(Code::BwrapMissing, "there is no `bwrap` on PATH")
            .help("install bubblewrap: `apt install bubblewrap`, `dnf install bubblewrap` or `pacman -S bubblewrap`"));
    };
    // The outermost folder too: with a planted `.git` a subfolder is the root of this run, and was not of an earlier one.
    let project = &compiled.layers.project;
    let of_project = |at: &AbsPath| at.is_within(&project.root) || at.is_within(&project.outermost);
    // What a rule protects in a writable folder may have been put there while it was missing.
    let in_writable = |at: &AbsPath| at.ancestors().take(2).any(|at| compiled.plan.view(&at) == View::HostRw);
    let plantable = |at: &AbsPath| of_project(at) || in_writable(at);
    if let Some(at) = resolved.links.iter().chain([&resolved.path]).find(|at| plantable(at))
        && !ablate::is_off(Mitigation::BwrapPath)
    {
        return Err(Diagnostic::new(
            Code::BwrapUntrusted,
            format!("the first `bwrap` on PATH is `{at}`, which a sandboxed command can write"),
        )
        .help("take that folder out of PATH, or put it after the one that holds the system's `bwrap`"));
    }
    Ok(resolved.path)
}

/// The same where no policy needs to be asked: nobody but root can change it, or what leads to it, and this is not root. Not one with the setuid
/// bit, which would be of no use (see [`super::without_power`]).
pub(super) fn of_system(host: &Host, session: &Session) -> Option<AbsPath> {
    if session.is_root() {
        return None;
    }
    let Resolved { path, links, .. } = first(host, session)?;
    let leads_to_it: BTreeSet<AbsPath> = links.iter().chain([&path]).flat_map(AbsPath::ancestors).collect();
    let is_closed = |at: &AbsPath| {
        let found = symlink_metadata(host.real(at));
        // Symlinks have every bit, and none of them counts.
        found.is_ok_and(|found| found.uid() == 0 && (found.is_symlink() || found.mode() & WRITABLE_BY_OTHERS == 0))
    };
    let is_setuid = super::availability::is_setuid(host, &path);
    (!is_setuid && leads_to_it.iter().all(is_closed)).then_some(path)
}

const WRITABLE_BY_OTHERS: u32 = 0o022;

/// All flags that its help names. A version would only let us guess.
pub(crate) fn flags(bwrap: &AbsPath) -> Result<BTreeSet<String>, Diagnostic> {
    let help = asked(bwrap, "--help")?;
    Ok(help.split_whitespace().filter(|word| word.starts_with("--")).map(str::to_owned).collect())
}

/// What it calls itself: `bubblewrap 0.8.0`.
pub(crate) fn version(bwrap: &AbsPath) -> Result<String, Diagnostic> {
    Ok(asked(bwrap, "--version")?.lines().next().unwrap_or_default().trim().to_owned())
}

fn asked(bwrap: &AbsPath, flag: &str) -> Result<String, Diagnostic> {
    let said = Command::new(bwrap.as_path()).arg(flag).stdin(Stdio::null()).output();
    let said = said.map_err(|e| super::cannot_execute(bwrap, &e))?;
    Ok(String::from_utf8_lossy(&said.stdout).into_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn only_a_bwrap_that_nobody_but_root_can_change_is_started_unasked() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        let mode = |path: &str, mode| fs::set_permissions(at(path), fs::Permissions::from_mode(mode)).unwrap();
        fs::create_dir_all(at("usr/bin")).unwrap();
        fs::create_dir(at("links")).unwrap();
        fs::write(at("usr/bin/bwrap"), "").unwrap();
        symlink("/usr/bin/bwrap", at("links/bwrap")).unwrap();
        for (path, bits) in
            [("", 0o755), ("usr", 0o755), ("usr/bin", 0o755), ("links", 0o755), ("usr/bin/bwrap", 0o755)]
        {
            mode(path, bits);
        }
        let found = |uid, path: &str| {
            let env = BTreeMap::from([("PATH".into(), path.into())]);
            let session = Session { cwd: AbsPath::root(), uid, env, executable: None };
            of_system(&Host::at(root.path()), &session).is_some()
        };
        // Whoever is not root makes files that are not root's: then all answers are no, and only root's run of this test shows something.
        let is_root = rustix::process::getuid().is_root();
        assert_eq!([found(1000, "/usr/bin"), found(1000, "/links:/usr/bin")], [is_root; 2]);
        assert!(!found(0, "/usr/bin"), "root can change everything");
        for (path, closed, open) in [
            ("usr/bin/bwrap", 0o755, 0o775),
            ("usr/bin/bwrap", 0o755, 0o757),
            ("usr/bin/bwrap", 0o755, 0o4755),
            ("usr/bin", 0o755, 0o1777),
            ("usr", 0o755, 0o775),
        ] {
            mode(path, open);
            assert!(!found(1000, "/usr/bin") && !found(1000, "/links"), "{path} {open:o}");
            mode(path, closed);
        }
        mode("links", 0o777);
        assert!(!found(1000, "/links:/usr/bin"), "the link could be another one");
        assert_eq!(found(1000, "/usr/bin"), is_root);
    }
}
