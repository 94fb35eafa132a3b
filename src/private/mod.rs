//! Private files (SPEC section 22). The command writes a copy; a few listed keys reach the host.
//!
//! A run calls [`prepare`] before it starts, which brings the copies up to date with the host, and
//! [`PrivateRun::finish`] when no process inside is alive any more.

mod formats;
mod host_file;
mod kept;
mod keys;
mod merge;
mod report;
mod store;

use std::collections::BTreeSet;
use std::io;

use crate::compile::Compiled;
use crate::compile::placeholder::content_of_missing;
use crate::compile::plan::PlannedLink;
use crate::compile::planted::may_be_planted;
use crate::diagnostic::{Diagnostics, reason};
use crate::host::git::program;
use crate::host::{Host, PathError, Session};
use crate::policy::{AbsPath, sha256};
use crate::sys::ablate::{self, Mitigation};

use formats::{Entries, FormatError, GitProgram, Key, KeyChanges, Syntax, Values};
use host_file::{CannotReplace, HostFile};
pub use kept::{KeptChange, KeptCopy, PrivateCopies, forget, forget_project, kept_copies};
use store::{About, CopyState, HeldFiles, Store, UsedCopy};

/// The largest number of keys of one file that reach the host at the end of a run: git is started
/// for each.
const MOST_LEAVING: usize = 100;

/// The private files of a run.
#[derive(Default)]
pub struct PrivateRun {
    held: Option<HeldFiles>,
    /// The copies whose listed keys this run brings to the host at its end.
    used: Vec<UsedCopy>,
    /// Reports about earlier runs.
    pub said: Diagnostics,
}

/// Brings the copies of all private files up to date with the host. After an error, a start without
/// copies may still succeed.
pub fn prepare(host: &Host, session: &Session, compiled: &Compiled) -> Result<PrivateRun, PathError> {
    let Some(first) = compiled.plan.links.first() else { return Ok(hold(host, compiled)) };
    let at_first = PathError::at(&first.path);
    let held = Some(held(host, compiled).map_err(&at_first)?);
    let store = Store::open(host, &compiled.layers).map_err(&at_first)?;
    let mut run = PrivateRun { held, ..PrivateRun::default() };
    let mut sync =
        FileSync { host, store: &store, git: git(host, session, compiled, &store), compiled, is_alone: false };
    for link in &compiled.plan.links {
        let (used, is_alone) = store.use_copy(&link.path).map_err(PathError::at(&link.path))?;
        run.used.push(used);
        sync.is_alone = is_alone;
        sync.start(link, &mut run.said).map_err(PathError::at(&link.path))?;
    }
    Ok(run)
}

/// Makes the copies that are missing, for a run that must leave all others as they are.
pub fn provide(host: &Host, compiled: &Compiled) -> Result<PrivateRun, PathError> {
    let Some(first) = compiled.plan.links.first() else { return Ok(hold(host, compiled)) };
    let at_first = PathError::at(&first.path);
    let held = Some(held(host, compiled).map_err(&at_first)?);
    let store = Store::open(host, &compiled.layers).map_err(&at_first)?;
    let sync = FileSync { host, store: &store, git: None, compiled, is_alone: false };
    for link in &compiled.plan.links {
        sync.provide(link).map_err(PathError::at(&link.path))?;
    }
    Ok(PrivateRun { held, ..PrivateRun::default() })
}

/// For a run without copies: holds the locks of the host's files over which it has mounts, so that
/// no other run replaces these files. If the state folder cannot be written, there are no locks,
/// because then no run has copies.
pub fn hold(host: &Host, compiled: &Compiled) -> PrivateRun {
    let held = if compiled.private_paths.is_empty() { None } else { held(host, compiled).ok() };
    PrivateRun { held, ..PrivateRun::default() }
}

/// Locks the host's files at all private paths. Whichever rule wins at such a path, a mount may be
/// there: read-only, or a mask.
fn held(host: &Host, compiled: &Compiled) -> io::Result<HeldFiles> {
    let links = compiled.plan.links.iter().map(|link| &link.path);
    let is_link = |path: &&AbsPath| compiled.plan.links.iter().any(|link| link.path == **path);
    let others = compiled.private_paths.iter().filter(|path| !is_link(path));
    HeldFiles::hold(host, &compiled.layers.state, links.chain(others))
}

