//! Files and folders that git's settings name, and that git then runs or obeys: hook folders,
//! included settings, and programs.

use std::collections::BTreeSet;
use std::path::Path;

use super::config::{self, ConfigEntry};
use super::scopes::Scopes;
use super::{Repository, read_settings};
use crate::host::{FileKind, Host};
use crate::policy::path::AbsPath;

/// A command changes its directory a few times at most.
const MOST_FOLDERS: usize = 16;
/// No command in settings has so many words; the others are not looked at.
const MOST_WORDS: usize = 1000;
/// A file may follow the letters of several options: `-vvvFfile`.
const MOST_LETTERS: usize = 8;

/// Paths that hold no symlinks, and need not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// `core.hooksPath` and `init.templateDir`: folders.
    pub hooks: BTreeSet<AbsPath>,
    /// `include.path` and `includeIf.….path`, whatever the condition: files.
    pub included: BTreeSet<AbsPath>,
    /// Files in the work tree that are part of a command.
    pub programs: BTreeSet<AbsPath>,
    /// The symlinks on the way to all of these. No mount keeps a symlink in its place.
    pub links: BTreeSet<AbsPath>,
}

/// Collects the paths that the settings of each repository name, and those of all other scopes.
/// Relative paths start at its work tree.
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
    /// Files that were read for this work tree, and the folders of their spelled paths.
    read: BTreeSet<(AbsPath, AbsPath)>,
    /// Files that are still to be read.
    waiting: Vec<(AbsPath, AbsPath)>,
}

impl SettingsSearch<'_> {
    /// Reads all files that wait. Settings that cannot be read or parsed name nothing: git refuses
    /// them as well.
    fn read(&mut self) {
        while let Some((file, folder)) = self.waiting.pop() {
            if !self.read.insert((file.clone(), folder.clone())) {
                continue;
            }
            let text = read_settings(self.host, &file).ok().flatten().unwrap_or_default();
            for entry in config::entries(&text).unwrap_or_default() {
                self.entry(&entry, &folder);
            }
        }
    }

    /// A relative path of an include starts at `folder`, where the file was found, and not where a
    /// symlink led from there.
    fn entry(&mut self, entry: &ConfigEntry, folder: &AbsPath) {
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

    /// Adds the files in the work tree that the words of a command name.
    ///
    /// A shell reads most commands, and can put a path together in many ways: `sh clean.sh`,
    /// `"$PWD/tools/clean"`, `cd tools && ./clean`. So the rest of a word after each slash counts
    /// as well, and each folder that a word names is one in which the other words are looked for.
    /// A missing file counts if its name has a slash or is an argument.
    fn command(&mut self, command: &[u8]) {
        let words = words_of(command);
        let folders = self.folders(&words);
        for (number, word) in words.iter().enumerate() {
            for (name, is_whole) in rests(word) {
                let is_path = is_plain(name) && (name.contains(&b'/') || is_whole && number > 0);
                let found: Vec<_> = folders.iter().flat_map(|folder| self.found(name, folder)).collect();
                for (path, kind) in found {
                    if kind == Some(FileKind::File) || kind.is_none() && is_path {
                        self.named.programs.insert(path);
                    }
                }
            }
        }
    }

    /// The top of the work tree, and the folders in it that `words` name. A folder may be named
    /// behind a file that is in it, so all of them are found first.
    fn folders(&mut self, words: &[Vec<u8>]) -> Vec<AbsPath> {
        let mut folders = vec![self.top.clone()];
        let mut next = 0;
        while let Some(folder) = folders.get(next).cloned() {
            next += 1;
            for (name, _) in words.iter().flat_map(|word| rests(word)) {
                for (path, kind) in self.found(name, &folder) {
                    let is_new = kind == Some(FileKind::Directory) && !folders.contains(&path);
                    if is_new && folders.len() < MOST_FOLDERS {
                        folders.push(path);
                    }
                }
            }
        }
        folders
    }

    /// The paths below the work tree that `name` can mean from `folder`, and what is there.
    fn found(&mut self, name: &[u8], folder: &AbsPath) -> Vec<(AbsPath, Option<FileKind>)> {
        let paths = self.paths(name, folder).into_iter().filter(|path| path.is_below(self.top));
        let kind = |path: &AbsPath| self.host.noting_closed(path.as_path(), self.host.kind(path));
        paths.filter_map(|path| kind(&path).ok().map(|kind| (path.clone(), kind))).collect()
    }

    /// The resolved paths that a value can mean.
    fn paths(&mut self, value: &[u8], from: &AbsPath) -> Vec<AbsPath> {
        let places = self.scopes.places(self.host, value, from);
        places.iter().filter_map(|place| self.resolve(place)).collect()
    }

    fn resolve(&mut self, place: &Path) -> Option<AbsPath> {
        let found = self.host.noting_closed(place, self.host.resolve(place)).ok()?;
        self.named.links.extend(found.links);
        Some(found.path)
    }
}

