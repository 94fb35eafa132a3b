//! `@agents`.
//!
//! An agent that starts outside the sandbox tomorrow obeys the hooks, MCP servers, plugins and
//! settings that it finds. If an agent keeps its state in a folder of its own, only that folder is
//! writable. Claude Code, Codex, Gemini CLI, pi and Cursor keep state and settings in one folder.
//! That folder is writable, with read-only places in it. Some paths are missing when the sandbox
//! starts. Folders from which the agent would load code or commands are blocked, and so are files
//! that name such code. A folder to which the agent downloads programs is not blocked: inside, it
//! is an empty folder that is gone after the run. A missing path is moved aside when the run ends
//! if a placeholder would disturb the agent, or if only few users have the path: each block is a
//! line of the printed command. Other paths are reported when the command creates them. In a new
//! home an agent could not make its folder, and would stop or save nothing. So agent-sandbox makes
//! the folders of the agents on PATH.
//!
//! Two kinds of files are reported, not blocked: files that the agent writes at its first start,
//! and instructions. Instructions run nothing, and `@harness/…` needs their paths. Files that no
//! agent obeys, and colour settings, are left out.
//!
//! Claude Code 2.1, Codex 0.169 and Gemini CLI 0.61 were tried with their blocked paths, and work
//! (`scripts/test-agents`). pi 0.73 starts and asks its model. The blocked paths of Cursor and
//! Kimi were not tried. The placeholder for a file that an agent parses is valid for that agent.

use super::VariableEffect::Keep;
use super::agent_files::AGENT_FILES;
use super::private::{CLAUDE_SETTINGS, CODEX_CONFIG, GEMINI_SETTINGS, GEMINI_TRUSTED_FOLDERS, PI_TRUST};
use super::{AgentRepository, BuiltinPreset, PresetEntry, exclude, group, ro, rw, variables};
use crate::policy::Refinements;

/// The state file of Claude Code. It mixes state (projects, sessions, the account) with MCP
/// servers, so it can be neither split nor made read-only without losing state. Claude Code 1.0
/// writes the file in place. 2.1 makes a new file beside it and renames the new file. The read-only
/// home refuses this, and 2.1 then goes on without saving. In the configuration folder 2.1 can make
/// the new file; the rename over the mount fails with EBUSY, and then 2.1 writes in place.
const CLAUDE_JSON: PresetEntry = PresetEntry {
    refinements: Refinements {
        create_for: Some("claude"),
        content: Some("{}\n"),
        second_place: Some("~/.claude/.claude.json"),
        second_place_var: Some("CLAUDE_CONFIG_DIR"),
        ..Refinements::NONE
    },
    ..rw("~/.claude.json")
};

const REPOSITORIES: &[AgentRepository] = &[
    AgentRepository {
        tool: "opencode",
        source: "opencode, \"Config\", `snapshot`: it adds the project to a repository before each change",
        folder: "~/.local/share/opencode/snapshot",
        depth: 3,
    },
    AgentRepository {
        tool: "opencode",
        source: "opencode: clones that it made",
        folder: "~/.local/share/opencode/repos",
        depth: 3,
    },
    AgentRepository {
        tool: "Gemini CLI",
        source: "Gemini CLI, \"Checkpointing\": it commits the project to a repository",
        folder: "~/.gemini/history",
        depth: 3,
    },
    AgentRepository {
        tool: "Codex",
        source: "Codex, \"Worktrees\": one folder for each task, with a worktree in it",
        folder: "~/.codex/worktrees",
        depth: 2,
    },
    AgentRepository {
        tool: "Cursor",
        source: "Cursor, \"Worktrees\": one folder for each project, with its worktrees in it",
        folder: "~/.cursor/worktrees",
        depth: 2,
    },
    AgentRepository {
        tool: "opencode",
        source: "opencode, `worktree/index.ts`: one folder for each project, with its worktrees in it",
        folder: "~/.local/share/opencode/worktree",
        depth: 2,
    },
    AgentRepository {
        tool: "Claude Code",
        source: "Claude Code, \"Common workflows\", worktrees: below `.claude` of a project, which may be the home",
        folder: "~/.claude/worktrees",
        depth: 2,
    },
];

