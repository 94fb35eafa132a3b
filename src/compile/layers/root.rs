//! The search for the project root (SPEC L3, L6).

use std::io;

use crate::diagnostic::{Code, Diagnostic, Diagnostics, reason};
use crate::host::{FileKind, Host, Mounts};
use crate::policy::AbsPath;

use super::{PROJECT_FILE, names};

const MARKERS: [&str; 2] = [PROJECT_FILE, ".git"];

const SYSTEM_TOPS: [&str; 14] = [
    "/etc", "/var", "/usr", "/opt", "/root", "/boot", "/dev", "/proc", "/sys", "/bin", "/sbin", "/tmp", "/home", "/run",
];

pub(super) struct RootSearch {
    pub root: AbsPath,
    /// The root, if it is safe, and the safe folders above it, nearest first.
    pub root_and_above: Vec<AbsPath>,
    pub outermost: AbsPath,
}

/// Searches from `cwd` upwards. `stands` tells whether a placeholder of another run is at a path.
pub(super) fn search(
    host: &Host,
    cwd: &AbsPath,
    home: &AbsPath,
    mounts: Option<&Mounts>,
    stands: &dyn Fn(&AbsPath) -> bool,
    diagnostics: &mut Diagnostics,
) -> RootSearch {
    let candidates: Vec<AbsPath> = cwd.ancestors().take_while(|folder| !is_unsafe_root(folder, home, mounts)).collect();
    let mut marked = candidates.iter().filter(|folder| has_marker(host, folder, cwd, stands, diagnostics));
    let root = marked.next().unwrap_or(cwd).clone();
    let outermost = marked.last().unwrap_or(&root).clone();
    let root_and_above = candidates.iter().skip_while(|folder| **folder != root).cloned().collect();
    RootSearch { root, root_and_above, outermost }
}

fn has_marker(
    host: &Host,
    folder: &AbsPath,
    cwd: &AbsPath,
    stands: &dyn Fn(&AbsPath) -> bool,
    diagnostics: &mut Diagnostics,
) -> bool {
    MARKERS.iter().any(|marker| {
        let path = folder.child(marker);
        let is_placeholder = || looks_like_placeholder(host, &path) && stands(&path);
        let is_ours = || if folder == cwd { Ok(true) } else { is_ours(host, &path, cwd) };
        let found = host.exists(&path).and_then(|exists| Ok(exists && !is_placeholder() && is_ours()?));
        found.unwrap_or_else(|e| {
            let message = format!("cannot look for `{path}`: {}", reason(&e));
            let help = "make the folder searchable, so that a policy in it is not missed";
            diagnostics.push(Diagnostic::new(Code::UnreadableConfig, message).help(help));
            false
        })
    })
}

/// Whether the file or folder at `marker` looks like a placeholder: an empty file, or a folder
/// without `HEAD`. This cheap check comes first, because `stands` reads the journals of all runs.
/// A folder that `git init` has filled is a repository, even if the command made it.
fn looks_like_placeholder(host: &Host, marker: &AbsPath) -> bool {
    let is_folder = matches!(host.kind(marker), Ok(Some(FileKind::Directory)));
    host.is_empty_file(marker) || is_folder && matches!(host.exists(&marker.child("HEAD")), Ok(false))
}

/// A marker above the working directory counts if it belongs to root or to the owner of the working
/// directory. In a folder that all users can write, another user's marker would choose the policy.
fn is_ours(host: &Host, marker: &AbsPath, cwd: &AbsPath) -> io::Result<bool> {
    Ok(may_mark(host.owner(marker)?, host.owner(cwd)?))
}

fn may_mark(owner: u32, owner_of_cwd: u32) -> bool {
    owner == 0 || owner == owner_of_cwd
}

/// Whether a folder is too broad to be made writable as a whole, by any of its names: a mistake in
/// the working directory must not open a home or a system.
pub(super) fn is_unsafe_root(path: &AbsPath, home: &AbsPath, mounts: Option<&Mounts>) -> bool {
    let homes: Vec<AbsPath> = names(mounts, home).collect();
    names(mounts, path).any(|path| homes.iter().any(|home| is_too_broad(&path, home)))
}

fn is_too_broad(path: &AbsPath, home: &AbsPath) -> bool {
    let text = path.as_os_str().to_str().unwrap_or_default();
    let child_of_home = path.parent().is_some_and(|parent| parent.as_os_str() == "/home");
    let library_top = text.starts_with("/lib") && path.parent().is_some_and(|parent| parent.is_root());
    path.is_root() || SYSTEM_TOPS.contains(&text) || library_top || child_of_home || home.is_within(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    // SPEC L3
    #[test]
    fn only_root_and_oneself_mark_a_root_above() {
        assert!(may_mark(1000, 1000) && may_mark(0, 1000));
        assert!(!may_mark(1001, 1000) && !may_mark(1000, 0));
    }

    // SPEC L6
    #[test]
    fn system_folders_and_whole_homes_are_unsafe_roots() {
        let home = AbsPath::root().join("home/u");
        let is_unsafe = |path: &str| is_too_broad(&AbsPath::root().join(path), &home);
        let tops = "/ /etc /var /usr /opt /root /boot /dev /proc /sys /bin /sbin /lib /lib64 /tmp /home /run /home/u /home/ada";
        for path in tops.split(' ') {
            assert!(is_unsafe(path), "{path}");
        }
        for path in ["/home/u/code", "/srv/code", "/opt/code", "/tmp/code", "/library/x", "/var/www"] {
            assert!(!is_unsafe(path), "{path}");
        }
    }
}
