//! The program on one screen: each stage, in order.

pub mod config;
pub mod decide;
pub mod environment;
pub mod guard_plan;
pub mod identity;
pub mod layers;
pub mod limits;
pub mod lower;
pub mod own_places;
pub mod placeholder;
pub mod plan;
pub(crate) mod planted;
pub mod policy;
pub mod presets;
pub mod protection;
pub mod readme;
pub(crate) mod redact;
pub mod request;
pub mod resolve;

use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::compile::decide::{Decision, Decisions};
use crate::compile::environment::Environment;
use crate::compile::layers::Layers;
use crate::compile::lower::{Argv, Machine};
use crate::compile::plan::{Base, Plan, PrivateFolder, View};
use crate::compile::policy::Policy;
use crate::compile::resolve::Resolution;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, reason};
use crate::host::{Host, OpenDir, Session};
use crate::policy::private::MAX_BYTES;
use crate::policy::{AbsPath, IfMissing, LayerKind, Protection, Rule, escape_for_display, places};
use crate::sys::ablate::{self, Mitigation};

pub use request::Request;

/// The results of all stages. Everything that is printed, explained or executed is read from here.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub layers: Layers,
    pub policy: Policy,
    pub resolution: Resolution,
    pub decisions: Decisions,
    pub plan: Plan,
    /// The paths for which any rule is `private`, even a rule that lost: other runs may replace
    /// these files.
    pub private_paths: Vec<AbsPath>,
    /// Whether a guard compares and locks the mounts.
    pub guard: bool,
    pub as_root: bool,
    pub environment: Environment,
}

/// Compiles the policy for this host. `None` if there is no project to compile for. The result must
/// not run while `diagnostics` holds an error.
pub fn compile(host: &Host, session: &Session, request: &Request, diagnostics: &mut Diagnostics) -> Option<Compiled> {
    let host = &host.with_cache();
    let layers = layers::discover(host, session, request, diagnostics)?;
    let mut policy = Policy::of(&layers, session, diagnostics);
    if request.no_placeholders {
        refuse_blocks(&policy, diagnostics);
    }
    let mut unblocked = HashSet::new();
    if puts_nothing_up(request) {
        unblocked = policy.rules.iter().filter(|rule| blocks_private(rule)).map(|rule| rule.origin.clone()).collect();
        policy.put_nothing_up();
    }
    // The other stages would walk all of `/` or of a home.
    if diagnostics.iter().any(|diagnostic| diagnostic.code == Code::UnsafeRoot) {
        return None;
    }
    let mut resolution = resolve::resolve(host, session, &layers, &policy, diagnostics);
    let private_paths = resolution.private_paths();
    if puts_nothing_up(request) {
        resolution.put_nothing_up();
    }
    if request.no_private {
        resolution.without_private();
    }
    let decisions = decide::decide(&resolution, &layers, diagnostics);
    let guard = session.executable.as_ref().filter(|_| !request.no_guard);
    let base = Base {
        uid: session.uid,
        guard,
        runtime: &resolution.runtime,
        own_files: &layers.own_files,
        git_excludes: &resolution.git_excludes,
        second_places: &resolution.second_places,
        links: &resolution.links,
        variables: resolve::preset_variables(host, session, &layers.project, &policy),
        private: guard.map(|_| private_folder(host, &layers, &decisions)),
    };
    let mut plan = plan::plan(&decisions, &base, !request.no_optimize);
    plan::check_links(&plan, &decisions, &layers.own_files, diagnostics);
    plan::check_injections(&plan, &decisions, diagnostics);
    plan::check_dangling(&plan, &resolution.dangling, diagnostics);
    plan::check_private(&plan, &decisions, base.private.as_ref(), diagnostics);
    plan::check_missing_private(&plan, &resolution.missing, &unblocked, diagnostics);
    plan::check_copies(&decisions, &resolution.without_copy, diagnostics);
    plan::check_hard_links(&plan, &decisions, diagnostics);
    plan::check_executable(&decisions, session.executable.as_ref(), diagnostics);
    limits::check(&policy, request, guard.is_some(), &plan, diagnostics);
    refuse_invisible_cwd(&plan, &decisions, &layers.project.cwd, diagnostics);
    refuse_unreadable(host, &plan, diagnostics);
    let identity = identity::variables(host, session, &layers.project, &policy, &plan);
    plan.variables.extend(identity);
    let environment = environment::filter(session, &layers, &policy, &plan, diagnostics);
    let (guard, as_root) = (guard.is_some(), session.is_root());
    Some(Compiled { layers, policy, resolution, decisions, plan, private_paths, environment, guard, as_root })
}

/// The folder of the copies, and the private files of the host that can have no copy.
fn private_folder(host: &Host, layers: &Layers, decisions: &Decisions) -> PrivateFolder {
    let problem = |path: &AbsPath| {
        let (folder, name) = OpenDir::parent_of(host, path)?;
        match folder.open_file(name, OFlags::RDONLY | OFlags::NOCTTY)?.metadata()?.len() {
            0..=MAX_BYTES => Ok(()),
            _ => Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 1 MiB")),
        }
    };
    let files = decisions.iter().filter(|(_, decision)| plan::may_be_linked(decision));
    let unfit = files.filter_map(|(path, _)| match problem(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Some((path.clone(), reason(&e))),
        _ => None,
    });
    PrivateFolder { unfit: unfit.collect(), path: layers.private_copies() }
}

