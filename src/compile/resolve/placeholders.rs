//! Missing paths. A start creates some of them, for rules that ask for this and for installed
//! programs that need them (SPEC P9). Others may get a placeholder (SPEC M4–M6); `decide` tells
//! which of them need one.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::compile::placeholder::Placeholder;
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::FileKind;
use crate::host::git::Repository;
use crate::policy::{AbsPath, Access, LayerKind, Origin, Rule};

use super::{Resolver, anchored};

const LARGEST_EXCLUDE: u64 = 1 << 20;

/// A file to create before the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    pub path: AbsPath,
    pub content: &'static str,
}

/// git's own list of ignored files, `.git/info/exclude`. All work trees of a repository share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitExclude {
    pub path: AbsPath,
    pub content: Vec<u8>,
    /// The work trees whose paths the list names.
    pub work_trees: Vec<Repository>,
    /// Set if the file does not exist yet.
    pub placeholder: Option<Placeholder>,
}

impl GitExclude {
    /// `path` relative to each work tree in which git looks at it.
    pub fn seen<'p>(&self, path: &'p AbsPath) -> impl Iterator<Item = &'p Path> {
        self.work_trees.iter().filter_map(move |Repository { work_tree, git_dir, common_dir, .. }| {
            let in_git = path.is_within(git_dir) || path.is_within(common_dir);
            path.relative_to(work_tree).filter(|relative| !in_git && !relative.as_os_str().is_empty())
        })
    }
}

