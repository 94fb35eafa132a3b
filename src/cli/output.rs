//! Results go to standard output, everything else to standard error.

use std::cell::Cell;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use clap::ColorChoice;
use rustix::fs::{FileType, fstat, makedev};
use rustix::stdio::stderr;
use serde::Serialize;
use serde_json::json;

use crate::diagnostic::{Code, Diagnostic, Diagnostics, Format, RenderLimits, reason, render, render_within};
use crate::host::Host;
use crate::policy::escape_json;
use crate::sys::ablate::{self, Mitigation};
use crate::sys::{fd, terminal};

use super::answer::Answered;
use super::args::{MessageFormat, Options};
use super::progress::Progress;
use super::style::Paint;

/// The report of a run shows this many findings, and `MOST_DETAILS` details of all findings
/// together.
const MOST_FINDINGS: usize = 20;
const MOST_DETAILS: usize = 100;
/// The most characters of a line in a report. A path alone may have four thousand bytes.
const MOST_CHARACTERS: usize = 400;

/// The time that a reader may take for each [`PIECE`].
const PATIENCE: Duration = Duration::from_secs(5);
const PIECE: usize = 4096;

/// Gives a terminal its usual modes, whatever the command has written to it. After a command that
/// left them in order, this changes nothing that a user sees, and the cursor stays where it is.
const MODES: &str = concat!(
    // Ends an unfinished sequence, and switches to the first character set and to the screen in
    // place of a printer.
    "\x18\x1b\\\x0f\x1b(B\x1b[4i",
    // The keyboard: unlocked, usual cursor keys and keypad, usual codes (xterm, kitty).
    "\x1b[2l\x1b[?1l\x1b>\x1b[>4;0m\x1b[=0u",
    // Usual colours, no insertion, wrapped lines, a visible cursor, output that is shown at once.
    "\x1b[m\x1b[4l\x1b[?7h\x1b[?25h\x1b[?2026l",
    // No reports of the mouse and the focus, no marks around pasted text.
    "\x1b[?9l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?1004l\x1b[?2004l",
    // All lines and columns scroll.
    "\x1b[?69l\x1b7\x1b[r\x1b8"
);

/// Leaves the alternate screen. If the terminal shows the usual one, the cursor stays.
const USUAL_SCREEN: &str = "\x1b7\x1b[?1049l\x1b8";

pub(super) struct Output {
    format: Format,
    quiet: bool,
    /// The colours of results.
    pub(super) paint: Paint,
    progress: Option<Arc<Progress<io::Stderr>>>,
    /// The thread that writes the last warning during the run.
    writer: Cell<Option<JoinHandle<()>>>,
}

