//! The environment in the printed forms. Values of the caller are in none of them, only names; values of the policy are, as
//! they are in its file.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use serde_json::{Map, Value, json};

use super::{Quote, json_word, quote_all, quote_for_people};
use crate::compile::environment::{Environment, Fate};
use crate::diagnostic::listed;
use crate::policy::path::escape_for_display;

/// Variables that a shell keeps to itself, or looks for the next program with: in front of a command it would refuse
/// them, or not find `env`.
const NOT_IN_FRONT: [&str; 9] =
    ["BASHOPTS", "BASH_VERSINFO", "EUID", "LINENO", "OPTIND", "PATH", "PPID", "SHELLOPTS", "UID"];

/// Prints an option of `env` for each variable that is not among its arguments. Names alone: a value in an argument could be read
/// by every user of the machine. POSIX has `ENVIRON` in awk, and no other way to list names alone.
const ALL_BUT: &str =
    r#"BEGIN { for (i = 1; i < ARGC; i++) pass[ARGV[i]]; for (name in ENVIRON) if (!(name in pass)) print "-u" name }"#;

/// What stands before bwrap so that a POSIX shell starts it with this environment: nothing, where the caller's is right.
/// The shell that reads it keeps its own.
pub(super) fn in_front(environment: &Environment, quote: Quote) -> Vec<u8> {
    let mut line = Vec::new();
    let mut operands: Vec<OsString> = Vec::new();
    let mut passed: Vec<OsString> = environment.with(Fate::Passed).map(|(name, _)| name.to_owned()).collect();
    for (name, value, _) in environment.set() {
        passed.push(name.to_owned());
        if is_identifier(name) && !NOT_IN_FRONT.iter().any(|reserved| name == *reserved) {
            line.extend([name.as_bytes(), b"=", &quote(value), b" "].concat());
        } else {
            operands.push([name, value].join(OsStr::new("=")));
        }
    }
    let mut options: Vec<OsString> = Vec::new();
    if environment.only_named {
        passed.sort();
        // Without awk this must fail, and not let everything pass.
        let all_but =
            [b"$(awk ".to_vec(), quote(OsStr::new(ALL_BUT)), b" ".to_vec(), quote_all(&passed, quote)].concat();
        line.extend([b"env ".to_vec(), all_but, b" || echo --awk-failed)".to_vec()].concat());
    } else {
        options = environment.with(Fate::Dropped).flat_map(|(name, _)| ["-u".into(), name.to_owned()]).collect();
        if !options.is_empty() || !operands.is_empty() {
            line.extend(b"env");
        }
    }
    if !operands.is_empty() {
        // A name may begin with a dash.
        options.push("--".into());
        options.append(&mut operands);
    }
    if !options.is_empty() {
        line.push(b' ');
        line.extend(quote_all(&options, quote));
    }
    while line.last() == Some(&b' ') {
        line.pop();
    }
    if !line.is_empty() {
        line.extend(b" \\\n");
    }
    line
}

/// A name that a shell can assign to.
fn is_identifier(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    bytes.first().is_some_and(|byte| !byte.is_ascii_digit()) && bytes.iter().all(is_part)
}

/// `unset` or `pass`, whichever says it all, and `set`.
pub(super) fn json_form(environment: &Environment) -> Value {
    let (key, fate) = if environment.only_named { ("pass", Fate::Passed) } else { ("unset", Fate::Dropped) };
    let names: Vec<Value> = environment.with(fate).map(|(name, _)| json_word(name)).collect();
    // What a policy sets has a name of text.
    let set = environment.set().map(|(name, value, _)| (name.to_string_lossy().into_owned(), json_word(value)));
    json!({ key: names, "set": set.collect::<Map<_, _>>() })
}

/// Lines with their reasons, as in `annotated`.
pub(super) fn annotated(environment: &Environment) -> Vec<(Vec<u8>, String)> {
    let (word, fate) = if environment.only_named { ("pass", Fate::Passed) } else { ("unset", Fate::Dropped) };
    let names = environment.with(fate).map(|(name, because)| {
        ([format!("# {word} ").as_bytes(), &quote_for_people(name)].concat(), format!("env: {because}"))
    });
    let set = environment.set().map(|(name, value, because)| {
        let words = [b"# set ", quote_for_people(name).as_slice(), b" ", &quote_for_people(value)].concat();
        (words, format!("env: {because}"))
    });
    names.chain(set).collect()
}

/// What someone who has the words alone must see to.
pub(super) fn needs(environment: &Environment) -> Vec<String> {
    let names = |names: &mut dyn Iterator<Item = &OsStr>| {
        listed(names.map(|name| format!("`{}`", escape_for_display(name))), "and")
    };
    let mut needs = Vec::new();
    let dropped = names(&mut environment.with(Fate::Dropped).map(|(name, _)| name));
    if !dropped.is_empty() && environment.only_named {
        let passed = names(&mut environment.variables.keys().map(OsString::as_os_str));
        needs.push(format!("an environment of {passed} alone"));
    } else if !dropped.is_empty() {
        needs.push(format!("an environment without {dropped}"));
    }
    let set = names(&mut environment.set().map(|(name, _, _)| name));
    if !set.is_empty() {
        needs.push(format!("the values of the policy in {set}"));
    }
    needs
}
