//! Files that the command sees without their credentials (SPEC P16): the copy is made from the file
//! as it is now.

use std::io;

use crate::compile::redact::{self, Unclear};
use crate::diagnostic::reason;
use crate::host::FileKind;
use crate::host::nofollow::open_to_read;
use crate::host::open_dir::read_regular;
use crate::policy::{AbsPath, CredentialFile, Mask, Rule};

use super::{Match, Resolver};

/// The largest file of settings that is copied.
const LARGEST: u64 = 1 << 20;
/// The most copies in one run. Each copy is one of bwrap's binds, and a command can create any
/// number of files.
const MOST_COPIES: usize = 32;

/// The reason why the command sees no copy of a file.
#[derive(Debug, thiserror::Error)]
enum NoCopy {
    #[error("it cannot be read: {}", reason(.0))]
    Unreadable(#[source] io::Error),
    #[error(transparent)]
    Unclear(#[from] Unclear),
    #[error("{MOST_COPIES} other files have one")]
    TooMany,
}

impl Resolver<'_> {
    /// Records a match with the copy that the command sees. A file without credentials stays as it
    /// is. A file that cannot be read or understood is hidden.
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
                self.found.without_copy.push((found.path.clone(), why.to_string()));
                self.found.matches.push(found);
            }
        }
    }

    /// Whether the rule leaves the file at `path` as it is, because the file has no credentials.
    /// This check is cheaper than reading the git index.
    pub(super) fn has_no_credentials(&self, rule: &Rule, path: &AbsPath) -> bool {
        matches!(rule.refinements.mask, Mask::Redacted(file) if matches!(self.redacted(path, file), Ok(None)))
    }

    /// The text without credentials; `None` if there are none.
    fn redacted(&self, path: &AbsPath, file: CredentialFile) -> Result<Option<Vec<u8>>, NoCopy> {
        let read = |path| -> io::Result<Vec<u8>> { read_regular(&open_to_read(self.host, path)?, LARGEST) };
        // A file of another user that the caller may not read is unreadable for the command, too.
        let is_closed = |error: &io::Error| {
            let is_ours = || self.host.owner(path).map_or(true, |owner| owner == self.session.uid);
            error.kind() == io::ErrorKind::PermissionDenied && !is_ours()
        };
        let text = match read(path) {
            Err(error) if is_closed(&error) => return Ok(None),
            Err(error) => return Err(NoCopy::Unreadable(error)),
            Ok(text) => text,
        };
        let copy = redact::without_credentials(file, &text)?;
        if copy.is_some() && self.found.matches.iter().filter(|known| known.copy.is_some()).count() >= MOST_COPIES {
            return Err(NoCopy::TooMany);
        }
        Ok(copy)
    }
}
