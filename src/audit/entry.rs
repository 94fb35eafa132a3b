//! A path as an entry of a configuration file, for advice that can be copied.

use std::path::Path;

use crate::compile::layers::Project;
use crate::policy::path::AbsPath;

/// How the project's file would name `path`, as a TOML string that means this path and nothing else. `None` where it is
/// no text.
pub(super) fn entry(path: &AbsPath, project: &Project) -> Option<String> {
    if let Some(relative) = path.relative_to(&project.root) {
        return quoted("", relative);
    }
    match path.relative_to(&project.home) {
        Some(relative) => quoted("~/", relative),
        None => quoted("", path.as_path()),
    }
}

fn quoted(start: &str, path: &Path) -> Option<String> {
    let path = path.to_str()?;
    if path.is_empty() {
        return Some(toml_string(if start.is_empty() { "." } else { "~" }));
    }
    // A folder called `~` is not the home.
    let start = if start.is_empty() && path.starts_with('~') { "./" } else { start };
    let is_special = |c| matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '\\');
    let pattern = path.chars().flat_map(|c| is_special(c).then_some('\\').into_iter().chain([c])).collect::<String>();
    Some(toml_string(&format!("{start}{pattern}")))
}

/// The same for a folder that is not there yet, which a `/` at the end tells from a file.
pub(super) fn folder_entry(path: &AbsPath, project: &Project) -> Option<String> {
    entry(path, project).map(|entry| format!("{}/\"", entry.trim_end_matches('"')))
}

/// `text` as a basic string of TOML.
pub(super) fn toml_string(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            // What nobody can see is not left to an editor to show.
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
    fn the_folders_themselves_have_names() {
        assert_eq!(quoted("", Path::new("")), Some("\".\"".to_owned()));
        assert_eq!(quoted("~/", Path::new("")), Some("\"~\"".to_owned()));
        assert_eq!(quoted("~/", Path::new("x")), Some("\"~/x\"".to_owned()));
    }

    #[test]
    fn what_is_written_is_read_back_as_the_same_name() {
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
