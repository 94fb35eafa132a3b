//! Answers about a policy. They report the decisions of the compile stages and make none of their
//! own.
//!
//! Each answer is a value that people read as text and tools as JSON; [`schema`] describes the
//! JSON.

pub mod consents;
pub mod diff;
pub mod doctor;
pub mod effective_access;
pub(crate) mod entry;
pub mod explain;
pub mod init;
pub mod lint;
pub mod revision;
pub mod rule_json;
pub mod show;
pub mod verify;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

crate::policy::rule::display_as_in_json!(
    effective_access::EffectiveAccess,
    verify::Effect,
    verify::probe::ProbeOperation
);

pub fn schema<T: JsonSchema>() -> Value {
    SchemaSettings::draft07().for_serialize().into_generator().into_root_schema_for::<T>().to_value()
}
