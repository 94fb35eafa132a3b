//! Which missing paths a placeholder could stand at (SPEC M4–M6). Whether one is needed is known
//! when all rules are decided.

use std::os::unix::ffi::OsStrExt;

use crate::compile::layers::Project;
use crate::compile::placeholder::Placeholder;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, reason};
use crate::host::{FileKind, Host};
use crate::policy::origin::Origin;
use crate::policy::path::AbsPath;
use crate::policy::rule::{Access, LayerKind, Rule};

use super::Resolver;
use super::pattern::{self, Pattern};
use super::written::anchored;

/// Nobody writes this much into `.git/info/exclude`.
const LARGEST_EXCLUDE: u64 = 1 << 20;

/// git's own list of what it does not track in this work tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitExclude {
    pub path: AbsPath,
    pub content: Vec<u8>,
    pub work_tree: AbsPath,
    pub git_dirs: [AbsPath; 2],
    /// Where there is no such file yet.
    pub placeholder: Option<Placeholder>,
}

impl GitExclude {
    /// The path in the work tree of what git would look at.
    pub fn seen<'p>(&self, path: &'p AbsPath) -> Option<&'p std::path::Path> {
        let in_git = self.git_dirs.iter().any(|folder| path.is_within(folder));
        path.relative_to(&self.work_tree).filter(|relative| !in_git && !relative.as_os_str().is_empty())
    }
}

impl Resolver<'_> {
    /// Notes where a placeholder could stand, before any rule is resolved, as for what is created.
    pub(super) fn plan_placeholder(&mut self, rule: &Rule) {
        if rule.access == Access::Rw {
            return;
        }
        let (anchor, text) = anchored(rule, &self.project.home);
        let Ok(Pattern::Exact(path)) = pattern::parse(text) else { return };
        // Then the rule is about that file (SPEC G4).
        if self.literal(anchor, text).is_some() {
            return;
        }
        let Ok(resolved) = self.follow(anchor, &path) else { return };
        let path = resolved.path;
        let is_missing = resolved.kind.is_none() || self.stands(&path);
        // Where nobody with our rights can create what a preset names, the command cannot either.
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
        let signs = &rule.refinements.in_use;
        let exists = |sign: &String| {
            let below_home = sign.strip_prefix("~/").unwrap_or(sign);
            !matches!(self.host.kind(&self.project.home.join(below_home)), Ok(None))
        };
        signs.is_empty() || signs.iter().any(exists)
    }

    /// One for each path: what the highest layer says it is, and in that the first rule.
    pub(super) fn settle_placeholders(&mut self) {
        let placeholders = &mut self.found.placeholders;
        placeholders.sort_by(|a, b| a.path.cmp(&b.path).then(b.layer.cmp(&a.layer)));
        placeholders.dedup_by(|next, kept| next.path == kept.path);
    }

    /// Whether a placeholder of another run is all that is there.
    pub(super) fn stands(&self, path: &AbsPath) -> bool {
        self.standing.binary_search(path).is_ok()
    }

    /// The directories that have to be made first, outermost first; `None` where nothing can be
    /// made.
    fn missing_parents(&self, path: &AbsPath) -> Option<Vec<AbsPath>> {
        let mut parents = Vec::new();
        for ancestor in path.ancestors().skip(1) {
            let made = || self.stands(&ancestor);
            match self.host.kind(&ancestor) {
                Ok(Some(FileKind::Directory)) if !made() => break,
                Ok(None) => parents.push(ancestor),
                Ok(Some(FileKind::Directory)) => parents.push(ancestor),
                Ok(Some(_)) | Err(_) => return None,
            }
        }
        // What a `create` makes is there before us.
        parents.retain(|parent| !self.will_be_made(parent));
        parents.reverse();
        Some(parents)
    }

    /// `block` means one path, and something to keep from the command.
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
        self.diagnostics.push(Diagnostic::new(Code::InvalidValue, problem).at(&rule.origin).help(help));
    }

    /// Reads what git leaves alone.
    pub(super) fn find_git_exclude(&mut self) {
        let Some(mut exclude) = git_exclude(self.host, self.project, self.diagnostics) else { return };
        let is_missing = matches!(self.host.kind(&exclude.path), Ok(None)) || self.stands(&exclude.path);
        if is_missing {
            // Without a journal bwrap would make the file, and nobody would remove it.
            if !self.found.can_journal || !self.host.can_create(&exclude.path) {
                return;
            }
            let Some(parents) = self.missing_parents(&exclude.path) else { return };
            exclude.content.clear();
            exclude.placeholder = Some(Placeholder {
                path: exclude.path.clone(),
                kind: FileKind::File,
                parents,
                layer: LayerKind::Base,
                origin: Origin::BuiltIn("git leaves alone what is covered"),
            });
        }
        self.found.git_exclude = Some(exclude);
    }
}

fn git_exclude(host: &Host, project: &Project, diagnostics: &mut Diagnostics) -> Option<GitExclude> {
    let repository = project.repository.as_ref()?;
    let has_git = |folder: &AbsPath| host.exists(&folder.child(".git")).unwrap_or(false);
    let work_tree = project.root.ancestors().find(has_git)?;
    let path = repository.common_dir.child("info").child("exclude");
    // Through a link it is not ours to cover.
    let resolved = host.resolve(path.as_path()).ok().filter(|resolved| resolved.path == path)?;
    let content = match resolved.kind {
        None => Vec::new(),
        Some(_) => match host.read_regular(&path, LARGEST_EXCLUDE) {
            Ok(content) => content.unwrap_or_default(),
            Err(e) => {
                let message = format!("cannot read `{path}`: {}", reason(&e));
                let help = "make it a readable file: git inside reads a copy of it";
                diagnostics.push(Diagnostic::new(Code::UnreadablePath, message).help(help));
                return None;
            }
        },
    };
    let git_dirs = [repository.git_dir.clone(), repository.common_dir.clone()];
    Some(GitExclude { path, content, work_tree, git_dirs, placeholder: None })
}
