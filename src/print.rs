//! The forms in which an argv is printed for audit. All of them carry every byte of every word; those that people
//! read in a terminal carry them escaped where they could forge a line.

mod environment;
mod placeholders;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use serde_json::{Value, json};

use crate::bytes::value as json_word;
use crate::diagnostic::{Code, Diagnostic, listed};
use crate::guard_plan::GuardMount;
use crate::lower::{Argv, Data};
use crate::path::{AbsPath, shown};
use crate::placeholder;
use crate::quoting::{quote, quote_for_people};
use crate::resolve::NewFile;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A script that a POSIX shell runs as it is
    Shell,
    /// An object with the words, the environment, what must be there before the start, and the contents of descriptors
    Json,
    /// The words alone, one on each line; newline and backslash as `\n` and `\\`
    Lines,
    /// The words alone, as they are, each ended by a NUL byte
    Nul,
    /// One operation on each line with its reason, and what was left out
    Annotated,
}

impl Form {
    fn name(self) -> &'static str {
        match self {
            Form::Shell => "shell",
            Form::Json => "json",
            Form::Lines => "lines",
            Form::Nul => "nul",
            Form::Annotated => "annotated",
        }
    }
}

pub fn print(argv: &Argv, form: Form) -> Vec<u8> {
    match form {
        Form::Shell => shell(argv, quote, <[u8]>::to_vec),
        Form::Json => json_form(argv),
        Form::Lines => words(argv, b"\n", escape_line),
        Form::Nul => words(argv, b"\0", |word| word.as_bytes().to_vec()),
        Form::Annotated => annotated(argv),
    }
}

/// Who executes the words alone would get another sandbox, or none, where they need more than a process has anyway. And what is
/// done to the process before it becomes bwrap is beyond a script.
pub fn incomplete(argv: &Argv, form: Form) -> Option<Diagnostic> {
    let before = before(argv);
    let (what, needs, help) = match form {
        Form::Lines | Form::Nul => {
            let complete = if before.is_empty() { " or `--print-args=shell`, which carry" } else { ", which carries" };
            let help = format!("use `--print-args=json`{complete} everything");
            ("prints the words alone, and these words need more", [needs(argv), before].concat(), help)
        }
        Form::Shell => {
            let help = "use `--print-args=json`, which carries everything, or leave `--no-guard` out: the second stage does this";
            ("prints a script, and a run does more than a script can", before, help.to_owned())
        }
        Form::Json | Form::Annotated => return None,
    };
    if needs.is_empty() {
        return None;
    }
    let message = format!("`{}` {what}: {}", form.name(), needs.join(", and "));
    Some(Diagnostic::new(Code::IncompleteForm, message).help(help))
}

/// What is done to the process itself (see [`Before`](crate::lower::Before)).
fn before(argv: &Argv) -> Vec<String> {
    let mut before = Vec::new();
    if argv.before.scope {
        before.push("signals and abstract sockets kept inside by Landlock".to_owned());
    }
    if argv.before.private_mounts {
        before.push("a mount namespace in which nothing appears later".to_owned());
    }
    before
}

fn needs(argv: &Argv) -> Vec<String> {
    let mut needs = Vec::new();
    for (is_empty, on) in [(true, "`/dev/null`"), (false, "what `json` shows for it")] {
        let descriptors = argv.data.iter().filter(|data| data.content.is_empty() == is_empty);
        let numbers: Vec<String> = descriptors.map(|data| data.descriptor.to_string()).collect();
        if !numbers.is_empty() {
            let noun = if numbers.len() == 1 { "descriptor" } else { "descriptors" };
            needs.push(format!("{noun} {} open on {on}", listed(numbers.into_iter(), "and")));
        }
    }
    if let Some(guard) = &argv.guard {
        needs.push(format!("descriptor {} open on the plan of the second stage", guard.descriptor));
    }
    if !argv.create.is_empty() {
        let noun = if argv.create.len() == 1 { "directory" } else { "directories" };
        let paths = listed(argv.create.iter().map(|path| format!("`{path}`")), "and");
        needs.push(format!("the {noun} {paths}"));
    }
    if !argv.new_files.is_empty() {
        let noun = if argv.new_files.len() == 1 { "file" } else { "files" };
        let paths = listed(argv.new_files.iter().map(|file| format!("`{}`", file.path)), "and");
        needs.push(format!("the {noun} {paths}"));
    }
    needs.extend(environment::needs(&argv.environment));
    if !argv.placeholders.is_empty() {
        let noun = if argv.placeholders.len() == 1 { "placeholder" } else { "placeholders" };
        let mut paths: Vec<String> = argv.placeholders.iter().map(|one| format!("`{}`", one.path)).collect();
        if paths.len() > 3 {
            let more = paths.split_off(2).len();
            paths.push(format!("{more} more"));
        }
        needs.push(format!("the {noun} {}", listed(paths.into_iter(), "and")));
    }
    needs
}

