//! `agent-sandbox schema`: what the configuration file and the answers for tools look like.

use std::process::ExitCode;

use clap::ValueEnum;

use crate::audit;
use crate::audit::lint;
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
    /// What `agent-sandbox lint --format json` prints
    Lint,
}

pub(super) fn run(arguments: &Arguments, output: &Output) -> ExitCode {
    let schema = match arguments.of {
        Described::Config => config::schema(),
        Described::Lint => audit::schema::<lint::Report>(),
    };
    output.print(format!("{schema:#}\n").as_bytes())
}
