//! `@autorun`.
//!
//! Protects files that take effect when a user opens the folder, enters it, commits, logs in, or
//! starts an agent. Build files (`package.json`, `Makefile`, `.cargo/config.toml`, CI workflows)
//! are the work itself: they run when a user builds, and the agent must be able to change them.
//!
//! A missing folder of an editor that this user works with is blocked during a run: git does not
//! see an empty folder. Everything else that is missing can be created, and the run reports it at
//! the end. `@autorun-strict` blocks all of these folders.

use super::{BuiltinPreset, Group, exclude, group, ro};

pub(super) const AUTORUN: BuiltinPreset = BuiltinPreset {
    groups: GROUPS,
    ..BuiltinPreset::new("autorun", "files that editors, shells, git and agents on the host obey unasked are read-only")
};

const VS_CODE: &[&str] = &[
    "~/.config/Code",
    "~/.config/Code - OSS",
    "~/.config/VSCodium",
    "~/.vscode",
    "~/.vscode-server",
    "~/.config/Cursor",
    "~/.cursor-server",
    "~/.config/Windsurf",
    "~/.var/app/com.visualstudio.code",
    "~/.var/app/com.vscodium.codium",
];

const JETBRAINS: &[&str] = &[
    "~/.config/JetBrains",
    "~/.config/Google",
    "~/.var/app/com.jetbrains.IntelliJ-IDEA-Community",
    "~/.var/app/com.jetbrains.IntelliJ-IDEA-Ultimate",
    "~/.var/app/com.jetbrains.PyCharm-Community",
    "~/.var/app/com.jetbrains.PyCharm-Professional",
    "~/.var/app/com.google.AndroidStudio",
];

