//! The facts about a project that decide its policy.

use std::ffi::OsStr;
use std::path::Path;

use crate::audit::lint::visible::has_other_names;
use crate::audit::lint::{secrets, third_party, walk};
use crate::compile::layers::Project;
use crate::compile::presets::builtin;
use crate::compile::resolve::{NamePattern, TrackedFiles};
use crate::host::{DirEntry, FileKind, Host};
use crate::policy::AbsPath;

use super::kinds::{AGENTS, GUARDED, INSTRUCTIONS, KINDS, ProjectKind};

/// A file that every formatter reads, so it says nothing about the language of a project.
const EDITORCONFIG: &str = ".editorconfig";

#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Each kind with the marker that lies nearest to the root.
    pub kinds: Vec<(&'static ProjectKind, AbsPath)>,
    /// Presets for settings of linters, and the files that each would cover.
    pub lint: Vec<(&'static str, Vec<AbsPath>)>,
    /// Paths that exist, and the reason to make them read-only.
    pub guarded: Vec<(&'static str, &'static str)>,
    pub agents: Vec<(&'static str, &'static str)>,
    pub instructions: Vec<&'static str>,
    pub secrets: Vec<Secret>,
    pub is_repository: bool,
    /// `.git` is a file that leads to a repository elsewhere.
    pub is_linked: bool,
    pub has_submodules: bool,
    /// The walk of the project reached its limit.
    pub is_partial: bool,
}

#[derive(Debug)]
pub(super) struct Secret {
    pub path: AbsPath,
    pub like: &'static str,
    pub by_preset: bool,
    /// Git holds the same content.
    pub is_tracked: bool,
    /// The file has other names, which no mount covers.
    pub has_other_names: bool,
}

impl Facts {
    pub(super) fn gather(host: &Host, project: &Project) -> Self {
        let root = &project.root;
        // Ignore a path through a symlink, because another user may have chosen the target.
        let exists = |name: &str| {
            let found = host.resolve_from(root, Path::new(name)).ok().filter(|found| found.links.is_empty());
            found.is_some_and(|found| match found.kind {
                None => false,
                Some(kind) => kind == FileKind::Directory || found.names == 1,
            })
        };
        let agents = AGENTS.iter().filter_map(|(agent, signs)| {
            let sign = signs.iter().find(|sign| exists(sign))?;
            Some((*agent, *sign))
        });
        let mut facts = Self {
            guarded: GUARDED.iter().copied().filter(|(name, _)| exists(name)).collect(),
            agents: agents.collect(),
            instructions: INSTRUCTIONS.into_iter().filter(|name| exists(name)).collect(),
            is_repository: project.repository.is_some(),
            is_linked: project.git_pointer.is_some(),
            has_submodules: exists(".gitmodules"),
            ..Self::default()
        };
        facts.look_at_files(host, root);
        // A file that holds a secret is hidden, not guarded.
        let secrets = &facts.secrets;
        let is_hidden = |name: &str| secrets.iter().any(|secret| secret.path == root.join(name) && !secret.is_tracked);
        facts.guarded.retain(|(name, _)| !is_hidden(name));
        facts
    }

    fn look_at_files(&mut self, host: &Host, root: &AbsPath) {
        let mut linters: Vec<Linter> = KINDS.iter().filter_map(Linter::of).collect();
        let mut tracked = TrackedFiles::new(host);
        let mut nearest: [Option<(usize, AbsPath)>; KINDS.len()] = Default::default();
        let see = |path: AbsPath, found: &DirEntry| {
            if found.is_symlink || found.is_socket {
                return;
            }
            let marker = (path.ancestors().count(), path.clone());
            for (kind, nearest) in KINDS.iter().zip(&mut nearest) {
                let is_nearer = nearest.as_ref().is_none_or(|nearest| marker < *nearest);
                if is_nearer && kind.has_marker(found.name.to_str().unwrap_or_default()) {
                    *nearest = Some(marker.clone());
                }
            }
            for linter in linters.iter_mut().filter(|linter| linter.covers(&path, root)) {
                linter.files.push(path.clone());
            }
            if let Some((like, by_preset)) = secrets::looks_like(host, &path) {
                let (is_tracked, has_other_names) = (tracked.holds(&path), has_other_names(host, &path));
                self.secrets.push(Secret { path, like, by_preset, is_tracked, has_other_names });
            }
        };
        self.is_partial = !walk(host, root, &third_party(), |_| true, see);
        self.secrets.sort_by(|a, b| a.path.cmp(&b.path));
        self.kinds = KINDS.iter().zip(nearest).filter_map(|(kind, nearest)| Some((kind, nearest?.1))).collect();
        self.lint = linters.into_iter().map(|linter| (linter.preset, linter.files)).collect();
        self.lint.retain(|(_, files)| !files.is_empty());
    }
}

/// A preset of lint settings, and the files of the project that it covers.
struct Linter {
    preset: &'static str,
    names: Vec<NamePattern>,
    skip: &'static [&'static str],
    files: Vec<AbsPath>,
}

impl Linter {
    fn of(kind: &ProjectKind) -> Option<Self> {
        let preset = kind.lint?;
        let data = builtin::get(preset)?;
        // Each entry is a name in any folder.
        let names = data.entries().filter_map(|entry| {
            let name = entry.path.strip_prefix("**/")?;
            NamePattern::parse(OsStr::new(name)).ok()
        });
        Some(Self { preset, names: names.collect(), skip: data.skip_directories, files: Vec::new() })
    }

    fn covers(&self, path: &AbsPath, root: &AbsPath) -> bool {
        let folder = path.relative_to(root).and_then(Path::parent).unwrap_or(Path::new(""));
        let is_skipped = folder.iter().any(|name| self.skip.iter().any(|skip| name == *skip));
        let matches = |name: &OsStr| name != EDITORCONFIG && self.names.iter().any(|pattern| pattern.matches(name));
        !is_skipped && path.file_name().is_some_and(matches)
    }
}
