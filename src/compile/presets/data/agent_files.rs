//! Files by which agents on the host decide which programs they run, and for which actions they
//! need consent.
//!
//! The programs that such a file names are read-only, too (SPEC P18). A file that the agent
//! must write is also compared after the run (SPEC R3).

use super::{AgentFile, FileUse, ObeyedKey};

const fn read_only(
    tool: &'static str,
    source: &'static str,
    path: &'static str,
    except: &'static [&'static str],
) -> AgentFile {
    AgentFile { tool, source, path, used: FileUse::ReadOnly { except }, is_preferred: false }
}

const fn mixed(tool: &'static str, source: &'static str, path: &'static str, keys: &'static [ObeyedKey]) -> AgentFile {
    AgentFile { tool, source, path, used: FileUse::Mixed { keys, harmless: &[] }, is_preferred: false }
}

const fn programs(key: &'static str) -> ObeyedKey {
    ObeyedKey { key, reason: "programs that it starts", names_programs: true }
}

const fn consent(key: &'static str, reason: &'static str) -> ObeyedKey {
    ObeyedKey { key, reason, names_programs: false }
}

/// The keys of Claude Code that name programs or give consent, in a file that also holds state
/// (projects, sessions, the account).
const CLAUDE_STATE: &[ObeyedKey] = &[
    programs("mcpServers"),
    programs("hooks"),
    ObeyedKey { key: "env", reason: "variables of the programs that it starts", names_programs: true },
    ObeyedKey { key: "apiKeyHelper", reason: "a program that it starts", names_programs: true },
    consent("hasTrustDialogAccepted", "it no longer asks before it obeys the settings of a folder"),
    consent("bypassPermissionsModeAccepted", "it no longer warns before it runs everything without asking"),
    consent("skipDangerousModePermissionPrompt", "it no longer warns before it runs everything without asking"),
    consent("enableAllProjectMcpServers", "it starts every server that a project's .mcp.json names"),
    programs("projects.*.mcpServers"),
    programs("projects.*.hooks"),
    consent("projects.*.allowedTools", "it no longer asks before it uses these"),
    consent("projects.*.hasTrustDialogAccepted", "it no longer asks before it obeys the settings of this folder"),
    consent("projects.*.hasTrustDialogHooksAccepted", "it no longer asks before it runs the hooks of this folder"),
    consent("projects.*.hasClaudeMdExternalIncludesApproved", "it reads instructions outside of this folder"),
    consent("projects.*.enableAllProjectMcpServers", "it starts every server that .mcp.json names"),
    consent("projects.*.enabledMcpjsonServers", "it starts these servers of .mcp.json"),
    consent("projects.*.disabledMcpjsonServers", "it no longer refuses these servers of .mcp.json"),
];

/// Cursor adds keys with most releases, so the list names those that are harmless: the login, the
/// model, the display and caches.
const CURSOR_STATE: FileUse = FileUse::Mixed {
    keys: CURSOR_KEYS,
    harmless: &[
        "version",
        "authInfo",
        "model",
        "selectedModel",
        "modelParameters",
        "modelSelectionHistory",
        "modelSlashCommands",
        "exploreSubagentModel",
        "hasChangedDefaultModel",
        "maxMode",
        "maxModeAutoEnabled",
        "editor",
        "display",
        "notifications",
        "hints",
        "rewind",
        "suggestNextPrompt",
        "attribution",
        "runEverythingSettingsPromptStreak",
        "privacyCache",
        "serverConfigCache",
        "autoReviewAvailabilityCache",
    ],
};

const CURSOR_KEYS: &[ObeyedKey] = &[
    ObeyedKey { key: "statusLine", reason: "a program that it starts", names_programs: true },
    consent("permissions.allow", "it no longer asks before it uses these"),
    consent("permissions.deny", "it no longer refuses these"),
    consent("approvalMode", "the cases in which it asks before it runs something"),
    consent("sandbox", "the switch of its own sandbox"),
];

const CLAUDE: &str = "Claude Code";
const CLAUDE_SETTINGS: &str = "Claude Code, \"Settings\": hooks, a status line, helpers that print keys";
const OPENCODE: &str = "opencode, \"Config\": MCP and language servers, formatters, plugins";
const CURSOR_CLI: &str = "Cursor, \"CLI Configuration\"; its skills `update-cli-config` and `statusline`";

