//! Files and directories that a start creates, for rules that ask for them and for installed
//! programs that need them (SPEC P9).

use crate::policy::{AbsPath, CreateFor, LayerKind, Rule};

use super::Resolver;

/// A file to create before the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    pub path: AbsPath,
    pub content: String,
}

impl Resolver<'_> {
    /// Records what will be created, before any rule is resolved: it counts as existing for all of
    /// them, as it will in the next run. `exact` reports what stands in the way.
    pub(super) fn plan_creation(&mut self, rule: &Rule) {
        let Some(resolved) = self.exact_target(rule) else { return };
        // Presets go without what this process cannot create.
        let may_create = rule.layer != LayerKind::Preset || self.host.can_create(&resolved.path);
        if resolved.kind.is_none() && resolved.links.is_empty() && may_create {
            self.warn_if_literal(rule, "is created under that name");
            match &rule.refinements.content {
                None => self.found.create.push(resolved.path),
                Some(content) => self.found.new_files.push(NewFile { path: resolved.path, content: content.clone() }),
            }
        }
    }

    /// Whether `path` is a directory to create, or lies above one. Paths below it sort after it.
    pub(super) fn will_be_made(&self, path: &AbsPath) -> bool {
        let from = self.found.create.partition_point(|created| created < path);
        self.found.create.get(from).is_some_and(|created| created.is_within(path))
    }

    /// Whether a preset has the path created if it is missing.
    pub(super) fn is_wanted(&self, rule: &Rule) -> bool {
        match &rule.refinements.create_for {
            None => false,
            Some(CreateFor::Everybody) => true,
            Some(CreateFor::Program(name)) => {
                self.session.path_folders().any(|folder| self.host.program(&folder.join(name)).is_some())
            }
        }
    }
}
