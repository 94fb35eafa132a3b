//! `@autorun-strict`. During a run there is a placeholder at each missing folder. Files have none:
//! every `git add -A` outside of the sandbox would stage them.

use super::{BuiltinPreset, group, ro};

pub(super) const AUTORUN_STRICT: BuiltinPreset = BuiltinPreset {
    include: &["autorun"],
    groups: &[
        group("VS Code", "VS Code, \"Tasks\": `runOn: folderOpen`", &[ro(".vscode/").blocked()]),
        group("JetBrains IDEs", "IntelliJ IDEA, \"Startup tasks\"", &[ro(".idea/").blocked()]),
        group("Zed", "Zed, \"Configuring Zed\": project settings", &[ro(".zed/").blocked()]),
        group(
            "Dev Containers",
            "the Dev Container specification: lifecycle scripts",
            &[ro(".devcontainer/").blocked()],
        ),
        group(
            "husky, core.hooksPath",
            "husky, \"How To\"; git-config(1), core.hooksPath",
            &[ro(".husky/").blocked(), ro(".githooks/").blocked()],
        ),
        // If `.claude` is missing, no placeholder creates it: the command could then create
        // `.claude/settings.json` in it.
        group(
            "Claude Code",
            "Claude Code, \"Settings\", \"Slash commands\", \"Subagents\", \"Skills\"",
            &[
                ro(".claude/hooks/").blocked_in_parent(),
                ro(".claude/commands/").blocked_in_parent(),
                ro(".claude/agents/").blocked_in_parent(),
                ro(".claude/skills/").blocked_in_parent(),
            ],
        ),
        group("Cursor", "Cursor, \"Hooks\", \"MCP\", \"Rules\"", &[ro(".cursor/").blocked()]),
        group("Codex", "Codex, \"Config basics\": `.codex/config.toml` of a project", &[ro(".codex/").blocked()]),
        group(
            "Kimi Code CLI",
            "Kimi Code CLI, \"Model Context Protocol\": servers of the project",
            &[ro(".kimi-code/").blocked()],
        ),
        group("several agents", "Agent Skills: `.agents/skills`", &[ro(".agents/").blocked()]),
        group("Gemini CLI", "Gemini CLI, \"Configuration\": project settings", &[ro(".gemini/").blocked()]),
    ],
    ..BuiltinPreset::new("autorun-strict", "as @autorun, and missing folders that tools obey cannot be created")
};
