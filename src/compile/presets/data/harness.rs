//! `@harness/…`: the project's `AGENTS.md` and `.agents/skills`, and the user's own
//! `~/.config/agent-sandbox/AGENTS.md`, where each agent looks for them.
//!
//! If an agent already reads a file at its own path, nothing is injected for that agent.

use super::VariableEffect::Set;
use super::{BuiltinPreset, VariableGroup, inject, injections, variables};

/// The user's instructions for all agents.
const GLOBAL: &str = "~/.config/agent-sandbox/AGENTS.md";

/// The variables of these presets. mise asks before it obeys a file of a project that it does not
/// know, and an agent cannot answer. Inside, such a file can do no more than the agent.
const VARIABLES: &[VariableGroup] = &[variables(
    Set { value: ".", for_program: Some("mise") },
    "mise",
    "mise, \"Settings\": trusted_config_paths",
    &["MISE_TRUSTED_CONFIG_PATHS"],
)];

pub(super) const CLAUDE: BuiltinPreset = BuiltinPreset {
    injections: &[
        injections(
            "Claude Code",
            "Claude Code, \"How Claude remembers your project\": ./CLAUDE.md or ./.claude/CLAUDE.md, ~/.claude/CLAUDE.md",
            &[inject("AGENTS.md", "CLAUDE.md").unless(&[".claude/CLAUDE.md"]), inject(GLOBAL, "~/.claude/CLAUDE.md")],
        ),
        injections(
            "Claude Code",
            "Claude Code, \"Extend Claude with skills\": .claude/skills/NAME/SKILL.md",
            &[inject(".agents/skills", ".claude/skills")],
        ),
    ],
    variables: VARIABLES,
    ..BuiltinPreset::new("harness/claude", "`AGENTS.md` and `.agents/skills` where Claude Code looks for them")
};

pub(super) const CODEX: BuiltinPreset = BuiltinPreset {
    injections: &[injections(
        "Codex",
        "Codex, \"Custom instructions with AGENTS.md\": ~/.codex/AGENTS.md; it reads AGENTS.md and .agents/skills itself",
        &[inject(GLOBAL, "~/.codex/AGENTS.md").unless(&["~/.codex/AGENTS.override.md"])],
    )],
    variables: VARIABLES,
    ..BuiltinPreset::new("harness/codex", "the user's `AGENTS.md` where Codex looks for it")
};

pub(super) const GEMINI: BuiltinPreset = BuiltinPreset {
    injections: &[injections(
        "Gemini CLI",
        "Gemini CLI, \"Provide context with GEMINI.md files\"; \"Agent Skills\": it reads .agents/skills itself",
        &[inject("AGENTS.md", "GEMINI.md"), inject(GLOBAL, "~/.gemini/GEMINI.md")],
    )],
    variables: VARIABLES,
    ..BuiltinPreset::new("harness/gemini", "`AGENTS.md` where Gemini CLI looks for it")
};

pub(super) const KIMI: BuiltinPreset = BuiltinPreset {
    injections: &[injections(
        "Kimi Code CLI",
        "Kimi Code CLI, \"Agents and Sub-Agents\": ~/.kimi-code/AGENTS.md; it reads AGENTS.md and .agents/skills itself",
        &[inject(GLOBAL, "~/.kimi-code/AGENTS.md")],
    )],
    variables: VARIABLES,
    ..BuiltinPreset::new("harness/kimi", "the user's `AGENTS.md` where Kimi Code CLI looks for it")
};

pub(super) const OPENCODE: BuiltinPreset = BuiltinPreset {
    injections: &[injections(
        "opencode",
        "opencode, \"Rules\": ~/.config/opencode/AGENTS.md, else ~/.claude/CLAUDE.md; it reads AGENTS.md and .agents/skills itself",
        &[inject(GLOBAL, "~/.config/opencode/AGENTS.md").unless(&["~/.claude/CLAUDE.md"])],
    )],
    variables: VARIABLES,
    ..BuiltinPreset::new("harness/opencode", "the user's `AGENTS.md` where opencode looks for it")
};
