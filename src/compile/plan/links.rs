//! Files that a command inside could replace: symlinks, with which it would choose the path of a
//! rule at the next start, and our own executable.

use crate::compile::decide::{Decision, Decisions};
use crate::compile::layers::OwnFile;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::policy::{AbsPath, Access, Exactness, LayerKind, Origin};
use crate::sys::ablate::{self, Mitigation};

use super::{Plan, View};

/// SPEC G8: refuses to open a path through a symlink in a writable place, and refuses such a
/// symlink on the way to our own files. Warns if a protection that a user wrote depends on such a
/// symlink. `lint` reports the protections of presets, because presets name many paths that are
/// symlinks on some machines only.
pub fn check_links(plan: &Plan, decisions: &Decisions, own: &[OwnFile], diagnostics: &mut Diagnostics) {
    if ablate::is_off(Mitigation::LinkChecks) {
        return;
    }
    for (path, decision) in decisions.iter() {
        if reopens_through_link(path, decision, decisions) {
            let shown: Vec<String> = decision.links.iter().map(AbsPath::to_string).collect();
            let message = format!("`{}` leads to `{path}`, which is hidden, and would be opened", shown.join("` → `"));
            let help = "name the target itself if you mean it: the process that made the link chose the target";
            diagnostics.push(Diagnostic::new(Code::HiddenTarget, message).at(&decision.origin).help(help));
        }
        let Some(link) = writable_link(plan, &decision.links) else { continue };
        if opened_through_writable_link(plan, path, decision) {
            let message = format!("`{path}` would be opened through `{link}`, a symlink that a command can replace");
            let help = "name the target itself, or move the link to a place that is not writable";
            diagnostics.push(Diagnostic::new(Code::WritableLink, message).at(&decision.origin).help(help));
        } else if decision.access.is_protective() && !decision.shows_socket && is_reported_at_once(decision) {
            diagnostics.push(hangs_on_link(path, link, decision));
        }
    }
    for file in own {
        if let Some(link) = writable_link(plan, &file.links) {
            let message = format!(
                "`{link}` is a symlink to agent-sandbox's own files; a command can replace it, and so choose the policy"
            );
            let help = "put the file itself there, or name the target of the link with `--config`";
            diagnostics.push(Diagnostic::new(Code::WritableLink, message).help(help));
        }
    }
}

/// Whether the user named the path. Presets and patterns match many symlinks that other people
/// made.
fn is_reported_at_once(decision: &Decision) -> bool {
    decision.exactness == Exactness::Exact && decision.layer != LayerKind::Preset
}

/// The protections through a replaceable link that [`check_links`] leaves to `lint`.
pub fn unsaid_links(plan: &Plan, decisions: &Decisions) -> Vec<Diagnostic> {
    let unsaid = decisions.iter().filter(|(_, decision)| {
        decision.access.is_protective() && !decision.shows_socket && !is_reported_at_once(decision)
    });
    let said = |(path, decision): (_, &Decision)| {
        writable_link(plan, &decision.links).map(|link| hangs_on_link(path, link, decision))
    };
    unsaid.filter_map(said).collect()
}

fn hangs_on_link(path: &AbsPath, link: &AbsPath, decision: &Decision) -> Diagnostic {
    let message = format!("`{path}` is protected, but `{link}`, a symlink that leads there, can be replaced");
    let help = "put the file itself there, or make the folder of the link read-only";
    Diagnostic::new(Code::ReplaceableLink, message).at(&decision.origin).help(help)
}

/// Whether `decision` opens, through a symlink, a path that another rule hides. A command in a
/// sandbox with another policy may have made the symlink.
fn reopens_through_link(path: &AbsPath, decision: &Decision, decisions: &Decisions) -> bool {
    let hidden_here = decision.losers.iter().any(|loser| loser.rule.access == Access::Exclude);
    let hides = |around: &Decision| around.access == Access::Exclude && !around.is_own_place();
    let hidden_around = || decisions.around(path).is_some_and(hides);
    decision.access == Access::Rw && !decision.links.is_empty() && (hidden_here || hidden_around())
}

/// Whether a run would be refused because of the symlinks by which `decision` opens `path`.
pub fn is_refused_through_link(plan: &Plan, path: &AbsPath, decision: &Decision, decisions: &Decisions) -> bool {
    reopens_through_link(path, decision, decisions) || opened_through_writable_link(plan, path, decision)
}

fn opened_through_writable_link(plan: &Plan, path: &AbsPath, decision: &Decision) -> bool {
    let opens = decision.access == Access::Rw || decision.shows_socket;
    opens && plan.view_around(path) != View::HostRw && writable_link(plan, &decision.links).is_some()
}

/// The first of `links` whose folder the command can write.
pub(super) fn writable_link<'l>(plan: &Plan, links: &'l [AbsPath]) -> Option<&'l AbsPath> {
    links.iter().find(|link| plan.view_around(link) == View::HostRw)
}

/// SPEC W5: warns if a rule lets the command write the folder of our executable. `decide` makes
/// only the file read-only.
pub fn check_executable(decisions: &Decisions, executable: Option<&AbsPath>, diagnostics: &mut Diagnostics) {
    let is_protected =
        |path: &&AbsPath| decisions.get(path).is_some_and(|it| it.origin == Origin::BuiltIn(OwnFile::EXECUTABLE));
    let Some(path) = executable.filter(is_protected) else { return };
    let message =
        format!("agent-sandbox itself, `{path}`, lies where the command can write; only the file is read-only inside");
    diagnostics.push(Diagnostic::new(Code::WritableExecutable, message).help(
        "install it where no rule opens anything: `cargo install --locked --path .` puts it into `~/.cargo/bin`",
    ));
}
