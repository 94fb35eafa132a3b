//! The answer of `agent-sandbox doctor`: the features of this machine, and a remedy for each
//! missing one.
//!
//! Each probe belongs to the stage that needs it. This module only interprets the answers.

mod machine;
pub mod probe;
mod setup;
mod trial;

use schemars::JsonSchema;
use serde::Serialize;

use crate::compile::protection::leaves_open;
use crate::diagnostic::Diagnostic;
use crate::host::{Host, Session};
use crate::policy::Protection;

/// The answer of `agent-sandbox doctor`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Diagnosis {
    /// A trial run of a small command in a sandbox succeeded.
    pub works: bool,
    /// The policy of this folder has no errors, and this machine can enforce its limits. Otherwise
    /// no run starts here. `works` is about a trial without the project's file.
    pub policy_is_valid: bool,
    pub findings: Vec<DoctorFinding>,
    /// The flags of bwrap that agent-sandbox uses and that not every bwrap has.
    pub bwrap_features: Vec<Feature>,
}

/// The result of one check.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename = "Finding")]
pub struct DoctorFinding {
    pub name: String,
    pub status: FindingStatus,
    pub found: String,
    /// The consequence, if something is lacking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// The remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename = "Status", rename_all = "kebab-case")]
pub enum FindingStatus {
    Ok,
    /// Sandboxes work, with less protection or comfort.
    Limited,
    /// Nothing runs without this part.
    Missing,
}

/// A flag that not every bwrap has.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Feature {
    pub flag: String,
    pub available: bool,
    pub used_for: String,
}

/// The constructors leave `name` empty; [`diagnose`] sets it.
impl DoctorFinding {
    fn ok(found: impl Into<String>) -> Self {
        Self { name: String::new(), status: FindingStatus::Ok, found: found.into(), effect: None, remedy: None }
    }

    fn limited(found: impl Into<String>, effect: impl Into<String>, remedy: impl Into<String>) -> Self {
        let (effect, remedy) = (Some(effect.into()), Some(remedy.into()));
        Self { status: FindingStatus::Limited, effect, remedy, ..Self::ok(found) }
    }

    fn missing(diagnostic: &Diagnostic) -> Self {
        let effect = Some("`agent-sandbox -- COMMAND` starts nothing".to_owned());
        let remedy = diagnostic.help.clone();
        Self { status: FindingStatus::Missing, effect, remedy, ..Self::ok(diagnostic.message.clone()) }
    }
}

pub fn diagnose(host: &Host, session: &Session, allow_root: bool) -> Diagnosis {
    let tried = probe::ask(session);
    let trial = trial::prepare(host, session);
    let machine = trial.as_ref().ok().map(|trial| trial.machine.as_ref());
    let bwrap = machine.and_then(Result::ok).map(|machine| machine.bwrap.clone());
    let missing = setup::missing_limits(host, session, bwrap.as_ref(), &tried);
    let policy = setup::policy(host, session, &missing);
    let policy_is_valid = policy.status == FindingStatus::Ok;
    let checks = [
        ("caller", Some(setup::caller(host, session, allow_root))),
        ("bwrap", Some(setup::bwrap(host, machine))),
        ("user namespaces", Some(machine::user_namespaces(host, session, bwrap.as_ref(), &tried))),
        ("AppArmor", machine::apparmor(host)),
        ("container", Some(machine::container(host, session))),
        ("kernel", Some(machine::kernel())),
        ("Landlock", Some(machine::landlock(&tried))),
        ("seccomp", Some(machine::seccomp())),
        ("overlay", Some(machine::overlay(&tried))),
        ("limits", Some(setup::limits(&missing))),
        ("policy", Some(policy)),
        ("name resolution", trial.as_ref().ok().map(|trial| setup::name_resolution(host, trial))),
        ("state folder", Some(setup::state_folder(host, session))),
        ("terminal", Some(setup::terminal())),
    ];
    // The trial start comes last, because it may create the state folder.
    let (guard, start) = match trial.and_then(|trial| trial.start(host, allow_root)) {
        Ok(None) => {
            (Some(DoctorFinding::ok("compares and locks the mounts")), DoctorFinding::ok("a sandbox was started"))
        }
        Ok(Some(why)) => (
            Some(DoctorFinding::limited(
                format!("cannot work here: {why}"),
                leaves_open(Protection::Guard),
                "see `user namespaces` and `AppArmor`",
            )),
            DoctorFinding::ok("a sandbox was started, on bwrap alone"),
        ),
        Err(diagnostic) => (None, DoctorFinding::missing(&diagnostic)),
    };
    let works = start.status == FindingStatus::Ok;
    let checks = checks.into_iter().chain([("guard", guard), ("trial start", Some(start))]);
    let named = |(name, finding): (&str, Option<_>)| Some(DoctorFinding { name: name.to_owned(), ..finding? });
    let findings = checks.filter_map(named).collect();
    let bwrap_features = bwrap.iter().flat_map(setup::features).collect();
    Diagnosis { works, policy_is_valid, findings, bwrap_features }
}
