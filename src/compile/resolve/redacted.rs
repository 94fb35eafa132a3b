//! Files that the command sees without their credentials (SPEC P16): the copy is made from the file
//! as it is now.

use std::io;
use std::sync::Arc;

use crate::compile::redact;
use crate::diagnostic::{Code, reason};
use crate::host::FileKind;
use crate::host::nofollow::open_to_read;
use crate::host::open_dir::read_regular;
use crate::policy::{AbsPath, CredentialFile, Mask, Rule};

use super::{Match, Resolver};

/// Settings are small.
const LARGEST: u64 = 1 << 20;
/// Each copy is one of bwrap's binds, and a command can create any number of files.
const MOST_COPIES: usize = 32;

impl Resolver<'_> {
    /// Records a match with the copy that the command sees. A file without credentials stays as it
    /// is, and one that cannot be read or understood is hidden.
    pub(super) fn accept_redacted(&mut self, found: Match, file: CredentialFile) {
        let is_placeholder = self.found.placeholders.iter().any(|other| other.path == found.path);
        // No tool reads a directory of this name.
        if found.kind == FileKind::Directory || is_placeholder {
            return;
        }
        match self.redacted(&found.path, file) {
            Ok(None) => self.found.without_credentials.push(found),
            Ok(Some(copy)) => self.found.matches.push(Match { copy: Some(copy.into()), ..found }),
            Err(why) => {
                // A command can create many such files; one diagnostic for each rule is enough.
                let is_known = |known: &Match| Arc::ptr_eq(&known.rule, &found.rule) && known.copy.is_none();
                if !self.found.matches.iter().any(is_known) {
                    let message = format!("`{}` is hidden: no copy without credentials can be made, {why}", found.path);
                    let help = "repair or move the file, or show it as it is with a `ro` rule of your own";
                    self.report(&found.rule, Code::NoCopy, message, help);
                }
                self.found.matches.push(found);
            }
        }
    }

    /// Whether the rule leaves the file at `path` as it is. This is cheaper than the git index.
    pub(super) fn has_no_credentials(&self, rule: &Rule, path: &AbsPath) -> bool {
        matches!(rule.refinements.mask, Mask::Redacted(file) if self.redacted(path, file) == Ok(None))
    }

    /// The text without credentials; `None` if there are none.
    fn redacted(&self, path: &AbsPath, file: CredentialFile) -> Result<Option<Vec<u8>>, String> {
        let read = |path| -> io::Result<Vec<u8>> { read_regular(&open_to_read(self.host, path)?, LARGEST) };
        let text = read(path).map_err(|error| format!("because it cannot be read: {}", reason(&error)))?;
        let copy = redact::without_credentials(file, &text).map_err(|unclear| format!("because {unclear}"))?;
        if copy.is_some() && self.found.matches.iter().filter(|known| known.copy.is_some()).count() >= MOST_COPIES {
            return Err(format!("because {MOST_COPIES} other files have one"));
        }
        Ok(copy)
    }
}
