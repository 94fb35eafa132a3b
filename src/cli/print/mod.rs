//! The forms in which an argv is printed for audit. All of them carry every byte of every argument;
//! those that people read in a terminal escape bytes that could forge a line.

mod annotated;
mod command;
mod environment;
mod placeholders;
mod script;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use serde_json::{Value, json};

use crate::compile::guard_plan::Tightening;
use crate::compile::lower::{Argv, MountContent, MountFile};
use crate::compile::placeholder;
use crate::compile::resolve::NewFile;
use crate::diagnostic::quoting::{quote, quote_for_people};
use crate::diagnostic::{Code, Diagnostic, listed};
use crate::policy::path_json::value as json_word;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One bwrap command, one operation on each line
    Shell,
    /// The operations in groups, each with its reason, and the rules that need no mount
    Annotated,
    /// A script for a POSIX shell that does all that a run does
    Script,
    /// An object with the arguments, the environment, and everything that must exist before the
    /// start
    Json,
    /// The arguments alone, one on each line; newline and backslash as `\n` and `\\`
    Lines,
    /// The arguments alone, as they are, each ended by a NUL byte
    Nul,
}

impl Form {
    fn name(self) -> &'static str {
        match self {
            Form::Shell => "shell",
            Form::Annotated => "annotated",
            Form::Script => "script",
            Form::Json => "json",
            Form::Lines => "lines",
            Form::Nul => "nul",
        }
    }
}

pub fn print(argv: &Argv, form: Form) -> Vec<u8> {
    match form {
        Form::Shell => command::command(argv),
        Form::Annotated => annotated::annotated(argv),
        Form::Script => script::script(argv),
        Form::Json => json_form(argv),
        Form::Lines => words(argv, b"\n", escape_line),
        Form::Nul => words(argv, b"\0", |word| word.as_bytes().to_vec()),
    }
}

/// A process that executes the arguments alone gets another sandbox, or none, if they need more
/// than a process has anyway. A script cannot prepare the process that becomes bwrap.
pub fn incomplete(argv: &Argv, form: Form) -> Option<Diagnostic> {
    let before = before(argv);
    let (what, needs, help) = match form {
        Form::Lines | Form::Nul => {
            let complete = if before.is_empty() { " or `--print-args=script`, which carry" } else { ", which carries" };
            let help = format!("use `--print-args=json`{complete} everything");
            ("prints the arguments alone, and these need more", [needs(argv), before].concat(), help)
        }
        Form::Shell | Form::Script => {
            let help =
                "use `--print-args=json`, which carries everything, or leave out `--no-guard`: the guard does this";
            ("prints shell text, and a run does more than a shell can", before, help.to_owned())
        }
        Form::Json | Form::Annotated => return None,
    };
    if needs.is_empty() {
        return None;
    }
    let message = format!("`{}` {what}: {}", form.name(), needs.join(", and "));
    Some(Diagnostic::new(Code::IncompleteForm, message).help(help))
}

/// Done to the process itself (see [`Before`](crate::compile::lower::Before)).
fn before(argv: &Argv) -> Vec<String> {
    let mut before = Vec::new();
    if argv.pre_exec.scope {
        before.push("signals and abstract sockets kept inside by Landlock".to_owned());
    }
    if argv.pre_exec.private_mounts {
        before.push("a mount namespace in which nothing appears later".to_owned());
    }
    before
}

fn needs(argv: &Argv) -> Vec<String> {
    let mut needs = Vec::new();
    let numbers: Vec<String> = argv.data.iter().map(|data| data.descriptor.to_string()).collect();
    if !numbers.is_empty() {
        let noun = if numbers.len() == 1 { "file descriptor" } else { "file descriptors" };
        let numbers = listed(numbers.into_iter(), "and");
        needs.push(format!("{noun} {numbers} open on the content that `json` shows"));
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

/// How one argument is written.
type Quote = fn(&OsStr) -> Vec<u8>;

fn quote_all(words: &[OsString], quote: Quote) -> Vec<u8> {
    words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(&b' ')
}

/// Some arguments on one line.
pub fn words_for_people(words: &[OsString]) -> String {
    String::from_utf8_lossy(&quote_all(words, quote_for_people)).into_owned()
}

/// A mount of the guard on one line.
pub fn step_for_people(step: &Tightening) -> String {
    let path = quote_for_people(step.path().as_os_str());
    format!("guard: {} {}", step.name(), String::from_utf8_lossy(&path))
}

/// The default form for a terminal, for `--debug`.
pub(crate) fn command_for_people(argv: &Argv) -> String {
    String::from_utf8_lossy(&command::command(argv)).into_owned()
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
    let file = |MountFile { path, content: held }: &MountFile| match held {
        MountContent::Bytes(held) => json!({ "path": json_word(path.as_os_str()), "content": content(held) }),
        MountContent::Unreadable => json!({ "path": json_word(path.as_os_str()), "kind": "unreadable" }),
    };
    let files: Vec<Value> = argv.files.iter().map(file).collect();
    let mut all = json!({
        "argv": words,
        "environment": environment::json_form(&argv.environment),
        "create": create,
        "new-files": new_files,
        "placeholders": placeholders,
        "files": files,
        "data": data,
    });
    if let Some(guard) = &argv.guard {
        all["guard"] = json!({ "plan": guard.plan });
    }
    if argv.pre_exec.scope {
        all["landlock"] = json!(true);
    }
    if argv.pre_exec.private_mounts {
        all["private-mounts"] = json!(true);
    }
    format!("{all:#}\n").into_bytes()
}

impl Argv {
    /// One bwrap command for a POSIX shell, one operation on each line.
    pub fn to_shell(&self) -> String {
        String::from_utf8_lossy(&print(self, Form::Shell)).into_owned()
    }
}
