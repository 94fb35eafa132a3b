//! The forms of `--print-args`. All of them carry every byte of every argument; those for people
//! escape bytes that could forge a line on a terminal.

mod annotated;
mod environment;
mod script;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::compile::environment::Fate;
use crate::compile::guard_plan::{PrivateLink, Tightening};
use crate::compile::lower::{Argv, Data, MountContent, MountFile};
use crate::compile::placeholder::{self, PlaceholderItem};
use crate::compile::plan::Purpose;
use crate::compile::resolve::NewFile;
use crate::diagnostic::{Code, Diagnostic, listed, quote, shell_quote};
use crate::policy::path_json::value as json_word;
use crate::policy::{AbsPath, escape_json};

/// The comments are the help of `--print-args`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PrintForm {
    /// One bwrap command, one operation on each line; comments before it name the other effects of
    /// a run
    Shell,
    /// The operations in groups, each with its reason, and the rules that need no mount
    Annotated,
    /// A complete script for a POSIX shell
    Script,
    /// An object with the arguments, the environment, and all files that must exist before the
    /// start
    Json,
    /// The arguments alone, one on each line; newline and backslash as `\n` and `\\`
    Lines,
    /// The arguments alone, as they are, each ended by a NUL byte
    Nul,
}

pub fn print(argv: &Argv, form: PrintForm) -> Vec<u8> {
    match form {
        PrintForm::Shell => argv.to_shell().into_bytes(),
        PrintForm::Annotated => annotated::annotated(argv).into_bytes(),
        PrintForm::Script => script::script(argv),
        PrintForm::Json => json_form(argv),
        PrintForm::Lines => args(argv, b"\n", escape_line),
        PrintForm::Nul => args(argv, b"\0", |arg| arg.as_bytes().to_vec()),
    }
}

/// Warns if `form` leaves something out that the sandbox needs. `lines` and `nul` contain only
/// arguments, and a shell cannot prepare the process that becomes bwrap.
pub fn incomplete(argv: &Argv, form: PrintForm) -> Option<Diagnostic> {
    let before = [before(argv), supervised(argv)].concat();
    let (what, needs, help) = match form {
        PrintForm::Lines | PrintForm::Nul => {
            let complete = if before.is_empty() { " or `--print-args=script`, which carry" } else { ", which carries" };
            let help = format!("use `--print-args=json`{complete} everything");
            ("prints the arguments alone, and these need more", [needs(argv), before].concat(), help)
        }
        PrintForm::Script if argv.data.iter().any(|data| data.descriptor > 9) => {
            let needs = vec!["file descriptors above 9, which a POSIX shell cannot open".to_owned()];
            let help = "run it with bash, or use `--print-args=json`, which carries everything";
            ("prints shell text, and this needs more", [needs, before].concat(), help.to_owned())
        }
        PrintForm::Shell | PrintForm::Script => {
            // The script itself creates placeholders.
            let made = if form == PrintForm::Shell { made_by_bwrap(argv) } else { Vec::new() };
            let made = counted("a placeholder at", "placeholders at", few(made));
            let help = match (supervised(argv).is_empty(), &made) {
                (false, _) => "run it with `agent-sandbox -- COMMAND`: a supervisor enforces these limits",
                (true, Some(_)) => "use `--print-args=script`, which creates and removes them",
                (true, None) => {
                    "use `--print-args=json`, which carries everything, or leave out `--no-guard`: the guard does this"
                }
            };
            let made =
                made.map(|list| format!("{list} (bwrap alone makes an empty file or folder there, and leaves it)"));
            let needs = made.into_iter().chain(before).collect();
            ("prints shell text, and a run does more than a shell can", needs, help.to_owned())
        }
        PrintForm::Json | PrintForm::Annotated => return None,
    };
    if needs.is_empty() {
        return None;
    }
    let name = form.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    Some(Diagnostic::new(Code::IncompleteForm, format!("`{name}` {what}: {}", needs.join(", and "))).help(help))
}

/// The steps of `launch` in the process that becomes bwrap.
fn before(argv: &Argv) -> Vec<String> {
    let scope = argv.pre_exec.scope.then_some("signals and abstract sockets kept inside by Landlock");
    let mounts = argv.pre_exec.private_mounts.then_some("a mount namespace in which nothing appears later");
    scope.into_iter().chain(mounts).map(str::to_owned).collect()
}

/// The limits that a supervisor enforces, or compares with the cgroup before the start.
fn supervised(argv: &Argv) -> Vec<String> {
    let by_cgroup = argv.cgroup.iter().flat_map(|cgroup| &cgroup.limits);
    let limits = argv.supervised.iter().chain(by_cgroup).map(|(limit, _)| format!("`{limit}`")).collect();
    counted("a supervisor for the limit", "a supervisor for the limits", limits).into_iter().collect()
}

