//! The operands of `diff`: a file, standard input, a revision, or no project file.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::audit::revision;
use crate::compile::layers::{self, MAX_CONFIG_BYTES, PROJECT_FILE, Project};
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::Host;
use crate::host::session::Session;
use crate::policy::origin::Source;
use crate::policy::path::escape_for_display;

pub(super) struct Operands<'a> {
    pub(super) host: &'a Host,
    pub(super) session: &'a Session,
    pub(super) project: &'a Project,
    /// A revision without the file stands for no project file.
    pub(super) allow_missing: bool,
}

/// A text to compile instead of the project's file, and a note for the reader.
pub(super) type Operand = (Source, Option<String>);

/// An empty file and no file give the same policy.
fn nothing(name: String, note: Option<String>) -> Operand {
    (Source { name, text: String::new() }, note)
}

impl Operands<'_> {
    /// The project's file as it is now.
    pub(super) fn current(&self) -> Result<Operand, Diagnostic> {
        if let Some(source) = layers::project_source(self.host, self.project)? {
            return Ok((source, None));
        }
        let note = format!("there is no `{PROJECT_FILE}` here now: NEW is the policy without one");
        Ok(nothing(PROJECT_FILE.to_owned(), Some(note)))
    }

    pub(super) fn named(&self, operand: &OsStr) -> Result<Operand, Diagnostic> {
        match operand.as_bytes() {
            b"-" => text("standard input", io::stdin().lock()),
            b"/dev/null" => Ok(nothing("/dev/null".to_owned(), None)),
            [b'g', b'i', b't', b':', revision @ ..] => self.revision(OsStr::from_bytes(revision)),
            _ => file(Path::new(operand)),
        }
    }

    fn revision(&self, revision: &OsStr) -> Result<Operand, Diagnostic> {
        if let Some(source) = revision::source_at(self.host, self.session, self.project, revision)? {
            return Ok((source, None));
        }
        let name = format!("git:{}", escape_for_display(revision));
        if self.allow_missing {
            let note = format!("there is no `{PROJECT_FILE}` at `{name}`: it stands for the policy without one");
            return Ok(nothing(format!("{name}:{PROJECT_FILE}"), Some(note)));
        }
        let folder = &self.project.root;
        Err(Diagnostic::new(Code::NoComparison, format!("`{name}` has no `{PROJECT_FILE}` in `{folder}`"))
            .help("`--allow-missing` compares with the policy without a project file"))
    }
}

/// Reads any file that the caller names, also the pipe of `<(command)`.
fn file(path: &Path) -> Result<Operand, Diagnostic> {
    let name = escape_for_display(path.as_os_str());
    match std::fs::File::open(path) {
        Ok(file) => text(&name, file),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            Err(Diagnostic::new(Code::MissingConfig, format!("`{name}` does not exist"))
                .help("name an existing file, `git:REV`, or `/dev/null` for the policy without a project file"))
        }
        Err(e) => Err(layers::unreadable(&name, &reason(&e))),
    }
}

fn text(name: &str, from: impl Read) -> Result<Operand, Diagnostic> {
    let mut content = Vec::new();
    let taken = from.take(MAX_CONFIG_BYTES + 1).read_to_end(&mut content);
    let problem = match taken.map(|taken| taken as u64 > MAX_CONFIG_BYTES) {
        Err(e) => reason(&e),
        Ok(true) => "too large".to_owned(),
        Ok(false) => match String::from_utf8(content) {
            Ok(text) => return Ok((Source { name: name.to_owned(), text }, None)),
            Err(_) => "it is not UTF-8".to_owned(),
        },
    };
    Err(layers::unreadable(name, &problem))
}
