//! What is made before the start: for rules that ask for it, and for a program that is there and would otherwise stop, or keep nothing (SPEC P9).

use std::path::Path;

use rustix::fs::{Access, access};

use crate::host::FileKind;
use crate::policy::path::AbsPath;
use crate::policy::rule::{CreateFor, LayerKind, Rule};

use super::Resolver;
use super::pattern::{self, Pattern};
use super::written::anchored;

/// A file to make before the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    pub path: AbsPath,
    pub content: String,
}

impl Resolver<'_> {
    /// Notes what will be created, before any rule is resolved: it counts as there for all of them, as it will in the next
    /// run. What stands in the way is said when the rule's turn comes.
    pub(super) fn plan_creation(&mut self, rule: &Rule) {
        let (anchor, text) = anchored(rule, &self.project.home);
        let Ok(Pattern::Exact(path)) = pattern::parse(text) else { return };
        let Ok(resolved) = self.follow(anchor, &path) else { return };
        if resolved.kind.is_none() && resolved.links.is_empty() && self.may_create(rule, &resolved.path) {
            self.warn_if_literal(rule, "is created under that name");
            match &rule.refinements.content {
                None => self.found.create.push(resolved.path),
                Some(content) => self.found.new_files.push(NewFile { path: resolved.path, content: content.clone() }),
            }
        }
    }

    /// Whether `path` is a directory that has to be made, or lies above one. What lies below a path follows it in order.
    pub(super) fn will_be_made(&self, path: &AbsPath) -> bool {
        let from = self.found.create.partition_point(|created| created < path);
        self.found.create.get(from).is_some_and(|created| created.is_within(path))
    }

    /// What a preset names is not created where we cannot.
    fn may_create(&self, rule: &Rule, path: &AbsPath) -> bool {
        rule.layer != LayerKind::Preset || self.host.can_create(path)
    }

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
