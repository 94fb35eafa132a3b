//! Standard input, output and error, which the command gets from the caller. An open file is more than the direction it was opened for:
//! `/proc/self/fd/0` opens it anew, past the mounts of the sandbox.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::process::{Command, Stdio};

use rustix::fs::{FileType, OFlags, SeekFrom, fcntl_getfl, fstat, seek};
use rustix::stdio::{stderr, stdin, stdout};

use crate::diagnostic::{Code, Diagnostic, reason};
use crate::sys::ablate::{self, Mitigation};

use super::read_only;

const NAMES: [&str; 3] = ["standard input", "standard output", "standard error"];

/// The caller's, in the order of their numbers.
fn of_caller() -> [BorrowedFd<'static>; 3] {
    [stdin(), stdout(), stderr()]
}

/// Refuses what gives the command more than a stream: `agent-sandbox … < ~/.ssh` would hand it a way into that folder, past every mount,
/// and a disk holds all files of the machine.
pub(super) fn check() -> Result<(), Diagnostic> {
    for (stream, name) in of_caller().into_iter().zip(NAMES) {
        // One that is closed is no door.
        let Ok(found) = fstat(stream) else { continue };
        let refused = |code, what: &str| {
            Diagnostic::new(code, format!("{name} is {what}, through which the command could leave"))
        };
        let kind = FileType::from_raw_mode(found.st_mode);
        if kind.is_dir() {
            return Err(refused(Code::OpenDirectory, "a directory").help("redirect it from or to a file"));
        }
        if kind.is_block_device() {
            return Err(refused(Code::UnsafeStream, "a disk")
                .help("put a pipe in between: `cat DEVICE | agent-sandbox …`, or `agent-sandbox … | cat > DEVICE`"));
        }
        if fcntl_getfl(stream).is_ok_and(|flags| flags.contains(OFlags::PATH)) {
            return Err(refused(Code::UnsafeStream, "a file that is not opened (`O_PATH`)").help("open it for reading"));
        }
    }
    Ok(())
}

/// Those that the command gets in place of the caller's.
#[derive(Default)]
pub(super) struct Streams {
    replaced: Vec<(usize, OwnedFd)>,
}

impl Streams {
    /// Each file that was opened for reading is opened anew, so that it can only be read. Terminals, pipes, sockets and `/dev/null` pass as
    /// they are; so does what the caller opened for writing, since that file is what he gives away.
    pub(super) fn new() -> Result<Self, Diagnostic> {
        let mut replaced = Vec::new();
        for (number, stream) in of_caller().into_iter().enumerate().filter(|_| !ablate::is_off(Mitigation::Streams)) {
            if !is_file_for_reading(stream) {
                continue;
            }
            let name = NAMES[number];
            match read_only::reopened(stream) {
                Ok(Some(again)) => replaced.push((number, again)),
                Ok(None) => {
                    return Err(unsafe_stream(format!(
                        "{name} is a file that cannot be opened for reading alone, and too large to be copied"
                    )));
                }
                Err(e) => {
                    return Err(unsafe_stream(format!("{name} cannot be opened for reading alone: {}", reason(&e))));
                }
            }
        }
        Ok(Self { replaced })
    }

    pub(super) fn give(&self, bwrap: &mut Command) -> io::Result<()> {
        for (number, stream) in &self.replaced {
            let stream = Stdio::from(stream.try_clone()?);
            match number {
                0 => bwrap.stdin(stream),
                1 => bwrap.stdout(stream),
                _ => bwrap.stderr(stream),
            };
        }
        Ok(())
    }

    /// Who reads on after the command (`{ agent-sandbox -- head -1; cat; } < file`) begins where it ended.
    pub(super) fn hand_back(&self) {
        for (number, stream) in &self.replaced {
            if let Ok(place) = seek(stream, SeekFrom::Current(0)) {
                let _ = seek(of_caller()[*number], SeekFrom::Start(place));
            }
        }
    }
}

fn unsafe_stream(message: String) -> Diagnostic {
    Diagnostic::new(Code::UnsafeStream, message).help("put a pipe in between: `cat FILE | agent-sandbox …`")
}

fn is_file_for_reading(stream: BorrowedFd) -> bool {
    let is_file = fstat(stream).is_ok_and(|found| FileType::from_raw_mode(found.st_mode).is_file());
    is_file && fcntl_getfl(stream).is_ok_and(|flags| (flags & OFlags::RWMODE) == OFlags::RDONLY)
}