/// The words of a command, in order: split at everything that is special to a shell, and also as a
/// shell reads quotes, for a name with blanks.
fn words_of(command: &[u8]) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    for special in [&b"\"'`!;|&()<>="[..], b"\"'`!;|&()<>=:,@{}[]"] {
        let ends = |byte: &u8| byte.is_ascii_whitespace() || special.contains(byte);
        words.extend(command.split(ends).map(<[u8]>::to_vec));
    }
    let mut quoted = vec![String::from_utf8_lossy(command).into_owned()];
    // `sh -c '…'` holds a command in quotes, which may hold one more.
    for _ in 0..2 {
        quoted = quoted.iter().flat_map(|text| shell_words::split(text).unwrap_or_default()).collect();
        words.extend(quoted.iter().map(|word| word.clone().into_bytes()));
    }
    let mut seen = BTreeSet::new();
    words.retain(|word| !word.is_empty() && seen.insert(word.clone()));
    words.truncate(MOST_WORDS);
    words
}

/// A word, what follows each of its slashes, and what follows each of the first letters of an
/// option (`-Ffile`, `-vvFfile`); and whether it is the whole word.
fn rests(word: &[u8]) -> impl Iterator<Item = (&[u8], bool)> {
    let slashes = word.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at + 1);
    let letters = if word.starts_with(b"-") { 2..MOST_LETTERS.min(word.len()) } else { 0..0 };
    let rests = slashes.chain(letters).map(|start| (&word[start..], false)).filter(|(rest, _)| !rest.is_empty());
    [(word, true)].into_iter().chain(rests)
}

/// Whether a word can be the name of a file as it is written.
fn is_plain(name: &[u8]) -> bool {
    !name.starts_with(b"-") && !name.iter().any(|byte| b"$%*?\\~".contains(byte) || byte.is_ascii_whitespace())
}

/// Sections whose commands the user calls by name, and sections without commands.
const NOT_RUN: [&str; 7] = ["alias", "difftool", "mergetool", "guitool", "advice", "color", "safe"];

/// Every setting that is not known to name no program may be a command: git and its helpers get
/// new ones.
fn may_name_program(entry: &ConfigEntry) -> bool {
    let section = entry.section.split('.').next().unwrap_or_default();
    let is_run = !NOT_RUN.iter().any(|known| section.eq_ignore_ascii_case(known));
    is_run && !entry.names_no_program(section)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_split_as_a_shell_could_read_it() {
        let words = |command: &str| -> Vec<String> {
            words_of(command.as_bytes()).iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
        };
        let has =
            |command: &str, word: &str| assert!(words(command).contains(&word.to_owned()), "{:?}", words(command));
        has("sh clean.sh", "clean.sh");
        has("\"$(git rev-parse --show-toplevel)/t/clean\"", "/t/clean");
        has("PATH=t/bin:$PATH clean", "t/bin");
        has("sh -c 'cd \"my tools\" && ./clean'", "my tools");
        has(r"my\ tools/clean %f", "my tools/clean");
        let of = |word: &'static str| -> Vec<_> { rests(word.as_bytes()).map(|(rest, _)| rest).collect() };
        assert_eq!(of("$PWD/t/clean"), [&b"$PWD/t/clean"[..], b"t/clean", b"clean"]);
        assert_eq!(of("-Ft/x"), [&b"-Ft/x"[..], b"x", b"t/x", b"/x", b"x"]);
        assert_eq!(of("-f"), [b"-f"]);
    }
}