impl Output {
    pub(super) fn new(options: &Options) -> Self {
        let has_color = |is_terminal: bool| match options.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        };
        let format = match options.message_format {
            MessageFormat::Text => Format::Text { color: has_color(io::stderr().is_terminal()) },
            MessageFormat::Json => Format::Json,
        };
        let is_watched = io::stderr().is_terminal() && !options.quiet && options.message_format == MessageFormat::Text;
        Self {
            format,
            quiet: options.quiet,
            paint: Paint(has_color(io::stdout().is_terminal())),
            progress: is_watched.then(|| Arc::new(Progress::on_terminal())),
            writer: Cell::new(None),
        }
    }

    /// Returns a `host` that shows progress on a terminal while it is read.
    pub(super) fn watch(&self, host: Host) -> Host {
        match self.progress.clone() {
            None => host,
            Some(progress) => host.with_progress(Arc::new(move |folder| progress.note(folder))),
        }
    }

    pub(super) fn is_json(&self) -> bool {
        matches!(self.format, Format::Json)
    }

    /// Writes a result, and answers yes. A reader that has gone away (`| head`) is no error.
    pub(super) fn print(&self, text: &[u8]) -> Answered {
        self.end_progress();
        let mut stdout = io::stdout().lock();
        match stdout.write_all(text).and_then(|()| stdout.flush()) {
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
                let help = "make room, or write it somewhere else; the output so far is incomplete";
                let message = format!("cannot write the result: {}", reason(&e));
                Err(Diagnostic::new(Code::OutputFailed, message).help(help).into())
            }
            _ => Ok(true),
        }
    }

    /// Writes `value` as JSON, or as the text that `describe` makes of it.
    pub(super) fn print_value<T: Serialize>(
        &self,
        value: &T,
        json: bool,
        describe: impl FnOnce(&T, Paint) -> String,
    ) -> Answered {
        if json { self.print_json(value) } else { self.print(describe(value, self.paint).as_bytes()) }
    }

    pub(super) fn print_json(&self, value: &impl Serialize) -> Answered {
        // If the answer cannot be written as JSON, report an error: an empty output would look like
        // an answer.
        let text = serde_json::to_string_pretty(value).map_err(|e| {
            Diagnostic::new(Code::OutputFailed, format!("cannot write the result as JSON: {e}"))
                .help("ask without `--json`, and report this as a bug")
        })?;
        self.print((escape_json(&text) + "\n").as_bytes())
    }

    /// Prints diagnostics, with `--quiet` only errors. This ends the progress line, so callers
    /// must read the host before they call it.
    pub(super) fn report(&self, diagnostics: &Diagnostics) {
        self.end_progress();
        let mut diagnostics = diagnostics.clone();
        if self.quiet {
            diagnostics.keep_errors();
        }
        if !diagnostics.is_empty() {
            self.print_error(&render(&diagnostics, self.format));
        }
    }

    /// Prints the report of a run, and gives the terminal its modes back. Returns true if all of
    /// the report was written to a reader, or if `--quiet` asks for no report.
    pub(super) fn report_run(&self, said: &Diagnostics, is_kept: bool) -> bool {
        self.end_progress();
        let resets = !self.is_json() && stderr_takes_escapes() && !ablate::is_off(Mitigation::TerminalReset);
        if self.quiet || said.is_empty() {
            // The terminal belongs to the program in the foreground.
            if resets && !terminal::is_background() {
                write_bounded(MODES.to_owned());
            }
            return true;
        }
        let with_details = said.iter().filter(|one| !one.details.notes.is_empty()).count().clamp(1, MOST_FINDINGS);
        let limits = RenderLimits {
            diagnostics: MOST_FINDINGS,
            notes: MOST_DETAILS / with_details,
            characters: MOST_CHARACTERS,
            rest: if is_kept { "; `agent-sandbox report --last` shows more" } else { "" },
        };
        let limits = if ablate::is_off(Mitigation::BoundedReports) { RenderLimits::NONE } else { limits };
        let text = render_within(said, self.format, &limits);
        write_bounded(if resets { MODES.to_owned() + USUAL_SCREEN + &text } else { text }) && !stderr_is_null()
    }

    /// Prints a warning while the command runs. The caller is the supervisor, which must not wait
    /// for a reader: the command may have stopped the terminal, or filled the pipe. If a program
    /// draws on the terminal, the warning would spoil the picture, so only the report at the end
    /// shows it. The report also shows a warning that comes before an earlier one has been
    /// written.
    pub(super) fn warn_during_run(&self, said: &Diagnostics) {
        if self.quiet || terminal::is_drawn_on(stderr()) {
            return;
        }
        let earlier = self.writer.take();
        if earlier.as_ref().is_some_and(|writer| !writer.is_finished()) {
            self.writer.set(earlier);
            return;
        }
        let text = render(said, self.format);
        let write = move || _ = text.as_bytes().chunks(PIECE).try_for_each(|piece| fd::write_all(stderr(), piece));
        self.writer.set(thread::Builder::new().spawn(write).ok());
    }

    pub(super) fn report_one(&self, diagnostic: Diagnostic) {
        self.report(&Diagnostics::from_iter([diagnostic]));
    }

    /// Prints the output of `--debug`. In JSON each line becomes an object, as programs expect it.
    pub(super) fn debug(&self, text: &str) {
        match self.format {
            Format::Text { .. } => self.print_error(text),
            Format::Json => {
                let objects = text.lines().map(|line| escape_json(&json!({ "debug": line }).to_string()) + "\n");
                self.print_error(&objects.collect::<String>());
            }
        }
    }

    /// If standard error is closed, the exit code is all that the caller gets.
    fn print_error(&self, text: &str) {
        self.end_progress();
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }

    fn end_progress(&self) {
        if let Some(progress) = &self.progress {
            progress.end();
        }
    }
}

/// Whether standard error is a terminal that understands escape sequences.
fn stderr_takes_escapes() -> bool {
    let understands = |term: std::ffi::OsString| !term.is_empty() && term != "dumb";
    io::stderr().is_terminal() && std::env::var_os("TERM").is_some_and(understands)
}

/// Whether nobody can see standard error. The runtime of Rust opens `/dev/null` in the place of a
/// closed one.
fn stderr_is_null() -> bool {
    let null = makedev(1, 3);
    fstat(stderr()).is_ok_and(|found| FileType::from_raw_mode(found.st_mode).is_char_device() && found.st_rdev == null)
}

/// Writes to standard error, and returns whether all of it was written. A write to a stopped
/// terminal blocks, and so does one to a full pipe that no process reads.
///
/// A thread waits for the reader, and ends with the process. Other ways do not bound every wait:
/// O_NONBLOCK would change the file description of the caller, and a terminal that belongs to
/// another user cannot be opened again.
fn write_bounded(text: String) -> bool {
    let pieces = text.len().div_ceil(PIECE);
    let (sender, written) = mpsc::channel();
    let write_all = move || {
        let mut pieces = text.as_bytes().chunks(PIECE);
        // The receiver sees an error as the end of the channel.
        while pieces.next().is_some_and(|piece| fd::write_all(stderr(), piece).is_ok() && sender.send(()).is_ok()) {}
    };
    let is_started = thread::Builder::new().spawn(write_all).is_ok();
    is_started && (0..pieces).all(|_| written.recv_timeout(PATIENCE).is_ok())
}
