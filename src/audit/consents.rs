//! The answer of `agent-sandbox trust --list`: all consent that a user has given.

use schemars::JsonSchema;
use serde::Serialize;

use crate::compile::layers::MAX_CONFIG_BYTES;
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::Host;
use crate::policy::{AbsPath, sha256};
use crate::trust::{self, Grant};

/// The recorded consents of one user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Consents {
    /// The folder that holds the records.
    pub state: AbsPath,
    /// Sorted by the file that they are about.
    pub consents: Vec<Consent>,
    /// Records that give no consent, because they are damaged or not the user's own.
    pub unusable: Vec<Unusable>,
}

/// One user's consent to the openings of one project's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Consent {
    pub file: AbsPath,
    pub status: ConsentStatus,
    /// The SHA-256 of the content that the user agreed to.
    pub sha256: String,
    /// The grants that the user agreed to.
    pub grants: Vec<Grant>,
    /// The file of the record.
    pub record: AbsPath,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename = "Status", rename_all = "kebab-case")]
pub enum ConsentStatus {
    /// The file has the content that the user agreed to.
    InForce,
    /// The content of the file has changed, so the consent is not in force.
    Changed,
    /// The file no longer exists, or its path leads through a symlink.
    Gone,
    /// The file exists but cannot be read.
    Unreadable,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Unusable {
    pub record: AbsPath,
    pub because: String,
}

pub fn consents(host: &Host, state: &AbsPath) -> Result<Consents, Diagnostic> {
    let found = trust::records(host, state).map_err(|e| {
        Diagnostic::new(Code::TrustFailed, format!("cannot read the records in `{state}`: {}", reason(&e)))
            .help(format!("make `{state}` a folder that you own and that no other user can write"))
    })?;
    let mut all = Consents { state: state.clone(), consents: Vec::new(), unusable: Vec::new() };
    for (at, record) in found {
        match record {
            Ok(record) => all.consents.push(Consent {
                status: status(host, &record.file, &record.sha256),
                file: record.file,
                sha256: record.sha256,
                grants: record.grants,
                record: at,
            }),
            Err(e) => all.unusable.push(Unusable { record: at, because: reason(&e) }),
        }
    }
    all.consents.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(all)
}

fn status(host: &Host, file: &AbsPath, agreed: &str) -> ConsentStatus {
    // The record names a path without symlinks. If the path contains a symlink now, it leads to
    // another file, and the recorded file counts as gone.
    let is_itself = host.resolve(file.as_path()).map(|found| found.path == *file && found.kind.is_some());
    match is_itself.and_then(|is| if is { host.read_regular(file, MAX_CONFIG_BYTES) } else { Ok(None) }) {
        Ok(Some(content)) if sha256(&content) == agreed => ConsentStatus::InForce,
        Ok(Some(_)) => ConsentStatus::Changed,
        Ok(None) => ConsentStatus::Gone,
        Err(_) => ConsentStatus::Unreadable,
    }
}
