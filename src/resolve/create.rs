//! What is created for a program that is there and would otherwise stop, or keep nothing (SPEC P9).

use std::path::Path;

use rustix::fs::{Access, access};

use crate::host::FileKind;
use crate::path::AbsPath;
use crate::rule::{CreateFor, Rule};

use super::Resolver;

/// A file to make before the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    pub path: AbsPath,
    pub content: String,
}

impl Resolver<'_> {
    /// Whether a preset has the path created if it is missing.
    pub(super) fn is_wanted(&self, rule: &Rule) -> bool {
        match &rule.refinements.create_for {
            None => false,
            Some(CreateFor::Everybody) => true,
            Some(CreateFor::Program(name)) => self.is_on_path(name),
        }
    }

    fn is_on_path(&self, program: &str) -> bool {
        let path = self.session.var("PATH").unwrap_or_default();
        std::env::split_paths(path)
            .filter(|folder| folder.is_absolute())
            .any(|folder| self.is_program(&folder.join(program)))
    }

    fn is_program(&self, candidate: &Path) -> bool {
        let Ok(found) = self.host.resolve(candidate) else { return false };
        found.kind == Some(FileKind::File) && access(self.host.real(&found.path), Access::EXEC_OK).is_ok()
    }
}
