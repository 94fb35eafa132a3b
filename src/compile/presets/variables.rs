//! The variables in the data of built-in presets, for places that discovery finds.

use std::collections::BTreeSet;
use std::ffi::OsString;

use crate::compile::layers::Project;
use crate::host::git::nested::{DotGit, FoundBy, MOST_PROTECTED, can_be_mounted};
use crate::host::git::{Nested, NestedRepositories, Repository};
use crate::policy::{AbsPath, Access, LayerKind, Origin, Refinements, Rule};
use crate::sys::ablate::{self, Mitigation};

use super::data::{BuiltinPreset, PresetEntry};

/// The rules of one entry of a built-in preset: one rule, several rules, or none if the entry needs
/// a repository and there is no repository.
pub(super) fn rules(
    preset: &BuiltinPreset,
    entry: &'static PresetEntry,
    base: &AbsPath,
    project: &Project,
) -> Vec<Rule> {
    let refinements = Refinements {
        skip_directories: preset.skip_directories,
        skip_beside: preset.skip_beside,
        leave_tracked: preset.leave_tracked,
        ..entry.refinements
    };
    let origin = Origin::Preset { name: preset.name, path: entry.path };
    let rule = |base: &AbsPath, text: &str| Rule {
        if_missing: entry.if_missing,
        private: entry.private,
        refinements,
        ..Rule::written(entry.access, text.into(), base.clone(), LayerKind::Preset, origin.clone())
    };
    // For a path that a command may have chosen.
    let tightening = |base: &AbsPath, text: &str| Rule {
        refinements: Refinements { only_tightens: true, ..refinements },
        ..rule(base, text)
    };
    // A path in the project is already as writable as the project. An exact `rw` rule for it would
    // beat a glob with which a user made it read-only.
    let is_in_crowd = |place: &AbsPath| project.git_nested.crowded.keys().any(|folder| place.is_within(folder));
    let redundant =
        |place: &AbsPath| entry.access == Access::Rw && place.is_within(&project.root) && !is_in_crowd(place);
    // The paths may be anywhere. A rule that only tightens shows no hidden path.
    let named = |paths: &BTreeSet<AbsPath>, text: &str| paths.iter().map(|path| tightening(path, text)).collect();
    let (name, rest) = entry.path.split_once('/').unwrap_or((entry.path, "."));
    match (name, &project.repository) {
        // In an ordinary repository both variables name one directory, which gets the rules of
        // `$GIT_COMMON_DIR`.
        ("$GIT_DIR", Some(Repository { git_dir, common_dir, .. })) if git_dir == common_dir => Vec::new(),
        ("$GIT_DIR", Some(repository)) if redundant(&repository.git_dir) => Vec::new(),
        ("$GIT_COMMON_DIR", Some(repository)) if redundant(&repository.common_dir) => Vec::new(),
        // The folder goes into `base`, not into the text, where a `[` in its name would be a glob.
        ("$GIT_DIR", Some(repository)) => vec![rule(&repository.git_dir, rest)],
        ("$GIT_COMMON_DIR", Some(repository)) => vec![rule(&repository.common_dir, rest)],
        ("$GIT_OTHER_REFS", Some(repository)) => {
            other_refs(repository).into_iter().map(|(folder, except)| Rule { except, ..rule(&folder, "*") }).collect()
        }
        ("$GIT_DIR" | "$GIT_COMMON_DIR" | "$GIT_OTHER_REFS", None) => Vec::new(),
        ("$GIT_POINTER", _) => project.git_pointer.iter().map(|file| rule(file, ".")).collect(),
        ("$GIT_NAMED_HOOKS", _) => named(&project.git_named.hooks, "./"),
        ("$GIT_REMOTES", _) => {
            let own = project.repository.as_ref().map(|own| &own.common_dir);
            let others = project.git_named.remotes.iter().filter(|remote| Some(*remote) != own);
            others.map(|remote| tightening(remote, rest)).collect()
        }
        ("$GIT_INCLUDED", _) => named(&project.git_named.included, "."),
        ("$GIT_NAMED_PROGRAMS", _) => named(&project.git_named.programs, "."),
        // `agent_programs` has only files in the home or the project. Elsewhere the host is
        // read-only.
        ("$AGENT_PROGRAMS", _) => project.agent_programs.iter().map(|path| tightening(path, ".")).collect(),
        ("$GIT_CROWDED", _) => project.git_nested.crowded.keys().map(|folder| rule(folder, "./")).collect(),
        ("$GIT_NESTED" | "$GIT_KEPT_WITHIN" | "$GIT_NESTED_POINTER", _) => {
            nested(name, project).iter().map(|folder| tightening(folder, rest)).collect()
        }
        _ => vec![rule(base, entry.path)],
    }
}

/// The git directories of nested repositories, or the files that lead there, in writable places.
fn nested(name: &str, project: &Project) -> BTreeSet<AbsPath> {
    let repository = project.repository.as_ref();
    let main: Vec<&AbsPath> = repository.iter().flat_map(|main| [&main.git_dir, &main.common_dir]).collect();
    // Git directories whose paths are too long for a mount are checked when the run ends.
    // A worktree may be anywhere, for example in a folder of an agent.
    let can_be_written = |place: &AbsPath| {
        can_be_mounted(place)
            && !main.contains(&place)
            && (name == "$GIT_NESTED_POINTER"
                || place.is_below(&project.root)
                || main.iter().any(|folder| place.is_below(folder)))
    };
    let of_one = |nested: &Nested| match (name, nested.found_by) {
        ("$GIT_NESTED_POINTER", _) if nested.form == DotGit::Pointer => vec![nested.folder.child(".git")],
        ("$GIT_NESTED", FoundBy::Index | FoundBy::Folder) => vec![nested.git_dir.clone(), nested.common_dir.clone()],
        _ => Vec::new(),
    };
    let NestedRepositories { found, kept_within, .. } = &project.git_nested;
    let kept_within = kept_within.iter().filter(|_| name == "$GIT_KEPT_WITHIN").cloned();
    // Repositories beyond the first `MOST_PROTECTED` are not protected here, and are checked when
    // the run ends (SPEC P11).
    let most = if ablate::is_off(Mitigation::CrowdedFolders) { usize::MAX } else { MOST_PROTECTED };
    found.iter().take(most).flat_map(of_one).chain(kept_within).filter(can_be_written).collect()
}

/// All refs but the current branch, as folders. Each has the one name in it that stays writable.
///
/// The folders on the way must stay writable: git replaces a ref by renaming `NAME.lock` beside it.
fn other_refs(repository: &Repository) -> Vec<(AbsPath, Option<OsString>)> {
    let mut folder = repository.common_dir.child("refs");
    let Some(branch) = &repository.current_branch else { return vec![(folder, None)] };
    let mut folders = Vec::new();
    for name in ["heads"].into_iter().chain(branch.split('/')) {
        folders.push((folder.clone(), Some(name.into())));
        folder = folder.child(name);
    }
    folders
}
