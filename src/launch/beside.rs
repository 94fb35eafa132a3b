//! Starting beside other sandboxes. Their commands may change the project while this one looks for what rules mean, and until it is
//! mounted. So when all mounts are made and the command waits, it is looked once more whether they are what the rules come to.
//!
//! A run that is alone does nothing of this: then whoever changes the project is the user.

use crate::ablate::{self, Mitigation};
use crate::diagnostic::Diagnostics;
use crate::guard_plan::{Expected, GuardPlan};
use crate::host::Host;
use crate::lower::{Argv, Engine};
use crate::path::PathMap;
use crate::pipeline;
use crate::session::{Request, Session};

use super::note_all_identities;
use super::undo::Undo;

/// How often it is looked again while somebody changes the folders at the same moment. One look takes as long as a walk.
const LOOKS: usize = 20;

/// What the argv of a run was made from.
pub struct Basis<'a> {
    pub host: &'a Host,
    pub session: &'a Session,
    pub request: &'a Request,
    pub engine: &'a Engine,
}

impl Basis<'_> {
    /// To be asked when all mounts of `argv` are made. `thorough`: whether all identities were noted; if not, and there is company now, the start
    /// must begin anew.
    pub fn confirm(&self, argv: &Argv, undo: &Undo, thorough: bool) -> Result<(), String> {
        if !undo.has_company() || ablate::is_off(Mitigation::LookAgain) {
            return Ok(());
        }
        if !thorough {
            return Err("another sandbox was started at the same moment".to_owned());
        }
        let mut changing = None;
        for _ in 0..LOOKS {
            let mut diagnostics = Diagnostics::default();
            let compiled = pipeline::compile(self.host, self.session, self.request, &mut diagnostics);
            let Some(compiled) = compiled.filter(|_| !diagnostics.has_errors()) else {
                return Err("what the rules name has changed".to_owned());
            };
            let mut now = compiled.argv(self.session, self.engine, &argv.command, &mut diagnostics);
            note_all_identities(self.host, &mut now).map_err(|diagnostic| diagnostic.message)?;
            match (difference(argv, &now), compiled.resolution.visited.changed(self.host)) {
                (Some(difference), _) => return Err(difference),
                (None, None) => return Ok(()),
                (None, Some(directory)) => changing = Some(directory.clone()),
            }
        }
        let directory = changing.map(|directory| format!("`{directory}`")).unwrap_or_default();
        Err(format!("{directory} keeps changing, and what the rules find with it"))
    }
}

/// What the rules come to now, and was not mounted.
fn difference(made: &Argv, now: &Argv) -> Option<String> {
    let (Some(made_inside), Some(now_inside)) = (&made.guard, &now.guard) else {
        return Some("the second stage would not be used any more".to_owned());
    };
    let by_path = |plan: &GuardPlan| -> PathMap<Expected> {
        plan.expect.iter().map(|expected| (expected.path.clone(), expected.clone())).collect()
    };
    let (before, after) = (by_path(&made_inside.plan), by_path(&now_inside.plan));
    let missing = |from: &PathMap<Expected>, expected: &Expected| from.get(&expected.path) != Some(expected);
    let mut added = now_inside.plan.expect.iter().filter(|expected| missing(&before, expected));
    let mut gone = made_inside.plan.expect.iter().filter(|expected| missing(&after, expected));
    if let Some(expected) = added.next().or_else(|| gone.next()) {
        return Some(format!("`{}` is no longer what it was", expected.path));
    }
    let differs = made_inside.plan.mounts != now_inside.plan.mounts || made.words() != now.words();
    differs.then(|| "what the rules come to has changed".to_owned())
}
