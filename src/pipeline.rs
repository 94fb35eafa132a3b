//! The program on one screen: each stage, in order.

use std::ffi::OsString;

use crate::decide::{self, Decisions};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::host::Host;
use crate::layers::{self, Layers};
use crate::lower::{self, Argv, Surroundings};
use crate::path::AbsPath;
use crate::places;
use crate::plan::{self, Base, Plan, View};
use crate::presets::{self, Policy};
use crate::resolve::{self, Resolution};
use crate::session::{Request, Session};
use crate::trust::{self, Stages, Widening};

/// What each stage came to. Everything that is printed, explained or executed is read from here.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub layers: Layers,
    pub policy: Policy,
    pub resolution: Resolution,
    pub decisions: Decisions,
    pub plan: Plan,
    /// What the project's own file opens: see [`trust::refusal`]. `None` without such a file, or with errors.
    pub widening: Option<Widening>,
}

/// Compiles the policy for this host. `None` when there is not even a project to compile for; otherwise the result is
/// complete, but must not be run while `diagnostics` holds an error.
pub fn compile(host: &Host, session: &Session, request: &Request, diagnostics: &mut Diagnostics) -> Option<Compiled> {
    let layers = layers::discover(host, session, request, diagnostics)?;
    let policy = presets::expand(&layers, session, diagnostics);
    // Nothing that follows would be of use, and a walk through all of `/` or a home is no help to anybody.
    if diagnostics.iter().any(|diagnostic| diagnostic.code == Code::UnsafeRoot) {
        return None;
    }
    let mut resolution = resolve::resolve(host, session, &layers, &policy, diagnostics);
    let decisions = decide::decide(&resolution, &layers, diagnostics);
    resolution.create.extend(decide::own_to_make(&decisions, &layers.own_files).cloned());
    resolution.create.sort();
    let base = Base { uid: session.uid, runtime: &resolution.runtime };
    let plan = plan::plan(&decisions, &base, !request.no_optimize);
    plan::check_links(&plan, &decisions, &layers.own_files, diagnostics);
    refuse_invisible_cwd(&plan, &layers.project.cwd, diagnostics);
    let stages =
        Stages { layers: &layers, policy: &policy, resolution: &resolution, decisions: &decisions, plan: &plan };
    let runnable = !diagnostics.has_errors();
    let widening = if runnable { trust::widening(host, session, &stages, !request.no_optimize) } else { None };
    Some(Compiled { layers, policy, resolution, decisions, plan, widening })
}

impl Compiled {
    /// The argv that runs `command` under this policy.
    pub fn argv(
        &self,
        session: &Session,
        bwrap: &AbsPath,
        command: &[OsString],
        diagnostics: &mut Diagnostics,
    ) -> Argv {
        let tmpdir = session.path_var("TMPDIR");
        let around = Surroundings {
            program: bwrap,
            cwd: &self.layers.project.cwd,
            network: self.policy.network.value,
            as_root: session.is_root(),
            reset_tmpdir: tmpdir.is_some_and(|path| !self.exists_writable(&path))
                && self.exists_writable(&places::at(places::TMP)),
            create: &self.resolution.create,
            command,
        };
        lower::lower(&self.plan, &around, diagnostics)
    }

    /// For who looks and starts nothing. A start is refused: see [`crate::launch::ready`].
    pub fn warn_of_widening(&self, host: &Host, diagnostics: &mut Diagnostics) {
        if let Some(warning) = trust::warning(host, &self.layers, self.widening.as_ref()) {
            diagnostics.push(warning);
        }
    }

    /// Below the private `/tmp` everything is writable and nothing exists yet.
    fn exists_writable(&self, directory: &AbsPath) -> bool {
        match self.plan.view(directory) {
            View::HostRw => true,
            View::Fresh => directory.as_path() == places::TMP,
            _ => false,
        }
    }
}

/// A working directory below the private `/tmp` that no rule shows does not exist inside.
fn refuse_invisible_cwd(plan: &Plan, cwd: &AbsPath, diagnostics: &mut Diagnostics) {
    if plan.view(cwd) == View::Fresh && cwd.as_path() != places::TMP {
        diagnostics.push(
            Diagnostic::new(
                Code::ExcludedCwd,
                format!("the working directory `{cwd}` does not exist inside, where `/tmp` and `/run` are private"),
            )
            .help("show it with a `ro` or `rw` rule, or set `tmp = \"host\"`"),
        );
    }
}
