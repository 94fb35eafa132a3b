//! What the guard tells the supervisor, the one word that comes back, and how people are told.
//!
//! One message is one packet of a `SOCK_SEQPACKET` pair. The guard's end is closed by the exec of
//! the command, so the supervisor knows that whatever it reads was written by us, and that the end
//! of the stream without a message means that bwrap never came as far as the guard.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::diagnostic::{Code, Diagnostic};

/// No message is longer; what does not fit is cut.
pub const MAX_BYTES: usize = 4096;

/// The supervisor's answer to [`Report::Ready`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The command may start.
    Go,
    /// A directory changed while the supervisor compared: the guard must compare its mounts again.
    VerifyAgain,
}

impl Answer {
    fn encode(self) -> &'static [u8] {
        match self {
            Answer::Go => b"go",
            Answer::VerifyAgain => b"verify",
        }
    }

    pub fn send(self, socket: BorrowedFd) -> io::Result<()> {
        send(socket, self.encode(), SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// The sandbox is as planned, its mounts are locked, and the command is next.
    Ready,
    /// The sandbox is not as planned: nothing may run in it.
    Refused(String),
    /// Something that was to be hidden is not there any more, or is something else. A plan that is
    /// made anew may do.
    Changed(String),
    /// This machine does not let the guard do its work.
    Unavailable(String),
    /// The command could not be executed.
    CannotExecute { errno: i32, message: String },
}

impl Report {
    pub fn encode(&self) -> Vec<u8> {
        let (tag, number, text) = match self {
            Report::Ready => (b'R', None, ""),
            Report::Refused(why) => (b'N', None, why.as_str()),
            Report::Changed(why) => (b'C', None, why.as_str()),
            Report::Unavailable(why) => (b'U', None, why.as_str()),
            Report::CannotExecute { errno, message } => (b'X', Some(*errno), message.as_str()),
        };
        let mut bytes = vec![tag];
        bytes.extend(number.map(i32::to_le_bytes).iter().flatten());
        let room = text.len().min(MAX_BYTES - bytes.len());
        let end = (0..=room).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        bytes.extend(&text.as_bytes()[..end]);
        bytes
    }

    /// `None` for anything that [`Report::encode`] does not write.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (tag, rest) = bytes.split_first().filter(|_| bytes.len() <= MAX_BYTES)?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        match tag {
            b'R' => rest.is_empty().then_some(Report::Ready),
            b'N' => Some(Report::Refused(text(rest)?)),
            b'C' => Some(Report::Changed(text(rest)?)),
            b'U' => Some(Report::Unavailable(text(rest)?)),
            b'X' => {
                let (number, rest) = rest.split_first_chunk()?;
                Some(Report::CannotExecute { errno: i32::from_le_bytes(*number), message: text(rest)? })
            }
            _ => None,
        }
    }

    pub fn send(&self, socket: BorrowedFd) -> io::Result<()> {
        send(socket, &self.encode(), SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

/// After [`Report::Ready`], waits until the supervisor has hold of this process. Otherwise a
/// command that ends at once would be gone before the supervisor can ask for its exit status.
pub fn wait_for_answer(socket: BorrowedFd) -> io::Result<Answer> {
    let mut bytes = [0; 16];
    loop {
        match recv(socket, &mut bytes, RecvFlags::empty()) {
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
            Ok((_, length)) => {
                let answer =
                    [Answer::Go, Answer::VerifyAgain].into_iter().find(|answer| answer.encode() == &bytes[..length]);
                return answer.ok_or_else(|| io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// The guard cannot do its work here.
pub(crate) fn unavailable(why: &str) -> Diagnostic {
    let message = format!("the guard cannot work on this machine: {why}");
    Diagnostic::new(Code::GuardUnavailable, message)
        .help("`--no-guard` runs on bwrap alone, and `--help` says what that gives up")
}

/// Nothing starts on other mounts than those that were planned.
pub(crate) fn refusal(why: &str) -> Diagnostic {
    Diagnostic::new(Code::GuardRefused, format!("the sandbox is not as planned: {why}"))
        .help("something changed while it was set up; start again, and look at who changes it if it stays so")
}

/// The command was there when we looked, and could not be executed inside.
pub(crate) fn cannot_execute_inside(errno: i32, message: String) -> Diagnostic {
    if errno == Errno::NOENT.raw_os_error() {
        Diagnostic::new(Code::CommandNotFound, message)
            .help("see that the interpreter it names is there and visible inside")
    } else {
        Diagnostic::new(Code::CommandNotExecutable, message).help("see that it is made for this machine")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::os::fd::AsFd;

    fn each() -> Vec<Report> {
        vec![
            Report::Ready,
            Report::Refused(String::new()),
            Report::Refused("`/a` is not read-only".into()),
            Report::Changed("`/a`: no such file or directory".into()),
            Report::Unavailable("möglich ist nichts".into()),
            Report::CannotExecute { errno: 13, message: "`x` cannot be executed".into() },
            Report::CannotExecute { errno: -1, message: String::new() },
        ]
    }

    #[test]
    fn a_report_reads_as_it_was_written() {
        for report in each() {
            assert_eq!(Report::decode(&report.encode()), Some(report));
        }
    }

    #[test]
    fn a_report_that_is_too_long_is_cut_between_characters() {
        let long = "ü".repeat(MAX_BYTES);
        let bytes = Report::CannotExecute { errno: 2, message: long.clone() }.encode();
        assert!(bytes.len() <= MAX_BYTES && bytes.len() > MAX_BYTES - 4, "{}", bytes.len());
        let Some(Report::CannotExecute { errno: 2, message }) = Report::decode(&bytes) else { panic!("{bytes:?}") };
        assert!(long.starts_with(&message));
    }

    #[test]
    fn what_nobody_writes_is_not_read() {
        let long = [vec![b'N'], vec![b'x'; MAX_BYTES]].concat();
        for bytes in [&b""[..], b"R ", b"r", b"N\xff", b"X", b"X\0\0\0", b"X\0\0\0\0\xff", b"?", &long] {
            assert_eq!(Report::decode(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn each_report_is_a_packet_of_its_own_and_only_one_answer_lets_go() {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        for report in each() {
            report.send(theirs.as_fd()).unwrap();
        }
        let mut buffer = [0; MAX_BYTES];
        for report in each() {
            let (length, _) = recv(&ours, &mut buffer, RecvFlags::empty()).unwrap();
            assert_eq!(Report::decode(&buffer[..length]), Some(report));
        }
        for answer in [Answer::Go, Answer::VerifyAgain] {
            answer.send(ours.as_fd()).unwrap();
            assert_eq!(wait_for_answer(theirs.as_fd()).unwrap(), answer);
        }
        send(&ours, b"no", SendFlags::NOSIGNAL).unwrap();
        assert!(wait_for_answer(theirs.as_fd()).is_err(), "another answer");
        drop(ours);
        assert!(wait_for_answer(theirs.as_fd()).is_err(), "nobody is there to answer");
    }
}
