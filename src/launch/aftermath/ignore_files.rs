//! Files `.gitignore` that hide themselves and other files from `git status`, and that git does not
//! track. Tools write such a file into folders of their own that begin with a dot (`.venv`,
//! `.pytest_cache`), which are left out.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;

use crate::compile::resolve::TrackedFiles;
use crate::diagnostic::{Code, Diagnostic};
use crate::host::Host;
use crate::host::git::ignore::hides_itself;
use crate::policy::path::AbsPath;
use crate::policy::sha256;

use super::folders::Folders;
use super::held::{self, Held};
use super::nested::Changeable;
use super::overlap::Facts;

/// A larger file counts as one that hides itself.
const LARGEST: u64 = 64 << 10;
/// The number of files in one sentence.
const MOST_NAMED: usize = 5;

pub(super) struct IgnoreFilesWatch {
    root: AbsPath,
    /// The files that hid themselves at the start, each with the hash of its content.
    known: BTreeMap<AbsPath, String>,
    /// Whether not all files were read at the start.
    has_more: bool,
}

impl IgnoreFilesWatch {
    pub(super) fn start(host: &Host, root: &AbsPath, folders: &Folders) -> Self {
        Self { root: root.clone(), known: search(host, root, folders), has_more: folders.has_more_ignore_files }
    }

    pub(super) fn facts(&mut self, facts: &mut Facts<'_>) {
        self.known.retain(|file, hash| facts.keep("ignore file", file, &*hash));
    }

    /// Reports the files that are new or changed since the start.
    pub(super) fn finish(&self, now: &Folders, could_be_changed: Changeable, held: &mut Held) {
        let mut tracked = TrackedFiles::new(held.host);
        let found = search(held.host, &self.root, now).into_iter();
        let new = found.filter(|(file, hash)| self.known.get(file) != Some(hash) && could_be_changed(file));
        let new: Vec<AbsPath> = new.map(|(file, _)| file).filter(|file| !tracked.names(file)).collect();
        if now.has_more_ignore_files && !self.has_more {
            let message = format!("since this run `{}` has more files `.gitignore` than can be examined", self.root);
            let help = "`git status --ignored` shows the files that git hides";
            held.said.push(Diagnostic::new(Code::HiddenFromGit, message).paths([self.root.clone()]).help(help));
        }
        if new.is_empty() {
            return;
        }
        let names = new.iter().map(|file| format!("`{}`", super::name_in(&self.root, file))).collect();
        let names = held::shortened(names, MOST_NAMED);
        let message = format!("since this run git shows neither {names} nor new files that match its lines");
        let help = "`git status --ignored` shows them; remove the file if it is not yours";
        held.said.push(Diagnostic::new(Code::HiddenFromGit, message).paths(new).help(help));
    }
}

/// The files that hide themselves, with the hashes of their content. A file that cannot be read has
/// an empty hash.
fn search(host: &Host, root: &AbsPath, folders: &Folders) -> BTreeMap<AbsPath, String> {
    let is_of_tool = |file: &AbsPath| {
        let folder = file.parent().unwrap_or_else(AbsPath::root);
        let names = folder.relative_to(root).map(|names| names.as_os_str().as_bytes().to_vec()).unwrap_or_default();
        names.split(|byte| *byte == b'/').any(|name| name.starts_with(b"."))
    };
    let files = folders.ignore_files.iter().filter(|file| !is_of_tool(file));
    let hiding = files.filter_map(|file| match host.read_regular(file, LARGEST) {
        Ok(Some(text)) => hides_itself(&text).then(|| (file.clone(), sha256(&text))),
        Ok(None) => None,
        Err(_) => Some((file.clone(), String::new())),
    });
    hiding.collect()
}
