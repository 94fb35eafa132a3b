//! The identity of commits: `[git] identity` (SPEC section 26). The command gets the name and the
//! address in environment variables.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use crate::compile::config::Home;
use crate::compile::layers::Project;
use crate::compile::plan::Plan;
use crate::compile::planted::may_be_planted;
use crate::compile::policy::Policy;
use crate::compile::resolve::PresetVariable;
use crate::host::git::program;
use crate::host::{Host, Session};
use crate::policy::{AbsPath, Origin};
use crate::sys::ablate::{self, Mitigation};
use crate::sys::process::output_within;

/// The origin of variables that hold the host's identity.
pub const OF_HOST: Origin = Origin::BuiltIn("git's identity, because the user's settings of git are hidden");

/// The time limit for git. git waits for ever if one of its settings files is a FIFO.
const PATIENCE: Duration = Duration::from_secs(2);
const MOST_BYTES: usize = 1 << 16;

/// The author and committer of the command's commits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename = "Identity", rename_all = "kebab-case")]
pub enum GitIdentity {
    /// The user's identity, even if the settings of git are hidden.
    Host,
    /// The identity of the visible settings, if there is one.
    None,
    /// The identity that the policy gives.
    Own { name: String, email: String },
}

/// The regular expression of the settings that make up an identity, as git prints them.
const SETTINGS: &str = "^(user|author|committer)\\.(name|email)$";

/// Each variable, with the settings that give its value, the strongest first.
const VARIABLES: [(&str, [&str; 2]); 4] = [
    ("GIT_AUTHOR_NAME", ["author.name", "user.name"]),
    ("GIT_AUTHOR_EMAIL", ["author.email", "user.email"]),
    ("GIT_COMMITTER_NAME", ["committer.name", "user.name"]),
    ("GIT_COMMITTER_EMAIL", ["committer.email", "user.email"]),
];

/// The variables of the identity that `policy` asks for. Runs git only if the identity is the
/// host's.
pub(crate) fn variables(
    host: &Host,
    session: &Session,
    project: &Project,
    policy: &Policy,
    plan: &Plan,
) -> Vec<PresetVariable> {
    let variable = |name: &str, value: OsString, origin: &Origin| PresetVariable {
        name: name.to_owned(),
        value,
        origin: origin.clone(),
    };
    match &policy.identity.value {
        GitIdentity::None => Vec::new(),
        GitIdentity::Own { name, email } => {
            let value = |variable: &str| if variable.ends_with("NAME") { name } else { email };
            VARIABLES.map(|(it, _)| variable(it, value(it).into(), &policy.identity.origin)).into()
        }
        GitIdentity::Host if is_hidden(host, session, project, policy, plan) => {
            let settings = ask(host, session, project, plan).unwrap_or_default();
            let last = |key: &str| settings.iter().rfind(|(name, _)| name == key).map(|(_, value)| value.clone());
            let values =
                VARIABLES.iter().filter_map(|(name, keys)| Some((name, keys.iter().find_map(|key| last(key))??)));
            values.map(|(name, value)| variable(name, value, &OF_HOST)).collect()
        }
        GitIdentity::Host => Vec::new(),
    }
}

/// Whether a file with the user's own settings of git exists that the command cannot read.
pub(crate) fn is_hidden(host: &Host, session: &Session, project: &Project, policy: &Policy, plan: &Plan) -> bool {
    // A file that the command sees in a private home may include a file that it does not see.
    let is_private = policy.home.value == Home::Private;
    let configuration = session.path_var("XDG_CONFIG_HOME").unwrap_or_else(|| project.home.join(".config"));
    let named = session.path_var("GIT_CONFIG_GLOBAL");
    let usual = [project.home.child(".gitconfig"), configuration.join("git/config")];
    let files: Vec<AbsPath> = named.map_or_else(|| usual.into(), |file| vec![file]);
    files.iter().filter_map(|file| host.resolve(file.as_path()).ok()).any(|found| {
        // The command reads the file through the same links, so it must see them too.
        let is_seen = plan.view(&found.path).shows_host() && found.links.iter().all(|link| plan.shows_link(link));
        found.kind.is_some() && (is_private || !is_seen)
    })
}

/// Asks git for the settings of an identity, so that `includeIf`, the repository's own settings
/// and the caller's variables count. git runs no program that these settings name while it reads
/// them. An unusable value is `None`, and no value of another scope takes its place. A git that
/// the command could have written is not run.
fn ask(host: &Host, session: &Session, project: &Project, plan: &Plan) -> Option<Vec<(String, Option<OsString>)>> {
    let is_trusted = |at: &AbsPath| !may_be_planted(plan, project, at) || ablate::is_off(Mitigation::GitPath);
    let git = program::find(host, session, is_trusted)?;
    let mut command = program::command(&git, session, host, &project.root);
    command.envs(session.env.iter().filter(|(name, _)| name.as_bytes().starts_with(b"GIT_CONFIG_")));
    command.args(["config", "--null", "--get-regexp", SETTINGS]);
    let output = output_within(&mut command, PATIENCE, MOST_BYTES).ok()?;
    // A setting and its value: `user.name\nAda\0`.
    let settings = output.stdout.split(|byte| *byte == 0).filter_map(|setting| {
        let at = setting.iter().position(|byte| *byte == b'\n')?;
        let (key, value) = (str::from_utf8(&setting[..at]).ok()?, &setting[at + 1..]);
        let is_usable = !value.is_empty() && !value.iter().any(u8::is_ascii_control);
        Some((key.to_owned(), is_usable.then(|| OsString::from_vec(value.to_vec()))))
    });
    output.status.success().then(|| settings.collect())
}
