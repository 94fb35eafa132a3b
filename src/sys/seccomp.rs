//! The filter of system calls that reach past every mount and namespace: into the terminal, the
//! caller's process group, the session's keys, the hypervisor, and around this filter. All other
//! calls are allowed, because an agent runs compilers, debuggers and test suites.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition as Condition,
    SeccompFilter, SeccompRule as Rule, TargetArch, sock_filter,
};

/// Requests to the terminal that are refused. The first two put characters into the input of the
/// terminal, where the caller's shell reads them after the run; `TIOCLINUX` does so by pasting a
/// selection of the console. The last two keep other programs from opening the terminal or from
/// reading its input. `TIOCCONS` and `TIOCVHANGUP` are not refused, because they need capabilities
/// that the command lacks.
const TERMINAL: [u64; 4] = [libc::TIOCSTI, libc::TIOCLINUX, libc::TIOCEXCL, libc::TIOCSETD];

/// The requests `KD…` and `VT_…` of the Linux console, without their last byte. They can make the
/// keyboard and the screen of the console unusable.
const CONSOLE: [u64; 2] = [0x4b00, 0x5600];
const ALL_BUT_THE_LAST_BYTE: u64 = 0xffff_ff00;

/// Sockets of this family reach the hypervisor and its other machines from every network namespace.
const AF_VSOCK: u64 = libc::AF_VSOCK as u64;

/// The requests for a lease. A lease on a file makes every process that opens the file wait or
/// fail. A process can take a lease on each file of its user, even on a read-only mount, for
/// example on settings that the next start reads. The second number is `F_SETDELEG` (Linux 6.19).
const LEASES: [u64; 2] = [libc::F_SETLEASE as u64, 1024 + 16];

/// The calls that set priorities, each with its value for "a process group". The command can name
/// its process group, which may have members outside, only by the number 0. By the id of a process
/// or of a user the kernel finds only processes inside.
const PRIORITIES: [(i64, u64); 2] = [(libc::SYS_setpriority, libc::PRIO_PGRP as u64), (libc::SYS_ioprio_set, 2)];

