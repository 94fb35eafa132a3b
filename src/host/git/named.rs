//! What a repository's settings name in its work tree, and git then runs or obeys: hooks that are kept there, included settings,
//! and programs.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{Repository, config, read_config};
use crate::host::{FileKind, Host};
use crate::policy::path::AbsPath;

/// git gives up at the same depth.
const MAX_DEPTH: usize = 10;

/// Paths that hold no symlinks, and need not exist. Sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// `core.hooksPath`: folders.
    pub hooks: Vec<AbsPath>,
    /// `include.path` and `includeIf.….path`, whatever the condition: files.
    pub included: Vec<AbsPath>,
    /// Files that stand in a command which git runs by itself. These exist.
    pub programs: Vec<AbsPath>,
}

/// Of each repository and its work tree, where relative paths start. `users` are the user's own settings: they may keep hooks in
/// every work tree.
pub fn named(host: &Host, repositories: &[(Repository, AbsPath)], home: &AbsPath, users: &[AbsPath]) -> Named {
    let mut all = Named::default();
    for (repository, top) in repositories {
        let mut search = Search { host, top, home, found: Named::default() };
        for file in users {
            search.read(file, MAX_DEPTH);
        }
        for file in [repository.common_dir.child("config"), repository.git_dir.child("config.worktree")] {
            search.read(&file, MAX_DEPTH);
        }
        let Named { hooks, included, programs } = search.found;
        all.hooks.extend(hooks);
        all.included.extend(included);
        all.programs.extend(programs);
    }
    for paths in [&mut all.hooks, &mut all.included, &mut all.programs] {
        paths.sort();
        paths.dedup();
    }
    all
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
            } else if is_command(&section, &name) {
                let programs = self.programs(&value);
                self.found.programs.extend(programs);
            }
        }
    }

    /// The files in the work tree that the words of a command name. A shell reads most of these commands, and `sh ./tools/clean`
    /// runs the file as much as `./tools/clean` does. A word without a slash is looked for on the PATH, or means nothing to us.
    fn programs(&self, command: &[u8]) -> Vec<AbsPath> {
        let ends = |byte: &u8| byte.is_ascii_whitespace() || b"\"'!;|&()<>=".contains(byte);
        let words = command.split(ends).filter(|word| word.contains(&b'/'));
        let in_tree = words.filter_map(|word| self.path(word, self.top)).filter(|path| path.is_below(self.top));
        let kind = |path: &AbsPath| self.host.noting_closed(path.as_path(), self.host.kind(path));
        in_tree.filter(|path| matches!(kind(path), Ok(Some(FileKind::File)))).collect()
    }

    /// Where a value leads. `~/` is the home, as for git.
    fn path(&self, value: &[u8], from: &AbsPath) -> Option<AbsPath> {
        let path = match value {
            [] => return None,
            [b'~', b'/', rest @ ..] => self.home.as_path().join(OsStr::from_bytes(rest)),
            value => from.as_path().join(Path::new(OsStr::from_bytes(value))),
        };
        self.host.noting_closed(&path, self.host.resolve(&path)).ok().map(|resolved| resolved.path)
    }
}

/// `[include]`, or `[includeIf "gitdir:…"]`, which the reader returns with its condition.
fn is_include(section: &[u8]) -> bool {
    let name = section.split(|byte| *byte == b' ' || *byte == b'"').next().unwrap_or_default();
    name.eq_ignore_ascii_case(b"include") || name.eq_ignore_ascii_case(b"includeif")
}

/// Whether git runs the value without being asked for it by name: by what everybody does all day (`status`, `add`, `commit`,
/// `fetch`, `log`), or for what comes out of it.
fn is_command(section: &[u8], name: &[u8]) -> bool {
    let section = section.to_ascii_lowercase();
    let section = section.split(|byte| matches!(byte, b' ' | b'"' | b'.')).next().unwrap_or_default();
    let name = name.to_ascii_lowercase();
    match section {
        b"core" => matches!(
            name.as_slice(),
            b"fsmonitor" | b"sshcommand" | b"editor" | b"pager" | b"askpass" | b"gitproxy" | b"alternaterefscommand"
        ),
        b"filter" => matches!(name.as_slice(), b"clean" | b"smudge" | b"process"),
        b"diff" => matches!(name.as_slice(), b"textconv" | b"command" | b"external"),
        b"merge" => name == b"driver",
        b"gpg" => matches!(name.as_slice(), b"program" | b"defaultkeycommand"),
        b"credential" => name == b"helper",
        b"sequence" => name == b"editor",
        b"interactive" => name == b"difffilter",
        b"pager" => true,
        b"remote" => matches!(name.as_slice(), b"uploadpack" | b"receivepack"),
        _ => false,
    }
}
