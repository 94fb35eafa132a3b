//! Variables that presets set for programs whose folders are here (SPEC P14).

use std::ffi::OsString;

use crate::compile::layers::Project;
use crate::compile::policy::Policy;
use crate::compile::presets::builtin;
use crate::compile::presets::data::VariableEffect;
use crate::host::Host;
use crate::policy::Origin;

/// A variable that a preset sets: it names the folder of a second place (SPEC P10) or the copy of a
/// private file (SPEC Q2), or it is for a program whose folder exists (SPEC P14).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresetVariable {
    pub name: String,
    pub value: OsString,
    pub origin: Origin,
}

/// The variables that the presets of `policy` set on this host.
pub(crate) fn find(host: &Host, project: &Project, policy: &Policy) -> Vec<PresetVariable> {
    let exists = |path: &str| host.kind(&project.in_home(path)).is_ok_and(|kind| kind.is_some());
    let mut found = Vec::new();
    for preset in policy.presets.keys().filter_map(|name| builtin::get(name)) {
        for group in preset.variables {
            if let VariableEffect::Set { value, where_exists } = group.effect
                && where_exists.is_none_or(exists)
            {
                found.extend(group.names.iter().map(|name| PresetVariable {
                    name: (*name).to_owned(),
                    value: value.into(),
                    origin: Origin::Preset { name: preset.name, path: name },
                }));
            }
        }
    }
    found
}
