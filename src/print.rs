//! The forms in which an argv is printed for audit. All of them carry every byte of every word.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use serde_json::{Value, json};

use crate::lower::Argv;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// A script that a POSIX shell runs as it is
    Shell,
    /// An object with the words, the directories to create, and the descriptors to open on `/dev/null`
    Json,
    /// One word on each line; newline and backslash as `\n` and `\\`
    Lines,
    /// Words as they are, each ended by a NUL byte
    Nul,
    /// One operation on each line with its reason, and what was left out
    Annotated,
}

pub fn print(argv: &Argv, form: Form) -> Vec<u8> {
    match form {
        Form::Shell => shell(argv),
        Form::Json => json_form(argv),
        Form::Lines => words(argv, b"\n", escape_line),
        Form::Nul => words(argv, b"\0", |word| word.as_bytes().to_vec()),
        Form::Annotated => annotated(argv),
    }
}

fn words(argv: &Argv, end: &[u8], spell: impl Fn(&OsStr) -> Vec<u8>) -> Vec<u8> {
    argv.words().into_iter().flat_map(|word| [spell(word), end.to_vec()].concat()).collect()
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

fn shell(argv: &Argv) -> Vec<u8> {
    let mut out = Vec::new();
    for directory in &argv.create {
        out.extend(b"mkdir -p -m 0700 -- ");
        out.extend(quote(directory.as_os_str()));
        out.push(b'\n');
    }
    out.extend(quote(argv.program.as_os_str()));
    for operation in &argv.operations {
        out.extend(b" \\\n  ");
        out.extend(quote_all(operation.words.iter().map(AsRef::as_ref)));
    }
    if !argv.command.is_empty() {
        out.extend(b" \\\n  -- ");
        out.extend(quote_all(argv.command.iter().map(AsRef::as_ref)));
    }
    for descriptor in argv.empty_descriptors.clone() {
        out.extend(format!(" {descriptor}</dev/null").bytes());
    }
    out.push(b'\n');
    out
}

fn quote_all<'w>(words: impl Iterator<Item = &'w OsStr>) -> Vec<u8> {
    words.map(quote).collect::<Vec<_>>().join(&b' ')
}

/// A word as a POSIX shell reads it back, byte for byte. `shell-words` takes text only, and paths are bytes; the
/// tests read our output back with it.
fn quote(word: &OsStr) -> Vec<u8> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+:@%,=".contains(byte);
    let bytes = word.as_bytes();
    if !bytes.is_empty() && bytes.iter().all(plain) {
        return bytes.to_vec();
    }
    let mut out = vec![b'\''];
    for byte in bytes {
        match byte {
            b'\'' => out.extend(b"'\\''"),
            byte => out.push(*byte),
        }
    }
    out.push(b'\'');
    out
}

fn json_form(argv: &Argv) -> Vec<u8> {
    let words: Vec<Value> = argv.words().into_iter().map(json_word).collect();
    let create: Vec<Value> = argv.create.iter().map(|path| json_word(path.as_os_str())).collect();
    let empty: Vec<i32> = argv.empty_descriptors.clone().collect();
    format!("{:#}\n", json!({ "argv": words, "create": create, "empty_descriptors": empty })).into_bytes()
}

/// A string, or, where the word is not UTF-8 and JSON has no way to hold it, its bytes.
fn json_word(word: &OsStr) -> Value {
    match word.to_str() {
        Some(text) => json!(text),
        None => json!({ "bytes": word.as_bytes() }),
    }
}

fn annotated(argv: &Argv) -> Vec<u8> {
    let mut lines: Vec<(Vec<u8>, String)> = Vec::new();
    for directory in &argv.create {
        let path = quote(directory.as_os_str());
        lines.push(([b"# ".to_vec(), path].concat(), "created before the start".to_owned()));
    }
    lines.push((quote(argv.program.as_os_str()), String::new()));
    for operation in &argv.operations {
        let access = operation.access.map(|access| format!("{access}: ")).unwrap_or_default();
        let words = quote_all(operation.words.iter().map(AsRef::as_ref));
        lines.push(([b"  ".to_vec(), words].concat(), format!("{access}{}", operation.because)));
    }
    if !argv.command.is_empty() {
        let command = quote_all(argv.command.iter().map(AsRef::as_ref));
        lines.push(([b"  -- ".to_vec(), command].concat(), String::new()));
    }
    for dropped in &argv.dropped {
        let path = quote(dropped.path.as_os_str());
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
