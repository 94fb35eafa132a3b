//! The record of consent: one file for each project, in the folder of our state, which no rule makes writable inside
//! (SPEC D6).

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::Host;
use crate::layers::Layers;
use crate::path::AbsPath;

use super::grant::Grant;
use super::{Widening, hex};

const VERSION: u32 = 1;
const FOLDER: &str = "trust";
/// More than any list that somebody has read.
const MAX_BYTES: u64 = 16 << 20;

/// What the user agreed to, as it is written: `trust/<SHA-256 of the path of the project's file>.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    version: u32,
    /// The project's file, after symlinks.
    pub file: AbsPath,
    /// Of its content.
    pub sha256: String,
    pub grants: Vec<Grant>,
}

/// Records consent to all that `widening` opens, and says where. What was agreed to for the same content stays.
pub fn record(host: &Host, layers: &Layers, widening: &Widening) -> Result<AbsPath, Diagnostic> {
    // A record that cannot be read is replaced.
    let known = read(host, layers, &widening.file).ok().flatten().filter(|known| known.sha256 == widening.sha256);
    let mut grants: Vec<Grant> = widening.grants.iter().map(|granted| granted.grant.clone()).collect();
    for grant in known.into_iter().flat_map(|known| known.grants) {
        if !grants.iter().any(|newer| newer.covers(&grant)) {
            grants.push(grant);
        }
    }
    let record = Record { version: VERSION, file: widening.file.clone(), sha256: widening.sha256.clone(), grants };
    let name = name_of(&record.file);
    let (state, at) = (&layers.state, place(&layers.state, &record.file));
    match must_be_elsewhere(layers).and_then(|()| write(host, state, &name, &record)) {
        Ok(()) => Ok(at),
        Err(e) => Err(Diagnostic::new(Code::TrustFailed, format!("cannot record consent in `{at}`: {}", reason(&e)))
            .help(format!(
                "`{state}` must be a folder outside of the project that you own and that nobody else can write"
            ))),
    }
}

/// What was recorded for `file`; `None` where nothing was. An error where there is something that cannot be believed.
pub(super) fn read(host: &Host, layers: &Layers, file: &AbsPath) -> io::Result<Option<Record>> {
    let name = name_of(file);
    let content = match open_folder(host, &layers.state).and_then(|folder| content(&folder, OsStr::new(&name))) {
        Ok(content) => content,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    must_be_elsewhere(layers)?;
    understood(&content, OsStr::new(&name)).map(Some)
}

/// What is written in the record of this name. It says which file it is about, and its name must agree.
fn understood(content: &[u8], name: &OsStr) -> io::Result<Record> {
    match serde_json::from_slice::<Record>(content) {
        Ok(record) if record.version == VERSION && name == name_of(&record.file).as_str() => Ok(record),
        Ok(_) | Err(_) => Err(unfit("it is damaged")),
    }
}

/// A record as it was found.
pub struct Found {
    pub at: AbsPath,
    pub record: io::Result<Record>,
}

/// All records, by their names. None where the folder is missing; an error where it cannot be believed.
pub fn records(host: &Host, state: &AbsPath) -> io::Result<Vec<Found>> {
    let folder = match open_folder(host, state) {
        Ok(folder) => folder,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let mut found = Vec::new();
    for entry in rustix::fs::Dir::read_from(&folder)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        // What a writer has not finished begins with a dot.
        if name.as_bytes().ends_with(b".json") && !name.as_bytes().starts_with(b".") {
            let record = content(&folder, name).and_then(|content| understood(&content, name));
            found.push(Found { at: state.child(FOLDER).child(name), record });
        }
    }
    found.sort_by(|a, b| a.at.cmp(&b.at));
    Ok(found)
}

/// Takes the record for `file` away, whatever it says, and says where it was; `None` where there was none.
pub fn revoke(host: &Host, state: &AbsPath, file: &AbsPath) -> Result<Option<AbsPath>, Diagnostic> {
    let at = place(state, file);
    // A symlink in the place of a record goes, and what it leads to stays.
    let removed =
        open_folder(host, state).and_then(|folder| Ok(rustix::fs::unlinkat(&folder, name_of(file), AtFlags::empty())?));
    match removed {
        Ok(()) => Ok(Some(at)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Diagnostic::new(Code::TrustFailed, format!("cannot remove `{at}`: {}", reason(&e)))
            .help(format!("`{state}` must be a folder that you own and that nobody else can write"))),
    }
}

/// Where the record for `file` is.
pub(super) fn place(state: &AbsPath, file: &AbsPath) -> AbsPath {
    state.child(FOLDER).child(name_of(file))
}

fn name_of(file: &AbsPath) -> String {
    format!("{}.json", hex(file.as_os_str().as_bytes()))
}

/// What lies in the project came with the repository, or a command made it.
fn must_be_elsewhere(layers: &Layers) -> io::Result<()> {
    let in_project = layers.state.is_within(&layers.project.outermost);
    if in_project { Err(unfit("it lies in the project itself")) } else { Ok(()) }
}

fn unfit(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

fn content(folder: &OwnedFd, name: &OsStr) -> io::Result<Vec<u8>> {
    // A FIFO would block a plain open for ever.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, name, flags, Mode::empty())?;
    must_be_ours(&file)?;
    let file = std::fs::File::from(file);
    if !file.metadata()?.is_file() {
        return Err(unfit("it is not a regular file"));
    }
    let mut content = Vec::new();
    let taken = file.take(MAX_BYTES + 1).read_to_end(&mut content)?;
    if taken as u64 > MAX_BYTES { Err(unfit("it is too large")) } else { Ok(content) }
}

/// The folder of all records. Opened step by step, and each must be ours: a symlink that somebody else made, or a folder
/// that somebody else can write, would let them agree in the user's place.
fn open_folder(host: &Host, state: &AbsPath) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let state = rustix::fs::open(host.real(state), flags, Mode::empty())?;
    must_be_ours(&state)?;
    let folder = rustix::fs::openat(&state, FOLDER, flags, Mode::empty())?;
    must_be_ours(&folder)?;
    Ok(folder)
}

fn must_be_ours(file: impl AsFd) -> io::Result<()> {
    const OTHERS_WRITE: u32 = 0o022;
    let found = rustix::fs::fstat(file)?;
    let (owner, user) = (found.st_uid, rustix::process::geteuid().as_raw());
    if owner != user && owner != 0 {
        Err(unfit("it belongs to somebody else"))
    } else if found.st_mode & OTHERS_WRITE != 0 {
        Err(unfit("others can write there"))
    } else {
        Ok(())
    }
}

/// All of it or nothing: a new file takes the place of the old one.
fn write(host: &Host, state: &AbsPath, name: &str, record: &Record) -> io::Result<()> {
    let real = host.real(state);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(real.join(FOLDER))?;
    let folder = open_folder(host, state)?;
    let text = serde_json::to_string_pretty(record)? + "\n";
    let new = format!(".{name}.{}", std::process::id());
    // Left by a process of the same number that was killed.
    match rustix::fs::unlinkat(&folder, &new, AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => {}
        Err(e) => return Err(e.into()),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = std::fs::File::from(rustix::fs::openat(&folder, &new, flags, Mode::RUSR | Mode::WUSR)?);
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    let moved = written.and_then(|()| Ok(rustix::fs::renameat(&folder, &new, &folder, name)?));
    if moved.is_err() {
        // The first failure is the one to tell.
        let _ = rustix::fs::unlinkat(&folder, &new, AtFlags::empty());
    }
    moved
}
