//! The record of consent: one file for each project, in our state folder, which no rule makes
//! writable inside (SPEC D6).

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;

use serde::{Deserialize, Serialize};

use crate::compile::layers::Layers;
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::state_dir::{StateFiles, must_be_elsewhere, unfit};
use crate::host::{Host, if_there};
use crate::policy::{AbsPath, sha256};
use crate::sys::ablate::{self, Mitigation};

use super::Widening;
use super::grant::Grant;

const VERSION: u32 = 1;
/// The folder of the records, and the largest size of a record, which exceeds any list that a user
/// would read.
const KIND: StateFiles = StateFiles { folder: "trust", max_bytes: 16 << 20 };

/// The grants that the user agreed to, in `trust/<SHA-256 of the path of the project's file>.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConsentRecord {
    version: u32,
    /// The project's file, after symlinks.
    pub file: AbsPath,
    /// The SHA-256 of its content.
    pub sha256: String,
    pub grants: Vec<Grant>,
}

/// Records consent to all grants of `widening` and returns the path of the record. Earlier grants
/// for the same content stay.
pub fn record(host: &Host, layers: &Layers, widening: &Widening) -> Result<AbsPath, Diagnostic> {
    // A record that cannot be read is replaced.
    let known = read(host, layers, &widening.file).ok().flatten().filter(|known| known.sha256 == widening.sha256);
    let mut grants: Vec<Grant> = widening.grants.iter().map(|granted| granted.grant.clone()).collect();
    for grant in known.into_iter().flat_map(|known| known.grants) {
        if !grants.iter().any(|newer| newer.covers(&grant)) {
            grants.push(grant);
        }
    }
    let record =
        ConsentRecord { version: VERSION, file: widening.file.clone(), sha256: widening.sha256.clone(), grants };
    let name = name_of(&record.file);
    let (state, at) = (&layers.state, place(&layers.state, &record.file));
    match must_be_elsewhere(&layers.state, &layers.project.outermost).and_then(|()| {
        let text = serde_json::to_string_pretty(&record)? + "\n";
        KIND.write(host, state, &name, text.as_bytes())
    }) {
        Ok(()) => Ok(at),
        Err(e) => Err(Diagnostic::new(Code::TrustFailed, format!("cannot record consent in `{at}`: {}", reason(&e)))
            .help(format!(
                "make `{state}` a folder outside of the project that you own and that no other user can write"
            ))),
    }
}

/// The record for `file`, if there is one. An error means that the record cannot be trusted.
pub(super) fn read(host: &Host, layers: &Layers, file: &AbsPath) -> io::Result<Option<ConsentRecord>> {
    let name = name_of(file);
    let Some(content) = if_there(KIND.read(host, &layers.state, &name))? else { return Ok(None) };
    must_be_elsewhere(&layers.state, &layers.project.outermost)?;
    understood(&content, OsStr::new(&name)).map(Some)
}

/// Parses a record. `name` must be the file name that belongs to the path in the record.
fn understood(content: &[u8], name: &OsStr) -> io::Result<ConsentRecord> {
    match serde_json::from_slice::<ConsentRecord>(content) {
        Ok(record) if record.version == VERSION && name == name_of(&record.file).as_str() => Ok(record),
        Ok(_) | Err(_) => Err(unfit("it is damaged")),
    }
}

/// All records with their places, by their names. An error means that the folder cannot be trusted.
pub fn records(host: &Host, state: &AbsPath) -> io::Result<Vec<(AbsPath, io::Result<ConsentRecord>)>> {
    let found = |(name, content): (OsString, io::Result<Vec<u8>>)| {
        (KIND.path(state, &name), content.and_then(|content| understood(&content, &name)))
    };
    Ok(KIND.read_all(host, state)?.into_iter().map(found).collect())
}

/// Removes the record for `file`, even if it is damaged, and returns its path; `None` if there was
/// none.
pub fn revoke(host: &Host, state: &AbsPath, file: &AbsPath) -> Result<Option<AbsPath>, Diagnostic> {
    let at = place(state, file);
    let removed = if_there(KIND.remove(host, state, &name_of(file))).map_err(|e| {
        Diagnostic::new(Code::TrustFailed, format!("cannot remove `{at}`: {}", reason(&e)))
            .help(format!("make `{state}` a folder that you own and that no other user can write"))
    })?;
    Ok(removed.map(|()| at))
}

/// Ends the consent to `file`, which is gone: a command could write it again. A record that cannot
/// be used is no consent, and stays. A record that cannot be read at the moment may be consent, so
/// it is removed.
pub fn end_consent(host: &Host, layers: &Layers, file: &AbsPath) -> Result<(), Diagnostic> {
    let is_consent = match read(host, layers, file) {
        Ok(record) => record.is_some(),
        // Where the folder should be, there is a file.
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => false,
        Err(e) => e.raw_os_error().is_some(),
    };
    if is_consent && !ablate::is_off(Mitigation::ConsentEnds) {
        revoke(host, &layers.state, file)?;
    }
    Ok(())
}

/// The path of the record for `file`.
pub(super) fn place(state: &AbsPath, file: &AbsPath) -> AbsPath {
    KIND.path(state, name_of(file))
}

fn name_of(file: &AbsPath) -> String {
    format!("{}.json", sha256(file.as_os_str().as_bytes()))
}
