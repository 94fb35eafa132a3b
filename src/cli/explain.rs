//! `agent-sandbox explain`.

use std::process::ExitCode;

use crate::host::Host;

use super::args;
use super::output::Output;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {}

pub(super) fn run(_host: &Host, _options: &args::Options, _arguments: &Arguments, _output: &Output) -> ExitCode {
    ExitCode::FAILURE
}
