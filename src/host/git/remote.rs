//! Remotes that are repositories on this machine.

use super::config::ConfigEntry;
use super::nested::{common_dir_of, git_dir_in};
use crate::host::Host;
use crate::policy::path::AbsPath;

/// Whether the value of this setting can be the URL of a remote.
pub(crate) fn is_url(entry: &ConfigEntry) -> bool {
    entry.is_listed(&entry.section, &[("remote", "url"), ("remote", "pushurl"), ("branch", "remote")])
}

/// The common directory of the repository in `folder`; `None` if there is none.
pub(crate) fn common_dir(host: &Host, folder: &AbsPath) -> Option<AbsPath> {
    let around = git_dir_in(host, folder).ok().flatten();
    let git_dir = around.map_or_else(|| folder.clone(), |(git_dir, _)| git_dir);
    let has_head = host.exists(&git_dir.child("HEAD")).unwrap_or(true);
    has_head.then(|| common_dir_of(host, &git_dir).unwrap_or(git_dir))
}

/// The path on this machine that a URL names, by the rule of git's `url_is_local_not_ssh`.
pub(crate) fn local_path(url: &[u8]) -> Option<&[u8]> {
    let file = b"file://";
    if let Some((scheme, path)) = url.split_at_checked(file.len())
        && scheme.eq_ignore_ascii_case(file)
    {
        return Some(path);
    }
    let first = |byte: u8| url.iter().position(|at| *at == byte).unwrap_or(url.len());
    let is_elsewhere = url.windows(3).any(|part| part == b"://") || first(b':') < first(b'/');
    (!url.is_empty() && !is_elsewhere).then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    // SPEC R5
    #[test]
    fn a_path_is_told_from_other_urls() {
        for (url, path) in [
            ("a", Some("a")),
            ("../a.git", Some("../a.git")),
            ("/a/b", Some("/a/b")),
            ("./a:b", Some("./a:b")),
            ("~/a", Some("~/a")),
            ("file:///a", Some("/a")),
            ("FILE:///a", Some("/a")),
            ("", None),
            ("host:a", None),
            ("user@host:a/b", None),
            ("https://host/a", None),
            ("ssh://host/a", None),
        ] {
            assert_eq!(local_path(url.as_bytes()), path.map(str::as_bytes), "{url}");
        }
    }
}
