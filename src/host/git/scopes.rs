//! The settings that git reads besides those of a repository: of the system, of the user, and of
//! the environment.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::config::{self, ConfigEntry};
use crate::host::{Host, Session, commands};
use crate::policy::path::AbsPath;

/// Variables that hold a command.
const COMMANDS: [&str; 12] = [
    "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR",
    "GIT_PAGER",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_ASKPASS",
    "SSH_ASKPASS",
    "GIT_EXTERNAL_DIFF",
    "GIT_PROXY_COMMAND",
    "VISUAL",
    "EDITOR",
    "PAGER",
];

/// Variables that hold a folder of programs or hooks.
const FOLDERS: [&str; 2] = ["GIT_TEMPLATE_DIR", "GIT_EXEC_PATH"];

/// The scopes of one user. A scope counts even if a variable turns it off, because each scope only
/// adds paths to protect.
#[derive(Clone, Debug)]
pub struct Scopes {
    pub(super) home: AbsPath,
    /// Files of the system and of the user.
    pub(super) files: Vec<AbsPath>,
    /// Settings in the environment.
    pub(super) entries: Vec<ConfigEntry>,
    pub(super) commands: Vec<Vec<u8>>,
    pub(super) folders: Vec<Vec<u8>>,
    /// The folders in which the git programs on PATH are installed: `%(prefix)` in a path.
    prefixes: Vec<AbsPath>,
}

impl Scopes {
    /// `configuration` is the folder of the user's settings (`~/.config`).
    pub fn of(host: &Host, session: &Session, home: &AbsPath, configuration: &AbsPath) -> Self {
        let prefixes: Vec<AbsPath> = session.path_folders().filter_map(|folder| prefix_of(host, folder)).collect();
        let mut files = vec![AbsPath::root().join("etc/gitconfig")];
        files.extend(prefixes.iter().map(|prefix| prefix.join("etc/gitconfig")));
        files.extend([home.child(".gitconfig"), configuration.join("git/config")]);
        let named = ["GIT_CONFIG_SYSTEM", "GIT_CONFIG_GLOBAL", "GIT_CONFIG"].into_iter();
        files.extend(named.filter_map(|name| session.var(name)).map(|path| session.cwd.join(path)));
        let values = |names: &[&str]| {
            names.iter().filter_map(|name| session.var(name)).map(|value| value.as_bytes().to_vec()).collect()
        };
        Self {
            home: home.clone(),
            files,
            entries: environment(session),
            commands: values(&COMMANDS),
            folders: values(&FOLDERS),
            prefixes,
        }
    }

    /// The unresolved paths that `value` may mean. A relative path starts at `from`.
    pub(super) fn places(&self, host: &Host, value: &[u8], from: &AbsPath) -> Vec<PathBuf> {
        let value = value.strip_prefix(b":(optional)").unwrap_or(value);
        let under = |folder: &AbsPath, rest: &[u8]| folder.as_path().join(OsStr::from_bytes(rest));
        if let Some(rest) = value.strip_prefix(b"%(prefix)/") {
            return self.prefixes.iter().map(|prefix| under(prefix, rest)).collect();
        }
        commands::places(host, &self.home, value, from)
    }
}

/// The folder in which the git in `folder` of the PATH is installed.
fn prefix_of(host: &Host, folder: &Path) -> Option<AbsPath> {
    host.program(&folder.join("git"))?.path.parent()?.parent()
}

/// The settings in `GIT_CONFIG_KEY_n` and `GIT_CONFIG_PARAMETERS`. Parameters that git refuses are
/// ignored.
fn environment(session: &Session) -> Vec<ConfigEntry> {
    let numbered = session.env.iter().filter_map(|(name, key)| {
        let number = name.as_bytes().strip_prefix(b"GIT_CONFIG_KEY_")?;
        let value = session.env.get(OsStr::from_bytes(&[b"GIT_CONFIG_VALUE_", number].concat()))?;
        config::entry_of(key.as_bytes(), value.as_bytes())
    });
    let parameters = session.var("GIT_CONFIG_PARAMETERS").unwrap_or_default();
    numbered.chain(quoted(parameters.as_bytes()).unwrap_or_default()).collect()
}

/// Reads `'key'='value'`, and the older `'key=value'`, separated by blanks. A key without a value
/// means true.
fn quoted(mut text: &[u8]) -> Option<Vec<ConfigEntry>> {
    let mut entries = Vec::new();
    loop {
        text = text.trim_ascii_start();
        if text.is_empty() {
            return Some(entries);
        }
        let first = unquoted(&mut text)?;
        let (key, value) = match text.strip_prefix(b"=") {
            Some(rest) => {
                text = rest;
                let value = if text.starts_with(b"'") { unquoted(&mut text)? } else { b"true".to_vec() };
                (first, value)
            }
            None => match first.iter().position(|byte| *byte == b'=') {
                Some(end) => (first[..end].to_vec(), first[end + 1..].to_vec()),
                None => (first, b"true".to_vec()),
            },
        };
        entries.extend(config::entry_of(&key, &value));
    }
}

/// Takes a word in single quotes from the start of `text`. git writes `'` as `'\''` and `!` as
/// `'\!'`.
fn unquoted(text: &mut &[u8]) -> Option<Vec<u8>> {
    let mut word = Vec::new();
    let mut rest = text.strip_prefix(b"'")?;
    loop {
        let end = rest.iter().position(|byte| *byte == b'\'')?;
        word.extend_from_slice(&rest[..end]);
        rest = &rest[end + 1..];
        match rest {
            [b'\\', byte @ (b'\'' | b'!'), b'\'', after @ ..] => {
                word.push(*byte);
                rest = after;
            }
            _ => {
                *text = rest;
                return Some(word);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::process::Command;

    use super::*;

    /// git itself sets this variable for the settings that it got by `-c`.
    // SPEC P8
    #[test]
    fn parameters_are_read_as_git_writes_them() {
        for (key, value) in [("core.pager", "a b"), ("filter.it's.clean", "x 'y' !z=1"), ("core.a", "")] {
            let setting = format!("{key}={value}");
            let shown = ["-c", "alias.v=!printf %s \"$GIT_CONFIG_PARAMETERS\"", "-c", &setting, "v"];
            let output = Command::new("git").env_remove("GIT_CONFIG_PARAMETERS").args(shown).output().unwrap();
            let entries = quoted(&output.stdout).unwrap();
            let last = entries.last().unwrap();
            let subsection = last.subsection.as_ref().map(|text| format!("{}.", String::from_utf8_lossy(text)));
            assert_eq!(format!("{}.{}{}", last.section, subsection.unwrap_or_default(), last.name), key);
            assert_eq!(last.value, value.as_bytes());
        }
        let old = quoted(b" 'core.pager=a b'  'core.x'").unwrap();
        assert_eq!((old[0].value.as_slice(), old[1].value.as_slice()), (&b"a b"[..], &b"true"[..]));
        assert!(quoted(b"core.pager=x").is_none());
    }
}
