//! Paths as entries of a configuration file, for advice that can be copied.

use std::path::Path;

use crate::compile::layers::Project;
use crate::host::Host;
use crate::policy::AbsPath;

/// A TOML string that names `path` alone in the project's file. `None` if the path is not UTF-8.
pub(super) fn entry(path: &AbsPath, project: &Project) -> Option<String> {
    match (path.relative_to(&project.root), path.relative_to(&project.home)) {
        (None, Some(in_home)) => quoted("~/", in_home),
        (in_project, _) => quoted("", in_project.unwrap_or(path.as_path())),
    }
}

/// A TOML string that names `path` in any file. `None` if the path is not UTF-8.
pub(crate) fn absolute_entry(path: &AbsPath) -> Option<String> {
    quoted("", path.as_path())
}

/// The rule that creates a folder for a missing path, and its effect: the folder around the path if
/// that is missing, too. `entry` makes an entry of a path.
pub(crate) fn creating(host: &Host, path: &AbsPath, entry: impl Fn(&AbsPath) -> Option<String>) -> Option<String> {
    let around = path.parent().filter(|around| matches!(host.kind(around), Ok(None)));
    let effect = match around {
        Some(_) => "creates the missing folder around it",
        None => "creates a folder; create a file yourself first",
    };
    let folder = of_folder(&entry(around.as_ref().unwrap_or(path))?);
    Some(format!("`rw = [{{ path = {folder}, if-missing = \"create\" }}]` in `[filesystem]` {effect}"))
}

fn quoted(start: &str, path: &Path) -> Option<String> {
    let path = path.to_str()?;
    if path.is_empty() {
        return Some(toml_string(if start.is_empty() { "." } else { "~" }));
    }
    // `~` at the start would mean the home.
    let start = if start.is_empty() && path.starts_with('~') { "./" } else { start };
    let is_special = |c| matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '\\');
    let pattern = path.chars().flat_map(|c| is_special(c).then_some('\\').into_iter().chain([c])).collect::<String>();
    Some(toml_string(&format!("{start}{pattern}")))
}

/// An entry for a missing folder.
pub(super) fn folder_entry(path: &AbsPath, project: &Project) -> Option<String> {
    entry(path, project).map(|entry| of_folder(&entry))
}

/// The `/` at the end says that it is a folder.
fn of_folder(entry: &str) -> String {
    format!("{}/\"", entry.trim_end_matches('"'))
}

pub(super) fn toml_string(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            // Invisible characters would mislead a reader.
            c if c.is_control() || ('\u{200b}'..='\u{206f}').contains(&c) => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_and_the_home_are_written_as_dot_and_tilde() {
        assert_eq!(quoted("", Path::new("")), Some("\".\"".to_owned()));
        assert_eq!(quoted("~/", Path::new("")), Some("\"~\"".to_owned()));
        assert_eq!(quoted("~/", Path::new("x")), Some("\"~/x\"".to_owned()));
    }

    #[test]
    fn a_quoted_name_is_read_back_unchanged() {
        for name in ["plain", "a \"b\" 'c'", "app/[id]/{x}*?", "back\\slash", "line\nbreak\t\u{1b}\u{202e}", "~", "~/x"]
        {
            let written = quoted("", Path::new(name)).expect("a text");
            assert!(!written.contains('\n'), "{written}");
            let read: toml::Table = toml::from_str(&format!("x = {written}")).unwrap();
            let read = read["x"].as_str().unwrap().to_owned();
            let mut unescaped = String::new();
            let mut chars = read.chars();
            while let Some(c) = chars.next() {
                unescaped.push(if c == '\\' { chars.next().unwrap() } else { c });
            }
            assert_eq!(unescaped.strip_prefix("./").unwrap_or(&unescaped), name);
        }
    }
}
