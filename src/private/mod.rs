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

use std::io;

use rustix::fs::Mode;
use rustix::process::umask;

use crate::compile::Compiled;
use crate::compile::placeholder::content_of_missing;
use crate::compile::plan::{PlannedLink, View};
use crate::diagnostic::{Diagnostics, reason};
use crate::host::{Host, Session};
use crate::policy::{AbsPath, sha256};
use crate::sys::ablate::{self, Mitigation};

use formats::{Changes, Entries, Format, FormatError, GitProgram, Key, Values};
use host_file::HostFile;
pub use kept::{KeptChange, KeptCopy, forget, kept_copies};
use store::{About, Copy, HeldFile, Store};

/// At most so many keys of one file reach the host at the end of a run: git is started for each.
const MOST_LEAVING: usize = 100;

/// The copies cannot be prepared. A start without them may still succeed.
#[derive(Debug, thiserror::Error)]
#[error("`{path}`: {}", reason(.error))]
pub struct PrivateError {
    path: AbsPath,
    error: io::Error,
}

/// The private files of a run.
#[derive(Default)]
pub struct PrivateRun {
    held: Vec<HeldFile>,
    /// Reports about earlier runs.
    pub said: Diagnostics,
}

/// Brings the copies of all private files up to date with the host.
pub fn prepare(host: &Host, session: &Session, compiled: &Compiled) -> Result<PrivateRun, PrivateError> {
    with_owner_rights(|| prepare_copies(host, session, compiled))
}

/// Runs `work` with a umask that leaves the owner all rights: the next run must read the copies.
fn with_owner_rights<T>(work: impl FnOnce() -> T) -> T {
    let before = umask(Mode::empty());
    umask(before.difference(Mode::RWXU));
    let done = work();
    umask(before);
    done
}

fn prepare_copies(host: &Host, session: &Session, compiled: &Compiled) -> Result<PrivateRun, PrivateError> {
    let links = &compiled.plan.links;
    let mut run = PrivateRun::default();
    let Some(first) = links.first() else { return Ok(run) };
    let at = |path: &AbsPath| {
        let path = path.clone();
        |error| PrivateError { path, error }
    };
    let layers = &compiled.layers;
    for PlannedLink { path, .. } in links {
        run.held.push(HeldFile::hold(host, &layers.state, path).map_err(at(path))?);
    }
    let store = Store::open(host, layers).map_err(at(&first.path))?;
    let sync = Sync { host, store: &store, git: git(host, session, compiled, &store), compiled };
    for link in links {
        sync.start(link, &mut run.said).map_err(at(&link.path))?;
    }
    Ok(run)
}

impl PrivateRun {
    /// Takes the listed keys over to the host, and reports the other changes.
    pub fn finish(&mut self, host: &Host, session: &Session, compiled: &Compiled, said: &mut Diagnostics) {
        with_owner_rights(|| self.finish_copies(host, session, compiled, said));
    }

    fn finish_copies(&mut self, host: &Host, session: &Session, compiled: &Compiled, said: &mut Diagnostics) {
        let Some(first) = compiled.plan.links.first() else { return };
        let store = match Store::open(host, &compiled.layers) {
            Ok(store) => store,
            Err(e) => return said.push(report::not_written(&first.path, &reason(&e))),
        };
        let sync = Sync { host, store: &store, git: git(host, session, compiled, &store), compiled };
        for link in &compiled.plan.links {
            let held = self.held.iter().find(|held| held.path == link.path);
            if let Err(e) = sync.end(link, held, said) {
                said.push(report::not_written(&link.path, &reason(&e)));
            }
        }
        self.held.clear();
    }
}

