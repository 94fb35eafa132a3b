//! Variables that presets set for programs on PATH (SPEC P14).

use std::ffi::OsString;

use crate::compile::layers::Project;
use crate::compile::policy::Policy;
use crate::compile::presets::builtin;
use crate::compile::presets::data::VariableEffect;
use crate::host::{Host, Session};
use crate::policy::Origin;

/// A variable that a preset sets: it names the folder of a second place (SPEC P10) or the copy of a
/// private file (SPEC Q2), or it is for a program (SPEC P14).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresetVariable {
    pub name: String,
    pub value: OsString,
    pub origin: Origin,
}

/// The variables that the presets of `policy` set on this host.
pub(crate) fn find(host: &Host, session: &Session, project: &Project, policy: &Policy) -> Vec<PresetVariable> {
    let mut found = Vec::new();
    for preset in policy.presets.keys().filter_map(|name| builtin::get(name)) {
        for group in preset.variables {
            if let VariableEffect::Set { value, for_program } = group.effect
                && for_program.is_none_or(|program| host.is_on_path(session, program))
            {
                let value = match value {
                    "." => project.root.as_os_str().to_owned(),
                    _ if value.starts_with("~/") => project.in_home(value).as_os_str().to_owned(),
                    _ => value.into(),
                };
                found.extend(group.names.iter().map(|name| PresetVariable {
                    name: (*name).to_owned(),
                    value: value.clone(),
                    origin: Origin::Preset { name: preset.name, path: name },
                }));
            }
        }
    }
    found
}
