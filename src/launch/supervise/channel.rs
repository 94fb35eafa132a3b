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

/// The supervisor's end and the guard's. The kernel adds to each message who sent it, by the number that the process has
/// for us.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    set_socket_passcred(&ours, true)?;
    Ok((ours, theirs))
}

/// One message and its sender, or `None` at the end of the stream. What is no report counts as the end.
pub(super) fn hear(socket: &OwnedFd) -> Result<Option<(Report, Option<Pid>)>, Errno> {
    let mut bytes = [0; report::MAX_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let message = recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::DONTWAIT)?;
    let sender = ancillary.drain().find_map(|item| match item {
        RecvAncillaryMessage::ScmCredentials(sender) => Some(sender.pid),
        _ => None,
    });
    Ok(Report::decode(&bytes[..message.bytes]).map(|report| (report, sender)))
}
