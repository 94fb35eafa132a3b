//! Mounts that may need a placeholder: git's list of ignored paths (`info/exclude`), and files in
//! a second place (SPEC P10).

use std::sync::Arc;

use crate::compile::decide::Decisions;
use crate::compile::placeholder::{Placeholder, ignore_line};
use crate::compile::resolve::{GitExclude, PresetVariable, SecondPlace};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::policy::{AbsPath, Access, LayerKind, Mask, Origin, Rule, escape_for_display};
use crate::sys::ablate::{self, Mitigation};

use super::{Mount, Plan, PlannedMount, Planner, View, view};

impl Planner<'_> {
    /// Mounts a copy of `info/exclude` that also names placeholders, hidden paths and our own
    /// files in the work tree (SPEC M5): `git add -A` must not stage placeholders or stop at a
    /// masked file, and `git stash -u` and `git clean` must not try to remove them. Git ignores
    /// the list for tracked files. The copy does not name a user's file that is only read-only.
    pub(super) fn git_exclude(
        &mut self,
        exclude: &GitExclude,
        decisions: &Decisions,
        placeholders: &mut Vec<Placeholder>,
    ) {
        let mut lines = Vec::new();
        for (path, decision) in decisions.iter() {
            // A folder with a writable path in it may hold new work, which git must see.
            let is_placeholder = || placeholders.iter().any(|placeholder| placeholder.path == *path);
            let is_ours = matches!(decision.origin, Origin::BuiltIn(_));
            // git also sees a fresh folder (SPEC P17) if the folder around it is read-only.
            let is_fresh = decision.mask == Mask::Fresh;
            let is_covered = (decision.access == Access::Exclude || is_ours || is_placeholder())
                && (view::above(&self.views, path) == View::HostRw || is_fresh)
                && !decisions.opens_below(path);
            // An injected path is listed even in a read-only folder: otherwise git would stage the
            // injected content.
            let is_injected = decision.injected.is_some();
            let is_covered = match ablate::is_off(Mitigation::InjectedIgnored) {
                false => is_covered || is_injected,
                true => is_covered && !is_injected,
            };
            // A line for another work tree is relative to that tree's root, and does no harm here.
            if is_covered {
                lines.extend(exclude.seen(path).flat_map(|seen| ignore_line(seen, decision.kind)));
            }
        }
        // The copy is mounted even if no line is added: otherwise a command could write to the list
        // and hide planted files from `git status`. If git cannot write there, it stages nothing,
        // and needs no copy. A list that a rule hides stays hidden.
        let around = view::above(&self.views, &exclude.path);
        let is_masked = view::at(&self.views, &exclude.path) == View::Masked;
        if around != View::HostRw || is_masked {
            return;
        }
        let mut content = exclude.content.clone();
        if content.last().is_some_and(|last| *last != b'\n') {
            content.push(b'\n');
        }
        content.extend(lines);
        if let Some(own) = &exclude.placeholder {
            placeholders.push(own.clone());
        }
        let why = "git ignores hidden and blocked paths";
        self.always_at(exclude.path.clone(), View::HostRo, Mount::DataFile { content }, why);
    }

    /// Mounts second places. Both places must be writable without the second mount, so that this
    /// mount opens nothing.
    pub(super) fn second_places(
        &mut self,
        places: &[SecondPlace],
        decisions: &Decisions,
        placeholders: &mut Vec<Placeholder>,
    ) -> Vec<PresetVariable> {
        let mut variables = Vec::new();
        for place in places {
            let is_open = |path: &AbsPath| view::at(&self.views, path) == View::HostRw;
            if !is_open(&place.source) || !is_open(&place.path) || decisions.get(&place.path).is_some() {
                continue;
            }
            placeholders.extend(place.placeholder.clone());
            let mount = Mount::SecondMount { source: place.source.clone() };
            self.mounts.push(PlannedMount::of_rule(place.path.clone(), mount, Access::Rw, &place.origin));
            self.views.cover(place.path.clone(), View::HostRw);
            variables.extend(place.env_var.clone().map(|(name, folder)| PresetVariable {
                name,
                value: folder.as_os_str().to_owned(),
                origin: place.origin.clone(),
            }));
        }
        variables
    }
}

/// SPEC M4: no placeholder is created through a symlink. Reports a rule that leads through a
/// dangling symlink which the command could replace. This is an error if a user wrote the rule or
/// if it protects the project's repository. It is a warning for every other rule of a preset, even
/// for rules about a repository that a command may have made.
pub fn check_dangling(plan: &Plan, dangling: &[(Arc<Rule>, AbsPath)], diagnostics: &mut Diagnostics) {
    for (rule, link) in dangling.iter().filter(|(_, link)| plan.view_around(link) == View::HostRw) {
        let written = escape_for_display(&rule.text);
        let message =
            format!("`{written}` leads through the symlink `{link}` to nothing, and a command can replace the link");
        let help = "remove the link, or create its target: no placeholder is created through a symlink";
        let is_warning = rule.layer == LayerKind::Preset && !rule.protects_repository();
        let code = if is_warning { Code::DanglingLink } else { Code::PlaceholderFailed };
        diagnostics.push(Diagnostic::new(code, message).at(&rule.origin).help(help));
    }
}
