//! Repositories that git on the host would enter by itself, and that were not there at the start: no mount could keep them from being
//! planted. One that names programs is moved aside, because the next prompt of a shell may run `git status` before anybody has
//! read a warning.

use std::io;

use rustix::fs::{AtFlags, renameat, statat};

use crate::diagnostic::{Code, Diagnostic, Diagnostics, listed, reason};
use crate::host::Host;
use crate::layers::git::nested::{self, Form, FoundBy};
use crate::layers::git::{Nested, NestedRepositories, Repository, config, read_config, read_path};
use crate::path::{AbsPath, shown};

use crate::unfollowed::open_folder;

/// No more than this many settings in one sentence.
const MOST_NAMED: usize = 5;

/// Settings that git and its own commands write into a new repository, and that can name no program. By section.
const HARMLESS: [(&str, &[&str]); 7] = [
    (
        "core",
        &[
            "repositoryformatversion",
            "filemode",
            "bare",
            "logallrefupdates",
            "ignorecase",
            "precomposeunicode",
            "symlinks",
            "worktree",
            "autocrlf",
            "eol",
            "sparsecheckout",
            "sparsecheckoutcone",
        ],
    ),
    ("remote", &["url", "pushurl", "fetch", "tagopt"]),
    ("branch", &["remote", "merge", "rebase", "description"]),
    ("submodule", &["url", "active", "branch"]),
    ("user", &["name", "email"]),
    ("init", &["defaultbranch"]),
    ("extensions", &["objectformat"]),
];

pub(super) struct NestedWatch {
    root: AbsPath,
    repository: Option<(Repository, AbsPath)>,
    /// What mounts protect.
    known: NestedRepositories,
}

impl NestedWatch {
    /// `repository` is that of the project, with its work tree.
    pub(super) fn new(root: &AbsPath, repository: Option<(Repository, AbsPath)>, known: &NestedRepositories) -> Self {
        Self { root: root.clone(), repository, known: known.clone() }
    }

    /// `can_be_written` by the command: what it could not plant it has not planted.
    pub(super) fn finish(&self, host: &Host, can_be_written: impl Fn(&AbsPath) -> bool, said: &mut Diagnostics) {
        let repository = self.repository.as_ref().map(|(repository, top)| (repository, top));
        let now = nested::nested(host, &self.root, repository);
        let is_unclear = |git_dir: &AbsPath| now.unclear.contains(git_dir) && !self.known.unclear.contains(git_dir);
        let main = self.repository.iter().map(|(repository, _)| repository.git_dir.clone());
        let worktrees = now.found.iter().filter(|found| found.found_by != FoundBy::Index);
        for git_dir in main.chain(worktrees.map(|found| found.git_dir.clone())) {
            let index = git_dir.child("index");
            if is_unclear(&git_dir) && can_be_written(&index) {
                said.push(hold_index(host, &index));
            }
        }
        for found in now.found.iter().filter(|found| found.found_by == FoundBy::Index) {
            let mut doubts = Vec::new();
            if !self.known.found.contains(found) {
                doubts = doubts_about(host, found);
            }
            if is_unclear(&found.git_dir) {
                doubts.push("an index that cannot be understood".to_owned());
            }
            if !doubts.is_empty() && can_be_written(&found.folder.child(".git")) {
                said.push(self.hold_repository(host, &found.folder, doubts));
            }
        }
    }

    fn hold_repository(&self, host: &Host, folder: &AbsPath, mut doubts: Vec<String>) -> Diagnostic {
        let more = doubts.len().saturating_sub(MOST_NAMED);
        doubts.truncate(MOST_NAMED);
        if more > 0 {
            doubts.push(format!("{more} more"));
        }
        let has = listed(doubts.into_iter(), "and");
        let dot_git = folder.child(".git");
        let name = match folder.relative_to(&self.root) {
            Some(relative) => shown(relative.as_os_str()),
            None => folder.to_string(),
        };
        let begin = format!("git would enter `{name}`, which is a repository since this run, and has {has}");
        match move_aside(host, folder, ".git") {
            Ok(held) => Diagnostic::new(Code::PlantedRepository, format!("{begin}; moved aside: `{dot_git}` is `{held}` now"))
                .help("look at it, and move it back if it is right; `git update-index --force-remove` forgets that there is one"),
            Err(e) => {
                let message = format!("{begin}; `{dot_git}` cannot be moved aside: {}", reason(&e));
                Diagnostic::new(Code::PlantedRepository, message)
                    .help("remove it before you use git in this project: `git status` is enough to run what it names")
            }
        }
    }
}

