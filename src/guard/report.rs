//! The messages between the guard and the supervisor, and the diagnostics that they lead to.
//!
//! One message is one packet of a `SOCK_SEQPACKET` pair. The exec of the command closes the guard's
//! end, so every message was written by the guard. The end of the stream without a message means
//! that bwrap failed before it started the guard.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags, recv};
use serde::{Deserialize, Serialize, Serializer};

use crate::compile::limits::unavailable;
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::policy::LimitKind;

/// The longest text of a message. A longer one is cut.
const MAX_TEXT: usize = 4096;
/// The longest message: JSON may need six bytes for a byte of the text.
pub const MAX_BYTES: usize = 6 * MAX_TEXT + 128;

/// The supervisor's answer to [`Report::Ready`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The command may start.
    Go,
    /// A directory changed while the supervisor compared: the guard must compare its mounts again.
    VerifyAgain,
}

/// A message of the guard. All but `Ready` say why the command was not started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// The mounts are as planned and locked. The command is next.
    Ready,
    /// The sandbox is not as planned.
    Refused(#[serde(serialize_with = "cut")] String),
    /// A path has changed since the policy was compiled. Another start may succeed.
    Changed(#[serde(serialize_with = "cut")] String),
    /// This machine does not let the guard work. Nothing has been given up yet, so a start without
    /// the guard may still succeed.
    Unavailable(#[serde(serialize_with = "cut")] String),
    /// This machine does not let the guard mount a link. Nothing has been given up yet, so a start
    /// without private copies may still succeed.
    PrivateRefused(#[serde(serialize_with = "cut")] String),
    /// This machine cannot enforce a limit, for this reason.
    LimitRefused(LimitKind, #[serde(serialize_with = "cut")] String),
    /// The kernel allows no more mounts.
    MountLimit(#[serde(serialize_with = "cut")] String),
    /// The command line was printed without a command.
    NoCommand,
    CannotExecute {
        errno: i32,
        #[serde(serialize_with = "cut")]
        message: String,
    },
}

/// Writes at most [`MAX_TEXT`] bytes, and no part of a character.
fn cut<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    let end = (0..=text.len().min(MAX_TEXT)).rev().find(|end| text.is_char_boundary(*end));
    serializer.serialize_str(&text[..end.unwrap_or_default()])
}

impl Report {
    pub(super) fn refused(what: &str, why: impl std::fmt::Display) -> Self {
        Self::Refused(format!("{what}: {why}"))
    }

    /// The report for a failed step that every kernel grants to a process with a user namespace of
    /// its own. A lack of memory or descriptors is temporary, so it stops this start instead of
    /// turning the guard off.
    pub(super) fn unavailable(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |e| match Errno::from_io_error(&e) {
            // The kernel does not count mounts here: a limit of namespaces is reached.
            Some(Errno::NOSPC) => Self::Unavailable(format!(
                "{what}: `user.max_user_namespaces` or `user.max_mnt_namespaces` allows no more"
            )),
            Some(Errno::NOMEM | Errno::AGAIN | Errno::MFILE | Errno::NFILE) => {
                Self::Refused(format!("{what}: {}", reason(&e)))
            }
            _ => Self::Unavailable(format!("{what}: {}", reason(&e))),
        }
    }

    /// The message for the user if the command was not started.
    pub fn diagnostic(&self) -> Diagnostic {
        match self {
            Self::Ready => refusal("the guard did not end as it should"),
            Self::Refused(why) | Self::Changed(why) | Self::PrivateRefused(why) => refusal(why),
            Self::Unavailable(why) => {
                Diagnostic::new(Code::GuardUnavailable, format!("the guard cannot work on this machine: {why}"))
                    .help("run on bwrap alone with `--no-guard`; `--help` lists the protections that are then missing")
            }
            Self::LimitRefused(kind, why) => unavailable(*kind, why).help(
                "remove this limit to run without it; `agent-sandbox doctor` lists the limits that this machine can \
                 enforce",
            ),
            Self::MountLimit(why) => {
                Diagnostic::new(Code::GuardRefused, format!("the kernel allows no more mounts: {why}"))
                    .help("raise `fs.mount-max` with `sudo sysctl`, or exclude folders instead of the files in them")
            }
            Self::NoCommand => {
                Diagnostic::new(Code::CommandNotFound, "the sandbox was set up without a command to run in it")
                    .help("print it again with one: `agent-sandbox --print-args -- COMMAND [ARGS]…`")
            }
            Self::CannotExecute { errno, message } if *errno == Errno::NOENT.raw_os_error() => {
                Diagnostic::new(Code::CommandNotFound, message.clone())
                    .help("make sure that the interpreter it names is there and visible inside")
            }
            Self::CannotExecute { message, .. } => Diagnostic::new(Code::CommandNotExecutable, message.clone())
                .help("make sure that it is made for this machine"),
        }
    }
}

pub fn send(socket: BorrowedFd, message: &impl Serialize) -> io::Result<()> {
    rustix::net::send(socket, &serde_json::to_vec(message)?, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// After [`Report::Ready`], waits until the supervisor has a pidfd of this process. Otherwise a
/// command that ends at once would be gone before the supervisor can ask for its exit status.
pub fn wait_for_answer(socket: BorrowedFd) -> io::Result<Answer> {
    let mut bytes = [0; 16];
    let (_, length) = retry_on_intr(|| recv(socket, &mut bytes, RecvFlags::empty()))?;
    Ok(serde_json::from_slice(&bytes[..length])?)
}

pub(crate) fn refusal(why: &str) -> Diagnostic {
    Diagnostic::new(Code::GuardRefused, format!("the sandbox is not as planned: {why}"))
        .help("start again; a pasted command needs a run's placeholders: `--print-args=script` creates them")
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
            Report::PrivateRefused("`/a`".into()),
            Report::LimitRefused(LimitKind::Memory, "why".into()),
            Report::MountLimit("`/a`".into()),
            Report::NoCommand,
            Report::CannotExecute { errno: 13, message: "`x` cannot be executed".into() },
            Report::CannotExecute { errno: -1, message: String::new() },
        ]
    }

    #[test]
    fn a_report_that_is_too_long_is_cut_between_characters() {
        for long in ["ü".repeat(MAX_TEXT), "\u{1}".repeat(MAX_TEXT)] {
            let bytes = serde_json::to_vec(&Report::CannotExecute { errno: 2, message: format!("a{long}") }).unwrap();
            assert!(bytes.len() <= MAX_BYTES, "{}", bytes.len());
            let Some(Report::CannotExecute { errno: 2, message }) = serde_json::from_slice(&bytes).ok() else {
                panic!("{bytes:?}")
            };
            assert!(message.len() > MAX_TEXT - 4 && format!("a{long}").starts_with(&message));
        }
    }

    #[test]
    fn a_guard_report_in_an_invalid_form_is_rejected() {
        for bytes in [&b""[..], b"R", b"\"Refused\"", b"{\"Refused\":\"\xff\"}", b"{\"CannotExecute\":{\"errno\":1}}"] {
            assert!(serde_json::from_slice::<Report>(bytes).is_err(), "{bytes:?}");
        }
    }

    // SPEC C8
    #[test]
    fn a_limit_of_the_kernel_is_named_with_its_setting() {
        let full = || io::Error::from(Errno::NOSPC);
        let namespaces = Report::unavailable("a namespace to mount in")(full()).diagnostic();
        assert!(namespaces.message.contains("`user.max_user_namespaces`"), "{}", namespaces.message);
        let mounts = Report::MountLimit("`/a`".to_owned()).diagnostic();
        assert!(mounts.help.iter().any(|help| help.contains("`fs.mount-max`")), "{mounts:?}");
    }

    #[test]
    fn each_report_is_a_packet_of_its_own_and_only_one_answer_lets_go() {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        for report in each() {
            send(theirs.as_fd(), &report).unwrap();
        }
        let mut buffer = [0; MAX_BYTES];
        for report in each() {
            let (length, _) = recv(&ours, &mut buffer, RecvFlags::empty()).unwrap();
            assert_eq!(serde_json::from_slice::<Report>(&buffer[..length]).unwrap(), report);
        }
        for answer in [Answer::Go, Answer::VerifyAgain] {
            send(ours.as_fd(), &answer).unwrap();
            assert_eq!(wait_for_answer(theirs.as_fd()).unwrap(), answer);
        }
        send(ours.as_fd(), &"no").unwrap();
        assert!(wait_for_answer(theirs.as_fd()).is_err(), "another answer");
        drop(ours);
        assert!(wait_for_answer(theirs.as_fd()).is_err(), "nobody is there to answer");
    }
}
