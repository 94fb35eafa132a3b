//! `agent-sandbox man`: manual pages, from the one definition of all flags.

use std::fs;
use std::io;
use std::iter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::CommandFactory;
use clap::error::ErrorKind;
use clap_mangen::Man;

use crate::diagnostic::exit_code;
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::policy::path::escape_for_display;

use super::args::{self, mistake};
use super::output::Output;

/// Print a manual page
///
/// `agent-sandbox man | man -l -` shows the page of the program, `agent-sandbox man explain | man -l -` that of a subcommand.
/// `agent-sandbox man --dir ~/.local/share/man/man1` installs all of them, for `man agent-sandbox` and `man agent-sandbox-explain`.
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
    let pages = pages();
    match (&arguments.dir, &arguments.about) {
        (Some(folder), _) => match pages.iter().try_for_each(|page| page.write_to(folder)) {
            Ok(()) => output.print(written(folder, pages.len()).as_bytes()),
            Err(e) => {
                let message = format!(
                    "cannot write manual pages to `{}`: {}",
                    escape_for_display(folder.as_os_str()),
                    reason(&e)
                );
                output.failed(
                    Diagnostic::new(Code::OutputFailed, message).help("name an existing folder that you can write"),
                )
            }
        },
        (None, about) => match pages.iter().find(|page| page.about == *about) {
            Some(page) => output.print(page.text().as_bytes()),
            None => {
                let about = about.as_deref().unwrap_or_default();
                let message = format!("there is no subcommand `{about}`\n\n  tip: `agent-sandbox --help` lists them");
                // Nothing can be done about a closed stream here, and the exit code stays true.
                let _ = mistake(ErrorKind::InvalidValue, message).print();
                ExitCode::from(exit_code::USAGE)
            }
        },
    }
}

const SOURCE: &str = concat!("agent-sandbox ", env!("CARGO_PKG_VERSION"));

struct Page {
    /// `None` for the program itself.
    about: Option<String>,
    man: Man,
    /// Examples and exit codes.
    after: String,
}

/// One for the program, and one for each subcommand that is for people.
fn pages() -> Vec<Page> {
    let mut program = args::Arguments::command().disable_help_subcommand(true);
    // Pages of subcommands carry the name of the program, and the flags that go with all of them.
    program.build();
    let subcommands: Vec<clap::Command> =
        program.get_subcommands().filter(|known| !known.is_hide_set()).cloned().collect();
    let subcommands = subcommands.into_iter().map(|known| Page::new(Some(known.get_name().to_owned()), known));
    iter::once(Page::new(None, program.clone())).chain(subcommands).collect()
}

impl Page {
    fn new(about: Option<String>, command: clap::Command) -> Self {
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        Self { about, man: Man::new(command.after_help(None::<&str>)).source(SOURCE), after }
    }

    fn write_to(&self, folder: &Path) -> io::Result<()> {
        fs::write(folder.join(self.man.get_filename()), self.text())
    }

    /// In ASCII, whatever the locale of who reads it.
    fn text(&self) -> String {
        let mut page = Vec::new();
        // Writing to memory does not fail.
        let _ = self.man.render(&mut page);
        let mut page = String::from_utf8_lossy(&page).into_owned();
        page.extend(self.after.split("\n\n").filter(|part| !part.is_empty()).map(section));
        page.chars().map(in_ascii).collect()
    }
}

/// `Title: …` as a section whose lines stay as they are.
fn section(part: &str) -> String {
    let (title, text) = part.split_once(':').unwrap_or(("Notes", part));
    let text = text.trim_start_matches(' ').trim_start_matches('\n');
    let escaped = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    // `\&` keeps a dot at the beginning of a line from being a request.
    let lines: String = escaped.lines().map(|line| format!("\\&{line}\n")).collect();
    format!(".SH {}\n.nf\n{lines}.fi\n", title.to_uppercase())
}

fn written(folder: &Path, pages: usize) -> String {
    let folder = escape_for_display(folder.as_os_str());
    format!("wrote {pages} manual pages to {folder}: `man -l {folder}/agent-sandbox.1` shows the first\n")
}

fn in_ascii(character: char) -> String {
    if character.is_ascii() { character.to_string() } else { format!("\\[u{:04X}]", u32::from(character)) }
}
