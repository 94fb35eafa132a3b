//! `@secrets`.
//!
//! `~/.npmrc`, `~/.m2/settings.xml` and `~/.config/pip` can hold tokens too, but they name the
//! registry that the build needs. Hide them with an `exclude` of your own where the project builds
//! without.

use super::VariableEffect::Drop;
use super::{BuiltinPreset, RelativeTo, exclude, group, variables};

/// Templates and defaults, which people commit. `lint` goes by this list, too.
pub(crate) const PUBLIC_ENV: [&str; 5] = [".env.example", ".env.sample", ".env.template", ".env.dist", ".env.defaults"];

pub(super) const SECRETS: BuiltinPreset = BuiltinPreset {
    // A `.env` above a nested repository must not come into view because somebody planted
    // `sub/.git`.
    relative_to: RelativeTo::OutermostRepository,
    // What the index holds unchanged can be read from the repository anyway, and a mask breaks `git
    // commit -a`.
    leave_tracked: true,
    // Trees of third-party code and tool state. Output folders (`dist`, `.next`) are not here:
    // bundlers copy the real `.env` into them.
    skip_directories: &[
        ".git",
        ".hg",
        ".jj",
        ".svn",
        "node_modules",
        "bower_components",
        "target",
        ".venv",
        "venv",
        "site-packages",
        "__pycache__",
        ".tox",
        ".nox",
        ".gradle",
        "Pods",
    ],
    groups: &[
        group("OpenSSH", "ssh(1), FILES: private keys", &[exclude("~/.ssh")]),
        group("GnuPG", "gpg(1), FILES: private keys and the agent's sockets", &[exclude("~/.gnupg")]),
        group("SOPS", "SOPS, README: age keys in `sops/age/keys.txt`", &[exclude("~/.config/sops")]),
        group("AWS CLI", "AWS CLI, \"Configuration and credential file settings\"", &[exclude("~/.aws")]),
        group("Azure CLI", "Azure CLI, \"Configuration\": the token cache is in `~/.azure`", &[exclude("~/.azure")]),
        group("kubectl", "Kubernetes, \"Organizing Cluster Access Using kubeconfig Files\"", &[exclude("~/.kube")]),
        group("Google Cloud CLI", "gcloud, `gcloud topic configurations`", &[exclude("~/.config/gcloud")]),
        group("Vault", "Vault, \"Token helpers\"", &[exclude("~/.vault-token")]),
        group(
            "git",
            "git-credential-store(1), FILES",
            &[exclude("~/.git-credentials"), exclude("~/.config/git/credentials")],
        ),
        group("GitHub CLI", "gh, `gh help environment`: `hosts.yml` holds tokens", &[exclude("~/.config/gh")]),
        group("GitLab CLI", "glab, \"Configuration\": `config.yml` holds tokens", &[exclude("~/.config/glab-cli")]),
        // The files of registries, not their folders: `~/.docker` holds contexts and plugins,
        // `~/.cargo` the cache. They read as empty, because cargo and twine stop at one that they
        // may not open, and docker complains.
        group("curl, ftp", "netrc(5)", &[exclude("~/.netrc").reads_as_empty()]),
        group(
            "Docker",
            "docker(1), \"Configuration files\": auths",
            &[exclude("~/.docker/config.json").reads_as_empty()],
        ),
        group("twine", "Python Packaging User Guide, \"The .pypirc file\"", &[exclude("~/.pypirc").reads_as_empty()]),
        group(
            "Cargo",
            "The Cargo Book, \"Cargo Home\": credentials.toml",
            &[exclude("~/.cargo/credentials.toml").reads_as_empty(), exclude("~/.cargo/credentials").reads_as_empty()],
        ),
        group("pass", "pass(1), FILES", &[exclude("~/.password-store")]),
        group("GNOME Keyring", "gnome-keyring: keyring files", &[exclude("~/.local/share/keyrings")]),
        group("KWallet", "kwalletd: wallet files", &[exclude("~/.local/share/kwalletd")]),
        group("1Password CLI", "op, \"Configuration directories\"", &[exclude("~/.config/op")]),
        // Cookies are sessions, and saved passwords open with the user's own key.
        group(
            "Firefox, Thunderbird",
            "Mozilla Support, \"Profiles - Where Firefox stores your data\"",
            &[
                exclude("~/.mozilla"),
                exclude("~/.config/mozilla"),
                exclude("~/.librewolf"),
                exclude("~/.zen"),
                exclude("~/.thunderbird"),
                exclude("~/snap/firefox"),
                exclude("~/.var/app/org.mozilla.firefox"),
                exclude("~/.var/app/org.mozilla.Thunderbird"),
            ],
        ),
        group(
            "Chromium",
            "Chromium, \"User Data Directory\"",
            &[
                exclude("~/.config/google-chrome"),
                exclude("~/.config/google-chrome-beta"),
                exclude("~/.config/google-chrome-unstable"),
                exclude("~/.config/chromium"),
                exclude("~/.config/BraveSoftware"),
                exclude("~/.config/microsoft-edge"),
                exclude("~/.config/vivaldi"),
                exclude("~/.config/opera"),
                exclude("~/snap/chromium"),
                exclude("~/.var/app/org.chromium.Chromium"),
                exclude("~/.var/app/com.google.Chrome"),
                exclude("~/.var/app/com.brave.Browser"),
                exclude("~/.var/app/com.microsoft.Edge"),
            ],
        ),
        // `@caches` would open them.
        group(
            "browsers",
            "the cache holds pages that were read while logged in",
            &[
                exclude("~/.cache/mozilla"),
                exclude("~/.cache/google-chrome"),
                exclude("~/.cache/chromium"),
                exclude("~/.cache/BraveSoftware"),
                exclude("~/.cache/microsoft-edge"),
            ],
        ),
        // With the network on, a command reaches what listens on loopback. The token is all that
        // keeps it out.
        group(
            "Jupyter",
            "Jupyter, \"Common Directories and File Locations\": runtime files hold tokens and keys",
            &[exclude("~/.local/share/jupyter/runtime")],
        ),
        group(
            "Claude Code",
            "Claude Code: lock files of its editor extensions hold the token of a WebSocket server",
            &[exclude("~/.claude/ide")],
        ),
        group("code-server", "code-server, FAQ: the password is in config.yaml", &[exclude("~/.config/code-server")]),
        group(
            "Syncthing",
            "syncthing-config(5): config.xml holds the key of the REST API",
            &[exclude("~/.config/syncthing"), exclude("~/.local/state/syncthing")],
        ),
        group(
            "Emacs",
            "GNU Emacs Manual, \"TCP Emacs server\": the authentication key is in a file",
            &[exclude("~/.emacs.d/server"), exclude("~/.config/emacs/server")],
        ),
        group(
            "VS Code Server",
            "VS Code Server: `--connection-token-file` of a server that waits on loopback",
            &[exclude("~/.vscode-server/.*.token"), exclude("~/.cursor-server/.*.token")],
        ),
        group(
            "JetBrains IDEs",
            "IntelliJ Platform: user.token and user.web.token of the built-in web server",
            &[exclude("~/.config/JetBrains/*/user*.token")],
        ),
        group(
            "X11",
            "Xsecurity(7): the cookie opens displays on loopback, as ssh(1) forwards them",
            &[exclude("~/.Xauthority"), exclude("~/.ICEauthority")],
        ),
        group("PulseAudio", "PulseAudio, module-native-protocol-tcp: the cookie", &[exclude("~/.config/pulse/cookie")]),
        // Copies of files that are hidden, or that their user thinks are gone.
        group(
            "VS Code",
            "VS Code, \"Local history\" and \"Hot exit\"",
            &[
                exclude("~/.config/Code/User/History"),
                exclude("~/.config/Code/Backups"),
                exclude("~/.config/VSCodium/User/History"),
                exclude("~/.config/VSCodium/Backups"),
                exclude("~/.config/Cursor/User/History"),
                exclude("~/.config/Cursor/Backups"),
                exclude("~/.config/Windsurf/User/History"),
                exclude("~/.config/Windsurf/Backups"),
                exclude("~/.vscode-server/data/User/History"),
                exclude("~/.cursor-server/data/User/History"),
            ],
        ),
        group(
            "JetBrains IDEs",
            "IntelliJ IDEA, \"Local History\": it is in the system directory",
            &[exclude("~/.cache/JetBrains/*/LocalHistory")],
        ),
        group("Zed", "Zed: unsaved buffers are in its database", &[exclude("~/.local/share/zed/db")]),
        group(
            "Vim",
            "Vim, `:help undo-persistence`, `:help backupdir`, `:help directory`",
            &[
                exclude("~/.vim/undo"),
                exclude("~/.vim/undodir"),
                exclude("~/.vim/backup"),
                exclude("~/.vim/swap"),
                exclude("~/.local/state/vim"),
            ],
        ),
        group(
            "Neovim",
            "Neovim, `:help undodir`, `:help backupdir`, `:help directory`",
            &[
                exclude("~/.local/state/nvim/undo"),
                exclude("~/.local/state/nvim/backup"),
                exclude("~/.local/state/nvim/swap"),
            ],
        ),
        group(
            "Emacs",
            "GNU Emacs Manual, \"Backup Names\" and \"Auto Save Files\"",
            &[
                exclude("~/.emacs.d/backups"),
                exclude("~/.emacs.d/auto-save-list"),
                exclude("~/.config/emacs/backups"),
                exclude("~/.config/emacs/auto-save-list"),
            ],
        ),
        group(
            "dotenv",
            "dotenv, README: variables of each environment",
            &[exclude("**/.env"), exclude("**/.env.*").except(&PUBLIC_ENV)],
        ),
        group(
            "editors",
            "Vim, `:help backup`; GNU Emacs Manual, \"Auto Save Files\"; copies that people make",
            &[
                exclude("**/.env~"),
                exclude("**/.env-*").except(&[".env-example", ".env-sample", ".env-template"]),
                exclude("**/.env_*").except(&[".env_example", ".env_sample", ".env_template"]),
                exclude("**/#.env*"),
                exclude("**/..env*"),
            ],
        ),
    ],
    variables: &[
        variables(
            Drop,
            "all",
            "names by which programs and CI services call tokens, passwords and keys",
            &[
                "TOKEN",
                "PASSWORD",
                "API_KEY",
                "*_TOKEN",
                "*_token",
                "*_password",
                "*_PASS",
                "*_SECRET",
                "*_SECRET_KEY",
                "*_PASSWORD",
                "*_PASSWD",
                "*_PASSPHRASE",
                "*_API_KEY",
                "*_APIKEY",
                "*_ACCESS_KEY",
                "*_PRIVATE_KEY",
                "*_CREDENTIALS",
                "*_PAT",
            ],
        ),
        variables(
            Drop,
            "AWS CLI",
            "AWS CLI, \"Environment variables to configure the AWS CLI\"",
            &["AWS_ACCESS_KEY_ID", "AWS_SECURITY_TOKEN"],
        ),
        variables(Drop, "PostgreSQL", "PostgreSQL, \"libpq: Environment Variables\"", &["PGPASSWORD"]),
        variables(Drop, "MySQL", "MySQL Reference Manual, \"Environment Variables\"", &["MYSQL_PWD"]),
        variables(Drop, "Redis", "redis-cli, \"Host, port, password, and database\"", &["REDISCLI_AUTH"]),
        variables(Drop, "sshpass", "sshpass(1), -e", &["SSHPASS"]),
        variables(Drop, "Docker", "Docker, \"docker login\": credentials in the environment", &["DOCKER_AUTH_CONFIG"]),
        variables(
            Drop,
            "npm",
            "npm-config(7): settings of a registry",
            &["npm_config_//*", "npm_config__auth*", "NPM_CONFIG__AUTH*"],
        ),
        variables(Drop, "Rails", "Ruby on Rails Guides, \"Securing Rails Applications\"", &["SECRET_KEY_BASE"]),
    ],
    ..BuiltinPreset::new("secrets", "keys, tokens, password stores, browser profiles and `.env` files are hidden")
};
