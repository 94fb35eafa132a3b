//! The answer of `agent-sandbox init`: a policy file to start from, made from the project's files.
//! It only tightens, so it needs no consent. Comments propose rules that would open something.

mod facts;
mod kinds;

use crate::audit::entry::entry;
use crate::compile::layers::Project;
use crate::diagnostic::listed;
use crate::host::Host;
use crate::policy::{AbsPath, escape_for_display};

use facts::{Facts, Secret};

/// Number of files that a comment names.
const MOST_NAMED: usize = 3;

/// Length of a line of a comment.
const WIDTH: usize = 100;

/// The text of a policy file for `project`. The same project gives the same text.
pub fn propose(host: &Host, project: &Project) -> String {
    let facts = Facts::gather(host, project);
    let head = head(&facts, project);
    let own_home = comment(
        "A private home: of the host's home, only caches, agents' state and programs on PATH are visible. \
         `base = \"minimal\"` hides everything except programs and paths that rules name.",
    ) + "# home = \"private\"\n";
    let lists = [presets(&facts, project), read_only(&facts), hidden(&facts, project), own_home].join("\n");
    format!("{head}\n[filesystem]\n{lists}\n{}", wider(&facts))
}

fn head(facts: &Facts, project: &Project) -> String {
    let mut out = comment(
        "The access of a command in the sandbox here, besides the defaults: the project is writable, the rest of the \
         host is read-only, secrets are hidden. Proposed by `agent-sandbox init`; read it, and change it.",
    );
    out.push_str(
        "#\n\
         #   agent-sandbox check           is this file valid?\n\
         #   agent-sandbox lint            does each rule do something, and is a secret readable?\n\
         #   agent-sandbox explain PATH    which access has a path, and why?\n",
    );
    let kinds = facts.kinds.iter().map(|(kind, marker)| format!("{} (`{}`)", kind.name, relative(marker, project)));
    let git = match (facts.is_repository, facts.is_linked) {
        (_, true) => Some("a work tree whose repository is elsewhere"),
        (true, false) => Some("a git repository"),
        (false, false) => None,
    };
    let submodules = facts.has_submodules.then_some("submodules");
    let agents = facts.agents.iter().map(|(agent, sign)| format!("{agent} (`{sign}`)"));
    let found: Vec<String> = kinds.chain(git.into_iter().chain(submodules).map(str::to_owned)).chain(agents).collect();
    if !found.is_empty() {
        out += "#\n";
        out += &comment(&format!("Found here: {}.", listed(found.into_iter(), "and")));
    }
    if facts.is_repository || facts.is_linked {
        out += &comment("Git's hooks and settings are read-only already (`@git`); commits work.");
    }
    if !facts.agents.is_empty() {
        out += &comment("Agents' settings, hooks and MCP servers in the project are read-only already (`@autorun`).");
    }
    if facts.is_partial {
        out += &comment("The project is too large to be searched completely: some files were not examined.");
    }
    out
}

fn presets(facts: &Facts, project: &Project) -> String {
    if facts.lint.is_empty() {
        return "# presets = [\"@lint/all\"]  # keeps settings of linters and formatters as they are\n".to_owned();
    }
    let lines = facts.lint.iter().map(|(preset, files)| (format!("\"@{preset}\""), named(files.iter(), project)));
    comment(
        "Settings of linters and formatters are read-only: fix a failing check, do not loosen it. If git must \
         change them (another branch), run git outside.",
    ) + &list("presets", lines)
}

fn read_only(facts: &Facts) -> String {
    if facts.guarded.is_empty() && facts.instructions.is_empty() {
        return "# ro = [\"deploy\"]  # can be read and not changed\n".to_owned();
    }
    let guarded = facts.guarded.iter().map(|(path, why)| (format!("\"{path}\""), (*why).to_owned()));
    let why = "instructions for agents; remove the `#` if no agent may change them";
    let instructions = facts.instructions.iter().map(|path| (format!("# \"{path}\""), why.to_owned()));
    comment("Can be read inside, and changed only outside. Do not list files that the agent works on.")
        + &list("ro", guarded.chain(instructions))
}