fn hold_index(host: &Host, index: &AbsPath) -> Diagnostic {
    let begin = format!("since this run nobody can tell what submodules `{index}` names");
    let folder = index.parent().unwrap_or_else(AbsPath::root);
    match move_aside(host, &folder, "index") {
        Ok(held) => Diagnostic::new(Code::PlantedRepository, format!("{begin}; moved aside: it is `{held}` now"))
            .help("`git reset` makes it anew from the last commit"),
        Err(e) => {
            Diagnostic::new(Code::PlantedRepository, format!("{begin}; it cannot be moved aside: {}", reason(&e)))
                .help("remove it before you use git in this project, and run `git reset`")
        }
    }
}

/// What in a repository could make git run something.
fn doubts_about(host: &Host, found: &Nested) -> Vec<String> {
    let mut doubts = Vec::new();
    if found.form == Form::Link {
        doubts.push("a symlink in the place of `.git`".to_owned());
    }
    match read_path(host, &found.git_dir.child("commondir")) {
        Ok(None) => {}
        // Our own placeholder says so, while another run lasts.
        Ok(Some(text)) if text == b"./" => {}
        Ok(Some(_)) | Err(_) => doubts.push("its settings elsewhere".to_owned()),
    }
    let settings = read_config(host, &found.common_dir.child("config")).and_then(|text| config::entries(&text));
    match settings {
        Err(_) => doubts.push("settings that cannot be read".to_owned()),
        Ok(entries) => {
            let mut named: Vec<String> =
                entries.iter().filter(|entry| !is_harmless(entry)).map(|entry| format!("`{}`", key(entry))).collect();
            named.sort();
            named.dedup();
            doubts.extend(named);
        }
    }
    match host.read_dir(&found.common_dir.child("hooks")) {
        Ok(hooks) if hooks.iter().all(|hook| hook.name.as_encoded_bytes().ends_with(b".sample")) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Ok(_) | Err(_) => doubts.push("hooks".to_owned()),
    }
    doubts
}

fn is_harmless(entry: &config::Entry) -> bool {
    let (section, name) = (section(entry).to_ascii_lowercase(), entry.name.to_ascii_lowercase());
    let of_section = HARMLESS.iter().find(|(known, _)| known.as_bytes() == section);
    // `ext::` runs a program, and other helpers may.
    let calls_helper = entry.value.windows(2).any(|part| part == b"::");
    of_section.is_some_and(|(_, names)| names.iter().any(|known| known.as_bytes() == name)) && !calls_helper
}

/// The section without its subsection, which is anybody's text.
fn section(entry: &config::Entry) -> &[u8] {
    entry.section.split(|byte| matches!(byte, b' ' | b'\t' | b'"')).next().unwrap_or_default()
}

fn key(entry: &config::Entry) -> String {
    let plain = |text: &[u8]| shown(std::ffi::OsStr::new(&*String::from_utf8_lossy(text)));
    format!("{}.{}", plain(section(entry)), plain(&entry.name))
}

/// Renames what is called `name`, in its folder, and gives the new path. Nothing is deleted: it may be work.
fn move_aside(host: &Host, path: &AbsPath, name: &str) -> io::Result<AbsPath> {
    let folder = open_folder(host, path)?;
    let is_free = |name: &String| statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).is_err();
    let mut names = (1..1000).map(|number| match number {
        1 => format!("{name}.held"),
        _ => format!("{name}.held-{number}"),
    });
    let free = names.find(is_free).ok_or(io::ErrorKind::AlreadyExists)?;
    renameat(&folder, name, &folder, &free)?;
    Ok(path.child(free))
}
