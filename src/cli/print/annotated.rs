//! The operations with their reasons, in groups.

use std::ffi::OsStr;

use crate::compile::lower::{Argv, Operation};
use crate::compile::plan::Purpose;
use crate::policy::path::AbsPath;
use crate::policy::rule::Access;

use super::{environment, quote_all, quote_for_people, step_for_people};

/// A line and its reason.
type Line = (Vec<u8>, String);

/// A heading, and the operations that stand below it.
type Group = (&'static str, fn(&Purpose) -> bool);

/// In the order in which they are printed.
const GROUPS: [Group; 5] = [
    ("plumbing", |purpose| *purpose == Purpose::Base),
    ("kept in place", |purpose| matches!(purpose, Purpose::Pin { .. })),
    ("writable", |purpose| *purpose == Purpose::Rule(Access::Rw)),
    ("read-only inside writable", |purpose| *purpose == Purpose::Rule(Access::Ro)),
    ("hidden", |purpose| *purpose == Purpose::Rule(Access::Exclude)),
];

pub(super) fn annotated(argv: &Argv) -> Vec<u8> {
    let mut sections: Vec<(String, Vec<Line>)> = Vec::new();
    sections.push(("before the start".to_owned(), before(argv)));
    let program = (quote_for_people(argv.program.as_os_str()), String::new());
    for (name, holds) in GROUPS {
        let operations = argv.operations.iter().filter(|operation| holds(&operation.purpose)).map(operation);
        let lines: Vec<Line> = match name {
            "plumbing" => std::iter::once(program.clone()).chain(operations).collect(),
            _ => operations.collect(),
        };
        sections.push((name.to_owned(), lines));
    }
    let inside = argv.inside();
    if !inside.is_empty() {
        let command = [b"  -- ".to_vec(), quote_all(&inside, quote_for_people)].concat();
        sections.push(("the command".to_owned(), vec![(command, String::new())]));
    }
    let overflow = argv.guard.iter().flat_map(|guard| guard.plan.overflow.iter().zip(&guard.because));
    let overflow = overflow
        .map(|(step, (purpose, because))| comment(step_for_people(step).into_bytes(), purpose.explained(because)));
    sections.push(("made by the guard".to_owned(), overflow.collect()));
    let dropped = argv.dropped.iter().map(|dropped| {
        let why = format!("{}: {}; it is {} already", dropped.access, dropped.because, dropped.inherited);
        comment(quote_for_people(dropped.path.as_os_str()), why)
    });
    sections.push(("rules that need no mount".to_owned(), dropped.collect()));
    sections.retain(|(_, lines)| !lines.is_empty());
    written(&sections)
}

fn operation(operation: &Operation) -> Line {
    ([b"  ".to_vec(), quote_all(&operation.words, quote_for_people)].concat(), operation.why())
}

fn comment(text: Vec<u8>, why: String) -> Line {
    ([b"# ".to_vec(), text].concat(), why)
}

/// What must be there before bwrap starts.
fn before(argv: &Argv) -> Vec<Line> {
    let path = |path: &AbsPath, why: String| comment(quote_for_people(path.as_os_str()), why);
    let created = argv.create.iter().chain(argv.new_files.iter().map(|file| &file.path));
    let mut lines: Vec<Line> = created.map(|at| path(at, "created before the start".to_owned())).collect();
    lines.extend(environment::annotated(&argv.environment));
    lines.extend(argv.placeholders.iter().map(|placeholder| {
        let what = match is_second_place(argv, placeholder.path.as_os_str()) {
            true => "stands there during the run, for a file to be mounted on",
            false => "stands there during the run, so that it cannot be created",
        };
        path(&placeholder.path, format!("{}: {what}", placeholder.origin))
    }));
    lines
}

/// Whether a file of another path is mounted there.
fn is_second_place(argv: &Argv, path: &OsStr) -> bool {
    argv.operations.iter().any(|operation| match operation.words.as_slice() {
        [flag, source, at] => flag.to_string_lossy().starts_with("--bind") && at == path && source != at,
        _ => false,
    })
}

fn written(sections: &[(String, Vec<Line>)]) -> Vec<u8> {
    let lengths = sections.iter().flat_map(|(_, lines)| lines).map(|(words, _)| words.len());
    let width = lengths.filter(|length| *length <= 72).max().unwrap_or(0);
    let mut out = b"# grouped for reading; bwrap gets the operations in the order of `--print-args`\n".to_vec();
    for (name, lines) in sections {
        out.extend(format!("\n# {name}\n").bytes());
        for (words, why) in lines {
            out.extend(words);
            if !why.is_empty() {
                out.extend(std::iter::repeat_n(b' ', width.saturating_sub(words.len()) + 2));
                out.extend(format!("# {why}").bytes());
            }
            out.push(b'\n');
        }
    }
    out
}
