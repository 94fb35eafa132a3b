//! The answer of `agent-sandbox report`: what runs in this project left behind.

use schemars::JsonSchema;
use serde::Serialize;

use crate::launch::KeptReport;

/// The reports that are kept for one project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(title = "agent-sandbox report")]
pub struct ReportList {
    /// The oldest first.
    pub reports: Vec<KeptReport>,
}