/// The first git on PATH that the command cannot write.
fn git(host: &Host, session: &Session, compiled: &Compiled, store: &Store) -> Option<GitProgram> {
    let is_ours = |at: &AbsPath| compiled.plan.view(at) != View::HostRw;
    let found = session.path_folders().find_map(|folder| {
        let program = AbsPath::normalize(folder.join("git"))?;
        let resolved = host.program(program.as_path())?;
        let is_ours = resolved.links.iter().chain([&resolved.path, &program]).all(is_ours);
        is_ours.then_some(program)
    })?;
    Some(GitProgram { program: host.real(&found), folder: store.own_folder().clone() })
}

/// One project's copies and the host's files.
struct Sync<'a> {
    host: &'a Host,
    store: &'a Store,
    git: Option<GitProgram>,
    compiled: &'a Compiled,
}

impl Sync<'_> {
    /// Brings a copy up to date before a start.
    fn start(&self, link: &PlannedLink, said: &mut Diagnostics) -> io::Result<()> {
        let text = match self.host_file(link)? {
            Some(file) => file.text,
            None => content_of_missing(&link.path).to_vec(),
        };
        self.update(link, &text, said)
    }

    /// The host's file. A placeholder counts as missing.
    fn host_file(&self, link: &PlannedLink) -> io::Result<Option<HostFile>> {
        let file = HostFile::read(self.host, &link.path)?;
        Ok(file.filter(|file| !link.is_missing || file.text != content_of_missing(&link.path)))
    }

    /// Takes the changes from the noted base to `host` over into the copy, and notes `host`.
    fn update(&self, link: &PlannedLink, host: &[u8], said: &mut Diagnostics) -> io::Result<()> {
        let path = &link.path;
        let copy = match self.store.read(path)? {
            Copy::Text(copy) => Some(copy),
            Copy::Missing => None,
            Copy::Unfit(why) => {
                self.set_aside(path, why, said);
                None
            }
        };
        let base = self.store.base(path)?;
        let text = match (base.as_deref(), copy.as_deref()) {
            (Some(base), Some(copy)) => {
                let format = self.format(link, &[base, host]);
                match merge::merge(format, base, host, copy, self.git.as_ref()) {
                    Ok(merged) => {
                        if !merged.conflicts.is_empty() {
                            said.push(report::conflict(path, &merged.conflicts));
                        }
                        merged.text
                    }
                    Err(e) => {
                        self.set_aside(path, &e.to_string(), said);
                        host.to_vec()
                    }
                }
            }
            _ => host.to_vec(),
        };
        // The copy comes first: with the new base and the old copy, the host's changes would look
        // like changes of the command that take them back.
        if copy.as_deref() != Some(&text) || base.is_none() {
            self.store.write(path, &text)?;
        }
        if base.as_deref() != Some(host) {
            self.store.note(&self.about(link), host)?;
        }
        Ok(())
    }

    fn about(&self, link: &PlannedLink) -> About {
        let (path, project) = (link.path.clone(), self.compiled.layers.project.root.clone());
        let format = Format::of(link.file.format, &path);
        let reported = self.store.about(&path).map(|about| about.reported).unwrap_or_default();
        About { path, project, format, reported }
    }

    /// A text of the host that cannot be parsed is one value.
    fn format(&self, link: &PlannedLink, texts: &[&[u8]]) -> Format {
        let format = Format::of(link.file.format, &link.path);
        if texts.iter().all(|text| format.read(text).is_ok()) { format } else { Format::Opaque }
    }

    fn set_aside(&self, path: &AbsPath, why: &str, said: &mut Diagnostics) {
        let place = self.store.set_aside(path).ok();
        said.push(report::set_aside(path, why, place.as_deref()));
    }

    /// After a run: the listed keys reach the host, and the rest is reported.
    fn end(&self, link: &PlannedLink, held: Option<&HeldFile>, said: &mut Diagnostics) -> io::Result<()> {
        let path = &link.path;
        let copy = match self.store.read(path)? {
            Copy::Text(copy) => copy,
            Copy::Missing => return Ok(()),
            Copy::Unfit(why) => {
                self.set_aside(path, why, said);
                return Ok(());
            }
        };
        let Some(base) = self.store.base(path)?.filter(|base| *base != copy) else { return Ok(()) };
        let file = self.host_file(link)?;
        let missing = content_of_missing(path);
        let host = file.as_ref().map_or(missing, |file| &file.text);
        let format = self.format(link, &[&base, host]);
        let Ok(inside) = format.read(&copy) else {
            self.set_aside(path, &FormatError::Syntax.to_string(), said);
            return Ok(());
        };
        let entries = |text| format.read(text).unwrap_or_default();
        let (was, outside) = (entries(&base), entries(host));
        let changes = merge::changes(&was, &inside);
        let (leaving, kept) = leaving(link, format, changes, &was, &outside);
        // git reads `config.worktree` only where the user has switched it on.
        let may_write = file.is_some() || format != Format::Git;
        if !leaving.is_empty() && may_write && held.is_some_and(HeldFile::is_alone) {
            match self.write_host(path, file.as_ref(), host, format, &leaving) {
                Ok(text) => self.update(link, &text, said)?,
                Err(e) => said.push(report::not_written(path, &e)),
            }
        }
        self.report(link, format, kept, said)
    }

    /// Replaces the host's file by one with these changes.
    fn write_host(
        &self,
        path: &AbsPath,
        file: Option<&HostFile>,
        host: &[u8],
        format: Format,
        changes: &Changes,
    ) -> Result<Vec<u8>, String> {
        let text = merge::apply(format, host, changes, self.git.as_ref()).map_err(|e| e.to_string())?;
        let mut lock = path.file_name().unwrap_or_default().to_owned();
        lock.push(match format {
            // git's own lock: no git on the host writes meanwhile.
            Format::Git => ".lock",
            _ => ".agent-sandbox",
        });
        host_file::replace(self.host, path, file, &text, &lock).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => {
                format!("`{}` exists", path.parent().unwrap_or_else(AbsPath::root).child(&lock))
            }
            _ => reason(&e),
        })?;
        Ok(text)
    }

    /// Reports each change once.
    fn report(&self, link: &PlannedLink, format: Format, kept: Changes, said: &mut Diagnostics) -> io::Result<()> {
        let path = &link.path;
        let mut about = self.about(link);
        let hashes: Vec<String> = kept.iter().map(hash).collect();
        let fresh = kept.into_iter().zip(&hashes).filter(|(_, hash)| !about.reported.contains(hash));
        let fresh: Changes = fresh.map(|(change, _)| change).collect();
        if fresh.is_empty() {
            return Ok(());
        }
        said.push(report::kept(path, format, &fresh));
        about.reported = hashes;
        self.store.note(&about, &self.store.base(path)?.unwrap_or_default())
    }
}

/// Splits changes of the copy into those that reach the host and those that stay. A key that the
/// host has changed since, too, is the host's.
fn leaving(
    link: &PlannedLink,
    format: Format,
    changes: Changes,
    was: &Entries,
    outside: &Entries,
) -> (Changes, Changes) {
    let is_free = |(key, values): &(Key, Values)| {
        let may_leave = keys::may_leave(link.file, format, key, values, outside);
        may_leave || ablate::is_off(Mitigation::PrivateKeys)
    };
    let (mut leaving, mut kept): (Changes, Changes) = changes.into_iter().partition(is_free);
    leaving.retain(|(key, values)| {
        let now = outside.get(key);
        now == was.get(key) && now.map_or(&[][..], Vec::as_slice) != values.as_slice()
    });
    kept.extend(leaving.split_off(leaving.len().min(MOST_LEAVING)));
    (leaving, kept)
}

/// A name for a change that was reported.
fn hash((Key(parts), values): &(Key, Values)) -> String {
    let mut bytes = Vec::new();
    for part in parts.iter().chain(values) {
        bytes.extend(part.len().to_le_bytes());
        bytes.extend(part);
    }
    sha256(bytes)
}