fn puts_nothing_up(request: &Request) -> bool {
    request.no_placeholders || ablate::is_off(Mitigation::Placeholders)
}

impl Compiled {
    pub fn argv(&self, machine: &Machine, command: &[OsString], diagnostics: &mut Diagnostics) -> Argv {
        protection::report(&self.lacking(machine), &self.policy.require, diagnostics);
        lower::lower(self, machine, command, diagnostics)
    }

    /// The directories that are made before the start.
    pub fn created(&self) -> Vec<AbsPath> {
        let own = self.layers.own_files.iter().chain(&self.resolution.own_aliases).filter(|own| own.is_missing);
        // Our own folder is created only if a rule would have let the command create it.
        let own = own.filter(|own| self.decisions.get(&own.path).is_some()).map(|own| own.path.clone());
        let mut create: Vec<AbsPath> = self.resolution.create.iter().cloned().chain(own).collect();
        create.sort();
        create
    }

    /// The folder of private copies, if the plan hides it and it must be made first.
    pub fn missing_private_folder(&self) -> Option<AbsPath> {
        let folder = self.layers.state.child(Layers::PRIVATE);
        (!self.layers.has_private && self.decisions.get(&folder).is_some()).then_some(folder)
    }

    /// The protections beyond mounts that this machine lacks, and why.
    fn lacking(&self, machine: &Machine) -> Vec<(Protection, String)> {
        let kernel = machine.kernel;
        let has_guard = self.guard || !self.policy.require.contains_key(&Protection::Guard);
        let has_landlock = kernel.landlock && kernel.landlock_changes;
        let all = [
            (has_guard, Protection::Guard, "`--no-guard` is set"),
            (kernel.seccomp, Protection::Seccomp, "this kernel has none"),
            (has_landlock, Protection::Landlock, "it needs Linux 6.12"),
        ];
        all.into_iter().filter(|(has, ..)| !has).map(|(_, protection, why)| (protection, why.to_owned())).collect()
    }
}

/// Whether the rule of a user blocks a private file while it is missing.
fn blocks_private(rule: &Rule) -> bool {
    rule.private.is_some() && rule.if_missing == IfMissing::Block && rule.layer > LayerKind::Preset
}

/// Refuses to run if a path that a user blocks cannot be blocked. A block of a preset is skipped
/// instead, and one of a private file gets a warning (`plan::check_missing_private`).
fn refuse_blocks(policy: &Policy, diagnostics: &mut Diagnostics) {
    let is_of_user = |rule: &&Arc<Rule>| rule.layer > LayerKind::Preset && !blocks_private(rule);
    let blocks = |rule: &&Arc<Rule>| rule.if_missing == IfMissing::Block && is_of_user(rule);
    for rule in policy.rules.iter().filter(blocks) {
        let message = format!(
            "`{}` cannot be blocked: `--exec` and `--no-placeholders` create no placeholder",
            escape_for_display(&rule.text)
        );
        let help = "run without that flag, or take `if-missing = \"block\"` out of the rule";
        diagnostics.push(Diagnostic::new(Code::PlaceholderFailed, message).at(&rule.origin).help(help));
    }
}

/// Refuses a start if a file that may name paths to protect could not be read. If the permissions
/// deny the caller access, the start is refused only where the command could change them.
fn refuse_unreadable(host: &Host, plan: &Plan, diagnostics: &mut Diagnostics) {
    let is_closed = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    let matters = |(path, error): &(AbsPath, io::Error)| !is_closed(error) || plan.view(path) == View::HostRw;
    let unread = host.deferred_errors().into_iter().find(matters);
    if let Some((path, error)) = unread.filter(|_| !ablate::is_off(Mitigation::UnreadableStops))
        && !diagnostics.has_errors()
    {
        let message = format!("`{path}` cannot be read: {}", reason(&error));
        let help = "make it readable, or try again: it may name paths to protect";
        diagnostics.push(Diagnostic::new(Code::UnreadablePath, message).help(help));
    }
}

/// Refuses a working directory in a private place, such as the private `/tmp`, if no rule shows it,
/// because it does not exist inside.
fn refuse_invisible_cwd(plan: &Plan, decisions: &Decisions, cwd: &AbsPath, diagnostics: &mut Diagnostics) {
    let is_place = || cwd.as_path() == places::TMP || decisions.get(cwd).is_some_and(Decision::is_own_place);
    if plan.view(cwd) != View::Fresh || is_place() {
        return;
    }
    let governing = decisions.governing(cwd).filter(|(_, decision)| decision.is_own_place());
    let diagnostic = match governing {
        Some((at, decision)) => {
            let (place, key) = if at.is_root() { ("base is minimal", "base") } else { ("home is private", "home") };
            let message = format!("the working directory `{cwd}` does not exist inside, where the {place}");
            let help = format!("show it with a `ro` or `rw` rule, or set `{key} = \"host\"`");
            Diagnostic::new(Code::ExcludedCwd, message).at(&decision.origin).help(help)
        }
        None => {
            let message =
                format!("the working directory `{cwd}` does not exist inside, where `/tmp` and `/run` are private");
            Diagnostic::new(Code::ExcludedCwd, message)
                .help("show it with a `ro` or `rw` rule, or set `tmp = \"host\"`")
        }
    };
    diagnostics.push(diagnostic);
}
