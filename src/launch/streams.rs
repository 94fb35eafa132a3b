//! The standard streams, which the command gets from the caller. An open file gives more rights
//! than its open mode: the command can open `/proc/self/fd/0` again, past the mounts of the
//! sandbox.

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

/// Refuses a stream that gives the command more than a file. With `agent-sandbox … < ~/.ssh` the
/// command could open the files in that folder past every mount, and a disk holds all files of the
/// machine.
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
        let message = format!("{name} is {what}, through which the command could leave the sandbox");
        return Err(Diagnostic::new(code, message).help(help));
    }
    Ok(())
}

/// The streams that the command gets in place of the caller's.
#[derive(Default)]
pub(super) struct Streams([Option<OwnedFd>; 3]);

impl Streams {
    /// Opens each file again that the caller opened for reading, so that the command can only read
    /// it. Terminals, pipes, sockets and `/dev/null` are passed unchanged. So is a file that the
    /// caller opened for writing, because the caller lets the command change it.
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
    /// continues to read (`{ agent-sandbox -- head -1; cat; } < file`).
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
