//! bwrap before the policy is compiled. To load it and to make its namespaces takes as long as that, so it is started first, and reads its words from a
//! descriptor (`--args`) when they are known: the very words that are printed. Few things decide about them, all of which are in the files and flags, so they
//! are foreseen; what was foreseen wrongly is never used. The command and its variables, which are not known either, are in the plan of the second stage.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

#[cfg(feature = "ablate")]
use crate::ablate;
use crate::descriptors;
use crate::diagnostic::Diagnostic;
use crate::host::Host;
use crate::launch::availability;
use crate::launch::bwrap;
use crate::launch::cannot_prepare;
use crate::launch::signals::{self, Shield};
use crate::launch::streams::Streams;
use crate::lower::{self, Argv, Before};
use crate::path::AbsPath;
use crate::session::Session;

use super::cannot;
use super::plan::{self, Outgoing};
use super::processors::Processors;
use super::started::{Ends, Started};

/// The first after those of the second stage.
const WORDS: i32 = lower::FIRST_DESCRIPTOR + Ends::COUNT;

/// bwrap, which waits for its words when it is loaded, and ends with this if it is never told any.
pub struct Loading {
    started: Started,
    words: OwnedFd,
    program: AbsPath,
    guard: AbsPath,
}

impl Loading {
    /// Starts the bwrap of the system, if that is the one on PATH: any other must wait until the policy says whether a command can have planted it.
    /// Whatever else stands in the way is met, and told, by a start that knows its words.
    pub fn start(host: &Host, session: &Session) -> Option<Self> {
        let guard = session.executable.clone()?;
        let program = bwrap::of_system(host, session)?;
        Self::spawn(program, guard).ok()
    }

    fn spawn(program: AbsPath, guard: AbsPath) -> Result<Self, Diagnostic> {
        let streams = Streams::new()?;
        let (words, words_inside) = plan::pair().map_err(|e| cannot("make a socket", &e))?;
        let (ends, mut passed) = Ends::new(lower::FIRST_DESCRIPTOR)?;
        passed.push((words_inside, WORDS));
        descriptors::close_on_exec().map_err(|e| cannot_prepare(&e))?;
        let mut bwrap = Command::new(program.as_path());
        bwrap.args(["--args", &WORDS.to_string(), "--"]).args(lower::guard_words(&guard, lower::FIRST_DESCRIPTOR));
        bwrap.env_clear();
        // The second stage has switches, too.
        #[cfg(feature = "ablate")]
        bwrap.envs(std::env::var_os(ablate::VARIABLE).map(|value| (ablate::VARIABLE, value)));
        descriptors::pass(&mut bwrap, &[], passed).map_err(|e| cannot_prepare(&e))?;
        streams.give(&mut bwrap).map_err(|e| cannot_prepare(&e))?;
        signals::keep_children();
        signals::shield(&mut bwrap, Shield::Supervised);
        let processors = Processors::of_caller();
        stand_apart(&mut bwrap, processors);
        let started = Started { processors, ..Started::spawn(&mut bwrap, &program, streams, Some(ends))? };
        Ok(Self { started, words, program, guard })
    }

    /// Tells bwrap its words, with which it begins. One that does not get all of them ends here. Where this machine makes no sandboxes at all, that is for us to say,
    /// and not for bwrap.
    pub fn tell(self, host: &Host, session: &Session, words: Vec<OsString>) -> Option<Ahead> {
        availability::check(host, session, &self.program).ok()?;
        let text: Vec<u8> = words.iter().flat_map(|word| [word.as_bytes(), b"\0"].concat()).collect();
        Outgoing::at_once(&self.words, &text).ok()?;
        let Self { started, program, guard, .. } = self;
        Some(Ahead { started, meant: Meant { words, program, guard } })
    }
}

/// bwrap, with words that were foreseen, which ends with this if no run takes it up.
pub struct Ahead {
    started: Started,
    meant: Meant,
}

impl Ahead {
    pub(super) fn is_for(&self, argv: &Argv) -> bool {
        self.meant.is(argv)
    }