fn needs(argv: &Argv) -> Vec<String> {
    let descriptors = argv.data.iter().map(|data| data.descriptor.to_string()).collect();
    let descriptors = counted("file descriptor", "file descriptors", descriptors);
    let create = argv.create.iter().map(|path| format!("`{path}`")).collect();
    let files = argv.new_files.iter().map(|file| format!("`{}`", file.path)).collect();
    let placeholders = few(argv.placeholders.iter().map(|one| format!("`{}`", one.path)).collect());
    let mut needs = Vec::new();
    needs.extend(descriptors.map(|list| format!("{list} open on the content that `json` shows")));
    needs.extend(counted("the directory", "the directories", create));
    needs.extend(counted("the file", "the files", files));
    needs.extend(environment::needs(&argv.environment));
    needs.extend(counted("the placeholder", "the placeholders", placeholders));
    needs
}

/// The placeholders at which an injection is mounted. If such a placeholder is missing, bwrap
/// creates the mount point, and no process removes it.
fn made_by_bwrap(argv: &Argv) -> Vec<String> {
    let makes = |path: &AbsPath| {
        let mut injections = argv.operations.iter().filter(|operation| operation.purpose == Purpose::Injection);
        injections.any(|operation| operation.words.last().is_some_and(|last| last == path.as_os_str()))
    };
    argv.placeholders.iter().filter(|one| makes(&one.path)).map(|one| format!("`{}`", one.path)).collect()
}

/// At most three entries: the first two, and the number of the others.
fn few(mut list: Vec<String>) -> Vec<String> {
    if list.len() > 3 {
        let more = list.split_off(2).len();
        list.push(format!("{more} more"));
    }
    list
}

fn counted(one: &str, many: &str, list: Vec<String>) -> Option<String> {
    let noun = if list.len() == 1 { one } else { many };
    (!list.is_empty()).then(|| format!("{noun} {}", listed(list.into_iter(), "and")))
}

fn args(argv: &Argv, end: &[u8], spell: impl Fn(&OsStr) -> Vec<u8>) -> Vec<u8> {
    argv.all_args().iter().flat_map(|arg| [&spell(arg), end].concat()).collect()
}

fn escape_line(arg: &OsStr) -> Vec<u8> {
    let escaped = arg.as_bytes().iter().flat_map(|byte| match byte {
        b'\\' => b"\\\\".to_vec(),
        b'\n' => b"\\n".to_vec(),
        byte => vec![*byte],
    });
    escaped.collect()
}

fn quote_all(args: &[OsString]) -> Vec<u8> {
    args.iter().map(|arg| quote(arg)).collect::<Vec<_>>().join(&b' ')
}

/// Arguments on one line, for people.
pub fn display_args(args: &[OsString]) -> String {
    args.iter().map(|arg| shell_quote(arg)).collect::<Vec<_>>().join(" ")
}

/// A mount of the guard on one line, for people.
pub fn display_step(step: &Tightening) -> String {
    format!("guard: {} {}", step.name(), shell_quote(step.path().as_os_str()))
}

/// A link to a private copy, which the guard mounts, on one line, for people.
pub fn display_link(link: &PrivateLink) -> String {
    format!("guard: link {} {}", shell_quote(link.copy.as_os_str()), shell_quote(link.path.as_os_str()))
}

impl Argv {
    /// One bwrap command that a person can read and paste into a POSIX shell. Each operation that a
    /// rule asks for has its own line. Comments before it list the other things that a run does.
    pub fn to_shell(&self) -> String {
        let mut out: String = besides(self).iter().map(|(title, list)| format!("# {title}: {list}\n")).collect();
        if let Some(cgroup) = &self.cgroup {
            out.push_str(&format!("{} \\\n  ", display_args(&cgroup.words)));
        }
        out.push_str(&shell_quote(self.program.as_os_str()));
        out.extend(self.lines().iter().map(|line| format!(" \\\n  {line}")));
        let inside = self.inside();
        if !inside.is_empty() {
            out.push_str(&format!(" \\\n  -- {}", display_args(&inside)));
        }
        out.push('\n');
        out
    }

    /// The operations as lines. Operations of the sandbox itself share lines, and so do pins.
    /// Variables share lines, too: in a run they come from bwrap's environment and not from its
    /// arguments.
    fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        let mut last_kind = None;
        let mut add = |text: String, kind: Option<&'static str>| {
            match lines.last_mut() {
                Some(last) if kind.is_some() && kind == last_kind && last.len() + text.len() < WIDTH => {
                    last.extend([" ", &text]);
                }
                _ => lines.push(text),
            }
            last_kind = kind;
        };
        for operation in &self.operations {
            let kind = match operation.purpose {
                Purpose::Base => Some("base"),
                Purpose::Pin { .. } => Some("pin"),
                Purpose::Own | Purpose::Rule(_) | Purpose::Injection => None,
            };
            add(display_args(&operation.words), kind);
        }
        for (name, _) in self.environment.with(Fate::Dropped) {
            add(format!("--unsetenv {}", shell_quote(name)), Some("variable"));
        }
        lines
    }
}

