//! System calls that reach past every mount and namespace: into the terminal, the session's keys, the hypervisor, and around this very
//! filter. Everything else is allowed: an agent runs compilers, debuggers and test suites.

mod search;

use seccompiler::{BpfProgram, Error, sock_filter};

use search::{Answer, Condition};

/// Puts words into the input of the terminal, where the caller's shell reads them after we are gone. `TIOCLINUX` pastes a
/// selection of the console in the same way.
const TERMINAL_INJECTION: [u32; 2] = [libc::TIOCSTI as u32, libc::TIOCLINUX as u32];

/// Talks to the hypervisor and to other machines on it, whatever the network namespace.
const AF_VSOCK: u32 = libc::AF_VSOCK.unsigned_abs();

/// The keys of the user's session; and a way to make system calls that no filter sees.
const REFUSED: [i64; 6] = [
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// x32 calls come as x86-64 with this bit in the number, so that no rule on a number meets them. Nobody uses them.
const X32: u32 = 0x4000_0000;

/// Answers EPERM, as container engines do, so that libraries which could use such a call know what to do without it.
///
/// `user_namespaces`: they may be made. Where they may not, and neither the second stage nor bwrap sees to that, the filter does.
pub(crate) fn program(user_namespaces: bool) -> Result<BpfProgram, Error> {
    let mut calls: Vec<(i64, Answer)> = REFUSED.map(|number| (number, Answer::Refuse)).into();
    let injects = Condition::Is { argument: 1, values: &TERMINAL_INJECTION };
    calls.push((libc::SYS_ioctl, Answer::RefuseIf(injects)));
    calls.push((libc::SYS_socket, Answer::RefuseIf(Condition::Is { argument: 0, values: &[AF_VSOCK] })));
    if !user_namespaces {
        let makes_one = Condition::Has { argument: 0, bit: libc::CLONE_NEWUSER.unsigned_abs() };
        calls.push((libc::SYS_unshare, Answer::RefuseIf(makes_one)));
        calls.push((libc::SYS_clone, Answer::RefuseIf(makes_one)));
        // Its flags are in memory, where no filter can look. Libraries then use `clone`.
        calls.push((libc::SYS_clone3, Answer::Absent));
    }
    let absent_from = cfg!(target_arch = "x86_64").then_some(X32);
    search::program(&calls, absent_from)
}

/// For the second stage, which has other means against user namespaces.
pub(crate) fn apply() -> Result<(), Error> {
    seccompiler::apply_filter(&program(true)?)
}

/// As bwrap reads it: the instructions, each of eight bytes.
pub(crate) fn as_bytes(program: &[sock_filter]) -> Vec<u8> {
    let bytes = |step: &sock_filter| {
        let [code, k] = [step.code.to_ne_bytes().to_vec(), step.k.to_ne_bytes().to_vec()];
        [code, vec![step.jt, step.jf], k].concat()
    };
    program.iter().flat_map(bytes).collect()
}

#[cfg(test)]
mod tests;
