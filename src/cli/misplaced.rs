//! Flags that somebody wrote behind a subcommand, where clap knows only those of the subcommand.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, CommandFactory};

use crate::cli::print::display_args;

use super::args::{Arguments, mistake};

/// The same mistake with a better tip, where the words make sense with such flags in front.
pub(super) fn explained(
    words: &[OsString],
    error: clap::Error,
    is_understood: impl Fn(&[OsString]) -> Result<(), clap::Error>,
) -> clap::Error {
    let Some(first) = unknown(&error) else { return error };
    let mut moved = words.to_vec();
    let mut unknown_now = Some(first.clone());
    let mut to = 1;
    // Each turn takes one flag to the front, so there are no more turns than words.
    for _ in words {
        let Some((from, length)) = unknown_now.as_deref().and_then(|flag| place(&moved, flag, to)) else { break };
        let flag: Vec<OsString> = moved.drain(from..from + length).collect();
        moved.splice(to..to, flag);
        to += length;
        match is_understood(&moved) {
            Ok(()) => {
                let written = display_args(moved.get(1..).unwrap_or_default());
                return mistake(
                    ErrorKind::UnknownArgument,
                    format!(
                        "`{first}` stands behind a subcommand that has no such flag\n\n  \
                         tip: write `agent-sandbox {written}`: flags of the policy and of a run stand before the subcommand"
                    ),
                );
            }
            Err(e) => unknown_now = unknown(&e),
        }
    }
    error
}

fn unknown(error: &clap::Error) -> Option<String> {
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(flag))) => Some(flag.clone()),
        _ => None,
    }
}

/// Where one of our own flags stands behind `after`, and how many words it takes up.
fn place(words: &[OsString], flag: &str, after: usize) -> Option<(usize, usize)> {
    let definition = Arguments::command();
    let known = definition.get_arguments().find(|known| is_called(known, flag))?;
    let ours = words.iter().take_while(|word| *word != "--").count();
    let at = (after..ours).find(|at| name(&words[*at]) == flag.as_bytes())?;
    let has_value = words[at].as_bytes().contains(&b'=');
    let takes_next = known.get_action().takes_values() && !known.is_require_equals_set() && !has_value;
    let length = if takes_next { 2 } else { 1 };
    (at + length <= ours).then_some((at, length))
}

fn is_called(known: &Arg, flag: &str) -> bool {
    let is_long = || flag.strip_prefix("--").is_some_and(|long| known.get_long() == Some(long));
    let is_short = || known.get_short().is_some_and(|short| flag == format!("-{short}"));
    is_long() || is_short()
}

/// `--ro` of `--ro=x`.
fn name(word: &OsStr) -> &[u8] {
    let bytes = word.as_bytes();
    bytes.split(|byte| *byte == b'=').next().unwrap_or(bytes)
}
