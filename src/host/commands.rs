//! Finds the files that the words of a command name. The commands are settings of git and agents.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{FileKind, Host, passwd};
use crate::policy::path::AbsPath;

/// The most folders in which the files of one command are searched for. A command changes its
/// directory a few times at most.
const MOST_FOLDERS: usize = 16;
/// The largest number of words of a command that are examined. No command in real settings has
/// more.
const MOST_WORDS: usize = 1000;
/// The most option letters before a file name in one word: `-vvvFfile`.
const MOST_LETTERS: usize = 8;

/// Looks for the files that commands name. Paths that it finds hold no symlinks.
pub(crate) struct CommandSearch<'a, P> {
    pub host: &'a Host,
    /// Returns the unresolved paths that a name may mean. A relative name starts at the folder.
    pub places: P,
    /// Only files below one of these folders count. Relative names start at the first folder.
    pub tops: Vec<&'a AbsPath>,
    /// The symlinks on the way to each path that the search resolved.
    pub links: &'a mut BTreeSet<AbsPath>,
}

/// A file that a command names.
pub(crate) struct NamedFile {
    pub path: AbsPath,
    pub exists: bool,
    /// The whole word is the file's name. It is no option, and a shell expands at most a `~` in
    /// it.
    pub is_plain: bool,
    /// A shell expands nothing in the name, and the name has a slash or is an argument.
    pub is_path: bool,
}

impl<P: Fn(&[u8], &AbsPath) -> Vec<PathBuf>> CommandSearch<'_, P> {
    /// The files that the words of a command name, whether or not they exist.
    ///
    /// A shell reads most commands, and can put a path together in many ways: `sh clean.sh`,
    /// `"$PWD/tools/clean"`, `cd tools && ./clean`. So the part of a word after each slash counts
    /// as a name too, and each name is searched for in every folder that a word names.
    pub(crate) fn files(&mut self, words: &[Vec<u8>]) -> Vec<NamedFile> {
        let mut files = Vec::new();
        let folders = self.folders(words);
        for (number, word) in words.iter().enumerate() {
            for (name, is_whole) in rests(word) {
                let is_path = is_plain(name) && (name.contains(&b'/') || is_whole && number > 0);
                let found: Vec<_> = folders.iter().flat_map(|folder| self.found(name, folder)).collect();
                for (path, kind) in found {
                    let exists = kind == Some(FileKind::File);
                    let is_plain = is_whole && is_plain(name.strip_prefix(b"~").unwrap_or(name));
                    if exists || kind.is_none() {
                        files.push(NamedFile { path, exists, is_plain, is_path });
                    }
                }
            }
        }
        files
    }

    /// The first top, and the folders that `words` name. A command may name a folder after a file
    /// in it, so all folders are found before the files.
    fn folders(&mut self, words: &[Vec<u8>]) -> Vec<AbsPath> {
        let mut folders: Vec<AbsPath> = self.tops.first().into_iter().map(|top| (*top).clone()).collect();
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

    /// The paths below the tops that `name` can mean from `folder`, and the kind of file at each.
    fn found(&mut self, name: &[u8], folder: &AbsPath) -> Vec<(AbsPath, Option<FileKind>)> {
        let paths = self.paths(name, folder);
        let paths = paths.into_iter().filter(|path| self.tops.iter().any(|top| path.is_below(top)));
        let kind = |path: &AbsPath| self.host.noting_closed(path.as_path(), self.host.kind(path));
        paths.filter_map(|path| kind(&path).ok().map(|kind| (path.clone(), kind))).collect()
    }

    /// The resolved paths that a value can mean.
    pub(crate) fn paths(&mut self, value: &[u8], from: &AbsPath) -> Vec<AbsPath> {
        let places = (self.places)(value, from);
        places.iter().filter_map(|place| self.resolve(place)).collect()
    }

    pub(crate) fn resolve(&mut self, place: &Path) -> Option<AbsPath> {
        let found = self.host.noting_closed(place, self.host.resolve(place)).ok()?;
        self.links.extend(found.links);
        Some(found.path)
    }
}

/// The unresolved paths that `value` may mean. `~/` and `~name/` are homes, and a relative path
/// starts at `from`.
pub(crate) fn places(host: &Host, home: &AbsPath, value: &[u8], from: &AbsPath) -> Vec<PathBuf> {
    let under = |folder: &AbsPath, rest: &[u8]| folder.as_path().join(OsStr::from_bytes(rest));
    let Some(named) = value.strip_prefix(b"~") else {
        return if value.is_empty() { Vec::new() } else { vec![under(from, value)] };
    };
    let end = named.iter().position(|byte| *byte == b'/').unwrap_or(named.len());
    let (name, rest) = named.split_at(end);
    let rest = rest.strip_prefix(b"/").unwrap_or(rest);
    if name.is_empty() {
        return vec![under(home, rest)];
    }
    // A directory service may know users that are not in `/etc/passwd`.
    let beside = home.parent().map(|around| around.child(OsStr::from_bytes(name)));
    passwd::home_of(host, |fields| fields[0] == name).into_iter().chain(beside).map(|home| under(&home, rest)).collect()
}

/// The words of a command. The command is split at every character that is special to a shell, and
/// once more by the shell's rules for quotes, because a file name may have blanks.
pub(crate) fn words_of(command: &[u8]) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    for special in [&b"\"'`!;|&()<>="[..], b"\"'`!;|&()<>=:,@{}[]"] {
        let ends = |byte: &u8| byte.is_ascii_whitespace() || special.contains(byte);
        words.extend(command.split(ends).map(<[u8]>::to_vec));
    }
    let mut quoted = vec![String::from_utf8_lossy(command).into_owned()];
    // The quotes of `sh -c '…'` hold a command, which may itself quote another command.
    for _ in 0..2 {
        quoted = quoted.iter().flat_map(|text| shell_words::split(text).unwrap_or_default()).collect();
        words.extend(quoted.iter().map(|word| word.clone().into_bytes()));
    }
    distinct(words)
}

/// The words without empty and repeated ones, up to a limit.
pub(crate) fn distinct(mut words: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut seen = BTreeSet::new();
    words.retain(|word| !word.is_empty() && seen.insert(word.clone()));
    words.truncate(MOST_WORDS);
    words
}

/// The word itself, the part after each slash, and the part after each of the first letters of an
/// option (`-Ffile`, `-vvFfile`). The flag says whether the part is the whole word.
fn rests(word: &[u8]) -> impl Iterator<Item = (&[u8], bool)> {
    let slashes = word.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at + 1);
    let letters = if word.starts_with(b"-") { 2..MOST_LETTERS.min(word.len()) } else { 0..0 };
    let rests = slashes.chain(letters).map(|start| (&word[start..], false)).filter(|(rest, _)| !rest.is_empty());
    [(word, true)].into_iter().chain(rests)
}

/// Whether `name` is no option and has nothing that a shell expands.
fn is_plain(name: &[u8]) -> bool {
    !name.starts_with(b"-") && !name.iter().any(|byte| b"$%*?\\~".contains(byte) || byte.is_ascii_whitespace())
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
