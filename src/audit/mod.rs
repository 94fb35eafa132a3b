//! Answers about a policy, from what the stages came to: nothing here decides again what a stage has decided.
//!
//! Each answer is a value that people read as text and tools as JSON; [`schema`] describes the latter.

pub mod consents;
pub mod diff;
pub mod doctor;
pub mod effective_access;
mod entry;
pub mod explain;
pub mod init;
pub mod lint;
pub mod origin_json;
pub mod revision;
pub mod rule_json;
pub mod show;
pub mod verify;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// The JSON schema of an answer.
pub fn schema<T: JsonSchema>() -> Value {
    SchemaSettings::draft07().for_serialize().into_generator().into_root_schema_for::<T>().to_value()
}
