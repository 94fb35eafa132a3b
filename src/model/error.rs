//! Why an argv has no meaning here: bwrap would refuse it, or the model does not cover it.

use std::ffi::OsString;
use std::fmt;

use crate::policy::path::{AbsPath, escape_for_display};

/// Neither kind is ever guessed around. A check that uses the model must fail when it cannot
/// answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelError {
    /// The first word does not name bwrap.
    NotBwrap,
    /// A flag that bwrap may know and the model does not.
    UnknownFlag {
        flag: OsString,
    },
    /// A known flag, used in a way whose effect depends on more than the argv.
    NotModelled {
        flag: String,
        value: OsString,
        why: &'static str,
    },
    /// The argv ends where a flag expects a value.
    MissingValue {
        flag: String,
    },
    /// bwrap refuses this value.
    InvalidValue {
        flag: String,
        value: OsString,
        expected: &'static str,
    },
    /// A path that is relative, or holds `.`, `..`, or a separator too many.
    NotNormal {
        flag: String,
        value: OsString,
    },
    /// `--perms` or `--size` that does not stand directly before what it modifies.
    StrayModifier {
        modifier: &'static str,
        before: OsString,
    },
    /// bwrap refuses `flag` without `needs`.
    Needs {
        flag: &'static str,
        needs: &'static str,
    },
    NoCommand,
    /// bwrap refuses more words than this, its own name not counted, those of the command included.
    TooManyWords {
        limit: usize,
    },
    /// The source of a bind does not exist, and the bind is not one of the `-try` forms.
    MissingSource {
        source: AbsPath,
    },
    /// Something would have to be made on a tmpfs that is read-only by then.
    ReadOnly {
        path: AbsPath,
        tmpfs: AbsPath,
    },
    /// The guard is called, and its plan is not mounted or its content is not known.
    MissingPlan,
    /// The guard's plan is not one.
    InvalidPlan {
        why: &'static str,
    },
    /// The guard would mount on a path that does not exist.
    NothingThere {
        path: AbsPath,
    },
    /// `--symlink` where the argv already made something.
    Occupied {
        path: AbsPath,
    },
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBwrap => f.write_str("the first word is not `bwrap`"),
            Self::UnknownFlag { flag } => {
                write!(f, "`{}` is not a bwrap flag that the model knows", escape_for_display(flag))
            }
            Self::NotModelled { flag, value, why } => {
                write!(f, "`{flag} {}` is not modelled: {why}", escape_for_display(value))
            }
            Self::MissingValue { flag } => write!(f, "`{flag}` lacks a value"),
            Self::InvalidValue { flag, value, expected } => {
                write!(f, "`{flag} {}` is invalid: expected {expected}", escape_for_display(value))
            }
            Self::NotNormal { flag, value } => {
                write!(f, "`{}` of `{flag}` is not an absolute path in normal form", escape_for_display(value))
            }
            Self::StrayModifier { modifier, before } => {
                write!(f, "`{modifier}` does not apply to `{}`", escape_for_display(before))
            }
            Self::Needs { flag, needs } => write!(f, "`{flag}` needs `{needs}`"),
            Self::NoCommand => f.write_str("no command follows `--`"),
            Self::TooManyWords { limit } => write!(f, "bwrap takes at most {limit} words"),
            Self::MissingSource { source } => write!(f, "`{source}` does not exist"),
            Self::ReadOnly { path, tmpfs } => {
                write!(f, "`{path}` cannot be made: the tmpfs at `{tmpfs}` is read-only by then")
            }
            Self::MissingPlan => f.write_str("the guard's plan is not mounted, or its content is not known"),
            Self::InvalidPlan { why } => write!(f, "the guard's plan makes no sense: {why}"),
            Self::NothingThere { path } => write!(f, "the guard finds nothing at `{path}` to mount on"),
            Self::Occupied { path } => write!(f, "`{path}` exists already"),
        }
    }
}

impl std::error::Error for ModelError {}
