//! `agent-sandbox completions SHELL`, from the one definition of all flags.

use std::process::ExitCode;

use clap::{CommandFactory, ValueEnum};
use clap_complete::aot;

use super::args;
use super::output::Output;

/// Print completions for a shell
///
/// For bash: `agent-sandbox completions bash > ~/.local/share/bash-completion/completions/agent-sandbox`.
/// For zsh: `agent-sandbox completions zsh > DIR/_agent-sandbox`, where DIR is one of `$fpath`.
/// For fish: `agent-sandbox completions fish > ~/.config/fish/completions/agent-sandbox.fish`.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Arguments {
    shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

pub(super) fn run(arguments: &Arguments, output: &Output) -> ExitCode {
    let shell = match arguments.shell {
        Shell::Bash => aot::Shell::Bash,
        Shell::Zsh => aot::Shell::Zsh,
        Shell::Fish => aot::Shell::Fish,
    };
    let mut definition = args::Arguments::command();
    let name = definition.get_name().to_owned();
    let mut text = Vec::new();
    aot::generate(shell, &mut definition, name, &mut text);
    output.print(&text)
}
