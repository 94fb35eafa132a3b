//! `agent-sandbox schema`: what the configuration file and the answers for tools look like.

use std::process::ExitCode;

use clap::ValueEnum;

use crate::audit::{self, doctor::Diagnosis, verify::Verification};
use crate::config;

use super::output::Output;

/// Print the JSON schema of the configuration file, or of an answer in JSON
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// What the schema is to describe
    #[arg(value_name = "WHAT", default_value = "config")]
    of: Described,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Described {
    /// `.agent-sandbox.toml`, and the other configuration files
    Config,
    /// What `agent-sandbox doctor --json` prints
    Doctor,
    /// What `agent-sandbox verify --json` prints
    Verify,
}

pub(super) fn run(arguments: &Arguments, output: &Output) -> ExitCode {
    let schema = match arguments.of {
        Described::Config => config::schema(),
        Described::Doctor => audit::schema::<Diagnosis>(),
        Described::Verify => audit::schema::<Verification>(),
    };
    output.print(format!("{schema:#}\n").as_bytes())
}
