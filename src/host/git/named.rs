//! Files and folders that git's settings name, and that git then runs or obeys: hook folders,
//! included settings, programs, and repositories to which git pushes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::config::{self, ConfigEntry};
use super::scopes::Scopes;
use super::{Repository, read_settings, remote};
use crate::host::Host;
use crate::host::commands::{CommandSearch, words_of};
use crate::policy::path::AbsPath;

/// The named paths. They hold no symlinks, and need not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// `core.hooksPath` and `init.templateDir`: folders.
    pub hooks: BTreeSet<AbsPath>,
    /// The files of `include.path` and `includeIf.….path`, with any condition.
    pub included: BTreeSet<AbsPath>,
    /// The common directories of remotes that are repositories on this machine. `git push` runs
    /// their hooks.
    pub remotes: BTreeSet<AbsPath>,
    /// Files in the work tree that are part of a command.
    pub programs: BTreeSet<AbsPath>,
    /// The symlinks on the way to all of these. No mount can protect a symlink from replacement.
    pub links: BTreeSet<AbsPath>,
}

/// Collects the paths that the settings of each repository and of all other scopes name. Relative
/// paths start at the work tree of the repository.
pub fn named(host: &Host, repositories: &[Repository], scopes: &Scopes) -> Named {
    let mut named = Named::default();
    for repository in repositories {
        let top = &repository.work_tree;
        let mut search =
            SettingsSearch { host, top, scopes, named: &mut named, read: BTreeSet::new(), waiting: Vec::new() };
        let own = [repository.common_dir.child("config"), repository.git_dir.child("config.worktree")];
        for file in scopes.files.iter().chain(&own) {
            search.waiting.push((file.clone(), file.parent().unwrap_or_else(AbsPath::root)));
        }
        for entry in &scopes.entries {
            search.entry(entry, &AbsPath::root());
        }
        search.read();
        for command in &scopes.commands {
            search.command(command);
        }
        for folder in &scopes.folders {
            search.folder(folder);
        }
    }
    named
}

struct SettingsSearch<'a> {
    host: &'a Host,
    top: &'a AbsPath,
    scopes: &'a Scopes,
    named: &'a mut Named,
    /// Files that were read for this work tree, each with the folder of its path as spelled.
    read: BTreeSet<(AbsPath, AbsPath)>,
    /// Files that must still be read, with the folders of their paths as spelled.
    waiting: Vec<(AbsPath, AbsPath)>,
}

impl SettingsSearch<'_> {
    /// Reads all waiting files. Settings that cannot be parsed name nothing, because git refuses
    /// them. The host records files that the caller owns but may not read.
    fn read(&mut self) {
        while let Some((file, folder)) = self.waiting.pop() {
            if !self.read.insert((file.clone(), folder.clone())) {
                continue;
            }
            let text = self.host.noting_closed(file.as_path(), read_settings(self.host, &file));
            let text = text.ok().flatten().unwrap_or_default();
            for entry in config::entries(&text).unwrap_or_default() {
                self.entry(&entry, &folder);
            }
        }
    }

    /// Adds the paths that `entry` names. A relative path of an include starts at `folder`, the
    /// folder of the settings file before symlinks are followed.
    fn entry(&mut self, entry: &ConfigEntry, folder: &AbsPath) {
        if remote::is_url(entry)
            && let Some(path) = remote::local_path(&entry.value)
        {
            // git also tries names with `.git`.
            let places = [path.to_vec(), [path, b".git"].concat()];
            let folders: Vec<AbsPath> = places.iter().flat_map(|place| self.paths(place, self.top)).collect();
            let found = folders.iter().filter_map(|folder| remote::common_dir(self.host, folder));
            self.named.remotes.extend(found);
        }
        if entry.is("core", "hookspath") || entry.is("init", "templatedir") {
            self.folder(&entry.value);
        } else if entry.is_listed(&entry.section, &[("include", "path"), ("includeif", "path")]) {
            for place in self.scopes.places(self.host, &entry.value, folder) {
                let Some(included) = self.resolve(&place) else { continue };
                let around = place.parent().and_then(|around| self.resolve(around));
                self.named.included.insert(included.clone());
                self.waiting.push((included, around.unwrap_or_else(AbsPath::root)));
            }
        } else if may_name_program(entry) {
            self.command(&entry.value);
            // `url.ext::COMMAND.insteadOf`
            if let Some(url) = entry.subsection.as_deref().filter(|name| config::runs_helper(name)) {
                self.command(url);
            }
        }
    }

    fn folder(&mut self, value: &[u8]) {
        let folders = self.paths(value, self.top);
        self.named.hooks.extend(folders);
    }

    /// Adds the files in the work tree that the words of a command name. A missing file counts if
    /// its name has a slash or is an argument.
    fn command(&mut self, command: &[u8]) {
        let files = self.search().files(&words_of(command));
        let files = files.into_iter().filter(|file| file.exists || file.is_path);
        self.named.programs.extend(files.map(|file| file.path));
    }

    fn search(&mut self) -> CommandSearch<'_, impl Fn(&[u8], &AbsPath) -> Vec<PathBuf>> {
        let (host, scopes) = (self.host, self.scopes);
        let places = |value: &[u8], from: &AbsPath| scopes.places(host, value, from);
        CommandSearch { host, places, tops: vec![self.top], links: &mut self.named.links }
    }

    /// The resolved paths that a value can mean.
    fn paths(&mut self, value: &[u8], from: &AbsPath) -> Vec<AbsPath> {
        self.search().paths(value, from)
    }

    fn resolve(&mut self, place: &Path) -> Option<AbsPath> {
        self.search().resolve(place)
    }
}

/// Sections whose commands the user calls by name, and sections without commands.
const NOT_RUN: [&str; 7] = ["alias", "difftool", "mergetool", "guitool", "advice", "color", "safe"];

/// Treats every setting as a possible command, unless it is known to be harmless: git and its
/// helpers keep adding settings.
fn may_name_program(entry: &ConfigEntry) -> bool {
    let section = entry.section.split('.').next().unwrap_or_default();
    let is_run = !NOT_RUN.iter().any(|known| section.eq_ignore_ascii_case(known));
    is_run && !entry.names_no_program(section)
}
