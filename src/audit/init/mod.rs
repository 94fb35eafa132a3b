//! `agent-sandbox init`: a policy file to start from, made of what is in the project. It only tightens, so that it needs no consent;
//! what would open something is proposed in comments.

mod facts;
mod kinds;

use std::fmt::Write;

use crate::audit::entry::entry;
use crate::compile::layers::Project;
use crate::diagnostic::listed;
use crate::host::Host;
use crate::policy::path::{AbsPath, escape_for_display};

use facts::{Facts, Secret};

/// How many files a comment names.
const MOST_NAMED: usize = 3;

/// Where a comment is broken.
const WIDTH: usize = 100;

/// The text of a policy file for `project`. The same project gives the same text.
pub fn propose(host: &Host, project: &Project) -> String {
    let facts = Facts::gather(host, project);
    let mut out = String::new();
    head(&facts, project, &mut out);
    out.push_str("\n[filesystem]\n");
    let parts: Vec<String> = [presets(&facts, project), read_only(&facts), hidden(&facts, project)].into();
    out.push_str(&parts.join("\n"));
    out.push('\n');
    wider(&facts, &mut out);
    out
}

fn head(facts: &Facts, project: &Project, out: &mut String) {
    comment(
        "What a command in the sandbox may do here, besides the defaults: the project is writable, the rest of the \
         host is read-only, secrets are hidden. Proposed by `agent-sandbox init`; read it, and change it.",
        out,
    );
    out.push_str(
        "#\n\
         #   agent-sandbox check           is this file valid?\n\
         #   agent-sandbox lint            does each rule do something, and is no secret in sight?\n\
         #   agent-sandbox explain PATH    what holds at a path, and why?\n",
    );
    let kinds = facts.kinds.iter().map(|(kind, marker)| format!("{} (`{}`)", kind.name, relative(marker, project)));
    let agents = facts.agents.iter().map(|(sign, agent)| format!("{agent} (`{sign}`)"));
    let git = match (facts.is_repository, facts.is_linked) {
        (_, true) => Some("a work tree whose repository is elsewhere"),
        (true, false) => Some("a git repository"),
        (false, false) => None,
    };
    let submodules = facts.has_submodules.then_some("submodules");
    let found: Vec<String> = kinds.chain(git.into_iter().chain(submodules).map(str::to_owned)).chain(agents).collect();
    if !found.is_empty() {
        out.push_str("#\n");
        comment(&format!("Found here: {}.", listed(found.into_iter(), "and")), out);
    }
    if facts.is_repository || facts.is_linked {
        comment("Git's hooks and settings are read-only already (`@git`); commits work.", out);
    }
    if !facts.agents.is_empty() {
        comment("Agents' settings, hooks and MCP servers in the project are read-only already (`@autorun`).", out);
    }
    if facts.is_partial {
        comment("The project is too large to be looked at as a whole: some files were not seen.", out);
    }
}

fn presets(facts: &Facts, project: &Project) -> String {
    if facts.lint.is_empty() {
        return "# presets = [\"@lint/all\"]  # keeps settings of linters and formatters as they are\n".to_owned();
    }
    let mut out = String::new();
    comment(
        "Settings of linters and formatters are read-only: a check that fails is to be met, not loosened. Where git has to \
         change them (another branch), do that outside.",
        &mut out,
    );
    let lines = facts.lint.iter().map(|(preset, files)| (format!("\"@{preset}\""), named(files, project)));
    list("presets", lines, &mut out);
    out
}

fn read_only(facts: &Facts) -> String {
    let mut out = String::new();
    if facts.guarded.is_empty() && facts.instructions.is_empty() {
        out.push_str("# ro = [\"deploy\"]  # can be read and not changed\n");
        return out;
    }
    comment("Can be read, and changed outside only. What the agent is to work on has no place here.", &mut out);
    let guarded = facts.guarded.iter().map(|(path, why)| (format!("\"{path}\""), (*why).to_owned()));
    let instructions = facts.instructions.iter().map(|path| {
        (format!("# \"{path}\""), "instructions for agents; remove the `#` if none is to change them".to_owned())
    });
    list("ro", guarded.chain(instructions), &mut out);
    out
}

