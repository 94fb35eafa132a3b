//! git's settings. Our parser reads them as git does; git itself writes them.
#![expect(clippy::disallowed_methods, reason = "no command can write or see the folder of these files")]

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::{Entries, EntryReader, FormatError, Key, Values};
use crate::host::git::config;
use crate::sys::process::output_within;

/// The time limit for git. One change takes some milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);
const MOST_OUTPUT: usize = 4096;

/// All keys, as git names them: sections and names in lower case, subsections as they are.
pub(super) fn read(text: &[u8]) -> Result<Entries, FormatError> {
    let mut entries = EntryReader::default();
    for entry in config::entries(text).map_err(|_| FormatError::Syntax)? {
        let section = entry.section.to_ascii_lowercase();
        let name = entry.name.to_ascii_lowercase();
        // `[a.b]` is an older form of `[a "b"]`.
        let (section, subsection) = match section.split_once('.') {
            Some((section, subsection)) if entry.subsection.is_none() => (section, Some(subsection.as_bytes())),
            _ => (section.as_str(), entry.subsection.as_deref()),
        };
        let parts = [Some(section.as_bytes()), subsection, Some(name.as_bytes())];
        entries.add(&parts.into_iter().flatten().collect::<Vec<_>>(), entry.value)?;
    }
    Ok(entries.found)
}

/// The user's git, which changes files in a folder of ours.
pub(in crate::private) struct GitProgram {
    pub(in crate::private) program: PathBuf,
    /// The file that git changes, in a folder where no command can write. The caller removes a
    /// file that a killed process left.
    pub(in crate::private) file: PathBuf,
}

impl GitProgram {
    pub(super) fn write(&self, text: &[u8], changes: &[(Key, Values)]) -> io::Result<Vec<u8>> {
        let written = self.written(text, changes);
        let _ = fs::remove_file(&self.file);
        written
    }

    fn written(&self, text: &[u8], changes: &[(Key, Values)]) -> io::Result<Vec<u8>> {
        let mut new = fs::OpenOptions::new().write(true).create_new(true).open(&self.file)?;
        // git keeps the mode.
        new.set_permissions(fs::Permissions::from_mode(0o600))?;
        new.write_all(text)?;
        self.change(changes)?;
        fs::read(&self.file)
    }

    fn change(&self, changes: &[(Key, Values)]) -> io::Result<()> {
        for (key, values) in changes {
            let key = OsString::from_vec(key.0.join(&b'.'));
            let value = |value: &Vec<u8>| OsStr::from_bytes(value).to_owned();
            match values.as_slice() {
                [one] => self.run("--replace-all", &[key, value(one)])?,
                all => {
                    self.run("--unset-all", std::slice::from_ref(&key))?;
                    all.iter().try_for_each(|one| self.run("--add", &[key.clone(), value(one)]))?;
                }
            }
        }
        Ok(())
    }

    /// Runs `git config` without any settings, so git starts no program that a settings file
    /// names.
    fn run(&self, action: &str, operands: &[OsString]) -> io::Result<()> {
        /// The exit code of git if there was nothing to remove.
        const NOTHING: i32 = 5;
        let mut git = Command::new(&self.program);
        git.args(["config", "--file"]).arg(&self.file).args([action, "--"]).args(operands);
        let folder = self.file.parent().unwrap_or(&self.file);
        git.current_dir(folder).env_clear().env("LC_ALL", "C");
        // git would look for a repository around the folder.
        git.env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap_or(folder));
        git.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
        match output_within(&mut git, PATIENCE, MOST_OUTPUT)?.status.code() {
            Some(0) => Ok(()),
            Some(NOTHING) if action == "--unset-all" => Ok(()),
            _ => Err(io::Error::other("`git config` failed")),
        }
    }

    #[cfg(test)]
    pub(in crate::private) fn for_tests() -> Self {
        use std::sync::atomic::{AtomicU32, Ordering};
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("git-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        Self { program: "/usr/bin/git".into(), file: std::env::temp_dir().join(name) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::Syntax;
    use super::super::tests::{changed, key};
    use super::*;

    #[test]
    fn sections_and_names_have_no_case_and_subsections_have() {
        let text = b"[Branch \"Main\"]\n\tMerge = refs/heads/a\n\tmerge = refs/heads/b\n[CORE]\nbare\n[a.B]\nc=1\n";
        let entries = read(text).unwrap();
        let values = |text: &str| entries.get(&key(text)).cloned();
        assert_eq!(values("branch.Main.merge"), Some(vec![b"refs/heads/a".to_vec(), b"refs/heads/b".to_vec()]));
        assert_eq!(values("branch.main.merge"), None);
        assert_eq!(values("core.bare"), Some(vec![b"true".to_vec()]));
        assert_eq!(values("a.b.c"), Some(vec![b"1".to_vec()]));
    }

    #[test]
    fn a_change_keeps_comments_and_all_other_keys() {
        let text = "# mine\n[core]\n\tbare = false ; why\n[branch \"x\"]\n\tmerge = refs/heads/x\n";
        let changes = [("branch.x.merge", None), ("branch.y.merge", Some("refs/heads/y")), ("a.b", Some("-c \"d\" #"))];
        let written = changed(Syntax::Git, text, &changes);
        assert!(written.starts_with("# mine\n[core]\n\tbare = false ; why\n[branch \"y\"]\n"), "{written}");
    }

    #[test]
    fn a_text_that_git_refuses_has_no_keys() {
        for text in ["[core\n", "[a]\nb = \"c\n", "x\n[", "[a]\n b c = d\n"] {
            assert!(read(text.as_bytes()).is_err(), "{text}");
        }
    }
}
