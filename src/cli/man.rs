//! `agent-sandbox man`: manual pages, from the one definition of all flags.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::CommandFactory;
use clap::error::ErrorKind;
use clap_mangen::Man;

use crate::diagnostic::{Code, Diagnostic, reason};
use crate::exit_code;
use crate::path::shown;

use super::args::{self, mistake};
use super::output::Output;

/// Print a manual page
///
/// `agent-sandbox man | man -l -` shows the page of the program, `agent-sandbox man explain | man -l -` that of a subcommand.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The subcommand that the page is about
    #[arg(value_name = "SUBCOMMAND")]
    about: Option<String>,
    /// Write all pages into the folder DIR instead
    #[arg(long, value_name = "DIR", conflicts_with = "about")]
    dir: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, output: &Output) -> ExitCode {
    if let Some(folder) = &arguments.dir {
        return match clap_mangen::generate_to(definition(), folder) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => {
                let message = format!("cannot write manual pages to `{}`: {}", shown(folder.as_os_str()), reason(&e));
                output.report_one(
                    Diagnostic::new(Code::OutputFailed, message).help("name an existing folder that you can write"),
                );
                ExitCode::from(exit_code::OWN_FAILURE)
            }
        };
    }
    let mut definition = definition();
    // Pages of subcommands carry the name of the program, and the flags that go with all of them.
    definition.build();
    let page = match &arguments.about {
        None => Some(definition),
        Some(name) => {
            definition.get_subcommands().find(|known| known.get_name() == name && !known.is_hide_set()).cloned()
        }
    };
    let Some(page) = page else {
        let about = arguments.about.as_deref().unwrap_or_default();
        let message = format!("there is no subcommand `{about}`\n\n  tip: `agent-sandbox --help` lists them");
        let _ = mistake(ErrorKind::InvalidValue, message).print();
        return ExitCode::from(exit_code::USAGE);
    };
    let mut text = Vec::new();
    match Man::new(page).render(&mut text) {
        Ok(()) => output.print(&text),
        // Writing to memory does not fail.
        Err(_) => ExitCode::from(exit_code::OWN_FAILURE),
    }
}

/// What the pages are about. Words for other programs have none.
fn definition() -> clap::Command {
    args::Arguments::command().disable_help_subcommand(true)
}