/// The calls that change the mode of a file, each with the index of the mode. A program with the
/// bit `S_ISUID` lets every user of the machine act as its owner. The calls that create files are
/// not refused, because a file that is created with this bit loses it when it is first written.
/// `S_ISGID` is ordinary on directories, and a filter cannot tell these from files. The last number
/// is `fchmodat2` (Linux 6.6).
const MODES: &[(i64, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (452, 2),
];
const S_ISUID: u64 = libc::S_ISUID as u64;

/// The keys of the user's session, and io_uring, which makes system calls that no filter sees.
const REFUSED: [i64; 6] = [
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// This architecture, if the filter knows its system call numbers.
pub(crate) fn architecture() -> Result<TargetArch, Error> {
    Ok(TargetArch::try_from(std::env::consts::ARCH)?)
}

/// The filter. Refused calls fail with EPERM, as in container engines, so that libraries use their
/// fallbacks. Calls of x32, and `clone3` without `user_namespaces`, get ENOSYS. A call of another
/// architecture ends the process.
///
/// Without `user_namespaces`, the filter also forbids user namespaces. This is for a sandbox in
/// which neither the guard nor bwrap forbids them.
pub(crate) fn program(user_namespaces: bool) -> Result<BpfProgram, Error> {
    let architecture = architecture()?;
    // The kernel uses the low 32 bits of these arguments alone, so the filter compares no more.
    let is = |index, value| Condition::new(index, Len::Dword, Op::Eq, value);
    let masked = |index, mask, value| Condition::new(index, Len::Dword, Op::MaskedEq(mask), value);
    let one = |condition: Result<Condition, _>| Rule::new(vec![condition?]);
    let mut rules: BTreeMap<i64, Vec<Rule>> = REFUSED.map(|number| (number, Vec::new())).into();
    let terminal = TERMINAL.iter().map(|request| one(is(1, *request)));
    let console = CONSOLE.iter().map(|request| one(masked(1, ALL_BUT_THE_LAST_BYTE, *request)));
    rules.insert(libc::SYS_ioctl, terminal.chain(console).collect::<Result<_, _>>()?);
    rules.insert(libc::SYS_socket, vec![one(is(0, AF_VSOCK))?]);
    rules.insert(libc::SYS_fcntl, LEASES.iter().map(|command| one(is(1, *command))).collect::<Result<_, _>>()?);
    for (number, group) in PRIORITIES {
        rules.insert(number, vec![Rule::new(vec![is(0, group)?, is(1, 0)?])?]);
    }
    for (number, mode) in MODES {
        rules.insert(*number, vec![one(masked(*mode, S_ISUID, S_ISUID))?]);
    }
    if !user_namespaces {
        let new_user = libc::CLONE_NEWUSER.unsigned_abs().into();
        let makes_one = || Rule::new(vec![Condition::new(0, Len::Qword, Op::MaskedEq(new_user), new_user)?]);
        rules.insert(libc::SYS_unshare, vec![makes_one()?]);
        rules.insert(libc::SYS_clone, vec![makes_one()?]);
    }
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    // A call of another architecture (`int 0x80`), whose numbers differ, ends the process.
    let filter: BpfProgram = SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture)?.try_into()?;
    let mut program = BpfProgram::new();
    if cfg!(target_arch = "x86_64") {
        // An x32 call has the architecture x86-64 and an extra bit in its number, so no rule on a
        // number matches it.
        program.extend(absent(JUMP_IF_AT_LEAST, 0x4000_0000));
    }
    if !user_namespaces {
        // The flags of `clone3` are in memory, which a filter cannot read. Libraries then use
        // `clone`.
        program.extend(absent(JUMP_IF_EQUAL, libc::SYS_clone3 as u32));
    }
    program.extend(filter);
    Ok(program)
}

const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;

/// Answers ENOSYS to every call whose number satisfies `comparison` with `number`. These
/// instructions are written by hand because a filter of seccompiler has only one answer for all the
/// calls that it refuses.
fn absent(comparison: u16, number: u32) -> [sock_filter; 3] {
    const SECCOMP_RET_ERRNO: u32 = 0x0005_0000;
    let step = |code, jf, k| sock_filter { code, jt: 0, jf, k };
    // Load the number, which comes first in `struct seccomp_data`; skip the answer if the
    // comparison is false.
    [step(0x20, 0, 0), step(comparison, 1, number), step(0x06, 0, SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs())]
}

/// Applies the filter to this process, the guard, which forbids user namespaces by other means.
pub(crate) fn apply() -> Result<(), Error> {
    seccompiler::apply_filter(&program(true)?)
}

/// Keeps this process, and all processes that it starts, out of the foreground of a terminal. In
/// the foreground they could read the user's input for another program.
pub(crate) fn stay_in_background() -> Result<(), Error> {
    let is_taking = Rule::new(vec![Condition::new(1, Len::Dword, Op::Eq, libc::TIOCSPGRP)?])?;
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let architecture = architecture()?;
    let rules = BTreeMap::from([(libc::SYS_ioctl, vec![is_taking])]);
    let filter: BpfProgram = SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture)?.try_into()?;
    seccompiler::apply_filter(&filter)
}

/// The instructions as bwrap reads them, each of eight bytes.
pub(crate) fn as_bytes(program: &[sock_filter]) -> Vec<u8> {
    let bytes = |step: &sock_filter| {
        let ([c0, c1], [k0, k1, k2, k3]) = (step.code.to_ne_bytes(), step.k.to_ne_bytes());
        [c0, c1, step.jt, step.jf, k0, k1, k2, k3]
    };
    program.iter().flat_map(bytes).collect()
}