fn hidden(facts: &Facts, project: &Project) -> String {
    let mut out = String::new();
    let (by_preset, others): (Vec<&Secret>, Vec<&Secret>) = facts.secrets.iter().partition(|secret| secret.by_preset);
    let (tracked, others): (Vec<&Secret>, Vec<&Secret>) = others.into_iter().partition(|secret| secret.is_tracked);
    let (tracked_by_preset, by_preset): (Vec<&Secret>, Vec<&Secret>) =
        by_preset.into_iter().partition(|secret| secret.is_tracked);
    let names =
        |secrets: &[&Secret]| named(&secrets.iter().map(|secret| secret.path.clone()).collect::<Vec<_>>(), project);
    if !by_preset.is_empty() {
        comment(&format!("Hidden already (`@secrets`): {}.", names(&by_preset)), &mut out);
    }
    let tracked: Vec<&Secret> = tracked_by_preset.into_iter().chain(tracked).collect();
    if !tracked.is_empty() {
        let said = format!(
            "Not hidden, because git holds the same: {}. A mask would not hide the repository, and `git commit -a` would \
             stop at it. If one of these is a secret, revoke it.",
            names(&tracked)
        );
        comment(&said, &mut out);
    }
    let can_be_named = |secret: &&Secret| !secret.has_other_names && entry(&secret.path, project).is_some();
    let (nameable, others): (Vec<&Secret>, Vec<&Secret>) = others.into_iter().partition(can_be_named);
    if !others.is_empty() {
        let said = format!(
            "Left to you: {}. What looks like a secret there has other names (hard links), or a name that is no text, so that \
             a rule would not hold.",
            names(&others)
        );
        comment(&said, &mut out);
    }
    if nameable.is_empty() {
        out.push_str("# exclude = [\"deploy/keys\"]  # cannot be read\n");
        return out;
    }
    comment("Cannot be read inside.", &mut out);
    let lines = nameable
        .iter()
        .filter_map(|secret| Some((entry(&secret.path, project)?, format!("looks like {}", secret.like))));
    list("exclude", lines, &mut out);
    out
}

/// What opens something needs consent, so it is for people to turn on.
fn wider(facts: &Facts, out: &mut String) {
    comment(
        "What follows would open more than the defaults do. A file that does needs the consent of everyone who uses it \
         (`agent-sandbox trust`), so all of it is off.",
        out,
    );
    out.push_str("#\n");
    for (paths, why) in facts.kinds.iter().filter_map(|(kind, _)| kind.wants) {
        let paths: Vec<String> = paths.iter().map(|path| format!("\"{path}\"")).collect();
        let _ = writeln!(out, "# rw = [{}]  # {why}", paths.join(", "));
    }
    out.push_str("# rw = [\"../shared\"]  # another folder to work in\n");
    if facts.kinds.iter().any(|(kind, _)| kind.uses_containers()) {
        out.push_str(
            "#\n# At the top, before `[filesystem]`:\n# docker = true  # whoever reaches the engine's socket can read and write all of the machine\n",
        );
    }
}

/// `key = [ … ]`, with a reason behind each entry. An entry that begins with `#` is a proposal.
fn list(key: &str, lines: impl Iterator<Item = (String, String)>, out: &mut String) {
    let _ = writeln!(out, "{key} = [");
    for (entry, why) in lines {
        let _ = writeln!(out, "    {entry}, # {why}");
    }
    out.push_str("]\n");
}

/// Some files, by their place in the project.
fn named(files: &[AbsPath], project: &Project) -> String {
    let more = files.len().saturating_sub(MOST_NAMED);
    let names = files.iter().take(MOST_NAMED).map(|file| format!("`{}`", relative(file, project)));
    let rest = (more > 0).then(|| format!("{more} more"));
    listed(names.chain(rest), "and")
}

fn relative(path: &AbsPath, project: &Project) -> String {
    escape_for_display(path.relative_to(&project.root).map_or(path.as_os_str(), |relative| relative.as_os_str()))
}

/// `text` as lines of a comment. It holds no line breaks: names of files are shown without.
fn comment(text: &str, out: &mut String) {
    let mut line = String::from("#");
    for word in text.split(' ') {
        if line.chars().count() + 1 + word.chars().count() > WIDTH && line != "#" {
            let _ = writeln!(out, "{line}");
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    let _ = writeln!(out, "{line}");
}