impl PrivateRun {
    /// Writes the listed keys to the host's files, and reports the other changes. Skips a copy
    /// that another run still uses, because that run will do this. Each change is reported only
    /// once, so `keep` must store the reports before the changes are noted as reported.
    pub fn finish(
        &mut self,
        host: &Host,
        session: &Session,
        compiled: &Compiled,
        said: &mut Diagnostics,
        keep: &mut dyn FnMut(&Diagnostics),
    ) {
        let Some(held) = self.held.take() else { return };
        let used = std::mem::take(&mut self.used);
        let Some(first) = used.first() else { return };
        let store = match Store::open(host, &compiled.layers) {
            Ok(store) => store,
            Err(e) => return said.push(report::not_written(&first.path, &reason(&e))),
        };
        let git = git(host, session, compiled, &store);
        let sync = FileSync { host, store: &store, git, compiled, is_alone: true };
        let is_last = |path: &AbsPath| used.iter().any(|used| used.path == *path && used.is_alone());
        for link in compiled.plan.links.iter().filter(|link| is_last(&link.path)) {
            let ended = sync.end(link, &held, said).and_then(|reported| {
                let Some(about) = reported else { return Ok(()) };
                keep(said);
                store.note(&about, &store.base(&link.path)?.unwrap_or_default())
            });
            if let Err(e) = ended {
                said.push(report::not_written(&link.path, &reason(&e)));
            }
        }
    }
}

/// The first git on PATH that no command can have planted.
fn git(host: &Host, session: &Session, compiled: &Compiled, store: &Store) -> Option<GitProgram> {
    let is_planted = |at: &AbsPath| may_be_planted(&compiled.plan, &compiled.layers.project, at);
    let is_trusted = |at: &AbsPath| !is_planted(at) || ablate::is_off(Mitigation::GitPath);
    let found = program::find(host, session, is_trusted)?;
    Some(GitProgram { program: host.real(&found), file: store.file_for_git() })
}

/// One project's copies and the host's files.
struct FileSync<'a> {
    host: &'a Host,
    store: &'a Store,
    git: Option<GitProgram>,
    compiled: &'a Compiled,
    /// No other run uses the copy, so no process is writing it.
    is_alone: bool,
}

