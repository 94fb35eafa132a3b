//! A script that does what a run does, as far as a POSIX shell can.

use std::ffi::OsStr;

use crate::compile::lower::{Argv, Data};
use crate::compile::placeholder;
use crate::policy::path::AbsPath;

use super::{environment, placeholders, quote, quote_all};

pub(super) fn script(argv: &Argv) -> Vec<u8> {
    let items = placeholder::items(&argv.placeholders);
    let mut out = if items.is_empty() { Vec::new() } else { placeholders::wait_for_signals() };
    for directory in &argv.create {
        // As `launch` makes them: each missing parent is for this user alone too, and without them
        // nothing starts.
        out.extend(b"(umask 077 && mkdir -p -- ");
        out.extend(quote(directory.as_os_str()));
        out.extend(b") &&\n");
    }
    for file in &argv.new_files {
        let folder = file.path.parent().unwrap_or_else(AbsPath::root);
        let (folder, path) = (quote(folder.as_os_str()), quote(file.path.as_os_str()));
        let content = quote(OsStr::new(&file.content));
        let parts: [&[u8]; 9] = [
            b"(umask 077 && mkdir -p -- ",
            &folder,
            b" && { test -e ",
            &path,
            b" || printf %s ",
            &content,
            b" >",
            &path,
            b"; }) &&\n",
        ];
        out.extend(parts.concat());
    }
    if !items.is_empty() {
        out.extend(placeholders::put_up(&items, quote));
    }
    let binary = argv.data.iter().find(|data| data.content.contains(&0));
    if let Some(data) = binary {
        out.extend(format!("{{ printf '{}' | {{\n", octal(&data.content)).bytes());
        // From the pipe; standard input is the script's own again, and the number that kept it is
        // free.
        let kept = kept_input(data);
        out.extend(format!("exec {}<&0 0<&{kept} {kept}<&- &&\n", data.descriptor).bytes());
    }
    out.extend(environment::in_front(&argv.environment, quote));
    out.extend(quote(argv.program.as_os_str()));
    for operation in &argv.operations {
        out.extend(b" \\\n  ");
        out.extend(quote_all(&operation.words, quote));
    }
    let inside = argv.inside();
    if !inside.is_empty() {
        out.extend(b" \\\n  -- ");
        out.extend(quote_all(&inside, quote));
    }
    let mut documents = Vec::new();
    for Data { descriptor, content } in &argv.data {
        if content.is_empty() {
            out.extend(format!(" {descriptor}</dev/null").bytes());
        } else if content.contains(&0) {
            // Stands in front of the command, where no other descriptor is in use yet.
        } else {
            let end = end_of(content);
            out.extend(format!(" {descriptor}<<'{end}'").bytes());
            documents.extend(content);
            if content.last() != Some(&b'\n') {
                documents.push(b'\n');
            }
            documents.extend(format!("{end}\n").bytes());
        }
    }
    // Also where the shell ends at the first failure, what was put up is taken away.
    let end: &[u8] = if items.is_empty() { b"\n" } else { placeholders::NOTE_STATUS };
    out.extend(if binary.is_some() { b"\n" } else { end });
    out.extend(documents);
    if let Some(data) = binary {
        // Kept outside of the pipeline, whose last command has the pipe for its input.
        out.extend(format!("}}\n}} {}<&0", kept_input(data)).bytes());
        out.extend(end);
    }
    if !items.is_empty() {
        out.extend(placeholders::take_away(&items, quote));
    }
    out
}

/// Where a script keeps its standard input while a pipe stands in its place.
fn kept_input(binary: &Data) -> i32 {
    if binary.descriptor == 3 { 4 } else { 3 }
}

/// For `printf`: no here-document holds a NUL byte.
fn octal(content: &[u8]) -> String {
    content.iter().map(|byte| format!("\\{byte:03o}")).collect()
}

/// A line that `content` does not hold.
fn end_of(content: &[u8]) -> String {
    let mut end = "END".to_owned();
    while content.split(|byte| *byte == b'\n').any(|line| line == end.as_bytes()) {
        end.push('_');
    }
    end
}
