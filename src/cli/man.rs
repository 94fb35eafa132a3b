//! `agent-sandbox man`.
#![expect(clippy::disallowed_methods, reason = "the caller names the folder")]

use std::fs;
use std::iter;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap_mangen::Man;

use crate::diagnostic::{Code, Diagnostic, reason};
use crate::policy::escape_for_display;

use super::answer::Answered;
use super::args::{self, mistake};
use super::output::Output;

/// Print a manual page
///
/// `agent-sandbox man | man -l -` shows the page of the program, `agent-sandbox man explain | man
/// -l -` that of a subcommand. `agent-sandbox man --dir ~/.local/share/man/man1` installs all of
/// them, for `man agent-sandbox` and `man agent-sandbox-explain`.
#[derive(Debug, clap::Args)]
pub(super) struct ManArgs {
    /// The subcommand that the page is about
    #[arg(value_name = "SUBCOMMAND")]
    about: Option<String>,
    /// Write all pages into the folder DIR instead
    #[arg(long, value_name = "DIR", conflicts_with = "about")]
    dir: Option<PathBuf>,
}

pub(super) fn run(arguments: &ManArgs, output: &Output) -> Answered {
    let pages = pages();
    if let Some(folder) = &arguments.dir {
        let name = escape_for_display(folder.as_os_str());
        pages.iter().try_for_each(|(file, text)| fs::write(folder.join(file), text)).map_err(|e| {
            Diagnostic::new(Code::OutputFailed, format!("cannot write manual pages to `{name}`: {}", reason(&e)))
                .help("name an existing folder that you can write")
        })?;
        let count = pages.len();
        let text = format!("wrote {count} manual pages to {name}: `man -l {name}/agent-sandbox.1` shows the first\n");
        return output.print(text.as_bytes());
    }
    let about = arguments.about.as_deref();
    let file = about.map_or_else(|| "agent-sandbox.1".to_owned(), |about| format!("agent-sandbox-{about}.1"));
    let (_, text) = pages.iter().find(|(name, _)| *name == file).ok_or_else(|| {
        let message = format!(
            "there is no subcommand `{}`\n\n  tip: `agent-sandbox --help` lists them",
            about.unwrap_or_default()
        );
        mistake(ErrorKind::InvalidValue, message)
    })?;
    output.print(text.as_bytes())
}

const SOURCE: &str = concat!("agent-sandbox ", env!("CARGO_PKG_VERSION"));

/// The page of the program, and one for each subcommand that is not hidden, each with the name of
/// its file.
fn pages() -> Vec<(String, String)> {
    let mut program = args::definition().disable_help_subcommand(true);
    // Gives subcommands the name of the program and the global flags.
    program.build();
    let subcommands = program.get_subcommands().filter(|known| !known.is_hide_set());
    iter::once(&program).chain(subcommands).map(page).collect()
}

/// A page in ASCII, so that the locale of the reader does not matter.
fn page(command: &clap::Command) -> (String, String) {
    // Examples and exit codes become sections.
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let man = Man::new(command.clone().after_help(None::<&str>)).source(SOURCE);
    let mut page = Vec::new();
    // Writing to memory does not fail.
    let _ = man.render(&mut page);
    let mut page = String::from_utf8_lossy(&page).into_owned();
    page.extend(after.split("\n\n").filter(|part| !part.is_empty()).map(section));
    (man.get_filename(), page.chars().map(in_ascii).collect())
}

/// Makes `Title: …` a section whose lines are not filled.
fn section(part: &str) -> String {
    let (title, text) = part.split_once(':').unwrap_or(("Notes", part));
    let text = text.trim_start_matches(' ').trim_start_matches('\n');
    let escaped = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    // `\&` keeps a dot at the beginning of a line from being a request.
    let lines: String = escaped.lines().map(|line| format!("\\&{line}\n")).collect();
    format!(".SH {}\n.nf\n{lines}.fi\n", title.to_uppercase())
}

fn in_ascii(character: char) -> String {
    if character.is_ascii() { character.to_string() } else { format!("\\[u{:04X}]", u32::from(character)) }
}