/// The length of a line in which operations are joined.
const WIDTH: usize = 160;

fn besides(argv: &Argv) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    let words = |list: &mut dyn Iterator<Item = &OsStr>| list.map(shell_quote).collect::<Vec<_>>().join(" ");
    let created = argv.create.iter().chain(argv.new_files.iter().map(|file| &file.path));
    lines.push(("a run creates", words(&mut created.map(|path| path.as_os_str()))));
    // Those of users come first. `json` has all of them.
    let mut placeholders: Vec<_> = argv.placeholders.iter().collect();
    placeholders.sort_by_key(|one| std::cmp::Reverse(one.layer));
    let placeholders = few(placeholders.iter().map(|one| shell_quote(one.path.as_os_str())).collect());
    lines.push(("a run creates placeholders, which must exist", placeholders.join(", ")));
    let environment = &argv.environment;
    if environment.only_named {
        lines.push((
            "a run passes only the variables",
            words(&mut environment.with(Fate::Passed).map(|(name, _)| name)),
        ));
    }
    lines.push(("a run sets the variables", words(&mut environment.set().map(|(name, _, _)| name))));
    let limits: Vec<String> = argv.supervised.iter().map(|(limit, _)| limit.to_string()).collect();
    lines.push((
        "a run enforces the limits, which this command alone does not",
        words(&mut limits.iter().map(OsStr::new)),
    ));
    let mut links = argv.guard.iter().flat_map(|guard| &guard.plan.links).map(|link| link.path.as_os_str());
    lines.push(("private files, over which the guard mounts a link to their copy", words(&mut links)));
    let overflow = argv.guard.iter().flat_map(|guard| &guard.plan.overflow).count();
    if overflow > 0 {
        lines.push(("mounts that the guard makes, as its plan lists them", overflow.to_string()));
    }
    let descriptors: Vec<String> = argv.data.iter().map(|data| data.descriptor.to_string()).collect();
    let title = "redirect these file descriptors (`5<FILE`) from files with `data` of `--print-args=json`";
    lines.push((title, descriptors.join(" ")));
    if argv.guard.is_some() && argv.is_command_too_long() {
        let title = "bwrap takes fewer arguments; a run hands this many to the guard";
        lines.push((title, argv.command.len().to_string()));
    }
    lines.retain(|(_, list)| !list.is_empty());
    lines
}

fn json_form(argv: &Argv) -> Vec<u8> {
    let path = |path: &AbsPath| json_word(path.as_os_str());
    let content = |content: &[u8]| json_word(OsStr::from_bytes(content));
    let placeholder = |item: &PlaceholderItem| match item.content {
        None => json!({ "path": path(&item.path), "kind": "directory" }),
        Some(held) => json!({ "path": path(&item.path), "kind": "file", "content": content(held) }),
    };
    let file = |file: &MountFile| match &file.content {
        MountContent::Bytes(held) => json!({ "path": path(&file.path), "content": content(held) }),
        MountContent::Unreadable => json!({ "path": path(&file.path), "kind": "unreadable" }),
    };
    let new_file = |file: &NewFile| json!({ "path": path(&file.path), "content": file.content });
    let data = |data: &Data| json!({ "descriptor": data.descriptor, "content": content(&data.content) });
    let mut all = json!({
        "argv": argv.all_args().iter().map(|arg| json_word(arg)).collect::<Value>(),
        "environment": environment::json_form(&argv.environment),
        "create": argv.create.iter().map(path).collect::<Value>(),
        "new-files": argv.new_files.iter().map(new_file).collect::<Value>(),
        "placeholders": placeholder::items(&argv.placeholders).iter().map(placeholder).collect::<Value>(),
        "files": argv.files.iter().map(file).collect::<Value>(),
        "data": argv.data.iter().map(data).collect::<Value>(),
    });
    if let Some(guard) = &argv.guard {
        all["guard"] = json!({ "plan": guard.plan });
    }
    if !argv.supervised.is_empty() {
        all["supervised-limits"] = argv.supervised.iter().map(|(limit, _)| json!(limit)).collect();
    }
    if argv.pre_exec.scope {
        all["landlock"] = json!(true);
    }
    if argv.pre_exec.private_mounts {
        all["private-mounts"] = json!(true);
    }
    escape_json(&format!("{all:#}\n")).into_bytes()
}
