//! Answers about a policy, from what the stages came to: nothing here decides again what a stage has decided.
//!
//! Each answer is a value that people read as text and tools as JSON; [`schema`] describes the latter.

pub mod consents;
pub mod diff;
pub mod doctor;
mod entry;
pub mod explain;
pub mod init;
pub mod inside;
pub mod lint;
pub mod revision;
pub mod ruling;
pub mod show;
pub mod verify;
pub mod whence;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// The JSON schema of an answer.
pub fn schema<T: JsonSchema>() -> Value {
    SchemaSettings::draft07().for_serialize().into_generator().into_root_schema_for::<T>().to_value()
}