impl FileSync<'_> {
    /// Brings a copy up to date before a start.
    fn start(&self, link: &PlannedLink, said: &mut Diagnostics) -> io::Result<()> {
        if self.is_alone {
            self.store.remove_lock(&link.path);
        }
        self.update(link, &self.host_text(link)?, said)
    }

    /// Makes a copy that is missing.
    fn provide(&self, link: &PlannedLink) -> io::Result<()> {
        match self.store.read(&link.path)? {
            CopyState::Missing => self.update(link, &self.host_text(link)?, &mut Diagnostics::default()),
            CopyState::Text(_) | CopyState::Unfit(_) => Ok(()),
        }
    }

    fn host_text(&self, link: &PlannedLink) -> io::Result<Vec<u8>> {
        Ok(self.host_file(link)?.map_or_else(|| content_of_missing(&link.path).to_vec(), |file| file.text))
    }

    /// The host's file. A placeholder counts as missing.
    fn host_file(&self, link: &PlannedLink) -> io::Result<Option<HostFile>> {
        let file = HostFile::read(self.host, &link.path)?;
        Ok(file.filter(|file| !link.is_missing || file.text != content_of_missing(&link.path)))
    }

    /// Applies the changes from the noted base to `host` to the copy, and notes `host` as the
    /// base.
    fn update(&self, link: &PlannedLink, host: &[u8], said: &mut Diagnostics) -> io::Result<()> {
        let path = &link.path;
        let mut copy = match self.store.read(path)? {
            CopyState::Text(copy) => Some(copy),
            CopyState::Missing => None,
            // Another run may be writing it.
            CopyState::Unfit(_) if !self.is_alone => return Ok(()),
            CopyState::Unfit(why) => {
                self.set_aside(path, why, said)?;
                None
            }
        };
        let base = self.store.base(path)?;
        let mut text = host.to_vec();
        if let (Some(base), Some(was)) = (base.as_deref(), copy.as_deref()) {
            let syntax = self.syntax(link, &[base, host]);
            match merge::merge(syntax, base, host, was, self.git.as_ref()) {
                // A merge would replace the whole copy.
                Ok(merged) if syntax == Syntax::Opaque && !merged.conflicts.is_empty() => {
                    if !self.is_alone {
                        return Ok(());
                    }
                    self.set_aside(path, "the host's file changed, too, and has no keys that can be merged", said)?;
                    copy = None;
                }
                Ok(merged) => {
                    if !merged.conflicts.is_empty() {
                        said.push(report::conflict(path, &merged.conflicts));
                    }
                    text = merged.text;
                }
                Err(e) if e.is_of_the_text() && self.is_alone => {
                    self.set_aside(path, &e.to_string(), said)?;
                    copy = None;
                }
                // The next run merges the changes.
                Err(e) => {
                    said.push(report::not_merged(path, &e.to_string()));
                    return Ok(());
                }
            }
        }
        let text = self.with_inside_keys(link, text);
        // Write the copy first. With the new base and the old copy, the command would seem to have
        // undone the host's changes.
        if copy.as_deref() != Some(&text) || base.is_none() {
            self.store.write(path, &text)?;
        }
        if base.as_deref() != Some(host) {
            self.store.note(&self.about(link)?, host)?;
        }
        Ok(())
    }

    /// Adds to `text` the keys without which the program does not work inside. A text that cannot
    /// be parsed stays as it is.
    fn with_inside_keys(&self, link: &PlannedLink, text: Vec<u8>) -> Vec<u8> {
        let syntax = self.syntax(link, &[&text]);
        let missing = syntax.read(&text).map(|copy| keys::missing_inside(link.file, &copy)).unwrap_or_default();
        if missing.is_empty() || syntax == Syntax::Opaque {
            return text;
        }
        merge::apply(syntax, &text, &missing, self.git.as_ref()).unwrap_or(text)
    }

    fn about(&self, link: &PlannedLink) -> io::Result<About> {
        let (path, project) = (link.path.clone(), self.compiled.layers.project.root.clone());
        let syntax = Syntax::of(link.file.format, &path);
        let reported = self.store.about(&path)?.map(|about| about.reported).unwrap_or_default();
        Ok(About { path, project, syntax, reported })
    }

    /// The syntax of the file. If one of `texts` cannot be parsed, the content counts as one
    /// value.
    fn syntax(&self, link: &PlannedLink, texts: &[&[u8]]) -> Syntax {
        let syntax = Syntax::of(link.file.format, &link.path);
        if texts.iter().all(|text| syntax.read(text).is_ok()) { syntax } else { Syntax::Opaque }
    }

    fn set_aside(&self, path: &AbsPath, why: &str, said: &mut Diagnostics) -> io::Result<()> {
        let (place, is_cut) = self.store.keep_aside(path)?;
        said.push(report::set_aside(path, why, &place, is_cut));
        Ok(())
    }

    /// Called after a run. Writes the listed keys to the host's file, and reports the rest. If it
    /// reports a change for the first time, returns our notes on this private file, which now list
    /// that change.
    fn end(&self, link: &PlannedLink, held: &HeldFiles, said: &mut Diagnostics) -> io::Result<Option<About>> {
        let path = &link.path;
        let copy = match self.store.read(path)? {
            CopyState::Text(copy) => copy,
            CopyState::Missing => return Ok(None),
            CopyState::Unfit(why) => return self.set_aside(path, why, said).map(|()| None),
        };
        let Some(base) = self.store.base(path)?.filter(|base| *base != copy) else { return Ok(None) };
        let file = self.host_file(link)?;
        let missing = content_of_missing(path);
        let host = file.as_ref().map_or(missing, |file| &file.text);
        let syntax = self.syntax(link, &[&base, host]);
        let inside = match syntax.read(&copy) {
            Ok(inside) => inside,
            Err(e) => return self.set_aside(path, &e.to_string(), said).map(|()| None),
        };
        let entries = |text| syntax.read(text).unwrap_or_default();
        let (was, outside) = (entries(&base), entries(host));
        let changes = merge::changes(&was, &inside);
        let (leaving, mut kept) = leaving(link, syntax, changes, &was, &outside);
        kept.retain(|change| !keys::is_unremarkable(link.file, change));
        // git reads `config.worktree` only where the user has switched it on.
        let may_write = file.is_some() || syntax != Syntax::Git;
        if !leaving.is_empty() && may_write {
            let written = match held.is_alone(path) {
                true => self.write_host(path, file.as_ref(), host, syntax, &leaving),
                false => Err(NotWritten::InUse),
            };
            match written {
                Ok(text) => self.update(link, &text, said)?,
                Err(e) => said.push(report::not_written(path, &e.to_string())),
            }
        }
        self.report(link, syntax, kept, &outside, said)
    }

    /// Replaces the host's file by one with these changes.
    fn write_host(
        &self,
        path: &AbsPath,
        file: Option<&HostFile>,
        host: &[u8],
        syntax: Syntax,
        changes: &KeyChanges,
    ) -> Result<Vec<u8>, NotWritten> {
        let text = merge::apply(syntax, host, changes, self.git.as_ref())?;
        let mut lock = path.file_name().unwrap_or_default().to_owned();
        if syntax == Syntax::Git {
            // git's own lock keeps a git on the host from writing at the same time.
            lock.push(".lock");
        } else {
            lock.push(".agent-sandbox");
            host_file::remove_leftover(self.host, path, &lock).map_err(CannotReplace::Io)?;
        }
        host_file::replace(self.host, path, file, &text, &lock).map_err(|e| match e {
            CannotReplace::Locked => NotWritten::Locked(path.parent().unwrap_or_else(AbsPath::root).child(&lock)),
            e => e.into(),
        })?;
        Ok(text)
    }

    /// Reports each change that has not been reported. Returns the notes with all of them.
    fn report(
        &self,
        link: &PlannedLink,
        syntax: Syntax,
        kept: KeyChanges,
        outside: &Entries,
        said: &mut Diagnostics,
    ) -> io::Result<Option<About>> {
        let mut about = self.about(link)?;
        let hashes: Vec<String> = kept.iter().map(hash).collect();
        let known: BTreeSet<&String> = about.reported.iter().collect();
        let fresh = kept.into_iter().zip(&hashes).filter(|(_, hash)| !known.contains(hash));
        let fresh = report::obeyed_first(fresh.map(|(change, _)| change).collect());
        if fresh.is_empty() {
            return Ok(None);
        }
        said.push(report::kept(&link.path, syntax, &fresh, outside));
        about.reported = hashes;
        Ok(Some(about))
    }
}

