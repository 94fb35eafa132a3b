//! What configuration files say, before anything of it is understood.

use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::Host;
use crate::policy::origin::Source;
use crate::policy::path::{AbsPath, escape_for_display};

use super::{MAX_CONFIG_BYTES, PROJECT_FILE, Project};

/// The project's own file as it is now; `None` where there is none.
pub fn project_source(host: &Host, project: &Project) -> Result<Option<Source>, Diagnostic> {
    let file = project.root.child(PROJECT_FILE);
    let name = shown_name(&file, &project.cwd);
    match text(host, &file) {
        Ok(text) => Ok(text.map(|text| Source { name, text })),
        Err(problem) => Err(unreadable(&name, &problem)),
    }
}

/// What a configuration file says, or why it cannot be told. `None` where there is no file.
pub(super) fn text(host: &Host, file: &AbsPath) -> Result<Option<String>, String> {
    match host.read_regular(file, MAX_CONFIG_BYTES) {
        Ok(Some(bytes)) => String::from_utf8(bytes).map(Some).map_err(|_| "it is not UTF-8".to_owned()),
        Ok(None) if is_link(host, file) => Err("it is a symlink that leads nowhere".to_owned()),
        Ok(None) => Ok(None),
        Err(e) => Err(reason(&e)),
    }
}

pub(crate) fn unreadable(name: &str, problem: &str) -> Diagnostic {
    Diagnostic::new(Code::UnreadableConfig, format!("cannot read `{name}`: {problem}"))
        .help("make it a readable TOML file, or remove it")
}

/// Whether the file itself is a symlink: somebody meant a policy to be there. A link on the way says nothing; many people
/// have one at `~/.config`.
fn is_link(host: &Host, file: &AbsPath) -> bool {
    let folder = file.parent().and_then(|folder| host.resolve(folder.as_path()).ok());
    let entry = folder.zip(file.file_name()).map(|(folder, name)| folder.path.child(name));
    entry.is_some_and(|entry| host.exists(&entry).unwrap_or(true))
}

/// Relative to the working directory where that is shorter, as compilers do.
pub(super) fn shown_name(file: &AbsPath, cwd: &AbsPath) -> String {
    match file.relative_to(cwd) {
        Some(relative) => escape_for_display(relative.as_os_str()),
        None => file.to_string(),
    }
}
