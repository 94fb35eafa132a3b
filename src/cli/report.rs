//! `agent-sandbox report`.

use crate::compile::layers;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Format, RenderLimits, reason, render_within};
use crate::host::Host;
use crate::launch::{KeptReport, ReportList, Reports};

use super::answer::Answered;
use super::args::Options;
use super::output::Output;
use super::style::Paint;

/// Show the reports of runs in this project
///
/// A run ends with a report if the command created files that tools obey, planted a repository, or
/// changed settings that name commands. The last report is kept, and so is each one that could not
/// be shown: the next run here shows it first. A run names the first hundred paths; this command
/// shows up to 1 MiB of them.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ReportArgs {
    /// Show only the newest report
    #[arg(long)]
    last: bool,
    /// Print one JSON object, see `agent-sandbox schema report`
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  agent-sandbox report --last              the report of the last run that had one
  agent-sandbox report --last --json       the same for programs, with an array of paths

Exit codes: 0, also if there is no report; 125 if the reports could not be read.";

pub(super) fn run(host: &Host, options: &Options, arguments: &ReportArgs, output: &Output) -> Answered {
    let session = super::session(options.cwd.as_deref())?;
    let state = layers::state_folder(host, &session)?;
    let project = super::project(host, &session, &options.request())?;
    let reports = Reports::of(host, &state, &project);
    let mut all = reports.all().map_err(|e| {
        let message = format!("cannot read the reports in `{state}`: {}", reason(&e));
        let help = format!("make `{state}` a folder outside of the project that you own and no other user can write");
        Diagnostic::new(Code::ReportUnreadable, message).help(help)
    })?;
    if arguments.last {
        all.drain(..all.len().saturating_sub(1));
    }
    let mut lost = Diagnostics::default();
    let mut kept: Vec<(String, KeptReport)> = Vec::new();
    for (name, read) in all {
        match read {
            Ok(report) => kept.push((name, report)),
            Err(e) => lost.push(reports.lost(&name, &e)),
        }
    }
    output.report(&lost);
    let (names, reports_found): (Vec<String>, Vec<KeptReport>) = kept.into_iter().unzip();
    let answered = output.print_value(&ReportList { reports: reports_found }, arguments.json, describe)?;
    names.iter().for_each(|name| reports.note_shown(name));
    Ok(answered)
}

fn describe(found: &ReportList, paint: Paint) -> String {
    if found.reports.is_empty() {
        return "no run in this project has left a report\n".to_owned();
    }
    let mut out = String::new();
    for report in &found.reports {
        let is_new = if report.shown { "" } else { ", and was not shown until now" };
        let title = format!("the report of the run that ended {}{is_new}", report.age());
        out += &format!("{}\n\n", paint.heading(title));
        out += &render_within(&report.diagnostics(), Format::Text { color: paint.0 }, &RenderLimits::NONE);
        if report.left_out > 0 {
            out += &format!("\n… and {} more findings, for which there was no room\n", report.left_out);
        }
        out.push('\n');
    }
    out
}
