//! Where text goes: results to standard output, everything else to standard error.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;

use clap::ColorChoice;
use serde::Serialize;
use serde_json::json;

use crate::diagnostic::exit_code;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Format, Severity, reason, render};
use crate::host::Host;

use super::args::{MessageFormat, Options};
use super::progress::Progress;
use super::style::Paint;

pub(super) struct Output {
    format: Format,
    quiet: bool,
    paint: Paint,
    progress: Option<Arc<Progress<io::Stderr>>>,
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
        }
    }

    /// The same host; whoever looks on is told if reading it takes long.
    pub(super) fn watch(&self, host: Host) -> Host {
        match &self.progress {
            None => host,
            Some(progress) => {
                let progress = Arc::clone(progress);
                host.with_progress(Arc::new(move |folder| progress.note(folder)))
            }
        }
    }

    /// For results.
    pub(super) fn paint(&self) -> Paint {
        self.paint
    }

    /// Whether programs read what we say.
    pub(super) fn is_json(&self) -> bool {
        matches!(self.format, Format::Json)
    }

    /// Writes a result. A reader that has gone away (`| head`) is no failure of ours.
    pub(super) fn print(&self, text: &[u8]) -> ExitCode {
        self.end_progress();
        let mut stdout = io::stdout().lock();
        match stdout.write_all(text).and_then(|()| stdout.flush()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Err(e) => self.failed(
                Diagnostic::new(Code::OutputFailed, format!("cannot write the result: {}", reason(&e)))
                    .help("make room, or write it somewhere else; what was written so far is not complete"),
            ),
        }
    }

    /// Writes a result for tools.
    pub(super) fn print_json(&self, value: &impl Serialize) -> ExitCode {
        match json_text(value) {
            Ok(text) => self.print(text.as_bytes()),
            Err(diagnostic) => self.failed(diagnostic),
        }
    }

    /// Shows why we could not do what was asked.
    pub(super) fn failed(&self, diagnostic: Diagnostic) -> ExitCode {
        self.report_one(diagnostic);
        ExitCode::from(exit_code::OWN_FAILURE)
    }

    /// Shows what the stages had to say; warnings unless the caller wants quiet.
    ///
    /// All reading of the host that takes time is done before.
    pub(super) fn report(&self, diagnostics: &Diagnostics) {
        self.end_progress();
        let mut shown = Diagnostics::default();
        for diagnostic in diagnostics.iter().filter(|d| !self.quiet || d.severity() == Severity::Error) {
            shown.push(diagnostic.clone());
        }
        if !shown.is_empty() {
            self.say(&render(&shown, self.format));
        }
    }

    pub(super) fn report_one(&self, diagnostic: Diagnostic) {
        let mut diagnostics = Diagnostics::default();
        diagnostics.push(diagnostic);
        self.report(&diagnostics);
    }

    /// Shows what `--debug` asks for. Where tools read standard error, it stays one object on each line.
    pub(super) fn debug(&self, text: &str) {
        match self.format {
            Format::Text { .. } => self.say(text),
            Format::Json => {
                self.say(&text.lines().map(|line| json!({ "debug": line }).to_string() + "\n").collect::<String>())
            }
        }
    }

    /// Standard error is the last resort: if it is closed, there is nobody to tell.
    fn say(&self, text: &str) {
        self.end_progress();
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }

    fn end_progress(&self) {
        if let Some(progress) = &self.progress {
            progress.end();
        }
    }
}

/// A result for tools.
pub(super) fn json_text(value: &impl Serialize) -> Result<String, Diagnostic> {
    // Every type of ours can be written as JSON. If one could not, an empty answer must not pass for one.
    let text = serde_json::to_string_pretty(value);
    text.map(|text| text + "\n").map_err(|e| {
        Diagnostic::new(Code::OutputFailed, format!("cannot write the result as JSON: {e}"))
            .help("ask without `--json`, and report this as a bug")
    })
}
