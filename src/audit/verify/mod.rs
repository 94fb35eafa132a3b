//! Whether the kernel does what the policy says: a real sandbox is asked about each rule, and so is the model of its argv.
//!
//! The sandbox is the one that a command would get, with a [`probe`] for a command. Each refusal counts only where the same question on
//! the host, by the same user, has another answer.

mod expect;
mod facts;
pub mod probe;

use rustix::io::Errno;
use schemars::JsonSchema;
use serde::Serialize;

use crate::audit::origin_json::Whence;
use crate::compile::Compiled;
use crate::compile::lower::{Argv, MountContent, MountFile};
use crate::host::Host;
use crate::host::session::Session;
use crate::model::{Model, ModelError, ModelFiles};
use crate::policy::path::AbsPath;
use crate::policy::path_json::Word;
use crate::policy::places;

pub use expect::Asked;
use expect::Control;
pub use facts::Fact;
use probe::{Answer, Answers, EMPTY, Kind, Operation, Questions, name_of};

/// The answer of `agent-sandbox verify`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Verification {
    /// Nothing that was tested is otherwise than the policy says.
    pub holds: bool,
    /// The guard compared and locked the mounts.
    pub second_stage: bool,
    pub summary: Summary,
    /// Paths, parents first.
    pub checks: Vec<Check>,
    /// What a process inside is, whatever the path.
    pub facts: Vec<Fact>,
}

/// How many of the checks and facts came out how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Summary {
    pub ok: usize,
    pub mismatch: usize,
    pub not_testable: usize,
}

/// One operation at one path.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Check {
    pub path: AbsPath,
    pub operation: Operation,
    /// `rw`, `ro` or `exclude`; absent where it is no rule that asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<String>,
    pub because: Whence,
    /// The same, for people.
    #[serde(skip)]
    pub reason: String,
    /// What the policy says.
    pub expected: Effect,
    /// What happened inside.
    pub kernel: Effect,
    /// How the kernel refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errno: Option<String>,
    /// What the argv means.
    pub model: Effect,
    pub result: Outcome,
    /// Why it cannot be tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What comes of trying something at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// It works, on what the host has there.
    Allowed,
    /// It works, on something of the sandbox's own.
    Private,
    Refused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Ok,
    Mismatch,
    /// The host refuses it, too, so it proves nothing.
    NotTestable,
}

/// What is asked, and what for.
pub struct Examination {
    model: Model,
    asked: Vec<Asked>,
    /// For the probe inside.
    pub inside: Questions,
    /// For its like on the host.
    pub on_host: Questions,
}

/// The files of ours that decide what an argv means.
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

/// To be called when everything stands that the start needs. `socket`: an abstract one that somebody listens on.
pub fn examination(
    host: &Host,
    session: &Session,
    compiled: &Compiled,
    argv: &Argv,
    socket: &str,
) -> Result<Examination, ModelError> {
    let model = Model::read(&argv.words(), &model_files(argv), |path| !matches!(host.kind(path), Ok(None)))?;
    let asked = expect::asked(host, compiled, &model);
    let questions = |questions| Questions {
        questions,
        workshop: Some(places::at(places::RUN).child("user").child(session.uid.to_string())),
        socket: socket.to_owned(),
        mounts: expect::locked(compiled),
    };
    let inside = questions(asked.iter().map(Asked::inside).collect());
    let on_host = questions(asked.iter().map(Asked::on_host).collect());
    Ok(Examination { model, asked, inside, on_host })
}

impl Examination {
    /// What the answers come to: one to each question, in their order. `None` where there are more or fewer, because what was not answered
    /// does not hold.
    pub fn judge(&self, compiled: &Compiled, argv: &Argv, inside: &Answers, host: &Answers) -> Option<Verification> {
        if [inside, host].iter().any(|side| side.answers.len() != self.asked.len()) {
            return None;
        }
        let answers = inside.answers.iter().zip(&host.answers);
        let checks: Vec<Check> =
            self.asked.iter().zip(answers).filter_map(|(asked, (inside, host))| check(asked, inside, host)).collect();
        let facts = facts::facts(compiled, argv, &self.model, &inside.process, &host.process);
        let mut summary = Summary::default();
        for result in checks.iter().map(|check| check.result).chain(facts.iter().map(|fact| fact.result)) {
            match result {
                Outcome::Ok => summary.ok += 1,
                Outcome::Mismatch => summary.mismatch += 1,
                Outcome::NotTestable => summary.not_testable += 1,
            }
        }
        let holds = summary.mismatch == 0;
        Some(Verification { holds, second_stage: argv.guard.is_some(), summary, checks, facts })
    }
}

