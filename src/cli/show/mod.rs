//! `agent-sandbox show`.

mod tree;

use std::ffi::OsStr;

use crate::audit::show::{self, Shown};
use crate::compile::config::{BaseTree, Home, Tmp};
use crate::compile::identity::GitIdentity;
use crate::compile::policy::Setting;
use crate::diagnostic::or_none;
use crate::host::Host;
use crate::policy::escape_for_display;

use super::answer::Answered;
use super::args::{MountArgs, Options, PolicyArgs};
use super::output::Output;
use super::style::Paint;

pub use tree::Folding;

/// Show the whole effective policy as a tree of paths
///
/// One line for each path at which another decision begins: the access of a command there, and the
/// rule that gives it. All other paths have the access of the nearest path around them. A rule with
/// many matches in one folder is one line, unless `--all` is given. Nothing is started, and nothing
/// on the host is changed.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ShowArgs {
    /// Show N levels of the tree, and count the paths below them
    #[arg(long, value_name = "N")]
    depth: Option<usize>,
    /// Show each path, even if one rule has many
    #[arg(long)]
    all: bool,
    /// Print one JSON object, always with all paths: see `agent-sandbox schema show`
    #[arg(long, conflicts_with_all = ["depth", "all"])]
    json: bool,
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    mounts: MountArgs,
}

const AFTER_HELP: &str = "\
Examples:
  agent-sandbox show
  agent-sandbox show --depth 2                 an overview
  agent-sandbox --preset '!caches' show        what would this flag change?
  agent-sandbox show --json | jq -r '.paths[] | select(.access == \"rw\").path'";

pub(super) fn run(host: &Host, options: &Options, arguments: &ShowArgs, output: &Output) -> Answered {
    let compiled = super::compile(host, options, output)?;
    let folding = Folding { depth: arguments.depth, all: arguments.all };
    output.print_value(&show::show(&compiled), arguments.json, |shown, paint| text(shown, folding, paint))
}

pub fn text(shown: &Shown, folding: Folding, paint: Paint) -> String {
    let mut out = String::new();
    let mut line = |title: &str, text: String| out += &format!("{} {text}\n", paint.heading(format!("{title:<11}")));
    let project = &shown.project;
    let elsewhere = (project.root != project.working_directory).then_some(&project.working_directory);
    let elsewhere = elsewhere.map(|folder| format!(", working directory {folder}")).unwrap_or_default();
    line("project", format!("{}{elsewhere}", project.root));
    let files = shown.files.iter().map(|file| {
        let part = if file.forbids_only { ", only its prohibitions" } else { "" };
        format!("{} ({}{part})", file.path, file.layer.name())
    });
    line("files", or_none(&files.collect::<Vec<_>>()));
    let presets = shown.presets.iter().map(|preset| format!("@{}", preset.name));
    line("presets", or_none(&presets.collect::<Vec<_>>()));
    line("network", on(&shown.network));
    line("docker", on(&shown.docker));
    line("nested", on(&shown.nested));
    let tmp = match shown.tmp.value {
        Tmp::Private => "private",
        Tmp::Host => "the host's",
    };
    line("/tmp", format!("{tmp} ({})", shown.tmp.origin));
    let limits = shown.limits.iter().map(|limit| format!("{} ({})", limit.value, limit.origin));
    line("limits", or_none(&limits.collect::<Vec<_>>()));
    if shown.home.value == Home::Private {
        line("home", format!("private ({})", shown.home.origin));
    }
    if shown.base.value == BaseTree::Minimal {
        line("base", format!("minimal ({})", shown.base.origin));
    }
    let identity = match &shown.identity.value {
        GitIdentity::Host => None,
        GitIdentity::None => Some("not passed".to_owned()),
        GitIdentity::Own { name, email } => Some(format!("{name} <{email}>")),
    };
    if let Some(identity) = identity {
        line("identity", format!("{} ({})", escape_for_display(OsStr::new(&identity)), shown.identity.origin));
    }
    line("guard", if shown.guard { "on: checks and locks the mounts" } else { "off: bwrap alone" }.to_owned());
    let require = shown.require.iter().map(|one| format!("{} ({})", one.protection, one.origin));
    line("require", or_none(&require.collect::<Vec<_>>()));
    let variables = &shown.environment;
    let (passed, unset, set) = (variables.passed.len(), variables.unset.len(), variables.set.len());
    let others = if variables.inherit.value { "others pass" } else { "others do not pass" };
    line("environment", format!("{passed} pass, {unset} unset, {set} set; {others} ({})", variables.inherit.origin));
    if !variables.unset.is_empty() {
        let unset = variables.unset.iter();
        let unset = unset.map(|one| format!("{} ({})", escape_for_display(&one.name.0), one.origin));
        line("unset", unset.collect::<Vec<_>>().join(", "));
    }
    if !shown.created.is_empty() {
        line("created", shown.created.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
    }
    out + "\n" + &tree::text(&shown.paths, folding, paint)
}

fn on(setting: &Setting<bool>) -> String {
    format!("{} ({})", if setting.value { "on" } else { "off" }, setting.origin)
}