/// The reason why the host's file did not get the changes of the copy.
#[derive(Debug, thiserror::Error)]
enum NotWritten {
    #[error("another run uses it")]
    InUse,
    #[error("`{0}` exists; remove it if no git runs")]
    Locked(AbsPath),
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error(transparent)]
    Replace(#[from] CannotReplace),
}

/// Splits changes of the copy into those that reach the host and those that stay. If a key has
/// also changed on the host, the host's value stays.
fn leaving(
    link: &PlannedLink,
    syntax: Syntax,
    changes: KeyChanges,
    was: &Entries,
    outside: &Entries,
) -> (KeyChanges, KeyChanges) {
    let is_free = |(key, values): &(Key, Values)| {
        let may_leave = keys::may_leave(link.file, syntax, key, values, outside);
        may_leave || ablate::is_off(Mitigation::PrivateKeys)
    };
    let (mut leaving, mut kept): (KeyChanges, KeyChanges) = changes.into_iter().partition(is_free);
    leaving.retain(|(key, values)| {
        let now = outside.get(key);
        now == was.get(key) && now.map_or(&[][..], Vec::as_slice) != values.as_slice()
    });
    if !ablate::is_off(Mitigation::PrivateKeys) {
        keys::keep_halves(link.file, &mut leaving, &mut kept, outside);
    }
    kept.extend(leaving.split_off(leaving.len().min(MOST_LEAVING)));
    (leaving, kept)
}

/// A name for a change that was reported.
fn hash((Key(parts), values): &(Key, Values)) -> String {
    // The number of parts says where the key ends and the values begin.
    let mut bytes = parts.len().to_le_bytes().to_vec();
    for part in parts.iter().chain(values) {
        bytes.extend(part.len().to_le_bytes());
        bytes.extend(part);
    }
    sha256(bytes)
}
