//! The standard streams, which the command gets from the caller. An open file gives more than the
//! direction it was opened for: `/proc/self/fd/0` opens it anew, past the mounts of the sandbox.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::process::{Command, Stdio};

use rustix::fs::{FileType, OFlags, SeekFrom, fcntl_getfl, fstat, seek};
use rustix::stdio::{stderr, stdin, stdout};

use crate::diagnostic::{Code, Diagnostic, reason};
use crate::sys::ablate::{self, Mitigation};
use crate::sys::read_only;

/// The streams in the order of their numbers.
fn of_caller() -> [(BorrowedFd<'static>, &'static str); 3] {
    [(stdin(), "standard input"), (stdout(), "standard output"), (stderr(), "standard error")]
}

/// Refuses a stream that gives the command more than a file: `agent-sandbox … < ~/.ssh` would hand
/// it a way into that folder, past every mount, and a disk holds all files of the machine.
pub(super) fn check() -> Result<(), Diagnostic> {
    for (stream, name) in of_caller() {
        // A closed stream gives nothing.
        let Ok(found) = fstat(stream) else { continue };
        let kind = FileType::from_raw_mode(found.st_mode);
        let (code, what, help) = if kind.is_dir() {
            (Code::OpenDirectory, "a directory", "redirect it from or to a file")
        } else if kind.is_block_device() {
            let help = "put a pipe in between: `cat DEVICE | agent-sandbox …`, or `agent-sandbox … | cat > DEVICE`";
            (Code::UnsafeStream, "a disk", help)
        } else if fcntl_getfl(stream).is_ok_and(|flags| flags.contains(OFlags::PATH)) {
            (Code::UnsafeStream, "a file that is not opened (`O_PATH`)", "open it for reading")
        } else {
            continue;
        };
        let message = format!("{name} is {what}, through which the command could leave");
        return Err(Diagnostic::new(code, message).help(help));
    }
    Ok(())
}

/// The streams that the command gets in place of the caller's.
#[derive(Default)]
pub(super) struct Streams([Option<OwnedFd>; 3]);

impl Streams {
    /// Opens each file that was opened for reading anew, so that it can only be read. Terminals,
    /// pipes, sockets and `/dev/null` pass as they are, and so does a file that the caller opened
    /// for writing, because the caller gives it away.
    pub(super) fn new() -> Result<Self, Diagnostic> {
        let mut replaced = Self::default();
        if ablate::is_off(Mitigation::Streams) {
            return Ok(replaced);
        }
        for ((stream, name), again) in of_caller().into_iter().zip(&mut replaced.0) {
            if is_file_for_reading(stream) {
                *again = Some(read_only::reopen(stream).map_err(|e| not_reopened(name, &e))?);
            }
        }
        Ok(replaced)
    }

    pub(super) fn give(&self, bwrap: &mut Command) -> io::Result<()> {
        let [stdin, stdout, stderr] = &self.0;
        let copy = |stream: &OwnedFd| Ok::<_, io::Error>(Stdio::from(stream.try_clone()?));
        stdin.as_ref().map(copy).transpose()?.map(|stream| bwrap.stdin(stream));
        stdout.as_ref().map(copy).transpose()?.map(|stream| bwrap.stdout(stream));
        stderr.as_ref().map(copy).transpose()?.map(|stream| bwrap.stderr(stream));
        Ok(())
    }

    /// Moves the caller's offset in each file to the command's last offset, for a process that
    /// reads on (`{ agent-sandbox -- head -1; cat; } < file`).
    pub(super) fn hand_back(&self) {
        for ((stream, _), again) in of_caller().into_iter().zip(&self.0) {
            if let Some(place) = again.as_ref().and_then(|again| seek(again, SeekFrom::Current(0)).ok()) {
                let _ = seek(stream, SeekFrom::Start(place));
            }
        }
    }
}

fn not_reopened(name: &str, error: &io::Error) -> Diagnostic {
    let message = if error.kind() == io::ErrorKind::FileTooLarge {
        format!("{name} is a file that cannot be opened for reading alone, and too large to be copied")
    } else {
        format!("{name} cannot be opened for reading alone: {}", reason(error))
    };
    Diagnostic::new(Code::UnsafeStream, message).help("put a pipe in between: `cat FILE | agent-sandbox …`")
}

fn is_file_for_reading(stream: BorrowedFd) -> bool {
    let is_file = fstat(stream).is_ok_and(|found| FileType::from_raw_mode(found.st_mode).is_file());
    is_file && fcntl_getfl(stream).is_ok_and(|flags| (flags & OFlags::RWMODE) == OFlags::RDONLY)
}
