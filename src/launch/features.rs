//! What this bwrap can do. Its help tells, which costs a process; what was found is noted in the folder of our state, for exactly this
//! binary, so that only the first start pays.
//!
//! Nothing that is noted opens anything. Flags that a stale note has and bwrap has not end the start with bwrap's own message, those that it
//! lacks are done without; and a trial start that is left out leaves bwrap to fail by itself, visibly, where it would have been explained.

use std::collections::BTreeMap;
use std::fs;

use serde::{Deserialize, Serialize};

use crate::compile::layers::Layers;
use crate::compile::lower::{Engine, Features};
use crate::diagnostic::Diagnostic;
use crate::host::Host;
use crate::host::identity::Snapshot;
use crate::host::session::Session;
use crate::host::state_dir::{StateFiles, must_be_elsewhere};
use crate::policy::path::AbsPath;

const KIND: StateFiles = StateFiles { folder: "probes", max_bytes: 1 << 16 };
const NAME: &str = "bwrap.json";
/// Of the format, and of the list of flags that are asked for.
const VERSION: u32 = 2;
/// Nobody goes back and forth between more.
const MAX_BINARIES: usize = 4;

/// All that is noted, the latest first.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Notes {
    version: u32,
    binaries: Vec<Note>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    binary: Snapshot,
    flags: Vec<String>,
    /// Under which circumstances it has made a sandbox. A failure is never noted: it may be mended without a trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    worked: Option<Circumstances>,
}

type Circumstances = BTreeMap<String, String>;

/// The flags of this bwrap, as noted, or else by its help. Leaves no trace: see [`remember`].
pub(super) fn of(host: &Host, layers: &Layers, bwrap: &AbsPath) -> Result<Features, Diagnostic> {
    // Before the question: the answer of a binary that is replaced meanwhile is not noted for its successor.
    let binary = Snapshot::at(host, bwrap).map_err(|e| super::cannot_execute(bwrap, &e))?;
    if let Some(note) = noted(host, layers, &binary) {
        return Ok(Features::among(note.flags.iter().map(String::as_str)));
    }
    let flags = super::bwrap::flags(bwrap)?;
    let told = Features::told(flags.iter().map(String::as_str), binary);
    // No answer at all: whatever it is, it fails by itself and says why.
    Ok(if told.names().next().is_none() { Features::all() } else { told })
}

/// Notes what bwrap has told, for the next start. For who starts something: printing an argv leaves no trace. Where nothing can be noted, the
/// next start asks again.
pub fn remember(host: &Host, layers: &Layers, engine: &Engine) {
    if let Some(binary) = engine.features.told_by() {
        let flags = engine.features.names().map(str::to_owned).collect();
        note(host, layers, Note { binary: binary.clone(), flags, worked: None });
    }
}

/// Whether a trial start has succeeded under the very same circumstances.
pub(super) fn has_worked(host: &Host, session: &Session, layers: &Layers, bwrap: &AbsPath) -> bool {
    let Some(now) = circumstances(host, session) else { return false };
    let noted = Snapshot::at(host, bwrap).ok().and_then(|binary| noted(host, layers, &binary));
    noted.is_some_and(|note| note.worked == Some(now))
}

/// Notes that a trial start has succeeded.
pub(super) fn remember_that_it_works(host: &Host, session: &Session, layers: &Layers, bwrap: &AbsPath) {
    let Ok(binary) = Snapshot::at(host, bwrap) else { return };
    let known = noted(host, layers, &binary);
    // Noted together with the flags, or not at all.
    if let (Some(known), Some(now)) = (known, circumstances(host, session)) {
        note(host, layers, Note { worked: Some(now), ..known });
    }
}

/// What a trial start depends on besides the binary; `None` where it cannot be told. The first process of a container tells it from one
/// that was started before, the rest is what decides about namespaces.
fn circumstances(host: &Host, session: &Session) -> Option<Circumstances> {
    let read = |path: &str| fs::read_to_string(host.real(&AbsPath::root().join(path))).ok();
    let mut found = Circumstances::from([("uid".to_owned(), session.uid.to_string())]);
    found.insert("boot".to_owned(), read("proc/sys/kernel/random/boot_id")?.trim().to_owned());
    let first = read("proc/1/stat")?;
    let started = first.rsplit_once(')')?.1.split_whitespace().nth(STARTED)?;
    found.insert("first process".to_owned(), started.to_owned());
    for kind in ["user", "mnt", "pid"] {
        let namespace = fs::read_link(host.real(&AbsPath::root().join(format!("proc/self/ns/{kind}")))).ok()?;
        found.insert(format!("{kind} namespace"), namespace.to_str()?.to_owned());
    }
    let status = read("proc/self/status")?;
    for line in status.lines() {
        if let Some((name, value)) = line.split_once(':')
            && ["CapEff", "CapPrm", "CapBnd", "NoNewPrivs", "Seccomp", "Seccomp_filters"].contains(&name)
        {
            found.insert(name.to_owned(), value.trim().to_owned());
        }
    }
    for setting in [
        "proc/self/attr/current",
        "proc/sys/user/max_user_namespaces",
        "proc/sys/user/max_mnt_namespaces",
        "proc/sys/kernel/unprivileged_userns_clone",
        "proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    ] {
        found.insert(setting.to_owned(), read(setting).unwrap_or_default().trim().to_owned());
    }
    Some(found)
}

/// Field 22 of proc(5), counted after the name.
const STARTED: usize = 19;

/// What is noted of this very binary. Whatever is not as we write it counts as nothing.
fn noted(host: &Host, layers: &Layers, binary: &Snapshot) -> Option<Note> {
    notes(host, layers)?.binaries.into_iter().find(|note| note.binary == *binary)
}

fn notes(host: &Host, layers: &Layers) -> Option<Notes> {
    must_be_elsewhere(&layers.state, &layers.project.outermost).ok()?;
    let content = KIND.read(host, &layers.state, NAME).ok()?;
    serde_json::from_slice::<Notes>(&content).ok().filter(|notes| notes.version == VERSION)
}

/// Two runs at once may each forget what the other has noted: then it is found out again.
fn note(host: &Host, layers: &Layers, note: Note) {
    let others = notes(host, layers).unwrap_or_default().binaries.into_iter();
    let others = others.filter(|other| other.binary.path != note.binary.path);
    let binaries = std::iter::once(note.clone()).chain(others).take(MAX_BINARIES).collect();
    if let (Ok(()), Ok(text)) = (
        must_be_elsewhere(&layers.state, &layers.project.outermost),
        serde_json::to_string_pretty(&Notes { version: VERSION, binaries }),
    ) {
        let _ = KIND.write(host, &layers.state, NAME, (text + "\n").as_bytes());
    }
}
