//! Remotes that are repositories on this machine. `git push` runs the hooks of such a repository,
//! and the command may have written them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::host::Host;
use crate::host::git::config::{self, ConfigEntry};
use crate::host::git::nested::{self, Nested};
use crate::host::git::read_small;
use crate::host::git::remote::local_path;
use crate::policy::path::{AbsPath, escape_for_display};

use super::nested::Changeable;

/// The root of the project, and a test for paths that the command could change.
#[derive(Clone, Copy)]
pub(super) struct Reach<'a> {
    pub root: &'a AbsPath,
    pub could_be_changed: Changeable<'a>,
}

/// The remotes in the settings of `found` to which the command can add hooks without a report.
pub(super) fn doubts(host: &Host, found: &Nested, reach: Reach) -> Vec<String> {
    let text = read_small(host, &found.common_dir.child("config")).ok().flatten().unwrap_or_default();
    let entries = config::entries(&text).unwrap_or_default();
    let is_remote = |entry: &&ConfigEntry| entry.section.eq_ignore_ascii_case("remote");
    let names: BTreeSet<&[u8]> = entries.iter().filter(is_remote).filter_map(|e| e.subsection.as_deref()).collect();
    let urls = entries.iter().filter(|entry| match (&*entry.section, &*entry.name) {
        (section, name) if section.eq_ignore_ascii_case("remote") => {
            ["url", "pushurl"].iter().any(|known| name.eq_ignore_ascii_case(known))
        }
        // The value is the name of a remote or a URL. `.` is the repository itself.
        (section, name) if section.eq_ignore_ascii_case("branch") && name.eq_ignore_ascii_case("remote") => {
            entry.value != b"." && !names.contains(&*entry.value)
        }
        _ => false,
    });
    let doubtful = urls.filter(|entry| is_doubtful(host, &found.folder, &entry.value, reach));
    let doubtful =
        doubtful.map(|entry| format!("the remote `{}`", escape_for_display(OsStr::from_bytes(&entry.value))));
    doubtful.collect::<BTreeSet<String>>().into_iter().collect()
}

fn is_doubtful(host: &Host, folder: &AbsPath, url: &[u8], reach: Reach) -> bool {
    let Some(path) = local_path(url) else { return false };
    // git replaces `~` by a home.
    let Ok(found) = host.resolve_from(folder, OsStr::from_bytes(path).as_ref()) else { return true };
    let around =
        if found.path.file_name() == Some(".git".as_ref()) { found.path.parent() } else { Some(found.path.clone()) };
    let git_dir = nested::git_dir_in(host, &found.path).ok().flatten().map_or(found.path, |(git_dir, _)| git_dir);
    let common_dir = nested::common_dir_of(host, &git_dir).unwrap_or(git_dir);
    // The hooks of repositories in the root and in its direct subfolders are watched elsewhere.
    let is_watched = around.is_some_and(|around| around == *reach.root || around.parent().as_ref() == Some(reach.root));
    path.starts_with(b"~") || !is_watched && (reach.could_be_changed)(&common_dir.child("hooks"))
}
