//! The operations with their reasons, in groups.

use std::ffi::OsStr;

use crate::compile::lower::{Argv, CgroupSource};
use crate::compile::plan::Purpose;
use crate::diagnostic::shell_quote;
use crate::policy::{AbsPath, Access};

use super::{display_args, display_link, display_step, environment};

/// A text and its reason, which may be empty.
pub(super) type Annotated = (String, String);

/// A heading, and the operations below it.
type OperationGroup = (&'static str, fn(&Purpose) -> bool);

const GROUPS: [OperationGroup; 6] = [
    ("plumbing", |purpose| matches!(purpose, Purpose::Base | Purpose::Own)),
    ("kept in place", |purpose| matches!(purpose, Purpose::Pin { .. })),
    ("writable", |purpose| *purpose == Purpose::Rule(Access::Rw)),
    ("read-only inside writable", |purpose| *purpose == Purpose::Rule(Access::Ro)),
    ("injected", |purpose| *purpose == Purpose::Injection),
    ("hidden", |purpose| *purpose == Purpose::Rule(Access::Exclude)),
];

/// Why there are arguments in front of bwrap.
fn in_front(source: &CgroupSource) -> &'static str {
    match source {
        CgroupSource::Systemd { .. } => "a scope of systemd",
        CgroupSource::Delegated { .. } => "a cgroup in a folder that is delegated to you",
    }
}

pub(super) fn annotated(argv: &Argv) -> String {
    let mut sections = vec![("before the start", before(argv))];
    for (name, holds) in GROUPS {
        let cgroup =
            argv.cgroup.iter().map(|cgroup| (display_args(&cgroup.words), in_front(&cgroup.source).to_owned()));
        let program = cgroup.chain([(shell_quote(argv.program.as_os_str()), String::new())]);
        let program = program.filter(|_| name == "plumbing");
        let operations = argv.operations.iter().filter(|operation| holds(&operation.purpose));
        let lines = operations.map(|operation| (format!("  {}", display_args(&operation.words)), operation.why()));
        sections.push((name, program.chain(lines).collect()));
    }
    let inside = argv.inside();
    if !inside.is_empty() {
        sections.push(("the command", vec![(format!("  -- {}", display_args(&inside)), String::new())]));
    }
    let by_guard = argv.guard.iter().flat_map(|guard| &guard.limits).map(|limit| (limit, "set by the guard"));
    let by_supervisor = argv.supervised.iter().map(|limit| (limit, "enforced by the supervisor"));
    let by_cgroup = argv.cgroup.iter().flat_map(|cgroup| &cgroup.limits);
    let by_cgroup = by_cgroup.map(|limit| (limit, "enforced by the cgroup of the run"));
    let limits = by_guard
        .chain(by_supervisor)
        .chain(by_cgroup)
        .map(|((limit, origin), by)| (format!("# {limit}"), format!("{origin}; {by}")));
    sections.push(("limits", limits.collect()));
    let overflow = argv.guard.iter().flat_map(|guard| guard.plan.overflow.iter().zip(&guard.because));
    let overflow =
        overflow.map(|(step, (purpose, because))| (format!("# {}", display_step(step)), purpose.explained(because)));
    let links = argv.guard.iter().flat_map(|guard| &guard.plan.links);
    let links = links.map(|link| (format!("# {}", display_link(link)), "a private file".to_owned()));
    sections.push(("made by the guard", overflow.chain(links).collect()));
    let dropped = argv.dropped.iter().map(|dropped| {
        let why = format!("{}: {}; it is {} already", dropped.access, dropped.because, dropped.inherited);
        path(&dropped.path, why)
    });
    sections.push(("rules that need no mount", dropped.collect()));
    sections.retain(|(_, lines)| !lines.is_empty());
    aligned(&sections)
}

fn path(path: &AbsPath, why: String) -> Annotated {
    (format!("# {}", shell_quote(path.as_os_str())), why)
}

/// The steps before bwrap starts: created paths, the environment and placeholders.
fn before(argv: &Argv) -> Vec<Annotated> {
    let created = argv.create.iter().chain(argv.new_files.iter().map(|file| &file.path));
    let mut lines: Vec<_> = created.map(|at| path(at, "created before the start".to_owned())).collect();
    lines.extend(environment::annotated(&argv.environment));
    lines.extend(argv.placeholders.iter().map(|placeholder| {
        let is_target = is_second_place(argv, placeholder.path.as_os_str());
        let purpose = if is_target { "for a file to be mounted on" } else { "so that it cannot be created" };
        path(&placeholder.path, format!("{}: exists during the run, {purpose}", placeholder.origin))
    }));
    lines
}

/// Whether a rule or an injection mounts another file at `path`. A mask does not count.
fn is_second_place(argv: &Argv, path: &OsStr) -> bool {
    argv.operations.iter().any(|operation| match (&operation.purpose, operation.words.as_slice()) {
        (Purpose::Rule(Access::Rw) | Purpose::Injection, [_, source, at]) => at == path && source != at,
        _ => false,
    })
}

fn aligned(sections: &[(&str, Vec<Annotated>)]) -> String {
    let lengths = sections.iter().flat_map(|(_, lines)| lines).map(|(text, _)| text.len());
    let width = lengths.filter(|length| *length <= 72).max().unwrap_or(0);
    let mut out = "# grouped for reading; bwrap gets the operations in the order of `--print-args`\n".to_owned();
    for (name, lines) in sections {
        out.push_str(&format!("\n# {name}\n"));
        for (text, why) in lines {
            out.push_str(text);
            if !why.is_empty() {
                out.push_str(&format!("{}  # {why}", " ".repeat(width.saturating_sub(text.len()))));
            }
            out.push('\n');
        }
    }
    out
}
