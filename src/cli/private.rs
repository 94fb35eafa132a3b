//! `agent-sandbox private`.

use std::fmt::Write;
use std::path::PathBuf;

use clap::ValueEnum;

use crate::compile::layers;
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::Host;
use crate::policy::{AbsPath, Word, escape_for_display};
use crate::private::{self, KeptChange, KeptCopy, PrivateCopies};

use super::answer::Answered;
use super::args::Options;
use super::output::Output;
use super::style::Paint;

/// List, show or forget the sandbox's copies of private files
///
/// git and agents write files that also name commands: `.git/config`, `~/.codex/config.toml`. A
/// command changes a copy of such a file, which is kept for its project. A few harmless keys reach
/// the host's file at the end of a run; the others stay in the copy until you forget it.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct PrivateArgs {
    /// The action: list, show or forget
    #[arg(value_name = "list|show|forget")]
    action: PrivateAction,
    /// The host's files; without FILE, `show` shows all files of the project
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Use the copies of the project PATH, which need not exist any more; `forget` without a FILE
    /// drops all that is stored for it
    #[arg(long, value_name = "PATH")]
    project: Option<PathBuf>,
    /// Print one JSON object, see `agent-sandbox schema private`
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PrivateAction {
    /// The copies of all projects, and how each differs from the host's file
    List,
    /// The keys of the project's copies that differ, with both values
    Show,
    /// Drop the project's copies of FILE: the next run starts with the host's file
    Forget,
}

const AFTER_HELP: &str = "\
Examples:
  agent-sandbox private list                    the copies of all projects
  agent-sandbox private show .git/config        the keys of the copy that differ
  agent-sandbox private forget .git/config      the next run starts with the file again
  agent-sandbox private forget --project ~/old  everything that is stored for another project

Exit codes: 0; 1 if `forget` finds no such copy; 125 if the copies could not be read or removed.";

pub(super) fn run(host: &Host, options: &Options, arguments: &PrivateArgs, output: &Output) -> Answered {
    let session = super::session(options.cwd.as_deref())?;
    let state = layers::state_folder(host, &session)?;
    let failed = |what: &str, e: &std::io::Error| {
        Diagnostic::new(Code::PrivateFailed, format!("cannot {what}: {}", reason(e)))
            .help("end the runs that use it, and make sure that the state folder is yours alone")
    };
    let copies =
        private::kept_copies(host, &state).map_err(|e| failed(&format!("read the copies in `{state}`"), &e))?;
    let absolute = |file: &PathBuf| {
        let message = || format!("`{}` names no file", escape_for_display(file.as_os_str()));
        named(host, &session.cwd, file).ok_or_else(|| cannot(&message()))
    };
    let named_project = arguments.project.as_ref().map(absolute).transpose()?;
    if arguments.action == PrivateAction::List {
        let is_meant = |copy: &KeptCopy| named_project.as_ref().is_none_or(|project| copy.project == *project);
        let copies = copies.into_iter().filter(is_meant).collect();
        return output.print_value(&PrivateCopies { copies }, arguments.json, list);
    }
    let files = arguments.files.iter().map(absolute).collect::<Result<Vec<AbsPath>, Diagnostic>>()?;
    if let Some(project) = named_project
        .as_ref()
        .filter(|_| arguments.action == PrivateAction::Forget && files.is_empty() && !arguments.json)
    {
        let found = private::forget_project(host, &state, project)
            .map_err(|e| failed(&format!("forget the copies of `{project}`"), &e))?;
        let outcome = if found { "forgotten: all copies of" } else { "there is no copy of" };
        output.print(format!("{outcome} {project}\n").as_bytes())?;
        return Ok(found);
    }
    let project = match named_project {
        Some(project) => project,
        None => super::project(host, &session, &options.request())?.root,
    };
    if arguments.action == PrivateAction::Show {
        let is_meant = |copy: &KeptCopy| copy.project == project && (files.is_empty() || files.contains(&copy.path));
        let copies = copies.into_iter().filter(is_meant).collect();
        return output.print_value(&PrivateCopies { copies }, arguments.json, show);
    }
    if files.is_empty() || arguments.json {
        return Err(cannot(if arguments.json {
            "`forget` has no JSON form"
        } else {
            "`forget` needs a FILE or --project"
        })
        .into());
    }
    let mut found_all = true;
    for file in files {
        let found = private::forget(host, &state, &project, &file)
            .map_err(|e| failed(&format!("forget the copy of `{file}`"), &e))?;
        found_all &= found;
        let outcome = if found { "forgotten" } else { "there is no copy of" };
        output.print(format!("{outcome} {file}\n").as_bytes())?;
    }
    Ok(found_all)
}

fn cannot(message: &str) -> Diagnostic {
    Diagnostic::new(Code::PrivateFailed, message).help("see `agent-sandbox private --help`")
}

fn named(host: &Host, cwd: &AbsPath, file: &std::path::Path) -> Option<AbsPath> {
    let absolute = cwd.as_path().join(file);
    host.resolve(&absolute).map(|found| found.path).ok().or_else(|| AbsPath::normalize(absolute))
}

fn list(found: &PrivateCopies, paint: Paint) -> String {
    let mut out = String::new();
    let (same, different): (Vec<_>, Vec<_>) =
        found.copies.iter().partition(|copy| copy.changes.is_empty() && copy.problem.is_none());
    let mut project = None;
    for copy in different {
        if project != Some(&copy.project) {
            project = Some(&copy.project);
            let gone = if copy.project_gone { ", which is gone" } else { "" };
            let _ = writeln!(out, "project {}{gone}", paint.heading(&copy.project));
        }
        let _ = writeln!(out, "  {}: {}", copy.path, state(copy));
    }
    out.push_str(&match same.len() {
        0 if out.is_empty() => "no project has a copy of a private file\n".to_owned(),
        0 => String::new(),
        1 => "1 copy is the same as the host's file\n".to_owned(),
        count => format!("{count} copies are the same as the host's files\n"),
    });
    out
}

fn state(copy: &KeptCopy) -> String {
    if let Some(problem) = &copy.problem {
        return format!("the copy cannot be compared: {problem}");
    }
    let keys = match copy.changes.len() {
        1 => "1 key of the copy differs".to_owned(),
        count => format!("{count} keys of the copy differ"),
    };
    let host = if copy.file_gone { "; the host has no such file" } else { " from the host's file" };
    keys + host
}

fn show(found: &PrivateCopies, paint: Paint) -> String {
    let mut out = String::new();
    for copy in &found.copies {
        let _ = writeln!(out, "{}", paint.heading(&copy.path));
        match &copy.problem {
            Some(problem) => _ = writeln!(out, "  {problem}"),
            None if copy.changes.is_empty() => out.push_str("  as on the host\n"),
            None => {
                for KeptChange { key, outside, inside } in &copy.changes {
                    let _ = writeln!(out, "  {key}: {} on the host, {} in the copy", values(outside), values(inside));
                }
            }
        }
    }
    if out.is_empty() { "this project has no such copy\n".to_owned() } else { out }
}

fn values(values: &[Word]) -> String {
    let text = |value: &Word| format!("`{}`", escape_for_display(&value.0));
    if values.is_empty() { "nothing".to_owned() } else { values.iter().map(text).collect::<Vec<_>>().join(", ") }
}
