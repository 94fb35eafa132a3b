//! Files that the command can see but should not (secrets, sockets, other names of hidden files),
//! hidden files that git tracks, and writable folders on PATH.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::audit::entry::{entry, folder_entry};
use crate::compile::Compiled;
use crate::compile::config::Home;
use crate::compile::layers::Project;
use crate::compile::own_places::programs::PROGRAMS;
use crate::compile::plan::{self, View};
use crate::compile::presets::builtin;
use crate::compile::resolve::TrackedFiles;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::host::{FileKind, Host};
use crate::policy::{AbsPath, Access, HardLinks, LayerKind, Mask};

use super::{LintFinding, secrets, third_party, walk};

/// Finds secrets and sockets in the project and in well-known places of the home. Returns false if
/// the walk of the project reached its limit.
pub(super) fn in_project_and_home(host: &Host, compiled: &Compiled, findings: &mut Vec<LintFinding>) -> bool {
    let (plan, project) = (&compiled.plan, &compiled.layers.project);
    let mut tracked = TrackedFiles::new(host);
    let mut seen = BTreeSet::new();
    for (_, path) in compiled.resolution.left_alone.iter().filter(|(_, path)| plan.view(path).shows_host()) {
        if seen.insert(path.clone()) {
            findings.push(LintFinding::on(path, held_by_git(path, "a secret")));
        }
    }
    hidden_from_git(compiled, &mut tracked, findings);
    let enters = |path: &AbsPath| plan.view(path).shows_host() || compiled.decisions.reopens_below(path);
    let whole = walk(host, &project.root, &third_party(), enters, |path, found| {
        if found.is_symlink || !plan.view(&path).shows_host() || seen.contains(&path) {
            return;
        }
        if found.is_socket {
            findings.extend(socket(compiled, &path));
        } else if let Some((like, _)) = secrets::looks_like(host, &path) {
            let is_held = tracked.holds(&path);
            let said = if is_held { held_by_git(&path, like) } else { readable(compiled, &path, like) };
            findings.push(LintFinding::on(&path, said));
            seen.insert(path);
        }
    });
    for (path, like) in secrets::in_home(host, &project.home) {
        if plan.view(&path).shows_host() && seen.insert(path.clone()) {
            findings.push(LintFinding::on(&path, readable(compiled, &path, like)));
        }
    }
    whole
}

fn readable(compiled: &Compiled, path: &AbsPath, like: &str) -> Diagnostic {
    let help = match entry(path, &compiled.layers.project) {
        Some(entry) if goes_with_host_home(compiled, path) => {
            format!("hide it with `exclude = [{entry}]`, or set `home = \"private\"`, where it does not exist")
        }
        Some(entry) => format!("hide it with `exclude = [{entry}]`, or move it where the command cannot read it"),
        None => {
            "move it where the command cannot read it: its name is not UTF-8, so only a pattern can name it".to_owned()
        }
    };
    Diagnostic::new(Code::VisibleSecret, format!("`{path}` looks like {like}, and the command can read it")).help(help)
}

/// Whether the path is visible only as a part of the host's home, so that a private home would
/// lack it: no rule opens it, and no program on PATH needs it.
fn goes_with_host_home(compiled: &Compiled, path: &AbsPath) -> bool {
    let home = &compiled.layers.project.home;
    let is_named = compiled
        .decisions
        .governing(path)
        .is_some_and(|(at, it)| at.is_below(home) && (it.access == Access::Rw || it.layer > LayerKind::Preset));
    let of_programs = PROGRAMS.iter().flat_map(|program| program.paths).any(|place| path.is_within(&home.join(place)));
    compiled.policy.home.value == Home::Host && path.is_below(home) && !is_named && !of_programs
}

fn held_by_git(path: &AbsPath, like: &str) -> Diagnostic {
    let message = format!("`{path}` looks like {like}, and stays readable: git holds the same content");
    let help = "revoke it if it is one, and take it out of git: a mask over a file would not hide its copy in the \
                repository";
    Diagnostic::new(Code::TrackedSecret, message).help(help)
}

/// Finds hidden files that git tracks: git cannot add the mask over a file.
fn hidden_from_git(compiled: &Compiled, tracked: &mut TrackedFiles, findings: &mut Vec<LintFinding>) {
    for (path, decision) in compiled.decisions.iter() {
        let is_file = decision.kind == FileKind::File && decision.mask == Mask::Denied;
        if is_file
            && decision.access == Access::Exclude
            && path.is_within(&compiled.layers.project.root)
            && tracked.names(path)
        {
            findings.push(LintFinding::on(path, hidden_tracked(path)));
        }
    }
}

/// Reports the files that a preset hides only because they differ from git's version.
pub(super) fn report_tracked(compiled: &Compiled, said: &mut Diagnostics) {
    let mut paths = compiled.resolution.tracked_and_changed.clone();
    paths.sort();
    paths.dedup();
    let is_hidden = |path: &&AbsPath| compiled.plan.view(path) == View::Masked;
    said.extend(paths.iter().filter(is_hidden).map(hidden_tracked));
}

fn hidden_tracked(path: &AbsPath) -> Diagnostic {
    let message =
        format!("`{path}` is hidden, and git tracks it: `git add -A`, `commit -a` and `stash` inside stop at it");
    let help = "take it out of git (`git rm --cached`), or restore git's version: `@secrets` does not hide a \
                file that is unchanged in git, because the repository holds it anyway";
    Diagnostic::new(Code::HiddenTracked, message).help(help)
}

