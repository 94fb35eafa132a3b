//! What bwrap and the guard wait for, on its way: words and plan, which are known only after the start.
//!
//! A socket and no pipe, because a reader that has gone must not end this process by SIGPIPE, whatever the caller has made of that signal. What
//! the guard has read is the plan only if it is whole: its last character closes what its first one opened.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};

/// Our end, and what is written to it.
pub(super) struct Outgoing {
    socket: OwnedFd,
    text: Vec<u8>,
    written: usize,
}

/// Our end and the guard's.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}

impl Outgoing {
    pub(super) fn new(socket: OwnedFd, text: Vec<u8>) -> Self {
        Self { socket, text, written: 0 }
    }

    /// All of a text that is shorter than what a socket takes at once, or an error.
    pub(super) fn at_once(socket: &OwnedFd, text: &[u8]) -> io::Result<()> {
        let written = send(socket, text, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
        if written == text.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Writes what there is room for. `None` when nothing is left to do, and the guard sees the end: the plan is written, or nobody will read it any
    /// more, and bwrap's end tells why.
    pub(super) fn go_on(mut self) -> Option<Self> {
        while self.written < self.text.len() {
            match send(&self.socket, &self.text[self.written..], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(written) => self.written += written,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Some(self),
                Err(_) => return None,
            }
        }
        None
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_plan_larger_than_any_buffer_arrives_whole_and_is_not_waited_for() {
        let (ours, theirs) = pair().unwrap();
        let plan: Vec<u8> = (0..4 << 20).map(|at: u32| at.to_le_bytes()[1]).collect();
        let mut outgoing = Outgoing::new(ours, plan.clone()).go_on();
        assert!(outgoing.is_some(), "nobody has read yet");
        let mut read = Vec::new();
        let mut reader = std::fs::File::from(theirs);
        while let Some(waiting) = outgoing {
            let mut some = vec![0; 1 << 16];
            let length = reader.read(&mut some).unwrap();
            read.extend(&some[..length]);
            outgoing = waiting.go_on();
        }
        reader.read_to_end(&mut read).unwrap();
        assert_eq!(read, plan);
    }

    /// The test would end by the signal, which the test harness, unlike our binary, may not ignore.
    #[test]
    fn a_reader_that_has_gone_is_no_matter() {
        let (ours, theirs) = pair().unwrap();
        drop(theirs);
        assert!(Outgoing::new(ours, b"{}".to_vec()).go_on().is_none());
    }
}
