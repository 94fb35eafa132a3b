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

/// bwrap, which ends with this if no run takes it up.
pub struct Waiting {
    started: Started,
    words: Words,
    program: AbsPath,
    guard: AbsPath,
}

enum Words {
    /// Where bwrap waits for them.
    Untold(OwnedFd),
    Told(Vec<OsString>),
}

impl Waiting {
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
        Ok(Self { started, words: Words::Untold(words), program, guard })
    }

    /// Tells bwrap its words, with which it begins. Where this machine makes no sandboxes at all, that is for us to say, and not for bwrap.
    pub fn tell(&mut self, host: &Host, session: &Session, words: Vec<OsString>) {
        if availability::check(host, session, &self.program).is_ok() {
            self.send(words);
        }
    }

    fn send(&mut self, words: Vec<OsString>) {
        let text = words.iter().flat_map(|word| [word.as_bytes(), b"\0"].concat()).collect();
        let Words::Untold(socket) = std::mem::replace(&mut self.words, Words::Told(words)) else { return };
        // They are fewer than a socket takes at once. A bwrap that has only a part of them ends, and says so.
        let _ = Outgoing::new(socket, text).go_on();
    }

    /// Whether it has been told, or can be told, the words of `argv`.
    pub(super) fn is_for(&self, argv: &Argv) -> bool {
        let guard = argv.guard.as_ref().is_some_and(|guard| {
            guard.program == self.guard && guard.descriptor == lower::FIRST_DESCRIPTOR && argv.data.is_empty()
        });
        let words = match &self.words {
            Words::Untold(_) => true,
            Words::Told(words) => argv.own_words().eq(words),
        };
        guard && words && argv.program == self.program && argv.before == Before::default()
    }

    /// For a run of `argv`, whose words it has from here on.
    pub(super) fn take_up(mut self, argv: &Argv) -> Started {
        self.send(argv.own_words().cloned().collect());
        self.started
    }
}

/// bwrap runs where we do not. What ends it with us is its own affair (`--die-with-parent`), or the end of what it waits for: a signal at our death could meet it
/// when it has just made a process that waits for it, and would then wait for ever.
#[allow(unsafe_code)]
fn stand_apart(bwrap: &mut Command, processors: Option<Processors>) {
    let Some(processors) = processors else { return };
    let apart = move || {
        processors.leave_this_one();
        Ok(())
    };
    // SAFETY: these are system calls, and nothing is allocated.
    unsafe { bwrap.pre_exec(apart) };
}
