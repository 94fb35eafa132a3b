#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use seccompiler::{
    SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition, SeccompFilter, SeccompRule as Rule,
    TargetArch,
};

use super::*;

const ARCHITECTURE: u32 = if cfg!(target_arch = "x86_64") { 0xc000_003e } else { 0xc000_00b7 };
const ALLOWED: u32 = libc::SECCOMP_RET_ALLOW;

/// What the kernel would be told. Only what the two kinds of program are made of.
fn run(program: &[sock_filter], architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
    let word = |offset: u32| match offset {
        0 => number,
        4 => architecture,
        _ => {
            let (argument, half) = ((offset as usize - 16) / 8, offset % 8 / 4);
            (arguments[argument] >> (32 * half)) as u32
        }
    };
    let (mut at, mut value) = (0, 0_u32);
    loop {
        let sock_filter { code, jt, jf, k } = program[at];
        at += 1;
        let jump = |holds: bool| usize::from(if holds { jt } else { jf });
        match code {
            0x20 => value = word(k),
            0x05 => at += k as usize,
            0x15 => at += jump(value == k),
            0x25 => at += jump(value > k),
            0x35 => at += jump(value >= k),
            0x45 => at += jump(value & k != 0),
            0x54 => value &= k,
            0x06 => return k,
            other => panic!("{other:#x}"),
        }
    }
}

/// The same rules as `seccompiler` understands them.
fn reference(user_namespaces: bool) -> BpfProgram {
    let argument = |index, value: u32| {
        Rule::new(vec![SeccompCondition::new(index, Len::Dword, Op::Eq, value.into()).unwrap()]).unwrap()
    };
    let mut rules: BTreeMap<i64, Vec<Rule>> = REFUSED.map(|number| (number, Vec::new())).into();
    rules.insert(libc::SYS_ioctl, TERMINAL_INJECTION.map(|request| argument(1, request)).into());
    rules.insert(libc::SYS_socket, vec![argument(0, AF_VSOCK)]);
    if !user_namespaces {
        let bit = libc::CLONE_NEWUSER.unsigned_abs().into();
        let makes_one =
            || Rule::new(vec![SeccompCondition::new(0, Len::Qword, Op::MaskedEq(bit), bit).unwrap()]).unwrap();
        rules.insert(libc::SYS_unshare, vec![makes_one()]);
        rules.insert(libc::SYS_clone, vec![makes_one()]);
    }
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let architecture = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture).unwrap().try_into().unwrap()
}

#[test]
fn each_call_is_answered_as_by_a_filter_that_compares_one_number_after_the_other() {
    const ABSENT: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    let bit = u64::from(libc::CLONE_NEWUSER.unsigned_abs());
    let values = [0, 1, 40, 0x5412, 0x541c, bit, bit | 17, !bit, u64::MAX];
    let values: Vec<u64> = values.iter().flat_map(|value| [*value, *value | 1 << 32, *value | 1 << 63]).collect();
    for user_namespaces in [true, false] {
        let (ours, reference) = (program(user_namespaces).unwrap(), reference(user_namespaces));
        let answer = |program: &[sock_filter], number, value| run(program, ARCHITECTURE, number, [value; 6]);
        let mut refused = 0;
        for number in (0..1000).chain([X32 - 1]) {
            for value in &values {
                let expected = match i64::from(number) {
                    libc::SYS_clone3 if !user_namespaces => ABSENT,
                    _ => answer(&reference, number, *value),
                };
                assert_eq!(answer(&ours, number, *value), expected, "{number} {value:#x}");
                refused += usize::from(expected != ALLOWED);
            }
        }
        assert!(refused > 6 * values.len(), "{refused}");
        for number in [X32, X32 + 1, X32 + 39, X32 | 16, u32::MAX] {
            let expected = if cfg!(target_arch = "x86_64") { ABSENT } else { ALLOWED };
            assert_eq!(answer(&ours, number, 0), expected, "{number:#x}");
        }
        for architecture in [0, 0x4000_0003, ARCHITECTURE ^ 1] {
            assert_eq!(run(&ours, architecture, 39, [0; 6]), libc::SECCOMP_RET_KILL_PROCESS);
        }
        assert!(ours.len() < reference.len(), "{} {}", ours.len(), reference.len());
    }
}

/// What reads one argument must not read another.
#[test]
fn only_the_argument_that_is_meant_counts() {
    let program = program(false).unwrap();
    let with = |number: i64, index: usize, value: u64| {
        let mut arguments = [0; 6];
        arguments[index] = value;
        run(&program, ARCHITECTURE, number.try_into().unwrap(), arguments)
    };
    for (number, meant, value) in [
        (libc::SYS_ioctl, 1, libc::TIOCSTI),
        (libc::SYS_socket, 0, AF_VSOCK.into()),
        (libc::SYS_clone, 0, libc::CLONE_NEWUSER.unsigned_abs().into()),
    ] {
        for index in 0..6 {
            assert_eq!(with(number, index, value) == ALLOWED, index != meant, "{number} {index}");
        }
    }
}
