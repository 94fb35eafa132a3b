//! Repositories that git on the host would enter by itself, and that were not there at the start: no mount could keep them from being
//! planted. One that names programs is moved aside, because the next prompt of a shell may run `git status` before anybody has
//! read a warning.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;

use rustix::fs::{AtFlags, renameat, statat};

use crate::compile::layers::Project;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, listed, reason};
use crate::host::Host;
use crate::host::git::nested::{self, Form, FoundBy};
use crate::host::git::{Nested, NestedRepositories, Repository, config, read_config, read_path};
use crate::policy::path::{AbsPath, escape_for_display};

use super::modules::Modules;
use super::planted::Planted;
use crate::host::nofollow::open_folder;

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
    /// What was there at the start.
    known: NestedRepositories,
    /// Of these, the ones that mounts do not protect in all parts, and what there was to say of them at the start.
    open: Vec<(Nested, Vec<String>)>,
    modules: Modules,
    planted: Vec<Planted>,
}

impl NestedWatch {
    pub(super) fn new(project: &Project) -> Self {
        let repository = project.repository.clone().zip(project.git_top.clone());
        let folders = project.cwd.ancestors().take_while(|folder| folder.is_within(&project.root));
        Self {
            root: project.root.clone(),
            known: project.git_nested.clone(),
            open: Vec::new(),
            modules: Modules::new(repository.as_ref().map(|(repository, _)| repository)),
            planted: folders.map(Planted::new).collect(),
            repository,
        }
    }

    /// `can_be_written` by the command: a path as it is, or as it would come to be.
    pub(super) fn start(&mut self, host: &Host, can_be_written: impl Fn(&AbsPath) -> bool) {
        let is_open = |found: &&Nested| parts(found).iter().any(&can_be_written);
        let open = self.known.found.iter().filter(is_open).cloned();
        self.open = open.map(|found| (found.clone(), doubts_about(host, &found))).collect();
        if let Some((repository, _)) = &self.repository {
            self.known.unclear.extend(nested::elsewhere(host, repository).unclear);
        }
        self.modules.start(host);
        for planted in &mut self.planted {
            planted.start(host);
        }
    }

    /// `can_be_written` by the command: what it could not plant it has not planted.
    pub(super) fn finish(&self, host: &Host, can_be_written: impl Fn(&AbsPath) -> bool, said: &mut Diagnostics) {
        let mut held = BTreeSet::new();
        // As long as something comes to light: a `.git` may lead to where another one was just moved.
        loop {
            let before = held.len();
            self.look(host, &can_be_written, &mut held, said);
            if held.len() == before {
                return;
            }
        }
    }

    /// `held`: what was moved aside already, or could not be.
    fn look(
        &self,
        host: &Host,
        can_be_written: &impl Fn(&AbsPath) -> bool,
        held: &mut BTreeSet<AbsPath>,
        said: &mut Diagnostics,
    ) {
        let repository = self.repository.as_ref().map(|(repository, top)| (repository, top));
        // At one moment: nothing is moved aside before both are known.
        let seen = &host.with_cache();
        let mut now = nested::nested(seen, &self.root, repository);
        let others = repository.map(|(repository, _)| nested::elsewhere(seen, repository));
        let planted: Vec<_> = self.planted.iter().filter_map(|planted| planted.look(host, held, said)).collect();
        for NestedRepositories { found, unclear, .. } in others.into_iter().chain(planted) {
            let is_new = |found: &Nested| !now.found.iter().any(|known| known.folder == found.folder);
            let found: Vec<Nested> = found.into_iter().filter(is_new).collect();
            now.found.extend(found);
            now.unclear.extend(unclear);
        }
        let is_unclear = |git_dir: &AbsPath| now.unclear.contains(git_dir) && !self.known.unclear.contains(git_dir);
        let by_index: Vec<&Nested> = now.found.iter().filter(|found| found.found_by == FoundBy::Index).collect();
        // The index of the project's repository, or of a worktree. Of the others, git is kept out.
        for git_dir in now.unclear.iter().filter(|git_dir| !by_index.iter().any(|found| found.git_dir == **git_dir)) {
            let index = git_dir.child("index");
            if is_unclear(git_dir) && can_be_written(&index) && held.insert(index.clone()) {
                said.push(hold_index(host, &index));
            }
        }
        for found in by_index {
            let mut doubts = self.new_doubts(host, found);
            if is_unclear(&found.git_dir) {
                doubts.push("an index that cannot be understood".to_owned());
            }
            let dot_git = found.folder.child(".git");
            if !doubts.is_empty() && can_be_written(&dot_git) && held.insert(dot_git) {
                said.push(self.hold_repository(host, &found.folder, doubts));
            }
        }
        self.modules.look(host, held, said);
    }

    fn new_doubts(&self, host: &Host, found: &Nested) -> Vec<String> {
        if let Some((_, before)) = self.open.iter().find(|(open, _)| open == found) {
            return doubts_about(host, found).into_iter().filter(|doubt| !before.contains(doubt)).collect();
        }
        if self.known.found.contains(found) { Vec::new() } else { doubts_about(host, found) }
    }

