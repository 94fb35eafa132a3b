//! The forms in which an argv is printed for audit. All of them carry every byte of every word; those that people
//! read in a terminal carry them escaped where they could forge a line.

mod environment;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use serde_json::{Value, json};

use crate::diagnostic::{Code, Diagnostic, listed};
use crate::guard::Tightening;
use crate::lower::Argv;
use crate::path::shown;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A script that a POSIX shell runs as it is
    Shell,
    /// An object with the words, the environment, the directories to create, and the descriptors to open on `/dev/null`
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

    /// Whether there is nothing but words in it.
    fn is_words_alone(self) -> bool {
        matches!(self, Form::Lines | Form::Nul)
    }
}

pub fn print(argv: &Argv, form: Form) -> Vec<u8> {
    match form {
        Form::Shell => shell(argv, quote),
        Form::Json => json_form(argv),
        Form::Lines => words(argv, b"\n", escape_line),
        Form::Nul => words(argv, b"\0", |word| word.as_bytes().to_vec()),
        Form::Annotated => annotated(argv),
    }
}

/// Who executes the words alone would get another sandbox, or none, where they need more than a process has anyway.
pub fn incomplete(argv: &Argv, form: Form) -> Option<Diagnostic> {
    let needs = needs(argv);
    if !form.is_words_alone() || needs.is_empty() {
        return None;
    }
    let message =
        format!("`{}` prints the words alone, and these words need more: {}", form.name(), needs.join(", and "));
    let help = "use `--print-args=json` or `--print-args=shell`, which carry everything";
    Some(Diagnostic::new(Code::IncompleteForm, message).help(help))
}

fn needs(argv: &Argv) -> Vec<String> {
    let mut needs = Vec::new();
    let descriptors = argv.empty_descriptors.clone();
    if !descriptors.is_empty() {
        let noun = if descriptors.len() == 1 { "descriptor" } else { "descriptors" };
        let numbers = listed(descriptors.map(|descriptor| descriptor.to_string()), "and");
        needs.push(format!("{noun} {numbers} open on `/dev/null`"));
    }
    if let Some(guard) = &argv.guard {
        needs.push(format!("descriptor {} open on the plan of the second stage", guard.descriptor));
    }
    if !argv.create.is_empty() {
        let noun = if argv.create.len() == 1 { "directory" } else { "directories" };
        let paths = listed(argv.create.iter().map(|path| format!("`{path}`")), "and");
        needs.push(format!("the {noun} {paths}"));
    }
    needs.extend(environment::needs(&argv.environment));
    needs
}

/// The shell form for a terminal: what could forge a line or drive it is escaped.
pub(crate) fn shell_for_people(argv: &Argv) -> String {
    String::from_utf8_lossy(&shell(argv, quote_for_people)).into_owned()
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

/// Ends the plan of the guard in a script. JSON never has it on a line of its own.
const END_OF_PLAN: &str = "END_OF_PLAN";

/// How one word is written.
type Quote = fn(&OsStr) -> Vec<u8>;

fn shell(argv: &Argv, quote: Quote) -> Vec<u8> {
    let mut out = Vec::new();
    for directory in &argv.create {
        // As `launch` makes them: each missing parent is for this user alone too, and without them nothing starts.
        out.extend(b"(umask 077 && mkdir -p -- ");
        out.extend(quote(directory.as_os_str()));
        out.extend(b") &&\n");
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
    for descriptor in argv.empty_descriptors.clone() {
        out.extend(format!(" {descriptor}</dev/null").bytes());
    }
    if let Some(guard) = &argv.guard {
        out.extend(format!(" {}<<'{END_OF_PLAN}'", guard.descriptor).bytes());
    }
    out.push(b'\n');
    if let Some(guard) = &argv.guard {
        out.extend(format!("{}\n{END_OF_PLAN}\n", guard.plan.to_text()).bytes());
    }
    out
}

fn quote_all(words: &[OsString], quote: Quote) -> Vec<u8> {
    words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(&b' ')
}

/// A word as `quote` writes it, or as `$'…'` where it holds what a terminal obeys or cannot show. Shells that know this
/// form read the same bytes back.
fn quote_for_people(word: &OsStr) -> Vec<u8> {
    let bytes = word.as_bytes();
    if shown(word).as_bytes() == bytes {
        return quote(word);
    }
    let mut out = b"$'".to_vec();
    for byte in bytes {
        match byte {
            b'\n' => out.extend(b"\\n"),
            b'\t' => out.extend(b"\\t"),
            b'\'' | b'\\' => out.extend([b'\\', *byte]),
            b' '..=b'~' => out.push(*byte),
            byte => out.extend(format!("\\x{byte:02x}").bytes()),
        }
    }
    out.push(b'\'');
    out
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
    let words: Vec<Value> = argv.words().iter().map(|word| json_word(word)).collect();
    let create: Vec<Value> = argv.create.iter().map(|path| json_word(path.as_os_str())).collect();
    let empty: Vec<i32> = argv.empty_descriptors.clone().collect();
    let environment = environment::json_form(&argv.environment);
    let mut object = json!({ "argv": words, "environment": environment, "create": create, "empty_descriptors": empty });
    if let Some(guard) = &argv.guard {
        object["guard"] = json!({ "descriptor": guard.descriptor, "plan": guard.plan });
    }
    format!("{object:#}\n").into_bytes()
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
        let path = quote_for_people(directory.as_os_str());
        lines.push(([b"# ".to_vec(), path].concat(), "created before the start".to_owned()));
    }
    lines.extend(environment::annotated(&argv.environment));
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
    for (tightening, (purpose, because)) in by_guard {
        let (word, path) = match tightening {
            Tightening::Mask(path) => ("mask", path),
            Tightening::Hide(path) => ("hide", path),
            Tightening::ReadOnly(path) => ("read-only", path),
        };
        let path = quote_for_people(path.as_os_str());
        lines.push(([format!("# guard: {word} ").into_bytes(), path].concat(), purpose.explained(because)));
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
