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
        &[ro(".vscode/").with_links().in_use(VS_CODE)],
    ),
    group("VS Code", "VS Code, \"Multi-root Workspaces\": settings and tasks", &[ro("*.code-workspace")]),
    group(
        "JetBrains IDEs",
        "IntelliJ IDEA, \"Startup tasks\", \"File watchers\"",
        &[ro(".idea/").with_links().in_use(JETBRAINS), ro(".fleet").with_links()],
    ),
    group(
        "Zed",
        "Zed, \"Configuring Zed\": project settings name language servers",
        &[ro(".zed/").with_links().in_use(&["~/.config/zed", "~/.local/share/zed", "~/.var/app/dev.zed.Zed"])],
    ),
    group(
        "Helix",
        "Helix, \"Languages\": `.helix/languages.toml` names language servers",
        &[ro(".helix").with_links()],
    ),
    group(
        "Dev Containers",
        "the Dev Container specification: lifecycle scripts",
        &[ro(".devcontainer").with_links(), ro(".devcontainer.json")],
    ),
    group(
        "Vim, Neovim",
        "Vim and Neovim, `:help exrc`; vim-localvimrc",
        &[ro(".exrc"), ro(".vimrc"), ro(".nvimrc"), ro(".nvim.lua"), ro(".lvimrc")],
    ),
    group("Lite XL", "Lite XL, \"Configuration\", \"Project Module\": run at the start", &[ro(".lite_project.lua")]),
    group(
        "Eclipse",
        "Eclipse, \"Project description file\": builders that start external tools",
        &[ro(".project"), ro(".externalToolBuilders").with_links()],
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
    group("Byebug", "Byebug, GUIDE.md: run in the working directory", &[ro(".byebugrc")]),
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
            ro("mise").with_links(),
            ro(".mise").with_links(),
            ro(".config/mise.toml"),
            ro(".config/mise.*"),
            ro(".config/mise").with_links(),
            ro(".miserc.toml"),
        ],
    ),
    // Git: hooks kept in the project, and programs that run them; where submodules come from
    group(
        "husky, core.hooksPath",
        "husky, \"How To\"; git-config(1), core.hooksPath",
        &[ro(".husky").with_links(), ro(".githooks").with_links(), ro(".git-hooks").with_links()],
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
    group("prek", "prek, \"Configuration\": taken before `.pre-commit-config.yaml`", &[ro("prek.toml")]),
    group(
        "hk",
        "hk, \"Configuration\": the first of these files",
        &[ro("hk.pkl"), ro("hk.local.pkl"), ro(".config/hk.pkl"), ro(".config/hk.local.pkl")],
    ),
    group("CaptainHook", "CaptainHook, \"Configuration\"", &[ro("captainhook.json")]),
    group(
        "Lefthook",
        "Lefthook, \"Config file name\"; \"source_dir_local\"",
        &[
            ro("lefthook.yml"),
            ro("lefthook.yaml"),
            ro(".lefthook.yml"),
            ro(".lefthook.yaml"),
            ro("lefthook-local.yml"),
            ro(".lefthook-local.yml"),
            ro("lefthook.*"),
            ro(".lefthook.*"),
            ro("lefthook-local.*"),
            ro(".lefthook-local.*"),
            ro(".config/lefthook*"),
            ro(".lefthook").with_links(),
            ro(".lefthook-local").with_links(),
        ],
    ),
    group("Overcommit", "Overcommit, README, \"Configuration\"", &[ro(".overcommit.yml")]),
    group(
        "git",
        "gitmodules(5); `.gitconfig` is often included by `.git/config`",
        &[ro(".gitmodules"), ro(".gitconfig")],
    ),
    // Other version control (If `requires` contains `shared`, `sharedpath` names the folder with
    // the settings.)
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
    // In another workspace it is a file that names the repository.
    group("Jujutsu", "jj, \"Working copy\", \"Workspaces\"", &[ro(".jj/repo").only_missing()]),
    group("Darcs", "Darcs manual, \"Defaults\": hooks (`posthook`) of its commands", &[ro("_darcs/prefs/defaults")]),
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
            ro(".claude/hooks").with_links(),
            ro(".claude/commands").with_links(),
            ro(".claude/agents").with_links(),
            ro(".claude/skills").with_links(),
            ro(".claude/plugins").with_links(),
            ro(".claude/workflows").with_links(),
            ro(".claude/routines").with_links(),
            ro(".claude/scheduled_tasks.json"),
            ro(".claude/launch.json"),
        ],
    ),
    group(
        "Cursor",
        "Cursor, \"Hooks\", \"MCP\", \"Rules\"",
        &[ro(".cursor/").with_links().in_use(&["~/.cursor", "~/.config/Cursor", "~/.cursor-server"])],
    ),
    group("Codex", "Codex, \"Config basics\": `.codex/config.toml` of a project", &[ro(".codex").with_links()]),
    group(
        "Kimi Code CLI",
        "Kimi Code CLI, \"Model Context Protocol\": servers of the project start with a session",
        &[ro(".kimi-code").with_links()],
    ),
    group("several agents", "Agent Skills: `.agents/skills`", &[ro(".agents").with_links()]),
    group("Gemini CLI", "Gemini CLI, \"Configuration\": project settings", &[ro(".gemini").with_links()]),
    group(
        "Copilot CLI",
        "GitHub Copilot, \"Using hooks\", \"Adding MCP servers\", \"About CLI extensions\", \"LSP servers\"",
        &[
            ro(".github/hooks").with_links(),
            ro(".github/mcp.json"),
            ro(".github/extensions").with_links(),
            ro(".github/lsp.json"),
            ro("lsp.json"),
            ro(".github/copilot/settings.json"),
            ro(".github/copilot/settings.local.json"),
            ro(".copilot").with_links(),
        ],
    ),
    group("Roo Code", "Roo Code, \"Using MCP\": `.roo/mcp.json`", &[ro(".roo/mcp.json")]),
    group(
        "Kilo Code",
        "Kilo Code, \"Using MCP\", \"Workflows\"",
        &[ro(".kilocode").with_links(), ro(".kilo").with_links()],
    ),
    group(
        "Antigravity",
        "Antigravity, \"Hooks\", \"Skills\": the older name of `.agents`",
        &[ro(".agent").with_links()],
    ),
    group("Factory", "Factory, \"MCP\", \"Hooks\", \"Custom droids\"", &[ro(".factory").with_links()]),
    group("Junie", "JetBrains Junie, \"MCP\", \"Guidelines\"", &[ro(".junie").with_links()]),
    group(
        "Amazon Q",
        "Amazon Q Developer CLI, \"MCP configuration\", \"Custom agents\"",
        &[ro(".amazonq").with_links()],
    ),
    group("Trae", "Trae, \"MCP\", \"Rules\"", &[ro(".trae").with_links()]),
    group("Continue", "Continue, \"Configuration\": MCP servers of the workspace", &[ro(".continue").with_links()]),
    group("Windsurf", "Windsurf, \"Workflows\", \"Hooks\"", &[ro(".windsurf").with_links()]),
    group("Mistral Vibe", "Mistral Vibe, \"Configuration\": MCP servers, tools", &[ro(".vibe").with_links()]),
    group("Grok CLI", "Grok CLI, README, \"Project settings\"", &[ro(".grok").with_links()]),
    group("iFlow CLI", "iFlow CLI, \"Configuration\": project settings", &[ro(".iflow").with_links()]),
    group("CodeBuddy", "CodeBuddy Code, \"Settings\": hooks, MCP servers", &[ro(".codebuddy").with_links()]),
    group("Auggie", "Augment, \"Settings\": MCP servers, rules, commands", &[ro(".augment").with_links()]),
    group("Qwen Code", "Qwen Code, \"Configuration\": project settings", &[ro(".qwen").with_links()]),
    group("Kiro", "Kiro, \"Hooks\", \"MCP\", \"Steering\"", &[ro(".kiro").with_links()]),
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
            ro(".opencode/plugin").with_links(),
            ro(".opencode/plugins").with_links(),
            ro(".opencode/command").with_links(),
            ro(".opencode/commands").with_links(),
            ro(".opencode/agent").with_links(),
            ro(".opencode/agents").with_links(),
            ro(".opencode/tool").with_links(),
            ro(".opencode/tools").with_links(),
            ro(".opencode/skill").with_links(),
            ro(".opencode/skills").with_links(),
        ],
    ),
    group(
        "pi",
        "pi, README, \"Settings\", \"Extensions\", \"Skills\", \"Packages\"",
        &[
            ro(".pi/settings.json"),
            ro(".pi/extensions").with_links(),
            ro(".pi/skills").with_links(),
            ro(".pi/prompts").with_links(),
            ro(".pi/npm"),
            ro(".pi/git"),
            ro(".pi/SYSTEM.md"),
        ],
    ),
    group("Amp", "Amp, \"Owner's Manual\": workspace settings", &[ro(".amp").with_links()]),
    group("Goose", "Goose, \"Recipes\"", &[ro(".goose/recipes").with_links()]),
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
            ro("~/.oh-my-zsh/custom").with_links(),
            ro("~/.config/zsh").with_links(),
        ],
    ),
    group("zsh", "zshcompsys(1), compinit: the dump file is sourced", &[ro("~/.zcompdump*")]),
    group(
        "fish",
        "fish(1), \"Configuration files\"",
        &[
            ro("~/.config/fish").with_links(),
            ro("~/.local/share/fish/generated_completions"),
            ro("~/.local/share/fish/vendor_completions.d"),
            ro("~/.local/share/fish/vendor_conf.d"),
        ],
    ),
    group(
        "direnv, mise",
        "direnv(1), FILES; mise, \"Configuration\"",
        &[
            ro("~/.direnvrc"),
            ro("~/.config/direnv").with_links(),
            ro("~/.local/share/direnv"),
            ro("~/.config/mise").with_links(),
        ],
    ),
    group("tmux", "tmux(1), FILES", &[ro("~/.tmux.conf"), ro("~/.config/tmux").with_links()]),
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
        &[
            ro("~/.config/systemd").with_links(),
            ro("~/.config/environment.d").with_links(),
            ro("~/.local/share/systemd").with_links(),
        ],
    ),
    group(
        "desktops",
        "Desktop Application Autostart Specification, Desktop Entry Specification",
        &[ro("~/.config/autostart").with_links(), ro("~/.local/share/applications").with_links()],
    ),
    group(
        "sessions",
        "pam_env(8); Xsession(5), FILES",
        &[ro("~/.pam_environment"), ro("~/.xprofile"), ro("~/.xsession"), ro("~/.xsessionrc"), ro("~/.xinitrc")],
    ),
    group("git", "git-config(1), FILES", &[ro("~/.gitconfig"), ro("~/.config/git").with_links()]),
    group("lazygit", "lazygit, Config.md: custom commands", &[ro("~/.config/lazygit").with_links()]),
    group(
        "Mercurial, Jujutsu, Sapling",
        "hgrc(5); jj, \"Config files\"; Sapling, `sl help config`",
        &[
            ro("~/.hgrc"),
            ro("~/.config/hg").with_links(),
            ro("~/.config/jj").with_links(),
            ro("~/.config/sapling").with_links(),
        ],
    ),
    group(
        "npm, Yarn, Bun",
        "npmrc(5); Yarn, \"Settings (.yarnrc.yml)\"; Bun, bunfig.toml",
        &[ro("~/.npmrc"), ro("~/.yarnrc"), ro("~/.yarnrc.yml"), ro("~/.bunfig.toml")],
    ),
    group(
        "pip, uv",
        "pip, \"Configuration\"; uv, \"Configuration files\"",
        &[ro("~/.config/pip").with_links(), ro("~/.config/uv").with_links()],
    ),
    group("curl, Wget", "curl(1), --config; Wget manual, \"Wgetrc Location\"", &[ro("~/.curlrc"), ro("~/.wgetrc")]),
    group("GDB, LLDB", "gdb(1), FILES; lldb(1), CONFIGURATION FILES", &[ro("~/.gdbinit"), ro("~/.lldbinit")]),
    group("R", "R, `?Startup`", &[ro("~/.Rprofile"), ro("~/.Renviron")]),
    group(
        "Vim, Neovim",
        "Vim, `:help initialization`; Neovim, `:help standard-path`",
        &[ro("~/.vimrc"), ro("~/.vim").with_links(), ro("~/.config/nvim").with_links(), ro("~/.local/share/nvim")],
    ),
    group(
        "Emacs",
        "GNU Emacs Manual, \"Init File\"",
        &[ro("~/.emacs"), ro("~/.emacs.d").with_links(), ro("~/.config/emacs").with_links()],
    ),
    group("Helix", "Helix, \"Configuration\"", &[ro("~/.config/helix").with_links()]),
    group(
        "VS Code",
        "VS Code, \"User and workspace settings\": settings, tasks, extensions",
        &[
            ro("~/.config/Code/User").with_links(),
            ro("~/.config/Cursor/User").with_links(),
            ro("~/.vscode"),
            ro("~/.vscode-server"),
            ro("~/.cursor-server"),
        ],
    ),
    group("Zed", "Zed, \"Configuring Zed\"", &[ro("~/.config/zed").with_links()]),
];