const GROUPS: &[Group] = &[
    // Editors: tasks that run on opening, settings that name programs
    group(
        "VS Code",
        "VS Code, \"Tasks\": `runOn: folderOpen`; settings that name programs",
        &[ro(".vscode/").in_use(VS_CODE)],
    ),
    group("VS Code", "VS Code, \"Multi-root Workspaces\": settings and tasks", &[ro("*.code-workspace")]),
    group(
        "JetBrains IDEs",
        "IntelliJ IDEA, \"Startup tasks\", \"File watchers\"",
        &[ro(".idea/").in_use(JETBRAINS), ro(".fleet")],
    ),
    group(
        "Zed",
        "Zed, \"Configuring Zed\": project settings name language servers",
        &[ro(".zed/").in_use(&["~/.config/zed", "~/.local/share/zed", "~/.var/app/dev.zed.Zed"])],
    ),
    group("Helix", "Helix, \"Languages\": `.helix/languages.toml` names language servers", &[ro(".helix")]),
    group(
        "Dev Containers",
        "the Dev Container specification: lifecycle scripts",
        &[ro(".devcontainer"), ro(".devcontainer.json")],
    ),
    group(
        "Vim, Neovim",
        "Vim and Neovim, `:help exrc`; vim-localvimrc",
        &[ro(".exrc"), ro(".vimrc"), ro(".nvimrc"), ro(".nvim.lua"), ro(".lvimrc")],
    ),
    group("Emacs", "GNU Emacs Manual, \"Directory Variables\"", &[ro(".dir-locals.el"), ro(".dir-locals-2.el")]),
    group("GDB, LLDB", "gdb(1), \"Auto-loading\"; lldb(1), CONFIGURATION FILES", &[ro(".gdbinit"), ro(".lldbinit")]),
    group("R", "R, `?Startup`: sourced from the working directory", &[ro(".Rprofile"), ro(".Renviron")]),
    group("Octave", "GNU Octave, \"Startup Files\": run in the working directory", &[ro(".octaverc")]),
    group("Hermit", "Hermit, \"Usage\": shells source it", &[ro("bin/activate-hermit"), ro("bin/hermit")]),
    group(
        "irb, Pry, IEx, GHCi, OCaml, pdb",
        "their manuals, start-up files: obeyed in the working directory",
        &[ro(".irbrc"), ro(".pryrc"), ro(".iex.exs"), ro(".ghci"), ro(".ocamlinit"), ro(".pdbrc")],
    ),
    group(
        "coc.nvim",
        "coc.nvim, \"Using the configuration file\": language servers of the workspace",
        &[ro(".vim/coc-settings.json")],
    ),
    // Shells that load a folder's environment on entering it
    group("direnv", "direnv(1); nix-direnv sources the profiles in `.direnv`", &[ro(".envrc"), ro(".direnv/*.rc")]),
    group(
        "mise",
        "mise, \"Configuration\": env, hooks, templates that run commands",
        &[
            ro("mise.toml"),
            ro("mise.local.toml"),
            ro("mise.*"),
            ro(".mise.toml"),
            ro(".mise.local.toml"),
            ro(".mise.*"),
            ro("mise"),
            ro(".mise"),
            ro(".config/mise.toml"),
            ro(".config/mise.*"),
            ro(".config/mise"),
        ],
    ),
    // Git: hooks kept in the project, and programs that run them; where submodules come from
    group(
        "husky, core.hooksPath",
        "husky, \"How To\"; git-config(1), core.hooksPath",
        &[ro(".husky"), ro(".githooks"), ro(".git-hooks")],
    ),
    // husky writes its scripts anew at each `npm install`, which would fail if the folder were
    // read-only.
    group(
        "husky",
        "husky 9, `index.js`: `prepare` writes `.husky/_`, where it points `core.hooksPath`",
        &[exclude(".husky/_/").blocked_in_parent().fresh()],
    ),
    group(
        "pre-commit",
        "pre-commit, \"Adding pre-commit plugins to your project\"",
        &[ro(".pre-commit-config.yaml"), ro(".pre-commit-config.yml")],
    ),
    group(
        "Lefthook",
        "Lefthook, \"Configuration\"",
        &[
            ro("lefthook.yml"),
            ro("lefthook.yaml"),
            ro(".lefthook.yml"),
            ro(".lefthook.yaml"),
            ro("lefthook-local.yml"),
            ro(".lefthook-local.yml"),
            ro(".lefthook"),
        ],
    ),
    group("Overcommit", "Overcommit, README, \"Configuration\"", &[ro(".overcommit.yml")]),
    group(
        "git",
        "gitmodules(5); `.gitconfig` is often included by `.git/config`",
        &[ro(".gitmodules"), ro(".gitconfig")],
    ),
    // Other version control
    // With `shared` among the requirements, `sharedpath` leads to settings elsewhere.
    group(
        "Mercurial",
        "hgrc(5): hooks, aliases, extensions; `hg help internals.requirements`",
        &[ro(".hg/hgrc"), ro(".hg/hgrc-not-shared"), ro(".hg/requires"), ro(".hg/sharedpath")],
    ),
    group(
        "Jujutsu",
        "jj, \"Config files\": aliases, editors, diff tools of the repository",
        &[ro(".jj/repo/config.toml"), ro(".jj/workspace-config.toml")],
    ),
    group(
        "Sapling",
        "Sapling, `sl help config`: hooks, aliases, extensions; in a git repository `.git/sl`",
        &[ro(".sl/config"), ro(".sl/requires"), ro(".sl/sharedpath"), ro(".git/sl/config")],
    ),
    // Agents. `CLAUDE.md` is text that the project keeps and the agent edits; it runs nothing.
    group("several agents", "Model Context Protocol: servers of the project", &[ro(".mcp.json")]),
    group(
        "Claude Code",
        "Claude Code, \"Settings\", \"Hooks\", \"Slash commands\", \"Subagents\", \"Skills\"",
        &[
            ro(".claude/settings.json"),
            ro(".claude/settings.local.json"),
            ro(".claude/hooks"),
            ro(".claude/commands"),
            ro(".claude/agents"),
            ro(".claude/skills"),
            ro(".claude/plugins"),
            ro(".claude/workflows"),
            ro(".claude/routines"),
            ro(".claude/scheduled_tasks.json"),
            ro(".claude/launch.json"),
        ],
    ),
    group(
        "Cursor",
        "Cursor, \"Hooks\", \"MCP\", \"Rules\"",
        &[ro(".cursor/").in_use(&["~/.cursor", "~/.config/Cursor", "~/.cursor-server"])],
    ),
    group("Codex", "Codex, \"Config basics\": `.codex/config.toml` of a project", &[ro(".codex")]),
    group(
        "Kimi Code CLI",
        "Kimi Code CLI, \"Model Context Protocol\": servers of the project start with a session",
        &[ro(".kimi-code")],
    ),
    group("several agents", "Agent Skills: `.agents/skills`", &[ro(".agents")]),
    group("Gemini CLI", "Gemini CLI, \"Configuration\": project settings", &[ro(".gemini")]),
    group(
        "Copilot CLI",
        "GitHub Copilot, \"Using hooks\", \"Adding MCP servers\"",
        &[ro(".github/hooks"), ro(".github/mcp.json"), ro(".copilot")],
    ),
    group("Roo Code", "Roo Code, \"Using MCP\": `.roo/mcp.json`", &[ro(".roo/mcp.json")]),
    group("Kilo Code", "Kilo Code, \"Using MCP\", \"Workflows\"", &[ro(".kilocode"), ro(".kilo")]),
    group("Antigravity", "Antigravity, \"Hooks\", \"Skills\": the older name of `.agents`", &[ro(".agent")]),
    group("Factory", "Factory, \"MCP\", \"Hooks\", \"Custom droids\"", &[ro(".factory")]),
    group("Junie", "JetBrains Junie, \"MCP\", \"Guidelines\"", &[ro(".junie")]),
    group("Amazon Q", "Amazon Q Developer CLI, \"MCP configuration\", \"Custom agents\"", &[ro(".amazonq")]),
    group("Trae", "Trae, \"MCP\", \"Rules\"", &[ro(".trae")]),
    group("Continue", "Continue, \"Configuration\": MCP servers of the workspace", &[ro(".continue")]),
    group("Windsurf", "Windsurf, \"Workflows\", \"Hooks\"", &[ro(".windsurf")]),
    group("Mistral Vibe", "Mistral Vibe, \"Configuration\": MCP servers, tools", &[ro(".vibe")]),
    group("Grok CLI", "Grok CLI, README, \"Project settings\"", &[ro(".grok")]),
    group("iFlow CLI", "iFlow CLI, \"Configuration\": project settings", &[ro(".iflow")]),
    group("CodeBuddy", "CodeBuddy Code, \"Settings\": hooks, MCP servers", &[ro(".codebuddy")]),
    group("Auggie", "Augment, \"Settings\": MCP servers, rules, commands", &[ro(".augment")]),
    group("Qwen Code", "Qwen Code, \"Configuration\": project settings", &[ro(".qwen")]),
    group("Kiro", "Kiro, \"Hooks\", \"MCP\", \"Steering\"", &[ro(".kiro")]),
    group(
        "Crush",
        "Crush, README, \"Configuration\": MCP and language servers",
        &[ro("crush.json"), ro(".crush.json")],
    ),
    // `.opencode` itself stays writable: opencode keeps its plans there, beside its plugins.
    group(
        "opencode",
        "opencode, \"Config\", \"Plugins\", \"Commands\", \"Agents\", \"Custom Tools\", \"Skills\"",
        &[
            ro("opencode.json"),
            ro("opencode.jsonc"),
            ro(".opencode/opencode.json"),
            ro(".opencode/opencode.jsonc"),
            ro(".opencode/package.json"),
            ro(".opencode/node_modules"),
            ro(".opencode/plugin"),
            ro(".opencode/plugins"),
            ro(".opencode/command"),
            ro(".opencode/commands"),
            ro(".opencode/agent"),
            ro(".opencode/agents"),
            ro(".opencode/tool"),
            ro(".opencode/tools"),
            ro(".opencode/skill"),
            ro(".opencode/skills"),
        ],
    ),
    group(
        "pi",
        "pi, README, \"Settings\", \"Extensions\", \"Skills\", \"Packages\"",
        &[
            ro(".pi/settings.json"),
            ro(".pi/extensions"),
            ro(".pi/skills"),
            ro(".pi/prompts"),
            ro(".pi/npm"),
            ro(".pi/git"),
            ro(".pi/SYSTEM.md"),
        ],
    ),
    group("Amp", "Amp, \"Owner's Manual\": workspace settings", &[ro(".amp")]),
    group("Goose", "Goose, \"Recipes\"", &[ro(".goose/recipes")]),
    group(
        "aider",
        "aider, \"YAML config file\": lint-cmd, test-cmd",
        &[ro(".aider.conf.yml"), ro(".aider.model.settings.yml")],
    ),
    // The home is read-only by `@base`. These stay read-only when a rule opens the home or a part
    // of it.
    group(
        "bash",
        "bash(1), INVOCATION and FILES",
        &[
            ro("~/.bashrc"),
            ro("~/.bash_profile"),
            ro("~/.bash_login"),
            ro("~/.bash_logout"),
            ro("~/.bash_aliases"),
            ro("~/.profile"),
            ro("~/.inputrc"),
        ],
    ),
    group(
        "zsh",
        "zsh(1), STARTUP/SHUTDOWN FILES",
        &[
            ro("~/.zshrc"),
            ro("~/.zshenv"),
            ro("~/.zprofile"),
            ro("~/.zlogin"),
            ro("~/.zlogout"),
            ro("~/.oh-my-zsh"),
            ro("~/.config/zsh"),
        ],
    ),
    group("zsh", "zshcompsys(1), compinit: the dump file is sourced", &[ro("~/.zcompdump*")]),
    group(
        "fish",
        "fish(1), \"Configuration files\"",
        &[
            ro("~/.config/fish"),
            ro("~/.local/share/fish/generated_completions"),
            ro("~/.local/share/fish/vendor_completions.d"),
            ro("~/.local/share/fish/vendor_conf.d"),
        ],
    ),
    group(
        "direnv, mise",
        "direnv(1), FILES; mise, \"Configuration\"",
        &[ro("~/.direnvrc"), ro("~/.config/direnv"), ro("~/.local/share/direnv"), ro("~/.config/mise")],
    ),
    group("tmux", "tmux(1), FILES", &[ro("~/.tmux.conf"), ro("~/.config/tmux")]),
    group(
        "all",
        "file-hierarchy(7), `~/.local/bin`: programs on PATH, and those that stand behind them",
        &[ro("~/bin"), ro("~/.local/bin"), ro("~/.local/lib")],
    ),
    group(
        "Claude Code, Cursor",
        "their native installers keep the program there",
        &[ro("~/.local/share/claude"), ro("~/.local/share/cursor-agent")],
    ),
    group(
        "pnpm, nvm, pyenv",
        "pnpm, globalDir; nvm, README; pyenv, README",
        &[ro("~/.local/share/pnpm/global"), ro("~/.nvm"), ro("~/.pyenv")],
    ),
    group("Docker", "Docker, \"CLI plugins\"", &[ro("~/.docker/cli-plugins")]),
    group(
        "systemd",
        "systemd.unit(5), environment.d(5)",
        &[ro("~/.config/systemd"), ro("~/.config/environment.d"), ro("~/.local/share/systemd")],
    ),
    group(
        "desktops",
        "Desktop Application Autostart Specification, Desktop Entry Specification",
        &[ro("~/.config/autostart"), ro("~/.local/share/applications")],
    ),
    group(
        "sessions",
        "pam_env(8); Xsession(5), FILES",
        &[ro("~/.pam_environment"), ro("~/.xprofile"), ro("~/.xsession"), ro("~/.xsessionrc"), ro("~/.xinitrc")],
    ),
    group("git", "git-config(1), FILES", &[ro("~/.gitconfig"), ro("~/.config/git")]),
    group("lazygit", "lazygit, Config.md: custom commands", &[ro("~/.config/lazygit")]),
    group(
        "Mercurial, Jujutsu, Sapling",
        "hgrc(5); jj, \"Config files\"; Sapling, `sl help config`",
        &[ro("~/.hgrc"), ro("~/.config/hg"), ro("~/.config/jj"), ro("~/.config/sapling")],
    ),
    group(
        "npm, Yarn, Bun",
        "npmrc(5); Yarn, \"Settings (.yarnrc.yml)\"; Bun, bunfig.toml",
        &[ro("~/.npmrc"), ro("~/.yarnrc"), ro("~/.yarnrc.yml"), ro("~/.bunfig.toml")],
    ),
    group("pip, uv", "pip, \"Configuration\"; uv, \"Configuration files\"", &[ro("~/.config/pip"), ro("~/.config/uv")]),
    group("curl, Wget", "curl(1), --config; Wget manual, \"Wgetrc Location\"", &[ro("~/.curlrc"), ro("~/.wgetrc")]),
    group("GDB, LLDB", "gdb(1), FILES; lldb(1), CONFIGURATION FILES", &[ro("~/.gdbinit"), ro("~/.lldbinit")]),
    group("R", "R, `?Startup`", &[ro("~/.Rprofile"), ro("~/.Renviron")]),
    group(
        "Vim, Neovim",
        "Vim, `:help initialization`; Neovim, `:help standard-path`",
        &[ro("~/.vimrc"), ro("~/.vim"), ro("~/.config/nvim"), ro("~/.local/share/nvim")],
    ),
    group("Emacs", "GNU Emacs Manual, \"Init File\"", &[ro("~/.emacs"), ro("~/.emacs.d"), ro("~/.config/emacs")]),
    group("Helix", "Helix, \"Configuration\"", &[ro("~/.config/helix")]),
    group(
        "VS Code",
        "VS Code, \"User and workspace settings\": settings, tasks, extensions",
        &[
            ro("~/.config/Code/User"),
            ro("~/.config/Cursor/User"),
            ro("~/.vscode"),
            ro("~/.vscode-server"),
            ro("~/.cursor-server"),
        ],
    ),
    group("Zed", "Zed, \"Configuring Zed\"", &[ro("~/.config/zed")]),
];
