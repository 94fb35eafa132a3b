//! `agent-sandbox completions SHELL`, from the one definition of all flags.

use std::process::ExitCode;

use clap::{CommandFactory, ValueEnum};
use clap_complete::aot;

use super::args;
use super::output::Output;

/// Print completions for a shell
///
/// The shell then completes subcommands, flags and their values. It reads the file when it is started the next time.
///
/// For bash: `agent-sandbox completions bash > ~/.local/share/bash-completion/completions/agent-sandbox`.
/// For zsh: `agent-sandbox completions zsh > DIR/_agent-sandbox`, where DIR is one of `$fpath`.
/// For fish: `agent-sandbox completions fish > ~/.config/fish/completions/agent-sandbox.fish`.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Arguments {
    /// The shell that is to complete
    shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

const NAME: &str = "agent-sandbox";

pub(super) fn run(arguments: &Arguments, output: &Output) -> ExitCode {
    let shell = match arguments.shell {
        Shell::Bash => aot::Shell::Bash,
        Shell::Zsh => aot::Shell::Zsh,
        Shell::Fish => aot::Shell::Fish,
    };
    let mut definition = for_people(&args::Arguments::command());
    let mut text = Vec::new();
    aot::generate(shell, &mut definition, NAME, &mut text);
    // For bash, clap_complete 4.6 writes the dash of our name as it joins subcommands, and in half of the places takes `sandbox` for
    // a subcommand of `agent`: nothing after a subcommand would be completed.
    let text = String::from_utf8_lossy(&text).replace("agent__subcmd__sandbox", "agent__sandbox");
    output.print(text.as_bytes())
}

/// Without the words that are for other programs: completions would offer them, although the help hides them.
fn for_people(all: &clap::Command) -> clap::Command {
    clap::Command::new(NAME)
        .version(env!("CARGO_PKG_VERSION"))
        .args(all.get_arguments().cloned())
        .subcommands(all.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()).cloned())
}
