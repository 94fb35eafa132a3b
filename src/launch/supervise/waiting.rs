//! bwrap before it has its words. To load it takes as long as to compile a policy, so it is started first, and reads its words from a
//! descriptor (`--args`) when they are known: the very words that are printed. The command and its variables, which are not known either, are in the plan of the second stage.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, set_parent_process_death_signal};

#[cfg(feature = "ablate")]
use crate::ablate;
use crate::descriptors;
use crate::diagnostic::Diagnostic;
use crate::host::Host;
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

/// bwrap, which ends with this if it is never told its words.
pub struct Waiting {
    started: Started,
    words: OwnedFd,
    program: AbsPath,
    guard: AbsPath,
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
        Ok(Self { started, words, program, guard })
    }

    /// Whether it can be told the words of `argv`.
    pub(super) fn is_for(&self, argv: &Argv) -> bool {
        let guard = argv.guard.as_ref().is_some_and(|guard| {
            guard.program == self.guard && guard.descriptor == lower::FIRST_DESCRIPTOR && argv.data.is_empty()
        });
        guard && argv.program == self.program && argv.before == Before::default()
    }

    /// Tells bwrap its words, with which it begins.
    pub(super) fn tell(self, argv: &Argv) -> Result<Started, Diagnostic> {
        let ended = |word: &OsString| [word.as_bytes(), b"\0"].concat();
        let words = argv.own_words().flat_map(ended).collect();
        // They are fewer than a socket takes at once.
        match Outgoing::new(self.words, words).go_on() {
            None => Ok(self.started),
            Some(_) => Err(cannot("tell bwrap its words", &io::ErrorKind::WouldBlock.into())),
        }
    }
}

/// bwrap ends with us even while it has no words, and runs where we do not.
#[allow(unsafe_code)]
fn stand_apart(bwrap: &mut Command, processors: Option<Processors>) {
    let apart = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        processors.iter().for_each(Processors::leave_this_one);
        Ok(())
    };
    // SAFETY: these are system calls, and nothing is allocated.
    unsafe { bwrap.pre_exec(apart) };
}