/// `None` for what is not worth a line.
fn check(asked: &Asked, inside: &Answer, host: &Answer) -> Option<Check> {
    let kernel = effect(asked, inside, host);
    let errno = (inside.errno != 0).then(|| name_of(inside.errno));
    let is = |answer: &Answer, kind| answer.found.is_some_and(|found| found.kind == kind);
    // No mount refuses to write to what is no file: a read-only socket can be spoken to.
    let is_special = is(inside, Kind::Special) && is(host, Kind::Special);
    if is_special && asked.operation == Operation::Write && asked.expected == Effect::Refused {
        return None;
    }
    let as_it_must = inside.errno == 0
        || kernel != Effect::Refused
        || asked.refusals.iter().any(|e| e.raw_os_error() == inside.errno);
    let agrees = asked.expected == kernel && asked.model == kernel && as_it_must;
    // What the host refuses proves nothing about a refusal. But a mask that can be opened is none, whatever the host says.
    let note = why_not_testable(asked, host).filter(|_| kernel == Effect::Refused || asked.expected == Effect::Allowed);
    let result = match (&note, agrees) {
        (Some(_), _) if asked.optional => return None,
        // The model can still be wrong.
        (Some(_), _) if asked.model == asked.expected => Outcome::NotTestable,
        (None, true) => Outcome::Ok,
        _ => Outcome::Mismatch,
    };
    Some(Check {
        path: asked.path.clone(),
        operation: asked.operation,
        access: asked.access.map(|access| access.key().to_owned()),
        because: Whence::from(&asked.because),
        reason: asked.because.to_string(),
        expected: asked.expected,
        kernel,
        errno,
        model: asked.model,
        result,
        note,
    })
}

fn effect(asked: &Asked, inside: &Answer, host: &Answer) -> Effect {
    if asked.operation == Operation::Move {
        // Full, and nothing else in the way: a rename would have worked.
        return if is_full(inside) { Effect::Allowed } else { Effect::Refused };
    }
    let same = || inside.found.map(|found| found.identity) == host.found.map(|found| found.identity);
    match inside.errno {
        0 if same() => Effect::Allowed,
        0 => Effect::Private,
        _ => Effect::Refused,
    }
}

fn is_full(answer: &Answer) -> bool {
    [Errno::NOTEMPTY, Errno::EXIST].iter().any(|e| e.raw_os_error() == answer.errno)
}

/// The control: the same question on the host.
fn why_not_testable(asked: &Asked, host: &Answer) -> Option<String> {
    let refused = || format!("the host itself refuses: {}", name_of(host.errno));
    match (asked.operation, asked.expected) {
        (_, Effect::Private) => None,
        _ if asked.control == Control::Workshop => None,
        (Operation::Move, _) if is_full(host) => None,
        (Operation::Move, _) if host.errno == EMPTY.raw_os_error() => {
            Some("it is empty, or cannot be listed".to_owned())
        }
        (Operation::Move, _) => Some(refused()),
        _ if host.found.is_none() => Some("nothing is there".to_owned()),
        _ => (host.errno != 0).then(refused),
    }
}

/// Names for people, in one line.
fn listed(names: &[Word]) -> String {
    let shown: Vec<String> = names.iter().map(|Word(name)| crate::policy::path::shown(name)).collect();
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::probe::Found;
    use super::*;
    use crate::host::identity::Identity;
    use crate::policy::origin::Origin;

    fn answer(inode: u64, errno: i32) -> Answer {
        let identity = Identity { device: 1, inode };
        Answer { found: Some(Found { identity, kind: Kind::Directory }), errno }
    }

    /// What comes of reading a folder that is to be hidden.
    fn read_hidden(inside: &Answer, host: &Answer) -> Outcome {
        let asked = Asked {
            path: AbsPath::root().child("x"),
            source: AbsPath::root().child("x"),
            operation: Operation::Read,
            expected: Effect::Refused,
            refusals: &[Errno::ACCESS],
            model: Effect::Refused,
            because: Origin::BuiltIn("a test"),
            access: None,
            control: Control::Host,
            optional: false,
        };
        check(&asked, inside, host).map(|check| check.result).unwrap_or(Outcome::NotTestable)
    }

    #[test]
    fn a_mask_that_can_be_opened_is_found_whatever_the_host_refuses() {
        let refused = Errno::ACCESS.raw_os_error();
        let (open, closed) = (answer(1, 0), answer(1, refused));
        let (mask, open_mask) = (answer(2, refused), answer(2, 0));
        assert_eq!(read_hidden(&mask, &open), Outcome::Ok);
        assert_eq!(read_hidden(&mask, &closed), Outcome::NotTestable);
        for host in [&open, &closed] {
            assert_eq!(read_hidden(&open_mask, host), Outcome::Mismatch);
            assert_eq!(read_hidden(&open, host), Outcome::Mismatch);
        }
        assert_eq!(read_hidden(&answer(2, Errno::IO.raw_os_error()), &open), Outcome::Mismatch, "not as it must");
    }
}
