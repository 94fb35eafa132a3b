//! `agent-sandbox completions SHELL`, from the one definition of all flags.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap_complete::aot::{self, Shell};

use super::answer::Answered;
use super::args;
use super::output::Output;

/// Print completions for a shell
///
/// The shell then completes subcommands, flags and their values. It reads the file at its next
/// start.
///
/// For bash:
/// `agent-sandbox completions bash > ~/.local/share/bash-completion/completions/agent-sandbox`.
/// For zsh: `agent-sandbox completions zsh > DIR/_agent-sandbox`, where DIR is one of `$fpath`.
/// For fish: `agent-sandbox completions fish > ~/.config/fish/completions/agent-sandbox.fish`.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct CompletionsArgs {
    /// The shell that reads the completions
    #[arg(value_parser = PossibleValuesParser::new(["bash", "zsh", "fish"]).try_map(|name| name.parse::<Shell>()))]
    shell: Shell,
}

const NAME: &str = "agent-sandbox";

pub(super) fn run(arguments: &CompletionsArgs, output: &Output) -> Answered {
    let all = args::definition();
    // Leave out hidden subcommands, which completions would offer.
    let mut definition = clap::Command::new(NAME)
        .version(env!("CARGO_PKG_VERSION"))
        .args(all.get_arguments().cloned())
        .subcommands(all.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()).cloned());
    let mut text = Vec::new();
    aot::generate(arguments.shell, &mut definition, NAME, &mut text);
    // For bash, clap_complete 4.6 treats `sandbox` as a subcommand of `agent` in half of the
    // places. Without the replacement, bash completes nothing after a subcommand.
    let text = String::from_utf8_lossy(&text).replace("agent__subcmd__sandbox", "agent__sandbox");
    output.print(text.as_bytes())
}
