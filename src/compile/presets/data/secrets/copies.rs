//! Copies of files that are hidden, and `.env` files with their copies.

use super::super::{Group, exclude, group};

/// Templates and defaults, which people commit. `lint` uses this list, too.
pub(crate) const PUBLIC_ENV: [&str; 6] =
    [".env.example", ".env.sample", ".env.template", ".env.dist", ".env.defaults", ".env.sandbox"];

pub(super) const COPIES: &[Group] = &[
    // Copies of files that are hidden or that the user believes to be deleted.
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
        &[
            exclude("**/.env"),
            exclude("**/.env.*").except(&PUBLIC_ENV),
            exclude("**/.ENV"),
            exclude("**/.ENV.*"),
            exclude("**/.Env"),
        ],
    ),
    group(
        "Wrangler",
        "Wrangler, \"Secrets\": variables of local development",
        &[exclude("**/.dev.vars"), exclude("**/.dev.vars.*")],
    ),
    group("act", "act, \"Secrets\": the file that it reads by default", &[exclude("**/.secrets")]),
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
];
