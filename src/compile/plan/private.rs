//! Private files: which get a copy, and the mounts that show the copies (SPEC section 22).

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use crate::compile::decide::{Decision, Decisions, IgnoreReason};
use crate::compile::guard_plan::PrivateLink;
use crate::compile::resolve::PresetVariable;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::host::FileKind;
use crate::policy::private::copy_inside;
use crate::policy::{AbsPath, LayerKind, Origin, PrivateFile, Rule, places};

use super::{Mount, Plan, Planner, View};

/// The largest number of private files with a copy. A run reads and compares each of them, and a
/// command can create any number of files that a pattern makes private.
pub(super) const MOST_LINKS: usize = 64;

/// The folder with the copies of a project's private files.
#[derive(Clone, Debug)]
pub struct PrivateFolder {
    pub path: AbsPath,
    /// Files of the host that get no copy, each with the reason.
    pub unfit: BTreeMap<AbsPath, String>,
}

impl PrivateFolder {
    /// Whether the file that this decision is about can have a copy.
    pub(super) fn may_have(&self, path: &AbsPath, decision: &Decision) -> bool {
        may_be_linked(decision) && !self.unfit.contains_key(path)
    }
}

/// A private file in whose place the command finds a symlink to the copy.
#[derive(Clone, Debug)]
pub struct PlannedLink {
    pub path: AbsPath,
    pub file: &'static PrivateFile,
    /// The host has no such file, so there is a placeholder.
    pub is_missing: bool,
    pub because: Origin,
}

impl PlannedLink {
    /// The guard's step.
    pub fn step(&self) -> PrivateLink {
        PrivateLink { path: self.path.clone(), copy: copy_inside(&self.path) }
    }

    /// The variable that names the copy.
    pub(crate) fn variable(&self) -> Option<PresetVariable> {
        let value = copy_inside(&self.path).as_os_str().to_owned();
        self.file.variable.map(|name| PresetVariable { name: name.to_owned(), value, origin: self.because.clone() })
    }
}

/// Whether a link can be mounted for this decision. A rule that came through a symlink reached
/// another file than the one that programs name and replace.
pub fn may_be_linked(decision: &Decision) -> bool {
    decision.private.is_some() && decision.links.is_empty() && decision.kind == FileKind::File
}

impl Planner<'_> {
    /// Binds the copies to which the guard's links lead.
    pub(super) fn private_copies(&mut self, copies: &AbsPath) {
        if self.links.is_empty() {
            return;
        }
        let source = copies.clone();
        let why = "the copies of this project's private files";
        self.always(places::at(places::PRIVATE), Mount::PrivateCopies { source }, why);
    }
}

/// Reports the files that a rule makes private and that are read-only instead.
pub fn check_private(
    plan: &Plan,
    decisions: &Decisions,
    folder: Option<&PrivateFolder>,
    diagnostics: &mut Diagnostics,
) {
    let wanted = decisions.iter().filter(|(_, decision)| decision.private.is_some());
    let (mut linked, plain): (Vec<_>, Vec<_>) = wanted.partition(|(_, decision)| may_be_linked(decision));
    if let Some(((path, decision), more)) = linked.split_first().filter(|_| folder.is_none()) {
        let message = format!("`{path}`{} read-only: the copy of a private file needs the guard", are(more.len()));
        let help = "leave out `--no-guard`, or change such a file outside";
        diagnostics.push(Diagnostic::new(Code::PrivateUnavailable, message).at(&decision.origin).help(help));
    }
    for (path, why) in folder.iter().flat_map(|folder| &folder.unfit) {
        linked.retain(|(linked, _)| *linked != path);
        let message = format!("`{path}` is read-only: {why}");
        let help = "repair the cause, or change the file outside";
        let diagnostic = Diagnostic::new(Code::PrivateUnavailable, message).help(help);
        diagnostics.push(match decisions.get(path) {
            Some(decision) => diagnostic.at(&decision.origin),
            None => diagnostic,
        });
    }
    if let Some((path, decision)) = linked.get(MOST_LINKS).filter(|_| plan.links.len() == MOST_LINKS) {
        let message = format!(
            "`{path}`{} read-only: only {MOST_LINKS} private files get a copy",
            are(linked.len() - MOST_LINKS - 1)
        );
        let help = "remove files that are not needed, or change these outside";
        diagnostics.push(Diagnostic::new(Code::PrivateUnavailable, message).at(&decision.origin).help(help));
    }
    diagnostics.extend(private_links(decisions, |layer| layer != LayerKind::Preset));
    // A preset's pattern may also match a folder, which is no mistake of the user.
    let is_mistake = |decision: &Decision| decision.links.is_empty() && decision.layer != LayerKind::Preset;
    for (path, decision) in plain.into_iter().filter(|(_, decision)| is_mistake(decision)) {
        let message = format!("`{path}` is read-only: only a file can be private");
        let diagnostic = Diagnostic::new(Code::PrivateUnavailable, message).at(&decision.origin);
        diagnostics.push(diagnostic.help("name the files in it"));
    }
}

/// The private files of presets that are symlinks. Users link many settings to a folder of
/// dotfiles, so [`check_private`] leaves these to `lint`.
pub fn unsaid_private_links(decisions: &Decisions) -> Vec<Diagnostic> {
    private_links(decisions, |layer| layer == LayerKind::Preset)
}

/// The files that rules of some layers make private, and that are symlinks.
fn private_links(decisions: &Decisions, is_meant: impl Fn(LayerKind) -> bool) -> Vec<Diagnostic> {
    let ignored = decisions.ignored().filter(|ignored| ignored.why == IgnoreReason::DoesNotTighten);
    let ignored = ignored.map(|ignored| &ignored.found).filter(|found| found.rule.private.is_some());
    let ignored = ignored.map(|found| (&found.path, found.rule.layer, &found.links, &found.rule.origin));
    let decided = decisions.iter().filter(|(_, decision)| decision.private.is_some());
    let decided = decided.map(|(path, decision)| (path, decision.layer, &decision.links, &decision.origin));
    let of_layer = ignored.chain(decided).filter(|(_, layer, ..)| is_meant(*layer));
    of_layer.filter_map(|(path, _, links, origin)| Some(is_link(links.first()?, path, origin))).collect()
}

/// Reports the missing private files that the command can create on the host because there are no
/// placeholders. `unblocked` has the origins of the rules that would block them.
pub fn check_missing_private(
    plan: &Plan,
    missing: &[(Arc<Rule>, AbsPath)],
    unblocked: &HashSet<Origin>,
    diagnostics: &mut Diagnostics,
) {
    let is_open =
        |(rule, path): &&(Arc<Rule>, AbsPath)| unblocked.contains(&rule.origin) && plan.view(path) == View::HostRw;
    for (rule, path) in missing.iter().filter(is_open) {
        let message =
            format!("`{path}` is missing, and the command can create it: it gets no copy without a placeholder");
        let help = "run without `--exec` and `--no-placeholders`, or create the file";
        diagnostics.push(Diagnostic::new(Code::PrivateUnavailable, message).at(&rule.origin).help(help));
    }
}

fn is_link(link: &AbsPath, path: &AbsPath, origin: &Origin) -> Diagnostic {
    let message = format!("`{link}` is a symlink to `{path}`, which is read-only: a private file cannot be a symlink");
    let help = "put the file itself there, or change it outside";
    Diagnostic::new(Code::PrivateUnavailable, message).at(origin).help(help)
}

/// The verb for one path and `more` others.
fn are(more: usize) -> String {
    match more {
        0 => " is".to_owned(),
        more => format!(" and {more} more are"),
    }
}
