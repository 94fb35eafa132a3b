//! Writing that does not wait for ever.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr, write};
use rustix::stdio::stderr;

/// The time that a reader may take for each [`PIECE`].
const PATIENCE: Duration = Duration::from_secs(5);
const PIECE: usize = 4096;

/// Writes to standard error, and returns whether all of it was written. A terminal that is stopped
/// takes nothing, and neither does a full pipe that nobody reads.
///
/// A thread waits for the reader, and ends with the process. Other ways do not bound every wait:
/// O_NONBLOCK would change the file description of the caller, and a terminal that belongs to
/// another user cannot be opened again.
pub(super) fn to_stderr(text: String) -> bool {
    let pieces = text.len().div_ceil(PIECE);
    let (sender, written) = mpsc::channel();
    let write_all = move || {
        let mut pieces = text.as_bytes().chunks(PIECE);
        // The receiver sees an error as the end of the channel.
        while pieces.next().is_some_and(|piece| write_piece(piece).is_ok() && sender.send(()).is_ok()) {}
    };
    let is_started = thread::Builder::new().spawn(write_all).is_ok();
    is_started && (0..pieces).all(|_| written.recv_timeout(PATIENCE).is_ok())
}

fn write_piece(mut piece: &[u8]) -> Result<(), Errno> {
    while !piece.is_empty() {
        match retry_on_intr(|| write(stderr(), piece)) {
            Ok(0) => return Err(Errno::IO),
            Ok(length) => piece = &piece[length..],
            // The command has made the file description non-blocking.
            Err(Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::from_borrowed_fd(stderr(), PollFlags::OUT)], None::<&Timespec>);
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
