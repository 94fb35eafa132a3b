//! Why an argv has no meaning here: bwrap would refuse it, or the model does not cover it.

use std::ffi::OsString;

use thiserror::Error;

use crate::policy::{AbsPath, escape_for_display};

/// The model never guesses, so a check that uses it must fail when the model cannot answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ModelError {
    #[error("the first word is not `bwrap`")]
    NotBwrap,
    #[error("`{}` is not a bwrap flag that the model knows", escape_for_display(.flag))]
    UnknownFlag { flag: OsString },
    /// A known flag, used in a way whose effect depends on more than the argv.
    #[error("`{flag} {}` is not modelled: {why}", escape_for_display(.value))]
    NotModelled { flag: String, value: OsString, why: &'static str },
    #[error("`{flag}` lacks a value")]
    MissingValue { flag: String },
    #[error("`{flag} {}` is invalid: expected {expected}", escape_for_display(.value))]
    InvalidValue { flag: String, value: OsString, expected: &'static str },
    #[error("`{}` of `{flag}` is not an absolute path in normal form", escape_for_display(.value))]
    NotNormal { flag: String, value: OsString },
    /// A `--perms` that does not stand directly before the flag that it modifies.
    #[error("`--perms` does not apply to `{}`", escape_for_display(.before))]
    StrayPerms { before: OsString },
    #[error("`{flag}` needs `{needs}`")]
    Needs { flag: String, needs: &'static str },
    #[error("no command follows `--`")]
    NoCommand,
    /// bwrap counts the arguments of the command, and not its own name.
    #[error("bwrap takes at most {limit} words")]
    TooManyWords { limit: usize },
    #[error("`{path}` does not exist")]
    MissingSource { path: AbsPath },
    /// Something would have to be created on a tmpfs that is read-only by then.
    #[error("`{path}` cannot be made: the tmpfs at `{tmpfs}` is read-only by then")]
    ReadOnly { path: AbsPath, tmpfs: AbsPath },
    #[error("the guard's plan is not mounted, or its content is not known")]
    MissingPlan,
    #[error("the guard's plan makes no sense: {why}")]
    InvalidPlan { why: String },
    #[error("the guard finds nothing at `{path}` to mount on")]
    NothingThere { path: AbsPath },
    /// `--symlink` where the argv has already created something.
    #[error("`{path}` exists already")]
    Occupied { path: AbsPath },
}
