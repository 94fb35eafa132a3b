//! Files that appear in a second place (SPEC P10).

use crate::compile::decide::Decisions;
use crate::compile::placeholder::Placeholder;
use crate::compile::resolve::{RuleVariable, SecondPlace};
use crate::policy::{AbsPath, Access};

use super::{Mount, PlannedMount, Planner, Purpose, View, view};

impl Planner {
    /// Mounts second places. Both places must be writable without it: a second place opens nothing.
    pub(super) fn second_places(
        &mut self,
        places: &[SecondPlace],
        decisions: &Decisions,
        placeholders: &mut Vec<Placeholder>,
    ) -> Vec<RuleVariable> {
        let mut variables = Vec::new();
        for place in places {
            let is_open = |path: &AbsPath| view::at(&self.views, path) == View::HostRw;
            if !is_open(&place.source) || !is_open(&place.path) || decisions.get(&place.path).is_some() {
                continue;
            }
            placeholders.extend(place.placeholder.clone());
            self.mounts.push(PlannedMount {
                path: place.path.clone(),
                mount: Mount::SecondMount { source: place.source.clone() },
                purpose: Purpose::Rule(Access::Rw),
                because: place.origin.clone(),
            });
            self.views.cover(place.path.clone(), View::HostRw);
            variables.extend(place.env_var.clone().map(|(name, folder)| RuleVariable {
                name,
                value: folder.as_os_str().to_owned(),
                origin: place.origin.clone(),
            }));
        }
        variables
    }
}