/// Reports a socket in the project, which SPEC W1 leaves alone.
fn socket(compiled: &Compiled, path: &AbsPath) -> Option<LintFinding> {
    if compiled.decisions.get(path).is_some_and(|decision| decision.shows_socket) {
        return None;
    }
    let help = match entry(path, &compiled.layers.project) {
        Some(entry) => format!("hide it with `exclude = [{entry}]` if the service can do more than the command should"),
        None => "hide it with an `exclude` if the service can do more than the command should".to_owned(),
    };
    let message = format!("`{path}` is a socket in the project: the command can use the service that listens on it");
    Some(LintFinding::on(path, Diagnostic::new(Code::VisibleSocket, message).help(help)))
}

/// Finds hard-linked files for which a rule allows hard links, and hard-linked files in folders
/// that a user hides. For all other rules a hard link is an error (SPEC W4).
pub(super) fn hard_links(host: &Host, compiled: &Compiled, findings: &mut Vec<LintFinding>) {
    for (path, decision) in compiled.decisions.iter() {
        let is_accepted = decision.access.is_protective() && decision.hard_links == HardLinks::Allow;
        if decision.kind == FileKind::File && decision.names > 1 && is_accepted && !decision.shows_socket {
            let message = format!(
                "`{path}` is one of {} hard links to a file, and the rule accepts that `{}` covers only this one",
                decision.names, decision.access
            );
            let help = format!("list the others with `{}`", plan::find_names(path));
            let diagnostic = Diagnostic::new(Code::HardLink, message).at(&decision.origin).help(help).as_note(true);
            findings.push(LintFinding::on(path, diagnostic));
        }
        let hides = decision.access == Access::Exclude && decision.kind == FileKind::Directory;
        if !hides || decision.layer <= LayerKind::Preset {
            continue;
        }
        let mut others: Vec<AbsPath> = Vec::new();
        let governs = |at: &AbsPath| compiled.decisions.get(at).is_none();
        walk(host, path, &[], governs, |file, found| {
            if !found.is_symlink && governs(&file) && has_other_names(host, &file) {
                others.push(file);
            }
        });
        let Some(first) = others.first() else { continue };
        let more = match others.len() - 1 {
            0 => String::new(),
            more => format!(", and so have {more} more"),
        };
        let message = format!("`{first}` is hidden with its folder, but has other names (hard links){more}");
        let help = format!("list them with `{}`, and remove or hide them, too", plan::find_names(first));
        let diagnostic = Diagnostic::new(Code::HardLink, message).at(&decision.origin).help(help);
        findings.push(LintFinding::on(first, diagnostic));
    }
}

/// Whether the file has other hard links, which a mount at `path` does not cover.
pub(crate) fn has_other_names(host: &Host, path: &AbsPath) -> bool {
    host.names(path).is_ok_and(|names| names.is_some_and(|names| names > 1))
}

/// Writable folders on PATH: the command can plant a program that later runs outside of the
/// sandbox.
pub(super) fn writable_path(host: &Host, compiled: &Compiled, findings: &mut Vec<LintFinding>) {
    let project = &compiled.layers.project;
    let mut seen = BTreeSet::new();
    let path = compiled.environment.var("PATH").map(OsStr::as_bytes).unwrap_or_default();
    for written in path.split(|byte| *byte == b':').filter(|_| !path.is_empty()) {
        // An empty entry is the working directory.
        let Ok(found) = host.resolve_from(&project.cwd, OsStr::from_bytes(written).as_ref()) else { continue };
        let is_folder = found.kind.is_none_or(|kind| kind == FileKind::Directory);
        let is_writable = compiled.plan.view(&found.path) == View::HostRw;
        if is_folder && is_writable && seen.insert(found.path.clone()) {
            findings.push(LintFinding::on(&found.path, writable_folder(project, &found.path, found.kind.is_some())));
        }
    }
}

fn writable_folder(project: &Project, path: &AbsPath, exists: bool) -> Diagnostic {
    let (message, entry) = if exists {
        (format!("`{path}` is on PATH, and the command can put programs there"), entry(path, project))
    } else {
        (
            format!("`{path}` is on PATH and missing, and the command can create it with programs in it"),
            folder_entry(path, project),
        )
    };
    let help = match entry {
        Some(entry) if exists => format!("make it read-only with `ro = [{entry}]`, or take it out of PATH"),
        Some(entry) => {
            format!("block it with `ro = [{{ path = {entry}, if-missing = \"block\" }}]`, or take it out of PATH")
        }
        None => "make it read-only, or take it out of PATH".to_owned(),
    };
    Diagnostic::new(Code::WritablePath, message).help(help)
}

/// Finds stores that `@caches-apart` would replace by private folders: their files are hard links
/// to files in other projects.
pub(super) fn shared_stores(host: &Host, compiled: &Compiled, findings: &mut Vec<LintFinding>) {
    let groups = builtin::get("caches-apart").map_or(&[][..], |preset| preset.groups);
    let stores = groups.iter().flat_map(|group| group.entries.iter().map(move |entry| (group.tool, entry.path)));
    for (tool, path) in stores {
        let path = compiled.layers.project.in_home(path);
        let exists = host.kind(&path).is_ok_and(|kind| kind == Some(FileKind::Directory));
        if exists && compiled.plan.view(&path) == View::HostRw {
            let message = format!("the command can write `{path}`, and {tool} links files of it into other projects");
            let help = "close it with `presets = [\"@caches-apart\"]` in `[filesystem]`: downloads then go to a \
                        private folder";
            findings.push(LintFinding::on(&path, Diagnostic::new(Code::SharedStore, message).help(help)));
        }
    }
}
