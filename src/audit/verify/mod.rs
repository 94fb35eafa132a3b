//! The answer of `agent-sandbox verify`: the behaviour of a real sandbox and of the model of its
//! argv at each rule.
//!
//! The sandbox is the one that a command would get. A [`probe`] runs in it as the command. A
//! refusal counts only if the same user gets another answer to the same question on the host.

mod facts;
pub mod limit_trial;
pub mod probe;
mod promises;

use rustix::io::Errno;
use schemars::JsonSchema;
use serde::Serialize;

use crate::compile::Compiled;
use crate::compile::lower::{Argv, MountContent, MountFile};
use crate::host::{Host, Session};
use crate::model::{Model, ModelError, ModelFiles};
use crate::policy::{AbsPath, Origin, places};

pub use facts::Fact;
use limit_trial::TriedLimit;
use probe::{EMPTY, ProbeAnswer, ProbeAnswers, ProbeOperation, ProbedKind, Questions, name_of};
use promises::{Claim, Promise};

/// The answer of `agent-sandbox verify`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Verification {
    /// Every test agrees with the policy.
    pub holds: bool,
    /// The guard compared and locked the mounts.
    pub second_stage: bool,
    pub summary: Summary,
    /// Paths, parents first.
    pub checks: Vec<Check>,
    /// Facts about a process inside that depend on no path.
    pub facts: Vec<Fact>,
}

/// The number of checks and facts with each result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Summary {
    pub ok: usize,
    pub mismatch: usize,
    pub not_testable: usize,
}

/// One operation at one path.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Check {
    pub path: AbsPath,
    pub operation: ProbeOperation,
    /// `rw`, `ro` or `exclude`; absent if no rule asks for the check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<String>,
    pub because: Origin,
    /// The effect that the policy promises.
    pub expected: Effect,
    /// The effect that the probe found inside.
    pub kernel: Effect,
    /// The error by which the kernel refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errno: Option<String>,
    /// The effect that the model reads in the argv.
    pub model: Effect,
    pub result: CheckResult,
    /// The reason why the operation cannot be tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The result of one operation at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// The operation works, on the host's file.
    Allowed,
    /// The operation works, but on a file or folder that belongs to the sandbox.
    Private,
    Refused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename = "Outcome", rename_all = "kebab-case")]
pub enum CheckResult {
    Ok,
    Mismatch,
    /// The host refuses the operation, too, so the check proves nothing.
    NotTestable,
}

/// The questions to the probes, and the answers that the policy promises.
pub struct Examination {
    model: Model,
    promises: Vec<Promise>,
    pub inside: Questions,
    pub on_host: Questions,
}

/// agent-sandbox's own files that an argv names. The meaning of the argv depends on them.
pub fn model_files(argv: &Argv) -> ModelFiles {
    let mut files = ModelFiles::default();
    for MountFile { path, content } in &argv.files {
        match content {
            MountContent::Bytes(content) => _ = files.contents.insert(path.clone(), content.clone()),
            MountContent::Unreadable => _ = files.unreadable.insert(path.clone()),
        }
    }
    files.descriptors = argv.data.iter().map(|data| (data.descriptor, data.content.clone())).collect();
    files
}

/// Prepares the questions. The caller must have created everything that the start needs, and must
/// listen on the abstract socket `socket`.
pub fn examination(
    host: &Host,
    session: &Session,
    compiled: &Compiled,
    argv: &Argv,
    socket: &str,
) -> Result<Examination, ModelError> {
    let model = Model::read(&argv.words(), &model_files(argv), |path| !matches!(host.kind(path), Ok(None)))?;
    let promises = promises::promises(host, compiled, &model);
    let questions = |path: fn(&Claim) -> &AbsPath| Questions {
        questions: promises.iter().map(|one| (path(&one.claim).clone(), one.operation)).collect(),
        workshop: Some(places::at(places::RUN).child("user").child(session.uid.to_string())),
        socket: socket.to_owned(),
        mounts: promises::locked(compiled),
    };
    let (inside, on_host) = (questions(|claim| &claim.path), questions(|claim| &claim.source));
    Ok(Examination { model, promises, inside, on_host })
}

impl Examination {
    /// Compares the answers with the promises, and adds the limits that were `tried`. `None` unless
    /// each question has an answer on both sides.
    pub fn judge(
        &self,
        compiled: &Compiled,
        argv: &Argv,
        inside: &ProbeAnswers,
        host: &ProbeAnswers,
        tried: &[TriedLimit],
    ) -> Option<Verification> {
        if [inside, host].iter().any(|side| side.answers.len() != self.promises.len()) {
            return None;
        }
        let answers = inside.answers.iter().zip(&host.answers);
        let judged = self.promises.iter().zip(answers);
        let checks: Vec<Check> = judged.filter_map(|(one, (inside, host))| check(one, inside, host)).collect();
        let facts = facts::facts(compiled, argv, &self.model, &inside.process, &host.process, tried);
        let mut summary = Summary::default();
        for result in checks.iter().map(|check| check.result).chain(facts.iter().map(|fact| fact.result)) {
            match result {
                CheckResult::Ok => summary.ok += 1,
                CheckResult::Mismatch => summary.mismatch += 1,
                CheckResult::NotTestable => summary.not_testable += 1,
            }
        }
        let holds = summary.mismatch == 0;
        Some(Verification { holds, second_stage: argv.guard.is_some(), summary, checks, facts })
    }
}

