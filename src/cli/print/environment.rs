//! The environment in the printed forms. The forms contain the names of the caller's variables,
//! but not their values. Values that the policy sets are in its file, so they are printed.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use serde_json::{Map, Value, json};

use super::annotated::Annotated;
use super::{json_word, quote_all};
use crate::compile::environment::{Environment, Fate};
use crate::compile::identity::OF_HOST;
use crate::diagnostic::{listed, quote, shell_quote};
use crate::policy::escape_for_display;

/// Variables that a shell does not let a command line assign, and `PATH`, which the shell needs to
/// find `env`.
const NOT_IN_FRONT: [&str; 9] =
    ["BASHOPTS", "BASH_VERSINFO", "EUID", "LINENO", "OPTIND", "PATH", "PPID", "SHELLOPTS", "UID"];

/// An awk program that prints an option of `env` for each variable that is not among the program's
/// arguments. It prints names only, because every user of the machine can read arguments. Of the
/// tools in POSIX, only awk lists names of variables (`ENVIRON`).
const ALL_BUT: &str =
    r#"BEGIN { for (i = 1; i < ARGC; i++) pass[ARGV[i]]; for (name in ENVIRON) if (!(name in pass)) print "-u" name }"#;

/// The beginning of a POSIX command line that starts bwrap with this environment. Empty if bwrap
/// can have the caller's environment.
pub(super) fn prefix(environment: &Environment) -> Vec<u8> {
    let mut parts: Vec<Vec<u8>> = Vec::new();
    let mut operands: Vec<Vec<u8>> = Vec::new();
    let mut passed: Vec<OsString> = environment.with(Fate::Passed).map(|(name, _)| name.to_owned()).collect();
    for (name, value, _) in environment.set() {
        passed.push(name.to_owned());
        if is_identifier(name) && !NOT_IN_FRONT.iter().any(|reserved| name == *reserved) {
            parts.push([name.as_bytes(), b"=", &quote(value)].concat());
        } else {
            operands.push(quote(&[name, value].join(OsStr::new("="))));
        }
    }
    if environment.only_named {
        passed.sort();
        // Without awk the command line must fail instead of passing every variable.
        let (awk, passed) = (quote(OsStr::new(ALL_BUT)), quote_all(&passed));
        parts.push([b"env $(awk ", &awk[..], b" ", &passed, b" || echo --awk-failed)"].concat());
    } else if !operands.is_empty() || environment.with(Fate::Dropped).next().is_some() {
        parts.push(b"env".to_vec());
        parts.extend(environment.with(Fate::Dropped).flat_map(|(name, _)| [b"-u".to_vec(), quote(name)]));
    }
    if !operands.is_empty() {
        // A name may begin with a dash.
        parts.push(b"--".to_vec());
        parts.append(&mut operands);
    }
    if parts.is_empty() { Vec::new() } else { [parts.join(&b' '), b" \\\n".to_vec()].concat() }
}

fn is_identifier(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    bytes.first().is_some_and(|byte| !byte.is_ascii_digit()) && bytes.iter().all(is_part)
}

/// The names to unset, or with `inherit = false` the names to pass, and the variables to set.
pub(super) fn json_form(environment: &Environment) -> Value {
    let (key, fate) = if environment.only_named { ("pass", Fate::Passed) } else { ("unset", Fate::Dropped) };
    let names: Vec<Value> = environment.with(fate).map(|(name, _)| json_word(name)).collect();
    // The names of variables that a policy sets are UTF-8.
    let set = environment.set().map(|(name, value, _)| (name.to_string_lossy().into_owned(), json_word(value)));
    json!({ key: names, "set": set.collect::<Map<_, _>>() })
}

pub(super) fn annotated(environment: &Environment) -> Vec<Annotated> {
    let (word, fate) = if environment.only_named { ("pass", Fate::Passed) } else { ("unset", Fate::Dropped) };
    let names = environment.with(fate);
    let names = names.map(|(name, because)| (format!("# {word} {}", shell_quote(name)), format!("env: {because}")));
    let set = environment.set().map(|(name, value, because)| {
        // Names and addresses for commits that come from the host's git settings are in no policy
        // file, so their values are not printed.
        let value = if *because == OF_HOST { String::new() } else { format!(" {}", shell_quote(value)) };
        (format!("# set {}{value}", shell_quote(name)), format!("env: {because}"))
    });
    names.chain(set).collect()
}

/// The environment that the caller must provide to execute the arguments alone.
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