    fn hold_repository(&self, host: &Host, folder: &AbsPath, doubts: Vec<String>) -> Diagnostic {
        let has = some(doubts);
        let dot_git = folder.child(".git");
        let name = match folder.relative_to(&self.root) {
            Some(relative) => escape_for_display(relative.as_os_str()),
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

/// Not more than fit into one sentence.
pub(super) fn some(mut doubts: Vec<String>) -> String {
    let more = doubts.len().saturating_sub(MOST_NAMED);
    doubts.truncate(MOST_NAMED);
    if more > 0 {
        doubts.push(format!("{more} more"));
    }
    listed(doubts.into_iter(), "and")
}

/// What mounts protect of a repository.
fn parts(found: &Nested) -> [AbsPath; 4] {
    let [config, hooks] = SETTINGS.map(|name| found.common_dir.child(name));
    [config, hooks, found.git_dir.child("commondir"), found.git_dir.child("config.worktree")]
}

const SETTINGS: [&str; 2] = ["config", "hooks"];

/// What in a repository could make git run something.
pub(super) fn doubts_about(host: &Host, found: &Nested) -> Vec<String> {
    let mut doubts = doubts_about_settings(host, &found.git_dir, &found.common_dir);
    if found.form == Form::Link {
        doubts.push("a symlink in the place of `.git`".to_owned());
    }
    if found.other_work_tree(host).is_some() {
        doubts.push("its work tree elsewhere".to_owned());
    }
    doubts
}

/// The same for a git directory, wherever its work tree is.
pub(super) fn doubts_about_settings(host: &Host, git_dir: &AbsPath, common_dir: &AbsPath) -> Vec<String> {
    let mut doubts = Vec::new();
    // In the next run a rule would protect where the link leads, and not the link.
    let is_led_elsewhere = |name: &&&str| {
        let place = common_dir.child(**name);
        host.resolve(place.as_path()).map_or(true, |found| found.path != place)
    };
    // git always makes this file. What is missing, no rule protects in the next run.
    if matches!(host.kind(&common_dir.child("config")), Ok(None)) {
        doubts.push("no settings yet".to_owned());
    }
    doubts.extend(SETTINGS.iter().filter(is_led_elsewhere).map(|name| format!("a symlink in the place of `{name}`")));
    match read_path(host, &git_dir.child("commondir")) {
        Ok(None) => {}
        // Our own placeholder says so, while another run lasts.
        Ok(Some(text)) if text == b"./" => {}
        Ok(Some(_)) | Err(_) => doubts.push("its settings elsewhere".to_owned()),
    }
    let settings = read_config(host, &common_dir.child("config")).and_then(|text| config::entries(&text));
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
    match host.read_dir(&common_dir.child("hooks")) {
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
    let plain = |text: &[u8]| escape_for_display(std::ffi::OsStr::new(&*String::from_utf8_lossy(text)));
    format!("{}.{}", plain(section(entry)), plain(&entry.name))
}

/// Renames what is called `name`, in its folder, and gives the new path. Nothing is deleted: it may be work.
pub(super) fn move_aside(host: &Host, path: &AbsPath, name: &str) -> io::Result<AbsPath> {
    move_to(host, (path, OsStr::new(name)), (path, name))
}

/// The same into another folder, under a name that begins as said.
pub(super) fn move_to(host: &Host, from: (&AbsPath, &OsStr), to: (&AbsPath, &str)) -> io::Result<AbsPath> {
    let (folder, aside) = (open_folder(host, from.0)?, open_folder(host, to.0)?);
    let is_free = |name: &str| statat(&aside, name, AtFlags::SYMLINK_NOFOLLOW).is_err();
    let plain = format!("{}.held", to.1);
    let free = if is_free(&plain) { plain } else { format!("{plain}-{}", super::unforeseen()) };
    super::open_up(&folder)?;
    super::open_up(&aside)?;
    renameat(&folder, from.1, &aside, &free)?;
    Ok(to.0.child(free))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;

    /// Otherwise a command could take the names beforehand, and what it planted would stay. (So it could by closing the folder, which
    /// is tried as an ordinary user in `tests/escape/nested.rs`.)
    #[test]
    fn there_is_always_a_name_to_move_to() {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::at(folder.path());
        for taken in [".git", ".git.held", ".git.held-2", ".git.held-3"] {
            fs::create_dir(folder.path().join(taken)).unwrap();
            fs::write(folder.path().join(taken).join("x"), taken).unwrap();
        }
        let held = move_aside(&host, &AbsPath::root(), ".git").unwrap();
        assert_eq!(fs::read_to_string(host.real(&held).join("x")).unwrap(), ".git");
        assert!(!folder.path().join(".git").exists());
        assert_eq!(fs::read_to_string(folder.path().join(".git.held/x")).unwrap(), ".git.held");
    }

    #[test]
    fn what_cannot_be_moved_aside_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let watch = NestedWatch::new(&Project::plain(&AbsPath::root().child("p"), AbsPath::root().child("h")));
        let said = watch.hold_repository(
            &Host::at(folder.path()),
            &AbsPath::root().join("p/gone"),
            vec!["`core.fsmonitor`".to_owned()],
        );
        assert_eq!(
            said.message,
            "git would enter `gone`, which is a repository since this run, and has `core.fsmonitor`; `/p/gone/.git` cannot be moved \
             aside: no such file or directory"
        );
        assert_eq!(
            said.help.as_deref(),
            Some("remove it before you use git in this project: `git status` is enough to run what it names")
        );
    }
}