    pub(super) fn take_up(self) -> Started {
        self.started
    }
}

/// What was foreseen.
struct Meant {
    words: Vec<OsString>,
    program: AbsPath,
    guard: AbsPath,
}

impl Meant {
    /// Whether all that bwrap has been told is what `argv` says, but for the command, its variables and where it begins, which are in the plan.
    fn is(&self, argv: &Argv) -> bool {
        let inside = argv.guard.as_ref().is_some_and(|guard| {
            guard.program == self.guard && guard.descriptor == lower::FIRST_DESCRIPTOR && argv.data.is_empty()
        });
        let outside = argv.program == self.program && argv.before == Before::default();
        inside && outside && argv.own_words().eq(&self.words)
    }
}

/// bwrap runs where we do not. What ends it with us is its own affair (`--die-with-parent`), or the end of what it waits for: a signal at our death could meet it
/// when it has just made a process that waits for it, and would then wait for ever.
#[allow(unsafe_code)]
fn stand_apart(bwrap: &mut Command, processors: Option<Processors>) {
    let Some(processors) = processors else { return };
    let apart = move || {
        processors.leave_ours();
        Ok(())
    };
    // SAFETY: these are system calls, and nothing is allocated.
    unsafe { bwrap.pre_exec(apart) };
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::environment::Environment;
    use crate::guard_plan::GuardPlan;
    use crate::lower::{Data, Guard, Operation};
    use crate::origin::Origin;
    use crate::plan::Purpose;

    fn at(path: &str) -> AbsPath {
        AbsPath::normalize(path).unwrap()
    }

    fn argv() -> Argv {
        let because = Origin::BuiltIn("a test");
        let words = vec!["--unshare-all".into(), "--proc".into(), "/proc".into()];
        let plan = GuardPlan {
            mounts: Vec::new(),
            expect: Vec::new(),
            proc_read_only: Vec::new(),
            nested: false,
            landlock: true,
            names: true,
            seccomp: true,
            signal_mask: None,
            report: None,
            json: false,
            command: None,
            environment: None,
            directory: None,
        };
        Argv {
            program: at("/usr/bin/bwrap"),
            operations: vec![Operation { words, purpose: Purpose::Base, because }],
            guard: Some(Guard { program: at("/bin/guard"), plan, because: Vec::new(), descriptor: 3 }),
            command: vec!["true".into()],
            cwd: at("/"),
            create: Vec::new(),
            new_files: Vec::new(),
            environment: Environment::default(),
            placeholders: Vec::new(),
            data: Vec::new(),
            dropped: Vec::new(),
            before: Before::default(),
        }
    }

    #[test]
    fn what_was_foreseen_wrongly_is_not_taken_up() {
        let words = argv().own_words().cloned().collect();
        let meant = Meant { words, program: at("/usr/bin/bwrap"), guard: at("/bin/guard") };
        assert!(meant.is(&argv()));
        assert!(meant.is(&Argv { command: vec!["false".into()], cwd: at("/tmp"), ..argv() }));
        let mut others = vec![
            Argv { program: at("/bin/bwrap"), ..argv() },
            Argv { operations: Vec::new(), ..argv() },
            Argv { guard: None, ..argv() },
            Argv { data: vec![Data { descriptor: 3, content: Vec::new() }], ..argv() },
            Argv { before: Before { scope: true, ..Before::default() }, ..argv() },
        ];
        for words in [&["--unshare-all"][..], &["--unshare-all", "--proc", "/run"]] {
            let mut other = argv();
            other.operations[0].words = words.iter().map(OsString::from).collect();
            others.push(other);
        }
        for (program, descriptor) in [("/bin/other", 3), ("/bin/guard", 4)] {
            let mut other = argv();
            other.guard = other.guard.map(|guard| Guard { program: at(program), descriptor, ..guard });
            others.push(other);
        }
        for (number, other) in others.iter().enumerate() {
            assert!(!meant.is(other), "{number}");
        }
    }
}
