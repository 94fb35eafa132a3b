//! The private files of the built-in presets: which of their keys may reach the host, and why each
//! of these keys is harmless (SPEC Q4). Trust, approval and warning switches are never among them.
//! No entry names a whole section, because a section may get keys that name commands.

use crate::policy::private::{FileFormat, InsideKey, KeyPattern, LeavingKey, LeavingValue, PrivateFile};

const fn key(key: KeyPattern, value: LeavingValue, why: &'static str) -> LeavingKey {
    LeavingKey { key, value, why }
}

/// The settings of a repository. `remote.*` is not listed: if `remote.x.url` is a bare repository
/// in the project and `branch.main.remote` is `x`, a plain `git push` of the user runs the hooks of
/// that repository.
pub(super) const GIT_CONFIG: PrivateFile = PrivateFile::new(
    FileFormat::Git,
    &[
        key(&["branch", "*", "merge"], LeavingValue::Branch, "the branch of the remote that `git pull` merges"),
        key(&["branch", "*", "rebase"], LeavingValue::Rebase, "whether `git pull` rebases"),
        key(&["branch", "*", "description"], LeavingValue::Text, "a text that git shows"),
        key(&["branch", "*", "remote"], LeavingValue::KnownRemote, "one of the remotes that the user has set up"),
    ],
);

/// The settings of Codex. `projects.*.trust_level` is not listed: a trusted project may name MCP
/// servers, which Codex starts.
pub(super) const CODEX_CONFIG: PrivateFile = PrivateFile {
    inside: &[InsideKey {
        key: &["features", "daemon_auto_start"],
        value: "false",
        why: "the server would be installed in `~/.codex/packages`, from where Codex outside runs it",
    }],
    counters: &[&["tui", "model_availability_nux", "*"]],
    ..PrivateFile::new(
        FileFormat::Toml,
        &[
            key(&["model"], LeavingValue::Model, "the name of a model of the provider that the user has set up"),
            key(&["model_reasoning_effort"], LeavingValue::Name, "how long the model thinks"),
        ],
    )
};

/// The settings of Gemini CLI. A theme may be the name of a file, so a theme with a `/` or a `.`
/// stays in the copy.
pub(super) const GEMINI_SETTINGS: PrivateFile = PrivateFile::new(
    FileFormat::Json,
    &[
        key(&["security", "auth", "selectedType"], LeavingValue::Name, "the way to sign in, one of a few words"),
        key(&["model", "name"], LeavingValue::Model, "the name of a model"),
        key(&["ui", "theme"], LeavingValue::Name, "the name of a set of colours"),
    ],
);

/// The list of folders whose settings, hooks and servers Gemini CLI obeys.
pub(super) const GEMINI_TRUSTED_FOLDERS: PrivateFile =
    PrivateFile { variable: Some("GEMINI_CLI_TRUSTED_FOLDERS_PATH"), ..PrivateFile::new(FileFormat::Json, &[]) };

/// Folders whose settings and extensions pi obeys.
pub(super) const PI_TRUST: PrivateFile = PrivateFile::new(FileFormat::Json, &[]);

pub(super) const CLAUDE_SETTINGS: PrivateFile = PrivateFile::new(
    FileFormat::Json,
    &[
        key(&["model"], LeavingValue::Model, "the name of a model"),
        key(&["theme"], LeavingValue::Name, "the name of a set of colours"),
    ],
);
