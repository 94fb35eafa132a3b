//! Diagnostics are data: a code, a sentence, the place, and the remedy. `render` turns them into
//! text or JSON.
//!
//! Sentences are lower case without a full stop, quote the user in backticks and name no Rust
//! types. The remedy goes into `help`, never into the message.

mod code;
pub(crate) mod exit_code;
mod quoting;
mod render;
mod wording;

pub use code::{Code, Severity};
pub(crate) use quoting::{quote, shell_quote};
pub use render::{Format, RenderLimits, render, render_within};
pub use wording::{by_turns, listed, nearest, or_none, reason};

use std::collections::HashSet;

use crate::policy::{AbsPath, Origin};

#[must_use]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Diagnostic {
    pub code: Code,
    pub message: String,
    pub origin: Option<Origin>,
    pub details: Box<Details>,
    pub help: Option<String>,
    /// Shown as a note, even if the severity of the code is higher.
    pub is_note: bool,
}

/// Lines and paths that would make the message too long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Details {
    /// The notes, each of one line.
    pub notes: Vec<String>,
    /// The files and folders that the diagnostic is about, for tools. The notes name them for
    /// people.
    pub paths: Vec<AbsPath>,
}

impl Diagnostic {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), origin: None, details: Box::default(), help: None, is_note: false }
    }

    pub fn at(mut self, origin: &Origin) -> Self {
        self.origin = Some(origin.clone());
        self
    }

    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub fn notes(mut self, notes: impl IntoIterator<Item = String>) -> Self {
        self.details.notes = notes.into_iter().collect();
        self
    }

    pub fn paths(mut self, paths: impl IntoIterator<Item = AbsPath>) -> Self {
        self.details.paths = paths.into_iter().collect();
        self
    }

    /// Turns the diagnostic into a note if `is_so`.
    pub fn as_note(mut self, is_so: bool) -> Self {
        self.is_note = is_so;
        self
    }

    pub fn severity(&self) -> Severity {
        if self.is_note { Severity::Note } else { self.code.severity() }
    }
}

/// The diagnostics of all stages in their order. They are collected, so that one run shows every
/// mistake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    all: Vec<Diagnostic>,
    /// The diagnostics of `all`, to find repeated ones quickly: a policy can have a hundred
    /// thousand mistakes.
    known: HashSet<Diagnostic>,
}

impl Diagnostics {
    pub fn push(&mut self, diagnostic: Diagnostic) {
        // Several rules may meet one obstacle, such as an unreadable folder.
        if self.known.insert(diagnostic.clone()) {
            self.all.push(diagnostic);
        }
    }

    /// Drops the diagnostics that `shown` contains.
    pub(crate) fn forget(&mut self, shown: &Self) {
        self.retain(|diagnostic| !shown.known.contains(diagnostic));
    }

    pub(crate) fn keep_errors(&mut self) {
        self.retain(|diagnostic| diagnostic.severity() == Severity::Error);
    }

    fn retain(&mut self, is_kept: impl Fn(&Diagnostic) -> bool) {
        self.all.retain(&is_kept);
        self.known.retain(is_kept);
    }

    pub fn has_errors(&self) -> bool {
        self.first_error().is_some()
    }

    pub fn first_error(&self) -> Option<&Diagnostic> {
        self.all.iter().find(|diagnostic| diagnostic.severity() == Severity::Error)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.all.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

impl FromIterator<Diagnostic> for Diagnostics {
    fn from_iter<I: IntoIterator<Item = Diagnostic>>(all: I) -> Self {
        let mut diagnostics = Self::default();
        diagnostics.extend(all);
        diagnostics
    }
}

impl Extend<Diagnostic> for Diagnostics {
    fn extend<I: IntoIterator<Item = Diagnostic>>(&mut self, more: I) {
        more.into_iter().for_each(|diagnostic| self.push(diagnostic));
    }
}
