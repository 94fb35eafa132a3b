//! Lists and drops copies, for `agent-sandbox private`.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;

use schemars::JsonSchema;
use serde::Serialize;

use super::formats::{FormatError, Key, Syntax, Values};
use super::host_file::HostFile;
use super::store::{About, CopyState, Store};
use super::{keys, merge};
use crate::compile::presets::data::{BuiltinPreset, PRESETS};
use crate::host::{Host, if_there};
use crate::policy::{AbsPath, PrivateFile, Word};

/// The copies of private files, each compared with the host's file.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(title = "agent-sandbox private")]
pub struct PrivateCopies {
    /// The copies, sorted by project, then by path.
    pub copies: Vec<KeptCopy>,
}

/// The copy of one private file.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct KeptCopy {
    /// The root of the project, or the folder of the copies if our notes cannot be read.
    pub project: AbsPath,
    /// The project is not there any more.
    pub project_gone: bool,
    /// The host's file.
    pub path: AbsPath,
    /// The host's file does not exist.
    pub file_gone: bool,
    /// The keys whose values differ from the host's file.
    pub changes: Vec<KeptChange>,
    /// The reason why the copy and the host's file cannot be compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A key whose values differ.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct KeptChange {
    pub key: String,
    /// The values in the host's file; several are possible for git, and none if the key is missing.
    pub outside: Vec<Word>,
    /// The values in the copy.
    pub inside: Vec<Word>,
}

/// The copies of all projects.
pub fn kept_copies(host: &Host, state: &AbsPath) -> io::Result<Vec<KeptCopy>> {
    let mut copies = Vec::new();
    for store in Store::all(host, state)? {
        for about in store.all_about()? {
            let about = match about {
                Ok(about) => about,
                Err(name) => {
                    let Some(project) = AbsPath::normalize(store.own_folder()) else { continue };
                    let (path, problem) = (project.child(name), Some("our notes cannot be read".to_owned()));
                    let (project_gone, file_gone, changes) = Default::default();
                    copies.push(KeptCopy { project, project_gone, path, file_gone, changes, problem });
                    continue;
                }
            };
            let (changes, problem) = match compared(host, &store, &about.path, about.syntax) {
                Ok(changes) => (changes, None),
                Err(problem) => (Vec::new(), Some(problem.to_string())),
            };
            let About { project, path, .. } = about;
            let is_gone = |path: &AbsPath| matches!(host.kind(path), Ok(None));
            // A worktree that was removed leaves the copy of its settings.
            let has_content = !changes.is_empty() || problem.is_some();
            if !has_content && !is_gone(&project) && path.parent().is_some_and(|folder| is_gone(&folder)) {
                continue;
            }
            let (project_gone, file_gone) = (is_gone(&project), is_gone(&path));
            copies.push(KeptCopy { project, project_gone, path, file_gone, changes, problem });
        }
    }
    copies.sort_by(|a, b| (&a.project, &a.path).cmp(&(&b.project, &b.path)));
    Ok(copies)
}

/// The reason why a copy and the host's file cannot be compared.
#[derive(Debug, thiserror::Error)]
enum NotCompared {
    #[error("{}", crate::diagnostic::reason(.0))]
    Unreadable(#[from] io::Error),
    #[error("the copy cannot be used: {0}")]
    Unfit(&'static str),
    #[error("the {whose}: {why}")]
    Format { whose: &'static str, why: FormatError },
}

/// The private file that a built-in preset has at `path`, in any home.
fn of_preset(path: &AbsPath) -> Option<&'static PrivateFile> {
    let entries = PRESETS.iter().flat_map(BuiltinPreset::entries);
    let mut private = entries.filter_map(|entry| Some((entry.path.strip_prefix("~/")?, entry.private?)));
    private.find(|(below_home, _)| path.as_path().ends_with(below_home)).map(|(_, file)| file)
}

fn compared(host: &Host, store: &Store, path: &AbsPath, syntax: Syntax) -> Result<Vec<KeptChange>, NotCompared> {
    let copy = match store.read(path)? {
        CopyState::Missing => return Ok(Vec::new()),
        CopyState::Text(copy) => copy,
        CopyState::Unfit(why) => return Err(NotCompared::Unfit(why)),
    };
    // Its folder may be gone, too.
    let file = if_there(HostFile::read(host, path))?.flatten();
    let file = file.map_or_else(|| crate::compile::placeholder::content_of_missing(path).to_vec(), |file| file.text);
    if copy == file {
        return Ok(Vec::new());
    }
    let read = |whose, text: &[u8]| syntax.read(text).map_err(|why| NotCompared::Format { whose, why });
    let (outside, inside) = (read("host's file", &file)?, read("copy", &copy)?);
    let words = |values: Option<&Values>| -> Vec<Word> {
        values.into_iter().flatten().map(|value| Word(OsString::from_vec(value.clone()))).collect()
    };
    let file = of_preset(path);
    let is_own = |change: &(Key, Values)| file.is_some_and(|file| keys::is_unremarkable(file, change));
    let changes = merge::changes(&outside, &inside).into_iter().filter(|change| !is_own(change));
    let changes = changes.map(|(key, _)| KeptChange {
        key: key.to_string(),
        outside: words(outside.get(&key)),
        inside: words(inside.get(&key)),
    });
    Ok(changes.collect())
}

/// Drops the copy of `path` that `project` has. `false` if there is none. Fails while a run uses
/// the copy.
pub fn forget(host: &Host, state: &AbsPath, project: &AbsPath, path: &AbsPath) -> io::Result<bool> {
    for store in Store::all(host, state)? {
        let is_meant = |about: &About| about.project == *project && about.path == *path;
        if store.all_about()?.iter().flatten().any(is_meant) {
            let (_used, is_alone) = store.use_copy(path)?;
            if !is_alone {
                return Err(in_use());
            }
            store.forget(path)?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// Drops everything that is stored for `project`, including copies that were set aside, and copies
/// whose notes cannot be read. `project` is the root, or the folder of the copies. `false` if
/// nothing is stored. Fails and drops nothing while a run uses one of the copies.
pub fn forget_project(host: &Host, state: &AbsPath, project: &AbsPath) -> io::Result<bool> {
    let is_folder = |store: &Store| AbsPath::normalize(store.own_folder()).as_ref() == Some(project);
    let mut stores = Store::all(host, state)?.into_iter();
    let Some(store) = stores.find(|store| store.is_of(project) || is_folder(store)) else { return Ok(false) };
    if store.is_used()? { Err(in_use()) } else { store.forget_all() }
}

fn in_use() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "a run uses it")
}
