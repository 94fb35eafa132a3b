//! System calls that reach past every mount and namespace: into the terminal, the session's keys, the hypervisor, and around this very
//! filter. Everything else is allowed: an agent runs compilers, debuggers and test suites.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition as Condition,
    SeccompFilter, SeccompRule as Rule, TargetArch, sock_filter,
};

/// Puts words into the input of the terminal, where the caller's shell reads them after we are gone. `TIOCLINUX` pastes a
/// selection of the console in the same way.
const TERMINAL_INJECTION: [u64; 2] = [libc::TIOCSTI, libc::TIOCLINUX];

/// Talks to the hypervisor and to other machines on it, whatever the network namespace.
const AF_VSOCK: u64 = libc::AF_VSOCK as u64;

/// The keys of the user's session; and a way to make system calls that no filter sees.
const REFUSED: [i64; 6] = [
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// Answers EPERM, as container engines do, so that libraries which could use such a call know what to do without it.
pub(crate) fn program() -> Result<BpfProgram, Error> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    // The kernel looks at the low 32 bits of these arguments only, and so must we.
    let argument = |index, value| Rule::new(vec![Condition::new(index, Len::Dword, Op::Eq, value)?]);
    let injection = TERMINAL_INJECTION.iter().map(|request| argument(1, *request)).collect::<Result<_, _>>()?;
    let mut rules: BTreeMap<i64, Vec<Rule>> = REFUSED.map(|number| (number, Vec::new())).into();
    rules.insert(libc::SYS_ioctl, injection);
    rules.insert(libc::SYS_socket, vec![argument(0, AF_VSOCK)?]);
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    // A call of another architecture (`int 0x80`) ends the process: its number means something else.
    let filter: BpfProgram = SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture)?.try_into()?;
    Ok(if cfg!(target_arch = "x86_64") { [refuse_x32().to_vec(), filter].concat() } else { filter })
}

/// x32 calls come as x86-64 with a bit in the number, so that no rule on a number meets them. Nobody uses them.
fn refuse_x32() -> [sock_filter; 3] {
    const X32_BIT: u32 = 0x4000_0000;
    const SECCOMP_RET_ERRNO: u32 = 0x0005_0000;
    let step = |code, jf, k| sock_filter { code, jt: 0, jf, k };
    // Load the number, which comes first in `struct seccomp_data`; skip the answer unless it is at least the bit.
    [step(0x20, 0, 0), step(0x35, 1, X32_BIT), step(0x06, 0, SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs())]
}

pub(super) fn apply() -> Result<(), Error> {
    seccompiler::apply_filter(&program()?)
}
