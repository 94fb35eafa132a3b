//! The text of configuration files, before it is parsed.

use std::fmt::Display;
use std::io;

use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::Host;
use crate::policy::{AbsPath, Source, escape_for_display};

use super::{MAX_CONFIG_BYTES, PROJECT_FILE, Project};

#[derive(Debug, thiserror::Error)]
pub(super) enum TextError {
    #[error("it is not UTF-8")]
    NotUtf8,
    #[error("it is a symlink that leads nowhere")]
    DanglingLink,
    #[error("{}", reason(.0))]
    Unreadable(#[from] io::Error),
}

/// The project's own file as it is now; `None` if there is none.
pub fn project_source(host: &Host, project: &Project) -> Result<Option<Source>, Diagnostic> {
    let file = project.root.child(PROJECT_FILE);
    let name = shown_name(&file, &project.cwd);
    let text = read_text(host, &file).map_err(|problem| unreadable(&name, &problem))?;
    Ok(text.map(|text| Source::new(name, text)))
}

/// The text of a configuration file; `None` if there is no file.
pub(super) fn read_text(host: &Host, file: &AbsPath) -> Result<Option<String>, TextError> {
    match host.read_regular(file, MAX_CONFIG_BYTES)? {
        Some(bytes) => String::from_utf8(bytes).map(Some).map_err(|_| TextError::NotUtf8),
        None if is_link(host, file) => Err(TextError::DanglingLink),
        None => Ok(None),
    }
}

pub(crate) fn unreadable(name: &str, problem: &dyn Display) -> Diagnostic {
    Diagnostic::new(Code::UnreadableConfig, format!("cannot read `{name}`: {problem}"))
        .help("make it a readable TOML file, or remove it")
}

/// Whether the file itself is a symlink, so that a policy was meant to be there. A link on the way
/// says nothing: many users have one at `~/.config`.
fn is_link(host: &Host, file: &AbsPath) -> bool {
    let folder = file.parent().and_then(|folder| host.resolve(folder.as_path()).ok());
    let entry = folder.zip(file.file_name()).map(|(folder, name)| folder.path.child(name));
    entry.is_some_and(|entry| host.exists(&entry).unwrap_or(true))
}

/// The name of `file` in diagnostics: relative if it lies below `folder`, as compilers do.
pub(super) fn shown_name(file: &AbsPath, folder: &AbsPath) -> String {
    file.relative_to(folder).map_or_else(|| file.to_string(), |relative| escape_for_display(relative.as_os_str()))
}
