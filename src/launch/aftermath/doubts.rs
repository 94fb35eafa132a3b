//! Everything in a repository that could make git run something.

use std::collections::BTreeSet;
use std::io;

use crate::host::git::Nested;
use crate::host::git::config::{self, ConfigEntry};
use crate::host::git::nested::{DotGit, can_be_mounted};
use crate::host::git::{read_path, read_small};
use crate::host::{Host, is_absent};
use crate::policy::path::AbsPath;
use crate::sys::ablate::{self, Mitigation};

use super::git_dir_links;
use super::git_state;
use super::links::OBEYED;
use super::remotes::{self, Reach};

/// The number of doubts in one sentence.
const MOST_NAMED: usize = 5;

/// The doubt about a `commondir` that leads git to other settings.
pub(super) const SETTINGS_ELSEWHERE: &str = "its settings elsewhere";

pub(super) fn listed_doubts(doubts: Vec<String>) -> String {
    super::held::shortened(doubts, MOST_NAMED)
}

/// The doubts about a repository. Without a `reach`, its remotes are not examined.
pub(super) fn doubts_about<'a>(host: &Host, found: &Nested, reach: impl Into<Option<Reach<'a>>>) -> Vec<String> {
    let mut doubts = doubts_about_settings(host, &found.git_dir, &found.common_dir);
    doubts.extend(reach.into().into_iter().flat_map(|reach| remotes::doubts(host, found, reach)));
    if found.form == DotGit::Link {
        doubts.push("a symlink in the place of `.git`".to_owned());
    }
    for doubt in git_dir_links::doubts(host, &found.git_dir) {
        if !doubts.contains(&doubt) {
            doubts.push(doubt);
        }
    }
    if ![&found.folder, &found.git_dir, &found.common_dir].into_iter().all(can_be_mounted) {
        doubts.push("a path that is too long to be protected".to_owned());
    }
    if found.other_work_tree(host).is_some() {
        doubts.push("its work tree elsewhere".to_owned());
    }
    if !ablate::is_off(Mitigation::GitState) {
        doubts.extend(git_state::doubts(host, found));
    }
    doubts
}

/// The doubts about a git directory, wherever its work tree is.
pub(super) fn doubts_about_settings(host: &Host, git_dir: &AbsPath, common_dir: &AbsPath) -> Vec<String> {
    let mut doubts = Vec::new();
    let config = common_dir.child("config");
    // git always makes this file. If it is missing, no rule protects it in the next run.
    if matches!(host.kind(&config), Ok(None)) {
        doubts.push("no settings yet".to_owned());
    }
    for name in OBEYED {
        // In the next run a rule would protect the target of the link, but not the link itself.
        let place = common_dir.join(name);
        if host.resolve(place.as_path()).map_or(true, |found| found.path != place) {
            doubts.push(format!("a symlink in the place of `{name}`"));
        }
    }
    match read_path(host, &git_dir.child("commondir")) {
        Ok(None) => {}
        // This is the content of our own placeholder during another run.
        Ok(Some(text)) if text == b"./" => {}
        Ok(Some(_)) | Err(_) => doubts.push(SETTINGS_ELSEWHERE.to_owned()),
    }
    match read_small(host, &config).and_then(|text| config::entries(&text.unwrap_or_default())) {
        Err(_) => doubts.push("settings that cannot be read".to_owned()),
        Ok(entries) => doubts.extend(named(entries.iter().filter(|entry| !entry.is_of_a_new_repository()))),
    }
    match host.read_dir(&common_dir.child("hooks")) {
        Ok(hooks) if hooks.iter().all(|hook| hook.name.as_encoded_bytes().ends_with(b".sample")) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Ok(_) | Err(_) => doubts.push("hooks".to_owned()),
    }
    // git reads remotes from these folders, but never writes any there.
    for name in ["remotes", "branches"] {
        match host.read_dir(&common_dir.child(name)) {
            Ok(entries) if entries.is_empty() => {}
            Err(e) if is_absent(&e) => {}
            Ok(_) | Err(_) => doubts.push(format!("remotes in `{name}`")),
        }
    }
    doubts
}

/// The names of settings, each once.
pub(super) fn named<'e>(settings: impl Iterator<Item = &'e ConfigEntry>) -> Vec<String> {
    let names = settings.map(|entry| format!("`{}.{}`", entry.section, entry.name));
    names.collect::<BTreeSet<String>>().into_iter().collect()
}
