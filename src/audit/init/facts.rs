//! What a project consists of, as far as a policy is concerned.

use std::ffi::OsStr;
use std::path::Path;

use crate::audit::lint::{secrets, third_party, walk};
use crate::compile::config::BuiltinPreset;
use crate::compile::layers::Project;
use crate::compile::presets::Library;
use crate::compile::resolve::{NamePattern, TrackedFiles};
use crate::host::{FileKind, Host};
use crate::policy::path::AbsPath;

use super::kinds::{AGENTS, GUARDED, INSTRUCTIONS, KINDS, Kind};

/// Every formatter reads it, so it tells nothing about a language.
const EVERYBODYS: &str = ".editorconfig";

#[derive(Debug, Default)]
pub(super) struct Facts {
    /// With the marker that lies nearest to the root.
    pub kinds: Vec<(&'static Kind, AbsPath)>,
    /// Presets for settings of linters, and the files that each would cover.
    pub lint: Vec<(&'static str, Vec<AbsPath>)>,
    /// What is there, and why it should be read-only.
    pub guarded: Vec<(&'static str, &'static str)>,
    /// The first sign of each agent.
    pub agents: Vec<(&'static str, &'static str)>,
    pub instructions: Vec<&'static str>,
    pub secrets: Vec<Secret>,
    pub is_repository: bool,
    /// `.git` is a file that leads to a repository elsewhere.
    pub is_linked: bool,
    pub has_submodules: bool,
    /// There was more than could be looked at.
    pub is_partial: bool,
}

#[derive(Debug)]
pub(super) struct Secret {
    pub path: AbsPath,
    pub like: &'static str,
    pub by_preset: bool,
    /// Git holds the same content.
    pub is_tracked: bool,
    /// It has other names, which no mount covers.
    pub has_other_names: bool,
}

impl Facts {
    pub(super) fn gather(host: &Host, project: &Project) -> Self {
        let root = &project.root;
        // What is reached through a link is not there: somebody else chose the target.
        let is_there = |name: &str| {
            let found = host.resolve_from(root, Path::new(name)).ok()?;
            let kind = found.kind.filter(|_| found.links.is_empty())?;
            (kind == FileKind::Directory || found.names == 1).then_some(())
        };
        let present = |(name, why): &(&'static str, &'static str)| is_there(name).map(|()| (*name, *why));
        let mut agents: Vec<(&str, &str)> = AGENTS.iter().filter_map(present).collect();
        agents.dedup_by(|later, first| later.1 == first.1);
        let mut facts = Self {
            guarded: GUARDED.iter().filter_map(present).collect(),
            agents,
            instructions: INSTRUCTIONS.into_iter().filter(|name| is_there(name).is_some()).collect(),
            is_repository: project.repository.is_some(),
            is_linked: project.git_pointer.is_some(),
            has_submodules: is_there(".gitmodules").is_some(),
            ..Self::default()
        };
        facts.look_at_files(host, root);
        // What holds a secret is hidden, not guarded.
        let is_hidden =
            |name: &str| facts.secrets.iter().any(|secret| secret.path == root.join(name) && !secret.is_tracked);
        facts.guarded = facts.guarded.iter().copied().filter(|(name, _)| !is_hidden(name)).collect();
        facts
    }

    fn look_at_files(&mut self, host: &Host, root: &AbsPath) {
        let library = Library::default();
        let linters: Vec<Linter> = KINDS.iter().filter_map(|kind| Linter::of(kind, &library)).collect();
        let mut settings: Vec<Vec<AbsPath>> = vec![Vec::new(); linters.len()];
        let mut tracked = TrackedFiles::new(host);
        let mut markers: Vec<(usize, AbsPath)> = Vec::new();
        let is_whole = walk::walk(
            host,
            root,
            &third_party(),
            |_| true,
            |path, found| {
                if found.is_symlink || found.is_socket {
                    return;
                }
                let name = found.name.to_str().unwrap_or_default();
                markers.extend(
                    KINDS
                        .iter()
                        .enumerate()
                        .filter(|(_, kind)| kind.has_marker(name))
                        .map(|(at, _)| (at, path.clone())),
                );
                for (linter, files) in linters.iter().zip(&mut settings) {
                    if linter.covers(&path, root) {
                        files.push(path.clone());
                    }
                }
                if let Some(secrets::Looks { like, by_preset }) = secrets::looks(host, &path) {
                    let is_tracked = tracked.holds(&path);
                    let has_other_names = host.names(&path).is_ok_and(|names| names.is_some_and(|names| names > 1));
                    self.secrets.push(Secret { path, like, by_preset, is_tracked, has_other_names });
                }
            },
        );
        self.is_partial = !is_whole;
        self.secrets.sort_by(|a, b| a.path.cmp(&b.path));
        let depth = |path: &AbsPath| path.ancestors().count();
        for (at, kind) in KINDS.iter().enumerate() {
            let of_kind = markers.iter().filter(|(of, _)| *of == at).map(|(_, path)| path);
            if let Some(nearest) = of_kind.min_by_key(|path| (depth(path), (*path).clone())) {
                self.kinds.push((kind, nearest.clone()));
            }
        }
        for (linter, files) in linters.iter().zip(settings) {
            let is_of_language = |path: &AbsPath| path.file_name() != Some(OsStr::new(EVERYBODYS));
            if files.iter().any(is_of_language) {
                self.lint.push((linter.preset, files.into_iter().filter(is_of_language).collect()));
            }
        }
    }
}

/// A preset of lint settings, as something that can be asked about a file.
struct Linter {
    preset: &'static str,
    names: Vec<NamePattern>,
    skip: Vec<String>,
}

impl Linter {
    fn of(kind: &Kind, library: &Library) -> Option<Self> {
        let preset = kind.lint?;
        let BuiltinPreset { definition, refinements, .. } = library.get(preset)?;
        // All of them stand for a name in any folder.
        let names = definition.ro.iter().filter_map(|entry| {
            let name = entry.path.to_str()?.strip_prefix("**/")?;
            NamePattern::parse(OsStr::new(name)).ok()
        });
        Some(Self { preset, names: names.collect(), skip: refinements.skip_directories.clone() })
    }

    fn covers(&self, path: &AbsPath, root: &AbsPath) -> bool {
        let folder = path.relative_to(root).and_then(Path::parent).unwrap_or(Path::new(""));
        let is_skipped = folder.iter().any(|name| self.skip.iter().any(|skip| name == skip.as_str()));
        !is_skipped && path.file_name().is_some_and(|name| self.names.iter().any(|pattern| pattern.matches(name)))
    }
}
