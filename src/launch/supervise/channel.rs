//! The socket between the supervisor and the guard.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::sockopt::set_socket_passcred;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType, recvmsg, socketpair,
};
use rustix::process::Pid;

use crate::guard::report::{self, Report};

/// The supervisor's end and the guard's. The kernel adds to each message the number that its sender
/// has in our process namespace.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    set_socket_passcred(&ours, true)?;
    Ok((ours, theirs))
}

/// Reads one message and its sender. `None` at the end of the stream, and for a message that is not
/// a report.
pub(super) fn hear(socket: &OwnedFd) -> Result<Option<(Report, Option<Pid>)>, Errno> {
    let mut bytes = [0; report::MAX_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let message = recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::DONTWAIT)?;
    let sender = ancillary.drain().find_map(|item| match item {
        RecvAncillaryMessage::ScmCredentials(sender) => Some(sender.pid),
        _ => None,
    });
    Ok(serde_json::from_slice(&bytes[..message.bytes]).ok().map(|report| (report, sender)))
}