fn hidden(facts: &Facts, project: &Project) -> String {
    let (mut tracked, others): (Vec<&Secret>, Vec<&Secret>) = facts.secrets.iter().partition(|one| one.is_tracked);
    tracked.sort_by_key(|secret| !secret.by_preset);
    let (by_preset, others): (Vec<&Secret>, Vec<&Secret>) = others.into_iter().partition(|one| one.by_preset);
    let can_be_named = |secret: &&Secret| !secret.has_other_names && entry(&secret.path, project).is_some();
    let (nameable, others): (Vec<&Secret>, Vec<&Secret>) = others.into_iter().partition(can_be_named);
    let names = |secrets: &[&Secret]| named(secrets.iter().map(|secret| &secret.path), project);
    let mut out = String::new();
    if !by_preset.is_empty() {
        out += &comment(&format!("Hidden already (`@secrets`): {}.", names(&by_preset)));
    }
    if !tracked.is_empty() {
        out += &comment(&format!(
            "Not hidden, because git holds the same content: {}. A mask over a file would not hide its copy in the \
             repository, \
             and `git commit -a` would stop at the mask. If one of these is a secret, revoke it.",
            names(&tracked)
        ));
    }
    if !others.is_empty() {
        out += &comment(&format!(
            "Not covered: {}. These files look like secrets, but have other names (hard links) or a name that is not \
             UTF-8, so a rule would not protect them.",
            names(&others)
        ));
    }
    if nameable.is_empty() {
        return out + "# exclude = [\"deploy/keys\"]  # cannot be read\n";
    }
    let line = |secret: &&Secret| Some((entry(&secret.path, project)?, format!("looks like {}", secret.like)));
    out + &comment("Cannot be read inside.") + &list("exclude", nameable.iter().filter_map(line))
}

/// Proposals for rules that open something. All of them are commented out, because they need
/// consent.
fn wider(facts: &Facts) -> String {
    let mut out = comment(
        "The rules below would open more than the defaults do. Everyone who uses such a file must consent to it \
         (`agent-sandbox trust`), so all of them are off.",
    ) + "#\n";
    for (paths, why) in facts.kinds.iter().filter_map(|(kind, _)| kind.wants) {
        let paths: Vec<String> = paths.iter().map(|path| format!("\"{path}\"")).collect();
        out += &format!("# rw = [{}]  # {why}\n", paths.join(", "));
    }
    out += "# rw = [\"../shared\"]  # another folder to work in\n";
    if facts.kinds.iter().any(|(kind, _)| kind.name == kinds::CONTAINERS) {
        out += "#\n# At the top, before `[filesystem]`:\n# docker = true  # a process that reaches the engine's socket can read and write all of the machine\n";
    }
    out
}

/// `key = [ … ]`, with a reason behind each entry. An entry that begins with `#` is a proposal.
fn list(key: &str, lines: impl Iterator<Item = (String, String)>) -> String {
    let lines: String = lines.map(|(entry, why)| format!("    {entry}, # {why}\n")).collect();
    format!("{key} = [\n{lines}]\n")
}

/// The first files, relative to the project, and the number of the others.
fn named<'f>(files: impl ExactSizeIterator<Item = &'f AbsPath>, project: &Project) -> String {
    let more = files.len().saturating_sub(MOST_NAMED);
    let names = files.take(MOST_NAMED).map(|file| format!("`{}`", relative(file, project)));
    let rest = (more > 0).then(|| format!("{more} more"));
    listed(names.chain(rest), "and")
}

fn relative(path: &AbsPath, project: &Project) -> String {
    escape_for_display(path.relative_to(&project.root).map_or(path.as_os_str(), |relative| relative.as_os_str()))
}

/// Breaks `text` into lines of a comment. Names in `text` contain no line breaks, because they are
/// escaped.
fn comment(text: &str) -> String {
    let mut out = String::from("#");
    let mut width = 1;
    for word in text.split(' ') {
        let length = 1 + word.chars().count();
        if width + length > WIDTH && width > 1 {
            out += "\n#";
            width = 1;
        }
        out.extend([" ", word]);
        width += length;
    }
    out + "\n"
}
