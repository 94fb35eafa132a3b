//! Files and folders in a work tree that git's settings name, and that git then runs or obeys: hook
//! folders, included settings, and programs.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::config::{self, ConfigEntry};
use super::{Repository, read_small};
use crate::host::{FileKind, Host};
use crate::policy::path::AbsPath;

/// git gives up at the same depth.
const MAX_DEPTH: usize = 10;

/// Paths that hold no symlinks, and need not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// `core.hooksPath`: folders.
    pub hooks: BTreeSet<AbsPath>,
    /// `include.path` and `includeIf.….path`, whatever the condition: files.
    pub included: BTreeSet<AbsPath>,
    /// Files that are part of a command which git runs by itself. These exist.
    pub programs: BTreeSet<AbsPath>,
}

/// Collects the paths that the settings of each repository name. Relative paths start at its work
/// tree. `user_files` are the user's own settings, which may name a hook folder in every work tree.
pub fn named(host: &Host, repositories: &[Repository], home: &AbsPath, user_files: &[AbsPath]) -> Named {
    let mut named = Named::default();
    for repository in repositories {
        let top = &repository.work_tree;
        let mut search = SettingsSearch { host, top, home, named: &mut named, read: BTreeSet::new() };
        let own = [repository.common_dir.child("config"), repository.git_dir.child("config.worktree")];
        for file in user_files.iter().chain(&own) {
            search.read(file, MAX_DEPTH);
        }
    }
    named
}

struct SettingsSearch<'a> {
    host: &'a Host,
    top: &'a AbsPath,
    home: &'a AbsPath,
    named: &'a mut Named,
    /// Included files that were read for this work tree.
    read: BTreeSet<AbsPath>,
}

impl SettingsSearch<'_> {
    /// Settings that cannot be read or parsed name nothing: git refuses them as well.
    fn read(&mut self, file: &AbsPath, depth: usize) {
        let text = read_small(self.host, file).ok().flatten().unwrap_or_default();
        for entry in config::entries(&text).unwrap_or_default() {
            if entry.is("core", "hookspath") {
                self.named.hooks.extend(self.path(&entry.value, self.top));
            } else if entry.is_listed(&entry.section, &[("include", "path"), ("includeif", "path")]) {
                let folder = file.parent().unwrap_or_else(AbsPath::root);
                let Some(included) = self.path(&entry.value, &folder) else { continue };
                if depth > 0 && self.read.insert(included.clone()) {
                    self.named.included.insert(included.clone());
                    self.read(&included, depth - 1);
                }
            } else if is_command(&entry) {
                let programs = self.programs(&entry.value);
                self.named.programs.extend(programs);
            }
        }
    }

    /// The files in the work tree that the words of a command name. A shell reads most of these
    /// commands, and `sh ./tools/clean` runs the file as `./tools/clean` does. A word without a
    /// slash is looked up in the PATH, or is no path.
    fn programs(&self, command: &[u8]) -> Vec<AbsPath> {
        let ends = |byte: &u8| byte.is_ascii_whitespace() || b"\"'!;|&()<>=".contains(byte);
        let words = command.split(ends).filter(|word| word.contains(&b'/'));
        let in_tree = words.filter_map(|word| self.path(word, self.top)).filter(|path| path.is_below(self.top));
        let kind = |path: &AbsPath| self.host.noting_closed(path.as_path(), self.host.kind(path));
        in_tree.filter(|path| matches!(kind(path), Ok(Some(FileKind::File)))).collect()
    }

    /// The resolved path in a value. `~/` is the home, as for git.
    fn path(&self, value: &[u8], from: &AbsPath) -> Option<AbsPath> {
        let path = match value {
            [] => return None,
            [b'~', b'/', rest @ ..] => self.home.as_path().join(OsStr::from_bytes(rest)),
            value => from.as_path().join(OsStr::from_bytes(value)),
        };
        self.host.noting_closed(&path, self.host.resolve(&path)).ok().map(|resolved| resolved.path)
    }
}

/// Settings that git runs during everyday work (`status`, `add`, `commit`, `fetch`, `log`), or to
/// process the output of it. Each key in `pager` is one as well.
const COMMANDS: [(&str, &str); 9] = [
    ("core", "fsmonitor sshcommand editor pager askpass gitproxy alternaterefscommand"),
    ("filter", "clean smudge process"),
    ("diff", "textconv command external"),
    ("merge", "driver"),
    ("gpg", "program defaultkeycommand"),
    ("credential", "helper"),
    ("sequence", "editor"),
    ("interactive", "difffilter"),
    ("remote", "uploadpack receivepack"),
];

fn is_command(entry: &ConfigEntry) -> bool {
    let section = entry.section.split('.').next().unwrap_or_default();
    section.eq_ignore_ascii_case("pager") || entry.is_listed(section, &COMMANDS)
}