/// `None` for a check that the answer leaves out.
fn check(promise: &Promise, inside: &ProbeAnswer, host: &ProbeAnswer) -> Option<Check> {
    let Promise { ref claim, operation, expected, refusals, model } = *promise;
    let kernel = effect(operation, inside, host);
    // A mount does not refuse writing to a socket, a FIFO or a device.
    let is_special = |answer: &ProbeAnswer| answer.found.is_some_and(|(_, kind)| kind == ProbedKind::Special);
    if is_special(inside) && is_special(host) && operation == ProbeOperation::Write && expected == Effect::Refused {
        return None;
    }
    let is_as_promised =
        inside.errno == 0 || kernel != Effect::Refused || refusals.iter().any(|e| e.raw_os_error() == inside.errno);
    let agrees = expected == kernel && model == kernel && is_as_promised;
    // A refusal proves nothing where the host refuses, too. A mask that the probe can open is
    // always a mismatch, with any answer of the host.
    let may_be_untestable = kernel == Effect::Refused || expected == Effect::Allowed;
    let note = why_not_testable(promise, host).filter(|_| may_be_untestable);
    let result = match (&note, agrees) {
        (Some(_), _) if claim.optional => return None,
        // If the model is wrong, even an untestable check is a mismatch.
        (Some(_), _) if model == expected => CheckResult::NotTestable,
        (None, true) => CheckResult::Ok,
        _ => CheckResult::Mismatch,
    };
    Some(Check {
        path: claim.path.clone(),
        operation,
        access: claim.access.map(|access| access.to_string()),
        because: claim.because.clone(),
        expected,
        kernel,
        errno: (inside.errno != 0).then(|| name_of(inside.errno)),
        model,
        result,
        note,
    })
}

fn effect(operation: ProbeOperation, inside: &ProbeAnswer, host: &ProbeAnswer) -> Effect {
    let identity = |answer: &ProbeAnswer| answer.found.map(|(identity, _)| identity);
    match (operation, inside.errno) {
        // The directory is not empty, and nothing else refuses: a rename would have worked.
        (ProbeOperation::Move, _) if is_full(inside) => Effect::Allowed,
        (ProbeOperation::Read | ProbeOperation::Write, 0) if identity(inside) == identity(host) => Effect::Allowed,
        (ProbeOperation::Read | ProbeOperation::Write, 0) => Effect::Private,
        _ => Effect::Refused,
    }
}

fn is_full(answer: &ProbeAnswer) -> bool {
    [Errno::NOTEMPTY, Errno::EXIST].iter().any(|e| e.raw_os_error() == answer.errno)
}

/// The reason why the host's answer, which is the control, makes the check untestable.
fn why_not_testable(promise: &Promise, host: &ProbeAnswer) -> Option<String> {
    if promise.expected == Effect::Private || promise.claim.is_own {
        return None;
    }
    let refused = || format!("the host itself refuses: {}", name_of(host.errno));
    match promise.operation {
        ProbeOperation::Move if is_full(host) => None,
        ProbeOperation::Move if host.errno == EMPTY.raw_os_error() => {
            Some("it is empty, or cannot be listed".to_owned())
        }
        ProbeOperation::Move => Some(refused()),
        _ if host.found.is_none() => Some("nothing is there".to_owned()),
        _ => (host.errno != 0).then(refused),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::identity::Identity;

    fn answer(inode: u64, errno: i32) -> ProbeAnswer {
        let identity = Identity { device: 1, inode };
        ProbeAnswer { found: Some((identity, ProbedKind::Directory)), errno }
    }

    /// The result of reading a folder that must be hidden.
    fn read_hidden(inside: &ProbeAnswer, host: &ProbeAnswer) -> CheckResult {
        let expected = Promise {
            claim: Claim::of(&AbsPath::root().child("x"), &Origin::BuiltIn("a test"), None),
            operation: ProbeOperation::Read,
            expected: Effect::Refused,
            refusals: &[Errno::ACCESS],
            model: Effect::Refused,
        };
        check(&expected, inside, host).map(|check| check.result).unwrap_or(CheckResult::NotTestable)
    }

    // SPEC V4
    #[test]
    fn a_mask_that_can_be_opened_is_found_whatever_the_host_refuses() {
        let refused = Errno::ACCESS.raw_os_error();
        let (open, closed) = (answer(1, 0), answer(1, refused));
        let (mask, open_mask) = (answer(2, refused), answer(2, 0));
        assert_eq!(read_hidden(&mask, &open), CheckResult::Ok);
        assert_eq!(read_hidden(&mask, &closed), CheckResult::NotTestable);
        for host in [&open, &closed] {
            assert_eq!(read_hidden(&open_mask, host), CheckResult::Mismatch);
            assert_eq!(read_hidden(&open, host), CheckResult::Mismatch);
        }
        assert_eq!(read_hidden(&answer(2, Errno::IO.raw_os_error()), &open), CheckResult::Mismatch, "not as it must");
    }
}