/// The shell form for a terminal: what could forge a line or drive it is escaped.
pub(crate) fn shell_for_people(argv: &Argv) -> String {
    String::from_utf8_lossy(&shell(argv, quote_for_people, document_for_people)).into_owned()
}

/// The names of files are in what descriptors hold, too.
fn document_for_people(content: &[u8]) -> Vec<u8> {
    let lines: Vec<String> = content.split(|byte| *byte == b'\n').map(|line| shown(OsStr::from_bytes(line))).collect();
    lines.join("\n").into_bytes()
}

fn words(argv: &Argv, end: &[u8], spell: impl Fn(&OsStr) -> Vec<u8>) -> Vec<u8> {
    argv.words().iter().flat_map(|word| [spell(word), end.to_vec()].concat()).collect()
}

fn escape_line(word: &OsStr) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len());
    for byte in word.as_bytes() {
        match byte {
            b'\\' => out.extend(b"\\\\"),
            b'\n' => out.extend(b"\\n"),
            byte => out.push(*byte),
        }
    }
    out
}

/// How one word is written.
type Quote = fn(&OsStr) -> Vec<u8>;

fn shell(argv: &Argv, quote: Quote, document: fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let items = placeholder::items(&argv.placeholders);
    let mut out = if items.is_empty() { Vec::new() } else { placeholders::wait_for_signals() };
    for directory in &argv.create {
        // As `launch` makes them: each missing parent is for this user alone too, and without them nothing starts.
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
        // From the pipe; standard input is the script's own again, and the number that kept it is free.
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
    for Data { descriptor, content } in &argv.all_data() {
        if content.is_empty() {
            out.extend(format!(" {descriptor}</dev/null").bytes());
        } else if content.contains(&0) {
            // Stands in front of the command, where no other descriptor is in use yet.
        } else {
            let end = end_of(content);
            out.extend(format!(" {descriptor}<<'{end}'").bytes());
            documents.extend(document(content));
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

fn quote_all(words: &[OsString], quote: Quote) -> Vec<u8> {
    words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(&b' ')
}

fn json_form(argv: &Argv) -> Vec<u8> {
    let words: Vec<Value> = argv.words().iter().map(|word| json_word(word)).collect();
    let create: Vec<Value> = argv.create.iter().map(|path| json_word(path.as_os_str())).collect();
    let content = |content: &[u8]| json_word(OsStr::from_bytes(content));
    let new_file = |file: &NewFile| json!({ "path": json_word(file.path.as_os_str()), "content": file.content });
    let new_files: Vec<Value> = argv.new_files.iter().map(new_file).collect();
    let placeholders: Vec<Value> = placeholder::items(&argv.placeholders)
        .iter()
        .map(|item| match item.content {
            None => json!({ "path": json_word(item.path.as_os_str()), "kind": "directory" }),
            Some(held) => json!({ "path": json_word(item.path.as_os_str()), "kind": "file", "content": content(held) }),
        })
        .collect();
    let data: Vec<Value> = argv
        .data
        .iter()
        .map(|data| json!({ "descriptor": data.descriptor, "content": content(&data.content) }))
        .collect();
    let mut all = json!({
        "argv": words,
        "environment": environment::json_form(&argv.environment),
        "create": create,
        "new-files": new_files,
        "placeholders": placeholders,
        "data": data,
    });
    if let Some(guard) = &argv.guard {
        all["guard"] = json!({ "descriptor": guard.descriptor, "plan": guard.plan });
    }
    if argv.before.scope {
        all["landlock"] = json!(true);
    }
    if argv.before.private_mounts {
        all["private-mounts"] = json!(true);
    }
    format!("{all:#}\n").into_bytes()
}

/// Some words of an argv on one line.
pub fn words_for_people(words: &[OsString]) -> String {
    String::from_utf8_lossy(&quote_all(words, quote_for_people)).into_owned()
}

/// A mount of the second stage on one line.
pub fn guard_mount_for_people(mount: &GuardMount) -> String {
    let quoted = |word: &OsStr| String::from_utf8_lossy(&quote_for_people(word)).into_owned();
    let path = quoted(mount.path().as_os_str());
    let more = match mount {
        GuardMount::From { source, .. } => format!(" {}", quoted(source.as_os_str())),
        GuardMount::Tmpfs { mode, .. } | GuardMount::Directory { mode, .. } => format!(" {mode:04o}"),
        GuardMount::Symlink { target, .. } => format!(" {}", quoted(&target.0)),
        _ => String::new(),
    };
    format!("guard: {}{more} {path}", mount.word())
}

/// A file that is elsewhere on the host is mounted on it.
fn is_second_place(argv: &Argv, path: &AbsPath) -> bool {
    let by_bwrap = argv.operations.iter().any(|operation| match operation.words.as_slice() {
        [flag, source, at] => flag == "--bind" && at == path.as_os_str() && source != at,
        _ => false,
    });
    let mut by_guard = argv.guard.iter().flat_map(|guard| &guard.plan.mounts);
    by_bwrap || by_guard.any(|mount| matches!(mount, GuardMount::From { path: at, .. } if at == path))
}

fn annotated(argv: &Argv) -> Vec<u8> {
    let mut lines: Vec<(Vec<u8>, String)> = Vec::new();
    for directory in argv.create.iter().chain(argv.new_files.iter().map(|file| &file.path)) {
        let path = quote_for_people(directory.as_os_str());
        lines.push(([b"# ".to_vec(), path].concat(), "created before the start".to_owned()));
    }
    lines.extend(environment::annotated(&argv.environment));
    for placeholder in &argv.placeholders {
        let path = quote_for_people(placeholder.path.as_os_str());
        let what = match is_second_place(argv, &placeholder.path) {
            true => "stands there during the run, for a file to be mounted on",
            false => "stands there during the run, so that it cannot be created",
        };
        let why = format!("{}: {what}", placeholder.origin);
        lines.push(([b"# ".to_vec(), path].concat(), why));
    }
    lines.push((quote_for_people(argv.program.as_os_str()), String::new()));
    for operation in &argv.operations {
        let words = quote_all(&operation.words, quote_for_people);
        lines.push(([b"  ".to_vec(), words].concat(), operation.why()));
    }
    let inside = argv.inside();
    if !inside.is_empty() {
        let command = quote_all(&inside, quote_for_people);
        lines.push(([b"  -- ".to_vec(), command].concat(), String::new()));
    }
    let by_guard = argv.guard.iter().flat_map(|guard| guard.plan.mounts.iter().zip(&guard.because));
    for (mount, (purpose, because)) in by_guard {
        let words = [b"# ".to_vec(), guard_mount_for_people(mount).into_bytes()].concat();
        lines.push((words, purpose.explained(because)));
    }
    for dropped in &argv.dropped {
        let path = quote_for_people(dropped.path.as_os_str());
        let why = format!("{}: {}; not mounted, it is {} already", dropped.access, dropped.because, dropped.inherited);
        lines.push(([b"# ".to_vec(), path].concat(), why));
    }
    let width = lines.iter().map(|(words, _)| words.len()).filter(|len| *len <= 72).max().unwrap_or(0);
    let mut out = Vec::new();
    for (words, why) in lines {
        out.extend(&words);
        if !why.is_empty() {
            out.extend(std::iter::repeat_n(b' ', width.saturating_sub(words.len()) + 2));
            out.extend(format!("# {why}").bytes());
        }
        out.push(b'\n');
    }
    out
}