pub(super) const AGENTS: BuiltinPreset = BuiltinPreset {
    groups: &[
        group(
            "Claude Code",
            "Claude Code, \"Settings\" and \"Data usage\": sessions, history, todos",
            &[rw("~/.claude").create_for("claude"), CLAUDE_JSON, rw("~/.local/state/claude")],
        ),
        group(
            "Claude Code",
            "Claude Code, \"Settings\": hooks, a status line, helpers that print keys",
            &[
                ro("~/.claude/settings.json").blocked().private(&CLAUDE_SETTINGS),
                ro("~/.claude/settings.local.json").blocked(),
                ro("~/.claude/remote-settings.json").moved_aside(),
                ro("~/.claude/statusline*"),
            ],
        ),
        group(
            "Claude Code",
            "Claude Code, \"Hooks\": settings name the scripts",
            &[ro("~/.claude/hooks").with_links().moved_aside()],
        ),
        group("Claude Code", "Claude Code, \"Plugins\"", &[ro("~/.claude/plugins/").with_links().blocked()]),
        group("Claude Code", "Claude Code, \"Skills\"", &[ro("~/.claude/skills/").with_links().blocked()]),
        group(
            "Claude Code",
            "Claude Code, \"Slash commands\": they may run a shell",
            &[ro("~/.claude/commands/").with_links().blocked()],
        ),
        group(
            "Claude Code",
            "Claude Code, \"Subagents\": with hooks",
            &[ro("~/.claude/agents/").with_links().blocked()],
        ),
        // Each session makes its own snapshot and variables. If the folders are read-only, Claude
        // Code runs no commands. `claude --resume` outside must not source a file that a command
        // inside wrote.
        group(
            "Claude Code",
            "Claude Code: the Bash tool sources the snapshot and the variables of its session",
            &[
                exclude("~/.claude/shell-snapshots/").blocked().fresh(),
                exclude("~/.claude/session-env/").blocked().fresh(),
            ],
        ),
        group(
            "Claude Code",
            "Claude Code, \"Chrome\": the browser runs the native messaging host in `chrome`",
            &[ro("~/.claude/chrome").moved_aside()],
        ),
        group(
            "several agents",
            "settings of the agents: hooks, status lines, MCP servers, notifications, key helpers",
            &[ro("$AGENT_PROGRAMS")],
        ),
        group(
            "Claude Code",
            "Claude Code, \"Workflows\", \"Routines\": scripts, and work that is done unasked",
            &[
                ro("~/.claude/workflows").with_links().moved_aside(),
                ro("~/.claude/routines").with_links().moved_aside(),
            ],
        ),
        group(
            "Claude Code",
            "Claude Code, \"Memory\", \"Output styles\", \"Keybindings\": instructions",
            &[
                ro("~/.claude/output-styles").with_links(),
                ro("~/.claude/rules").with_links(),
                ro("~/.claude/CLAUDE.md"),
                ro("~/.claude/keybindings.json"),
            ],
        ),
        group(
            "Claude Code",
            "Claude Code: `local` holds the program of older installers",
            &[ro("~/.claude/local").moved_aside()],
        ),
        group(
            "Claude Code",
            "Claude Code: jobs that a daemon outside picks up",
            &[
                ro("~/.claude/scheduled_tasks.json").blocked(),
                ro("~/.claude/daemon.json").moved_aside(),
                // A daemon inside keeps its state there.
                ro("~/.claude/daemon"),
                ro("~/.claude/jobs/").blocked(),
            ],
        ),
        group("Codex", "Codex, \"Config basics\": CODEX_HOME", &[rw("~/.codex").create_for("codex")]),
        group(
            "Codex",
            "Codex, \"Configuration Reference\": MCP servers, notify, profiles",
            &[
                ro("~/.codex/config.toml").blocked().private(&CODEX_CONFIG),
                ro("~/.codex/*.config.toml"),
                ro("~/.codex/managed_config.toml"),
                ro("~/.codex/requirements.toml"),
                ro("~/.codex/.env").blocked(),
            ],
        ),
        group(
            "Codex",
            "Codex, \"Hooks\": hooks.json and config.toml name the scripts",
            &[ro("~/.codex/hooks.json").blocked(), ro("~/.codex/hooks").with_links().moved_aside()],
        ),
        group(
            "Codex",
            "Codex, environment_toml.rs: programs that run its commands",
            &[ro("~/.codex/environments.toml").blocked()],
        ),
        group(
            "Codex",
            "Codex app, prompt, \"Automations\": `automation.toml` is work that is done unasked",
            &[ro("~/.codex/automations").moved_aside()],
        ),
        group(
            "Codex",
            "Codex, \"Rules\": commands that need no question",
            &[ro("~/.codex/rules/").with_links().blocked()],
        ),
        group("Codex", "Codex, \"Subagents\": with MCP servers", &[ro("~/.codex/agents/").with_links().blocked()]),
        group("Codex", "Codex, \"Custom Prompts\"", &[ro("~/.codex/prompts").with_links().moved_aside()]),
        // Codex fills `skills` at each start, and prints four lines of errors if it cannot.
        group(
            "Codex",
            "Codex, \"Agent Skills\"",
            &[ro("~/.codex/skills").with_links(), exclude("~/.codex/skills/").fresh_if_missing()],
        ),
        group(
            "Codex",
            "Codex, \"Plugins\": `.tmp` holds the marketplaces that it has fetched",
            &[ro("~/.codex/plugins/").with_links().blocked(), exclude("~/.codex/.tmp/").blocked().fresh()],
        ),
        // A session outside must not run a file that a command inside wrote.
        group(
            "Codex",
            "Codex: commands source the snapshot of their session; `tmp/arg0` is on their PATH",
            &[exclude("~/.codex/shell_snapshots").fresh(), exclude("~/.codex/tmp").fresh()],
        ),
        group(
            "Codex",
            "Codex, \"AGENTS.md\": instructions",
            &[ro("~/.codex/AGENTS.md"), ro("~/.codex/AGENTS.override.md")],
        ),
        // Codex 0.169 would install in `packages` the server to which its terminal interface
        // talks. A key of the private `config.toml` prevents that.
        group(
            "Codex",
            "Codex: the standalone installer keeps the program in `packages`",
            &[ro("~/.codex/bin").moved_aside(), ro("~/.codex/packages/").blocked()],
        ),
        group("pi", "pi, README, \"Sessions\"", &[rw("~/.pi"), rw("~/.pi/agent").create_for("pi")]),
        group(
            "pi",
            "pi, README, \"Settings\" and \"Custom models\": a command may print a key",
            &[ro("~/.pi/agent/settings.json").blocked(), ro("~/.pi/agent/models.json").blocked()],
        ),
        group("pi", "pi, \"Configuration\", \"Agent directory\": MCP servers", &[ro("~/.pi/agent/mcp.json").blocked()]),
        group(
            "pi",
            "pi, security.md, \"Project Trust\": folders whose extensions it runs",
            &[ro("~/.pi/agent/trust.json").blocked().private(&PI_TRUST)],
        ),
        group(
            "pi",
            "pi, README, \"Extensions\", \"Skills\", \"Packages\": code from npm and git",
            &[
                ro("~/.pi/agent/extensions/").with_links().blocked(),
                ro("~/.pi/agent/skills/").with_links().blocked(),
                ro("~/.pi/agent/tools/").with_links().blocked(),
                ro("~/.pi/agent/npm/").blocked(),
                ro("~/.pi/agent/git/").blocked(),
                ro("~/.pi/agent/prompts/").with_links().blocked(),
            ],
        ),
        group("pi", "pi: programs that it downloads at its first start", &[ro("~/.pi/agent/bin/").blocked()]),
        group(
            "pi",
            "pi, README, \"Context files\"; \"Configuration\", \"Agent directory\"",
            &[
                ro("~/.pi/agent/AGENTS*.md"),
                ro("~/.pi/agent/CLAUDE.md"),
                ro("~/.pi/agent/SYSTEM.md"),
                ro("~/.pi/agent/APPEND_SYSTEM.md"),
            ],
        ),
        group(
            "opencode",
            "opencode, \"Troubleshooting\": storage and logs",
            &[
                rw("~/.local/share/opencode").create_for("opencode"),
                rw("~/.local/state/opencode").create_for("opencode"),
            ],
        ),
        group(
            "opencode",
            "opencode, \"Config\", \"Plugins\", \"Commands\"",
            &[
                ro("~/.config/opencode").with_links(),
                // The agent stops if it cannot write this file, whose content only the agent uses.
                ro("~/.config/opencode/.gitignore")
                    .create_for("opencode")
                    .content("node_modules\npackage.json\npackage-lock.json\nbun.lock\n.gitignore"),
                ro("~/.opencode").with_links(),
            ],
        ),
        // Without `rg` on PATH, opencode downloads it at the first search, and searches fail if it
        // cannot. Providers that are not built in are downloaded as packages, too. A session
        // outside must not run a file that a command inside put there.
        group(
            "opencode",
            "opencode, \"LSP Servers\" and \"Plugins\": it runs again what it downloaded",
            &[
                ro("~/.local/share/opencode/bin"),
                ro("~/.cache/opencode/bin").moved_aside(),
                ro("~/.cache/opencode/node_modules").moved_aside(),
                ro("~/.cache/opencode/packages").moved_aside(),
                exclude("~/.local/share/opencode/bin/").fresh_in_parent(),
                exclude("~/.cache/opencode/bin/").fresh_in_parent(),
                exclude("~/.cache/opencode/node_modules/").fresh_in_parent(),
                exclude("~/.cache/opencode/packages/").fresh_in_parent(),
                exclude("~/.cache/opencode/").fresh_if_missing().in_use(&[
                    "~/.local/share/opencode",
                    "~/.local/state/opencode",
                    "~/.config/opencode",
                    "~/.opencode",
                ]),
            ],
        ),
        group("Gemini CLI", "Gemini CLI, \"Configuration\": `~/.gemini`", &[rw("~/.gemini").create_for("gemini")]),
        group(
            "Gemini CLI",
            "Gemini CLI, \"Configuration\": MCP servers, hooks, variables",
            &[
                ro("~/.gemini/settings.json").blocked().private(&GEMINI_SETTINGS),
                // This path is not blocked, because Gemini CLI would read an empty placeholder
                // instead of `~/.env`.
                ro("~/.gemini/.env").moved_aside(),
                ro("~/.gemini/mcp-server-enablement.json"),
            ],
        ),
        group("Gemini CLI", "Gemini CLI, \"Context files\": instructions", &[ro("~/.gemini/GEMINI.md")]),
        group(
            "Antigravity",
            "Antigravity, \"MCP\", \"Hooks\", \"Plugins\", \"Skills\", \"Rules and Workflows\": shared by the editor and `agy`",
            &[
                ro("~/.gemini/config/").blocked(),
                ro("~/.gemini/antigravity/mcp_config.json").blocked_in_parent(),
                ro("~/.gemini/antigravity/hooks.json").blocked_in_parent(),
                ro("~/.gemini/antigravity/plugins/").blocked_in_parent(),
                ro("~/.gemini/antigravity/skills/").blocked_in_parent(),
                ro("~/.gemini/antigravity/global_workflows/").blocked_in_parent(),
            ],
        ),
        group(
            "Antigravity",
            "Antigravity CLI, \"Settings\": permissions, MCP servers, hooks; programs that it downloaded",
            &[
                ro("~/.gemini/antigravity-cli/settings.json").blocked_in_parent(),
                ro("~/.gemini/antigravity-cli/mcp_config.json").blocked_in_parent(),
                ro("~/.gemini/antigravity-cli/hooks.json").blocked_in_parent(),
                ro("~/.gemini/antigravity-cli/plugins/").blocked_in_parent(),
                ro("~/.gemini/antigravity-cli/skills/").blocked_in_parent(),
                ro("~/.gemini/antigravity-cli/bin/").blocked_in_parent(),
            ],
        ),
        group(
            "Gemini CLI",
            "Gemini CLI, \"Extensions\", \"Custom commands\", \"Agent Skills\", \"Hooks\"",
            &[
                ro("~/.gemini/extensions/").with_links().blocked(),
                ro("~/.gemini/commands/").with_links().blocked(),
                ro("~/.gemini/skills/").with_links().blocked(),
                ro("~/.gemini/agents/").with_links().blocked(),
                ro("~/.gemini/hooks/").with_links().blocked(),
            ],
        ),
        group(
            "Gemini CLI",
            "Gemini CLI, \"Policy engine\" and \"Trusted folders\": what needs no question",
            &[
                ro("~/.gemini/policies/").with_links().blocked(),
                ro("~/.gemini/policy_integrity.json"),
                ro("~/.gemini/extension_integrity.json"),
                ro("~/.gemini/trustedFolders.json").blocked().private(&GEMINI_TRUSTED_FOLDERS),
                ro("~/.gemini/trusted_hooks.json").blocked(),
                ro("~/.gemini/acknowledgments"),
            ],
        ),
        group("Gemini CLI", "Gemini CLI: tools that it downloaded", &[ro("~/.gemini/tmp/bin/").blocked()]),
        group("Amp", "Amp, \"Owner's Manual\": threads", &[rw("~/.local/share/amp")]),
        group(
            "Amp",
            "Amp, \"Owner's Manual\": settings and plugins; the program",
            &[ro("~/.config/amp").with_links(), ro("~/.amp").with_links()],
        ),
        // `cli-config.json` mixes the login and the model with permissions, and is repaired at
        // every start.
        group("Cursor", "Cursor, \"CLI Configuration\"", &[rw("~/.cursor"), rw("~/.config/cursor")]),
        group(
            "Cursor",
            "Cursor, \"Hooks\" and \"MCP\"",
            &[
                ro("~/.cursor/mcp.json").blocked(),
                ro("~/.cursor/hooks.json").blocked(),
                ro("~/.cursor/hooks/").with_links().blocked(),
            ],
        ),
        group(
            "Cursor",
            "Cursor, \"permissions.json reference\", \"Sandbox\"; `mcp enable`, `--trust`: what runs without a question",
            &[
                ro("~/.cursor/permissions.json").blocked(),
                ro("~/.cursor/sandbox.json").blocked(),
                ro("~/.cursor/projects/*/mcp-approvals.json"),
                ro("~/.cursor/projects/*/.workspace-trusted"),
            ],
        ),
        group(
            "Cursor",
            "Cursor, \"Commands\", \"Rules\", \"Skills\", \"Subagents\", \"Plugins\"",
            &[
                ro("~/.cursor/commands/").with_links().blocked(),
                ro("~/.cursor/rules/").with_links().blocked(),
                ro("~/.cursor/skills/").with_links().blocked(),
                ro("~/.cursor/skills-cursor").with_links(),
                ro("~/.cursor/agents/").with_links().blocked(),
                ro("~/.cursor/plugins/").with_links().blocked(),
            ],
        ),
        group(
            "Cursor",
            "Cursor: the editor shares the folder",
            &[ro("~/.cursor/extensions/").blocked(), ro("~/.cursor/argv.json")],
        ),
        group(
            "Kimi Code CLI",
            "Kimi Code CLI, \"Data locations\": sessions, the login, logs",
            &[rw("~/.kimi-code").create_for("kimi")],
        ),
        // These paths are not blocked: the first start creates the first two, and `rg` and `fd` are
        // downloaded to `bin`, which is an empty folder of the run while it is missing.
        group(
            "Kimi Code CLI",
            "Kimi Code CLI, \"Configuration files\": hooks, servers, permissions, an editor; tools that it runs",
            &[
                ro("~/.kimi-code/config.toml"),
                ro("~/.kimi-code/tui.toml"),
                ro("~/.kimi-code/bin"),
                exclude("~/.kimi-code/bin/").fresh_in_parent(),
            ],
        ),
        group(
            "Kimi Code CLI",
            "Kimi Code CLI, \"Model Context Protocol\", \"Plugins\", \"Agent Skills\", \"Agents and Sub-Agents\"",
            &[
                ro("~/.kimi-code/mcp.json").blocked(),
                ro("~/.kimi-code/plugins/").with_links().blocked(),
                ro("~/.kimi-code/skills/").with_links().blocked(),
                ro("~/.kimi-code/agents/").with_links().blocked(),
                ro("~/.kimi-code/AGENTS.md"),
            ],
        ),
        group(
            "Goose",
            "Goose, \"Configuration Files\": sessions, logs, memory",
            &[rw("~/.local/share/goose"), rw("~/.local/state/goose"), rw("~/.config/goose/memory")],
        ),
        group(
            "Goose",
            "Goose, \"Configuration Files\": extensions with their commands",
            &[
                ro("~/.config/goose/config.yaml"),
                ro("~/.config/goose/permission.yaml"),
                ro("~/.config/goose/recipes").with_links(),
            ],
        ),
        group(
            "Goose",
            "Goose, scheduler.rs: recipes that it runs at their time",
            &[ro("~/.local/share/goose/schedule.json"), ro("~/.local/share/goose/scheduled_recipes")],
        ),
        group("aider", "aider, \"Config with .env\": analytics and caches", &[rw("~/.aider")]),
        group(
            "aider",
            "aider, main.py, load_dotenv_files: read as `.env`, with options such as AIDER_TEST_CMD",
            &[ro("~/.aider/oauth-keys.env").blocked()],
        ),
        group(
            "aider",
            "aider, \"YAML config file\": lint-cmd, test-cmd",
            &[ro("~/.aider.conf.yml"), ro("~/.aider.model.settings.yml")],
        ),
        group("several agents", "Agent Skills: skills, plugins, subagents", &[ro("~/.agents").with_links()]),
    ],
    agent_files: AGENT_FILES,
    repositories: REPOSITORIES,
    variables: &[
        variables(
            Keep,
            "Claude Code",
            "Claude Code, \"Environment variables\"",
            &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_FOUNDRY_API_KEY"],
        ),
        variables(
            Keep,
            "Codex",
            "Codex, \"Authentication\" and \"Non-interactive mode\"",
            &["OPENAI_API_KEY", "CODEX_API_KEY", "AZURE_OPENAI_API_KEY"],
        ),
        variables(Keep, "Gemini CLI", "Gemini CLI, \"Authentication\"", &["GEMINI_API_KEY", "GOOGLE_API_KEY"]),
        variables(Keep, "Amp", "Amp, \"Owner's Manual\"", &["AMP_API_KEY"]),
        variables(Keep, "Cursor", "Cursor, \"CLI Authentication\"", &["CURSOR_API_KEY"]),
        variables(
            Keep,
            "opencode, pi, Goose, aider",
            "opencode, \"Providers\"; pi, \"Providers\"; Goose, \"LLM Providers\"; aider, \"API Keys\"",
            &[
                "AI_GATEWAY_API_KEY",
                "CEREBRAS_API_KEY",
                "DEEPSEEK_API_KEY",
                "FIREWORKS_API_KEY",
                "GROQ_API_KEY",
                "MISTRAL_API_KEY",
                "OPENCODE_API_KEY",
                "OPENROUTER_API_KEY",
                "TOGETHER_API_KEY",
                "XAI_API_KEY",
                "ZAI_API_KEY",
            ],
        ),
    ],
    ..BuiltinPreset::new(
        "agents",
        "coding agents keep their state, but cannot change the programs that they run on the host",
    )
};
