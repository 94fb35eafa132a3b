//! A script that takes the steps of a run, as far as a POSIX shell can. It has no journal by which
//! a later run could sweep its placeholders.
//!
//! A signal that ended the shell would leave the placeholders, so the shell only notes signals.
//! Ctrl-C reaches the command by itself; POSIX shells run other traps when the command has ended.
//! A command does not inherit a trap, so it has the dispositions of the caller. The script does
//! not run in a subshell, because a signal sent to the outer shell would not reach the command.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::compile::lower::{Argv, Data};
use crate::compile::placeholder::{self, PlaceholderItem};
use crate::diagnostic::quote;
use crate::policy::AbsPath;

use super::{environment, quote_all};

pub(super) fn script(argv: &Argv) -> Vec<u8> {
    let items = placeholder::items(&argv.placeholders);
    let mut out = if items.is_empty() { Vec::new() } else { wait_for_signals() };
    // As in `launch`, only this user can access created parents, and a failure stops the start.
    for directory in &argv.create {
        out.extend([b"(umask 077 && mkdir -p -- ", &quote(directory.as_os_str())[..], b") &&\n"].concat());
    }
    for file in &argv.new_files {
        let folder = quote(file.path.parent().unwrap_or_else(AbsPath::root).as_os_str());
        let (path, content) = (quote(file.path.as_os_str()), quote(OsStr::new(&file.content)));
        out.extend([b"(umask 077 && mkdir -p -- ", &folder[..], b" && { test -e ", &path].concat());
        out.extend([b" || printf %s ", &content[..], b" >", &path, b"; }) &&\n"].concat());
    }
    if !items.is_empty() {
        out.extend(create_placeholders(&items));
    }
    let binary = argv.data.iter().find(|data| data.content.contains(&0));
    if let Some(data) = binary {
        // A here-document cannot hold a NUL byte.
        let octal: String = data.content.iter().map(|byte| format!("\\{byte:03o}")).collect();
        out.extend(format!("{{ printf '{octal}' | {{\n").bytes());
        // Moves the pipe to its descriptor, restores standard input, and closes the copy of it.
        let kept = kept_input(data);
        out.extend(format!("exec {}<&0 0<&{kept} {kept}<&- &&\n", data.descriptor).bytes());
    }
    out.extend(environment::prefix(&argv.environment));
    if let Some(cgroup) = &argv.cgroup {
        out.extend([&quote_all(&cgroup.words)[..], b" \\\n  "].concat());
    }
    out.extend(quote(argv.program.as_os_str()));
    for operation in &argv.operations {
        out.extend([b" \\\n  ", &quote_all(&operation.words)[..]].concat());
    }
    let inside = argv.inside();
    if !inside.is_empty() {
        out.extend([b" \\\n  -- ", &quote_all(&inside)[..]].concat());
    }
    let mut documents = Vec::new();
    for Data { descriptor, content } in &argv.data {
        if content.is_empty() {
            out.extend(format!(" {descriptor}</dev/null").bytes());
        } else if !content.contains(&0) {
            let end = end_of(content);
            out.extend(format!(" {descriptor}<<'{end}'").bytes());
            documents.extend(content);
            if content.last() != Some(&b'\n') {
                documents.push(b'\n');
            }
            documents.extend(format!("{end}\n").bytes());
        }
    }
    // Placeholders are removed even in a shell that exits at the first failure (`set -e`).
    let end: &[u8] = if items.is_empty() { b"\n" } else { NOTE_STATUS };
    out.extend(if binary.is_some() { b"\n" } else { end });
    out.extend(documents);
    if let Some(data) = binary {
        // Copies standard input outside of the pipeline. Inside it, descriptor 0 is the pipe.
        out.extend(format!("}}\n}} {}<&0", kept_input(data)).bytes());
        out.extend(end);
    }
    if !items.is_empty() {
        out.extend(remove_placeholders(&items));
    }
    out
}

/// The descriptor that keeps standard input while a pipe replaces it.
fn kept_input(binary: &Data) -> i32 {
    if binary.descriptor == 3 { 4 } else { 3 }
}

/// A delimiter that is no line of `content`.
fn end_of(content: &[u8]) -> String {
    let mut end = "END".to_owned();
    while content.split(|byte| *byte == b'\n').any(|line| line == end.as_bytes()) {
        end.push('_');
    }
    end
}

/// Signals, and the exit status that a shell has for each.
const SIGNALS: [(&str, u8); 4] = [("HUP", 129), ("INT", 130), ("QUIT", 131), ("TERM", 143)];

/// Ends the list of commands that `create_placeholders` begins.
const NOTE_STATUS: &[u8] = b" && sandbox_status=0 || sandbox_status=$?\n";

/// The beginning of the script. `sandbox_made` counts the placeholders that this script has
/// created. It removes no others.
fn wait_for_signals() -> Vec<u8> {
    let mut out = "sandbox_made=0 sandbox_signal=0\n".to_owned();
    for (name, status) in SIGNALS {
        out.push_str(&format!("trap sandbox_signal={status} {name}\n"));
    }
    out.into_bytes()
}

/// Makes the placeholders in order. The script goes on only if all were made and no signal came.
fn create_placeholders(items: &[PlaceholderItem]) -> Vec<u8> {
    let mut out = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let path = quote(item.path.as_os_str());
        // A signal between `mkdir` and the count would leave a placeholder.
        out.extend(format!("(trap '' {} && ", names()).bytes());
        match item.content {
            None => out.extend([&b"mkdir -- "[..], &path].concat()),
            Some(content) => {
                let content = quote(OsStr::from_bytes(content));
                out.extend([&b"set -C && printf %s "[..], &content, b" >", &path].concat());
            }
        }
        out.extend(format!(") && sandbox_made={} &&\n", at + 1).bytes());
    }
    out.extend(b"(exit $sandbox_signal) &&\n");
    out
}

/// Removes unchanged placeholders, and exits with the status of the command.
fn remove_placeholders(items: &[PlaceholderItem]) -> Vec<u8> {
    let mut out = format!("trap '' {}\n", names()).into_bytes();
    for (at, item) in items.iter().enumerate().rev() {
        let path = quote(item.path.as_os_str());
        out.extend(format!("test $sandbox_made -le {at} || ").bytes());
        match item.content {
            None => out.extend([&b"rmdir -- "[..], &path, b" 2>/dev/null || :\n"].concat()),
            // Compares the size, because the content of an unreadable file would look empty.
            Some(b"") => out.extend([&b"test -s "[..], &path, b" || rm -f ", &path, b" || :\n"].concat()),
            Some(content) => {
                let content = quote(OsStr::from_bytes(content.trim_ascii_end()));
                let is_same = [&b"test \"$(cat "[..], &path, b" 2>/dev/null)\" != ", &content].concat();
                out.extend([&is_same[..], b" || rm -f ", &path, b" || :\n"].concat());
            }
        }
    }
    out.extend(format!("trap - {}\n(exit $sandbox_status)\n", names()).bytes());
    out
}

fn names() -> String {
    SIGNALS.map(|(name, _)| name).join(" ")
}
