//! What a repository's settings name in its work tree, and git then runs or obeys: hooks that are kept there, and included settings.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{Repository, config, read_config};
use crate::host::Host;
use crate::path::AbsPath;

/// git gives up at the same depth.
const MAX_DEPTH: usize = 10;

/// Paths that hold no symlinks, and need not exist. Sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// `core.hooksPath`: folders.
    pub hooks: Vec<AbsPath>,
    /// `include.path` and `includeIf.….path`, whatever the condition: files.
    pub included: Vec<AbsPath>,
}

/// `top` is the work tree, where relative hooks start. `users` are the user's own settings: they may keep hooks in every work tree.
pub fn named(host: &Host, repository: &Repository, top: &AbsPath, home: &AbsPath, users: &[AbsPath]) -> Named {
    let mut search = Search { host, top, home, found: Named::default() };
    for file in users {
        search.read(file, MAX_DEPTH);
    }
    for file in [repository.common_dir.child("config"), repository.git_dir.child("config.worktree")] {
        search.read(&file, MAX_DEPTH);
    }
    let Named { mut hooks, mut included } = search.found;
    hooks.sort();
    hooks.dedup();
    included.sort();
    included.dedup();
    Named { hooks, included }
}

struct Search<'a> {
    host: &'a Host,
    top: &'a AbsPath,
    home: &'a AbsPath,
    found: Named,
}

impl Search<'_> {
    /// Settings that cannot be read or parsed name nothing: git refuses them as well.
    fn read(&mut self, file: &AbsPath, depth: usize) {
        let Some(entries) = read_config(self.host, file).ok().and_then(|text| config::entries(&text).ok()) else {
            return;
        };
        for config::Entry { section, name, value } in entries {
            let is = |wanted: &str| name.eq_ignore_ascii_case(wanted.as_bytes());
            if section.eq_ignore_ascii_case(b"core") && is("hookspath") {
                let hooks = self.path(&value, self.top);
                self.found.hooks.extend(hooks);
            } else if is_include(&section) && is("path") {
                let folder = file.parent().unwrap_or_else(AbsPath::root);
                let Some(included) = self.path(&value, &folder) else { continue };
                if depth > 0 && !self.found.included.contains(&included) {
                    self.found.included.push(included.clone());
                    self.read(&included, depth - 1);
                }
            }
        }
    }

    /// Where a value leads. `~/` is the home, as for git.
    fn path(&self, value: &[u8], from: &AbsPath) -> Option<AbsPath> {
        let path = match value {
            [] => return None,
            [b'~', b'/', rest @ ..] => self.home.as_path().join(OsStr::from_bytes(rest)),
            value => from.as_path().join(Path::new(OsStr::from_bytes(value))),
        };
        self.host.resolve(&path).ok().map(|resolved| resolved.path)
    }
}

/// `[include]`, or `[includeIf "gitdir:…"]`, which the reader returns with its condition.
fn is_include(section: &[u8]) -> bool {
    let name = section.split(|byte| *byte == b' ' || *byte == b'"').next().unwrap_or_default();
    name.eq_ignore_ascii_case(b"include") || name.eq_ignore_ascii_case(b"includeif")
}
