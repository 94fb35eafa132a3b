//! A script that does what a run does, as far as a POSIX shell can.

use std::ffi::OsStr;

use crate::compile::lower::{Argv, Data};
use crate::compile::placeholder;
use crate::diagnostic::quoting::quote;
use crate::policy::path::AbsPath;

use super::{environment, placeholders, quote_all};

pub(super) fn script(argv: &Argv) -> Vec<u8> {
    let items = placeholder::items(&argv.placeholders);
    let mut out = if items.is_empty() { Vec::new() } else { placeholders::wait_for_signals() };
    // As `launch` does it: missing parents are for this user alone, and a failure stops the start.
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
        out.extend(placeholders::put_up(&items));
    }
    let binary = argv.data.iter().find(|data| data.content.contains(&0));
    if let Some(data) = binary {
        out.extend(format!("{{ printf '{}' | {{\n", octal(&data.content)).bytes());
        // Moves the pipe to its descriptor, restores standard input, and closes the copy of it.
        let kept = kept_input(data);
        out.extend(format!("exec {}<&0 0<&{kept} {kept}<&- &&\n", data.descriptor).bytes());
    }
    out.extend(environment::prefix(&argv.environment));
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
    // Placeholders are removed also in a shell that exits at the first failure (`set -e`).
    let end: &[u8] = if items.is_empty() { b"\n" } else { placeholders::NOTE_STATUS };
    out.extend(if binary.is_some() { b"\n" } else { end });
    out.extend(documents);
    if let Some(data) = binary {
        // Copies standard input outside of the pipeline, in which it is the pipe.
        out.extend(format!("}}\n}} {}<&0", kept_input(data)).bytes());
        out.extend(end);
    }
    if !items.is_empty() {
        out.extend(placeholders::take_away(&items));
    }
    out
}

/// The descriptor that keeps standard input while a pipe replaces it.
fn kept_input(binary: &Data) -> i32 {
    if binary.descriptor == 3 { 4 } else { 3 }
}

/// The format of `printf` for `content`. A here-document cannot hold a NUL byte.
fn octal(content: &[u8]) -> String {
    content.iter().map(|byte| format!("\\{byte:03o}")).collect()
}

/// A delimiter that is no line of `content`.
fn end_of(content: &[u8]) -> String {
    let mut end = "END".to_owned();
    while content.split(|byte| *byte == b'\n').any(|line| line == end.as_bytes()) {
        end.push('_');
    }
    end
}
