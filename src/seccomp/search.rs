//! A filter that looks for the number of a call by halves. To attach one the kernel runs it once for each number, to know which calls it need not ask it
//! about, and translates it: what `seccompiler` makes, one comparison after the other, took longer (41 against 25 µs, and 11 for one that only allows).

use seccompiler::{BpfProgram, Error, TargetArch, sock_filter};

/// What a call is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Allow,
    /// EPERM
    Refuse,
    RefuseIf(Condition),
    /// ENOSYS
    Absent,
}

/// On the low 32 bits of an argument. The kernel looks at no others of these, and so must we.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Is { argument: u32, values: &'static [u32] },
    Has { argument: u32, bit: u32 },
}

const LOAD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const JUMP_IF_SET: u16 = 0x45;
const RETURN: u16 = 0x06;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs();
const ABSENT: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();

/// `struct seccomp_data`: the number, the architecture, where the call came from, and six arguments of eight bytes.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

/// Answers each of `calls` so, ENOSYS to all numbers from `absent_from` on, and allows the rest.
pub(super) fn program(calls: &[(i64, Answer)], absent_from: Option<u32>) -> Result<BpfProgram, Error> {
    let architecture = audit_number(TargetArch::try_from(std::env::consts::ARCH)?);
    let step = |code, jt, k| sock_filter { code, jt, jf: 0, k };
    // A call of another architecture (`int 0x80`) ends the process: its number means something else.
    let mut program = vec![
        step(LOAD, 0, ARCHITECTURE),
        step(JUMP_IF_EQUAL, 1, architecture),
        step(RETURN, 0, libc::SECCOMP_RET_KILL_PROCESS),
        step(LOAD, 0, NUMBER),
    ];
    program.extend(found(&ranges(calls, absent_from))?);
    Ok(program)
}

fn audit_number(architecture: TargetArch) -> u32 {
    match architecture {
        TargetArch::x86_64 => 0xc000_003e,
        TargetArch::aarch64 => 0xc000_00b7,
        TargetArch::riscv64 => 0xc000_00f3,
    }
}

/// Each begins with its number and ends before the next; neighbours with the same answer are one.
fn ranges(calls: &[(i64, Answer)], absent_from: Option<u32>) -> Vec<(u32, Answer)> {
    // The numbers of calls are small.
    let mut calls: Vec<(u32, Answer)> =
        calls.iter().filter_map(|(number, answer)| Some((u32::try_from(*number).ok()?, *answer))).collect();
    calls.sort_unstable_by_key(|(number, _)| *number);
    let mut ranges = vec![(0, Answer::Allow)];
    for (number, answer) in calls {
        // What the one before has left open after itself.
        ranges.pop_if(|(begin, _)| *begin == number);
        ranges.extend([(number, answer), (number + 1, Answer::Allow)]);
    }
    ranges.extend(absent_from.map(|number| (number, Answer::Absent)));
    ranges.dedup_by_key(|(_, answer)| *answer);
    ranges
}

/// The half that the number is in, and so on.
fn found(ranges: &[(u32, Answer)]) -> Result<Vec<sock_filter>, Error> {
    let (low, high) = match ranges {
        [] => return Ok(Vec::new()),
        [(_, answer)] => return Ok(answered(*answer)),
        ranges => ranges.split_at(ranges.len() / 2),
    };
    let begin = high[0].0;
    let (low, high) = (found(low)?, found(high)?);
    // A jump leads over 255 steps; there are some forty.
    let over = u8::try_from(low.len()).map_err(|_| too_long())?;
    let half = sock_filter { code: JUMP_IF_AT_LEAST, jt: over, jf: 0, k: begin };
    Ok([vec![half], low, high].concat())
}

fn too_long() -> Error {
    Error::Backend(seccompiler::BackendError::FilterTooLarge(usize::from(u8::MAX)))
}

fn answered(answer: Answer) -> Vec<sock_filter> {
    let done = |k| sock_filter { code: RETURN, jt: 0, jf: 0, k };
    let low_half = |argument: u32| sock_filter { code: LOAD, jt: 0, jf: 0, k: ARGUMENTS + 8 * argument };
    match answer {
        Answer::Allow => vec![done(ALLOW)],
        Answer::Refuse => vec![done(REFUSE)],
        Answer::Absent => vec![done(ABSENT)],
        Answer::RefuseIf(Condition::Has { argument, bit }) => {
            vec![low_half(argument), sock_filter { code: JUMP_IF_SET, jt: 1, jf: 0, k: bit }, done(ALLOW), done(REFUSE)]
        }
        Answer::RefuseIf(Condition::Is { argument, values }) => {
            let comparisons = (1..=values.len()).rev().zip(values).map(|(left, value)| {
                // Over the comparisons that are left, and what follows if none holds.
                let over = u8::try_from(left).unwrap_or(u8::MAX);
                sock_filter { code: JUMP_IF_EQUAL, jt: over, jf: 0, k: *value }
            });
            [low_half(argument)].into_iter().chain(comparisons).chain([done(ALLOW), done(REFUSE)]).collect()
        }
    }
}