impl Resolver<'_> {
    /// Records the paths that will be created, before any rule is resolved. Every rule treats
    /// these paths as existing, as it will in the next run. `exact` reports a path that cannot be
    /// created.
    pub(super) fn plan_creation(&mut self, rule: &Rule) {
        let Some(resolved) = self.exact_target(rule) else { return };
        // For a preset, a path that this process cannot create is left out.
        let may_create = rule.layer != LayerKind::Preset || self.host.can_create(&resolved.path);
        if resolved.kind.is_none() && resolved.links.is_empty() && may_create {
            self.refuse_literal(rule);
            match rule.refinements.content {
                None => self.found.create.push(resolved.path),
                Some(content) => self.found.new_files.push(NewFile { path: resolved.path, content }),
            }
        }
    }

    /// Whether `path` is a directory to create, or lies above one. Paths below it sort after it.
    pub(super) fn will_be_made(&self, path: &AbsPath) -> bool {
        let from = self.found.create.partition_point(|created| created < path);
        self.found.create.get(from).is_some_and(|created| created.is_within(path))
    }

    /// Whether a preset asks for the path to be created if it is missing.
    pub(super) fn is_wanted(&self, rule: &Rule) -> bool {
        let wanted_by = rule.refinements.create_for;
        wanted_by.is_some_and(|name| name == "*" || self.host.is_on_path(self.session, name))
    }

    /// Records the paths that may get a placeholder, before any rule is resolved.
    pub(super) fn plan_placeholder(&mut self, rule: &Rule) {
        let (anchor, text) = anchored(rule, &self.project.home);
        // If a file has the text of the rule as its name, the rule is about that file (SPEC G4).
        if rule.access == Access::Rw || self.literal(anchor, text).is_some() {
            return;
        }
        let Some(resolved) = self.exact_target(rule) else { return };
        let path = resolved.path;
        let is_missing = resolved.kind.is_none() || self.stands(&path);
        // If we cannot create a preset's path, the command, which has our rights, cannot either.
        let can_be_made = rule.layer != LayerKind::Preset || self.host.could_be_created(&path);
        if !is_missing || !resolved.links.is_empty() || self.will_be_made(&path) || !can_be_made {
            return;
        }
        let Some(parents) = self.missing_parents(&path) else { return };
        if rule.refinements.needs_parent && !parents.is_empty() || !self.is_in_use(rule) {
            return;
        }
        let kind = if text.as_bytes().ends_with(b"/") { FileKind::Directory } else { FileKind::File };
        let (layer, origin) = (rule.layer, rule.origin.clone());
        self.found.placeholders.push(Placeholder { path, kind, parents, layer, origin });
    }

    /// Whether the program that obeys this path is in use by this user. An error counts as yes.
    fn is_in_use(&self, rule: &Rule) -> bool {
        let signs = rule.refinements.in_use;
        let exists = |sign: &&str| {
            let below_home = sign.strip_prefix("~/").unwrap_or(sign);
            let path = self.project.home.join(below_home);
            self.will_be_made(&path) || !matches!(self.host.kind(&path), Ok(None))
        };
        signs.is_empty() || signs.iter().any(exists)
    }

    /// Keeps one placeholder for each path: the placeholder of the first rule of the highest layer.
    pub(super) fn settle_placeholders(&mut self) {
        let placeholders = &mut self.found.placeholders;
        placeholders.sort_by(|a, b| a.path.cmp(&b.path).then(b.layer.cmp(&a.layer)));
        placeholders.dedup_by(|next, kept| next.path == kept.path);
        self.blocked = placeholders.iter().map(|blocked| (blocked.path.clone(), blocked.kind)).collect();
    }

    pub(super) fn stands(&self, path: &AbsPath) -> bool {
        self.standing.binary_search(path).is_ok()
    }

    /// The directories to create first, outermost first. `None` if nothing can be created there.
    pub(super) fn missing_parents(&self, path: &AbsPath) -> Option<Vec<AbsPath>> {
        let mut parents = Vec::new();
        for ancestor in path.ancestors().skip(1) {
            match self.host.kind(&ancestor) {
                Ok(Some(FileKind::Directory)) if !self.stands(&ancestor) => break,
                Ok(None | Some(FileKind::Directory)) => parents.push(ancestor),
                Ok(Some(_)) | Err(_) => return None,
            }
        }
        // The directories of `create` rules are created before placeholders.
        parents.retain(|parent| !self.will_be_made(parent));
        parents.reverse();
        Some(parents)
    }

    pub(super) fn refuse_block(&mut self, rule: &Rule, is_pattern: bool) {
        let (problem, help) = match (rule.access, is_pattern) {
            (Access::Rw, _) => {
                ("`block` keeps a path from being created, and this one is `rw`", "choose `skip`, `error` or `create`")
            }
            (_, true) => {
                ("`block` needs one path, and this is a pattern", "name the path, or choose `skip` or `error`")
            }
            (_, false) => return,
        };
        self.report(rule, Code::InvalidValue, problem, help);
    }

    pub(super) fn git_exclude(&mut self) -> Option<GitExclude> {
        let repository = self.project.repository.as_ref()?;
        let has_git = |folder: &AbsPath| self.host.exists(&folder.child(".git")).unwrap_or(false);
        let work_tree = self.project.root.ancestors().find(has_git)?;
        self.git_exclude_of(Repository { work_tree, current_branch: None, ..repository.clone() })
    }

    /// git's list for a work tree. `None` if no mount can cover it.
    pub(super) fn git_exclude_of(&mut self, work_tree: Repository) -> Option<GitExclude> {
        let path = work_tree.common_dir.join("info/exclude");
        // A list behind a symlink is not covered.
        let resolved = self.host.resolve(path.as_path()).ok().filter(|resolved| resolved.path == path)?;
        let mut exclude = GitExclude { path, content: Vec::new(), work_trees: vec![work_tree], placeholder: None };
        let path = &exclude.path;
        if resolved.kind.is_some() && !self.stands(path) {
            match self.host.read_regular(path, LARGEST_EXCLUDE) {
                Ok(content) => exclude.content = content.unwrap_or_default(),
                Err(e) => {
                    let message = format!("cannot read `{path}`: {}", reason(&e));
                    let help = "make it a readable file: git inside reads a copy of it";
                    self.diagnostics.push(Diagnostic::new(Code::UnreadablePath, message).help(help));
                    return None;
                }
            }
            return Some(exclude);
        }
        // Without a journal bwrap would create the file, and no process would remove it.
        if !self.found.can_journal || !self.host.can_create(path) {
            return None;
        }
        let (parents, kind, layer) = (self.missing_parents(path)?, FileKind::File, LayerKind::Base);
        let origin = Origin::BuiltIn("git ignores hidden and blocked paths");
        exclude.placeholder = Some(Placeholder { path: path.clone(), kind, parents, layer, origin });
        Some(exclude)
    }
}