pub(super) const AGENT_FILES: &[AgentFile] = &[
    mixed(CLAUDE, "Claude Code, \"Settings\": MCP servers, trust", "~/.claude.json", CLAUDE_STATE),
    mixed(CLAUDE, "Claude Code, \"Environment variables\": CLAUDE_CONFIG_DIR", "~/.claude/.claude.json", CLAUDE_STATE),
    // Claude Code reads this file instead of `~/.claude.json` as soon as it exists, so a
    // placeholder here would take its state away.
    AgentFile {
        is_preferred: true,
        ..mixed(
            CLAUDE,
            "Claude Code, getGlobalClaudeFile: taken instead of `~/.claude.json` if it exists",
            "~/.claude/.config.json",
            CLAUDE_STATE,
        )
    },
    read_only(CLAUDE, CLAUDE_SETTINGS, "~/.claude/settings.json", &["permissions"]),
    read_only(CLAUDE, CLAUDE_SETTINGS, "~/.claude/settings.local.json", &["permissions"]),
    read_only(
        "Codex",
        "Codex, \"Configuration Reference\": notify, MCP servers",
        "~/.codex/config.toml",
        &["projects"],
    ),
    read_only("Codex", "Codex, \"Hooks\"", "~/.codex/hooks.json", &[]),
    read_only("Codex", "Codex, environment_toml.rs: programs that run its commands", "~/.codex/environments.toml", &[]),
    read_only("Gemini CLI", "Gemini CLI, \"Configuration\": MCP servers, hooks", "~/.gemini/settings.json", &[]),
    read_only("pi", "pi, README, \"Settings\"", "~/.pi/agent/settings.json", &[]),
    mixed(
        "pi",
        "pi, resolve-config-value.ts: of a value with `!` it runs the rest",
        "~/.pi/agent/auth.json",
        &[consent("*?!", "it runs the text after `!` to get a key")],
    ),
    read_only("pi", "pi, README, \"Custom models\": a command may print a key", "~/.pi/agent/models.json", &[]),
    mixed(
        "opencode",
        "opencode, config.ts: of a `wellknown` entry it sets the variable and fetches settings",
        "~/.local/share/opencode/auth.json",
        &[consent("*?type=wellknown", "it sets a variable, and obeys settings from this address")],
    ),
    read_only("opencode", OPENCODE, "~/.config/opencode/opencode.json", &["permission"]),
    read_only("opencode", OPENCODE, "~/.config/opencode/opencode.jsonc", &["permission"]),
    read_only("opencode", OPENCODE, "~/.config/opencode/config.json", &["permission"]),
    read_only("Amp", "Amp, \"Owner's Manual\": MCP servers", "~/.config/amp/settings.json", &["amp.permissions"]),
    AgentFile { used: CURSOR_STATE, ..mixed("Cursor", CURSOR_CLI, "~/.cursor/cli-config.json", &[]) },
    AgentFile { used: CURSOR_STATE, ..mixed("Cursor", CURSOR_CLI, "~/.config/cursor/cli-config.json", &[]) },
    read_only("Cursor", "Cursor, \"MCP\"", "~/.cursor/mcp.json", &[]),
    read_only("Cursor", "Cursor, \"Hooks\"", "~/.cursor/hooks.json", &[]),
    read_only(
        "Kimi Code CLI",
        "Kimi Code CLI, \"Hooks\"; \"Configuration files\"",
        "~/.kimi-code/config.toml",
        &["permission"],
    ),
    read_only("Kimi Code CLI", "Kimi Code CLI, \"Model Context Protocol\"", "~/.kimi-code/mcp.json", &[]),
    read_only("pi", "pi, \"Configuration\", \"Agent directory\": MCP servers", "~/.pi/agent/mcp.json", &[]),
    read_only(
        "Goose",
        "Goose, \"Configuration Files\": extensions with their commands",
        "~/.config/goose/config.yaml",
        &[],
    ),
    read_only("aider", "aider, \"YAML config file\": lint-cmd, test-cmd", "~/.aider.conf.yml", &[]),
];
