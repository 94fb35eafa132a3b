//! Resource limits of this process, which its children inherit and cannot raise.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::process::in_child;

/// Limits the size of files that this process and its children write.
pub(crate) fn limit_file_size(bytes: u64) -> io::Result<()> {
    lower(Resource::Fsize, bytes)
}

/// Limits the number of processes and threads in the user namespace of this process, in which it
/// must be alone. Returns `false` if this kernel does not enforce the limit, or if it also counts
/// other processes.
pub(crate) fn limit_processes(count: u64) -> io::Result<bool> {
    let before = getrlimit(Resource::Nproc);
    // Root of the whole machine is exempt; before Linux 5.14 all processes of the user count.
    let holds = !can_fork_within(1, before)? && can_fork_within(2, before)?;
    lower(Resource::Nproc, count)?;
    Ok(holds)
}

/// The reason why the kernel may not enforce [`limit_processes`].
pub(crate) fn why_not_processes() -> &'static str {
    match rustix::process::getuid().is_root() {
        true => "the kernel exempts root of the machine",
        false => {
            "the kernel does not count the processes of this sandbox alone (Linux 5.14), or `ulimit -u` is reached"
        }
    }
}

/// Whether this process can fork while the limit of processes is `count`.
#[allow(unsafe_code)]
fn can_fork_within(count: u64, before: Rlimit) -> io::Result<bool> {
    let current = before.maximum.map_or(count, |most| most.min(count));
    setrlimit(Resource::Nproc, Rlimit { current: Some(current), maximum: before.maximum })?;
    // SAFETY: the closure does nothing.
    let forked = unsafe { in_child(|| Ok(())) };
    setrlimit(Resource::Nproc, before)?;
    match forked {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(e) => Err(e),
    }
}

/// Lowers the soft and the hard limit to `amount`. A limit that is already lower stays.
fn lower(resource: Resource, amount: u64) -> io::Result<()> {
    let Rlimit { current, maximum } = getrlimit(resource);
    let lowered = |before: Option<u64>| Some(before.map_or(amount, |before| before.min(amount)));
    Ok(setrlimit(resource, Rlimit { current: lowered(current), maximum: lowered(maximum) })?)
}
