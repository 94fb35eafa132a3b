//! The contents of the built-in presets, as constants: nothing is read or parsed at a start.
//!
//! Each entry is listed below its program and the source that supports it: a document, a manual
//! page, or an observed behaviour. `snapshots/presets/table.snap` lists all of them.

mod agent_files;
mod agents;
mod autorun;
mod autorun_strict;
mod base;
mod caches;
mod caches_apart;
mod git;
mod harness;
mod lint;
mod private;
mod secrets;

use crate::policy::{Access, CredentialFile, IfMissing, Mask, PrivateFile, Refinements};

pub(crate) use secrets::PUBLIC_ENV;

/// The built-in presets, sorted by name.
pub const PRESETS: &[BuiltinPreset] = &[
    agents::AGENTS,
    base::ALL,
    autorun::AUTORUN,
    autorun_strict::AUTORUN_STRICT,
    base::BASE,
    caches::CACHES,
    caches_apart::CACHES_APART,
    git::GIT,
    git::GIT_STRICT,
    harness::CLAUDE,
    harness::CODEX,
    harness::GEMINI,
    harness::KIMI,
    harness::OPENCODE,
    lint::ALL,
    lint::GO,
    lint::PYTHON,
    lint::RUST,
    lint::TS,
    secrets::SECRETS,
];

#[derive(Clone, Copy, Debug)]
pub struct BuiltinPreset {
    pub name: &'static str,
    /// A line of text for the list of presets.
    pub description: &'static str,
    /// Names of the presets that this one includes.
    pub include: &'static [&'static str],
    pub relative_to: RelativeTo,
    /// Globs leave a file alone if the git index holds the same content (SPEC P6).
    pub leave_tracked: bool,
    /// Names of directories that globs do not enter (SPEC P5).
    pub skip_directories: &'static [&'static str],
    /// Skips such a directory only if a file of this name lies beside it.
    pub skip_beside: Option<&'static str>,
    pub groups: &'static [Group],
    pub variables: &'static [VariableGroup],
    pub injections: &'static [InjectionGroup],
    pub agent_files: &'static [AgentFile],
    pub repositories: &'static [AgentRepository],
}

impl BuiltinPreset {
    const fn new(name: &'static str, description: &'static str) -> Self {
        Self {
            name,
            description,
            include: &[],
            relative_to: RelativeTo::Project,
            leave_tracked: false,
            skip_directories: &[],
            skip_beside: None,
            groups: &[],
            variables: &[],
            injections: &[],
            agent_files: &[],
            repositories: &[],
        }
    }

    /// All entries of the preset.
    pub fn entries(&self) -> impl Iterator<Item = &'static PresetEntry> + use<> {
        self.groups.iter().flat_map(|group| group.entries)
    }
}

/// The folder from which the relative paths of a built-in preset start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelativeTo {
    /// The project root.
    Project,
    /// The outermost folder that could be the project root.
    OutermostRepository,
}

/// Entries about one program, which rest on one source.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    pub tool: &'static str,
    pub source: &'static str,
    pub entries: &'static [PresetEntry],
}

const fn group(tool: &'static str, source: &'static str, entries: &'static [PresetEntry]) -> Group {
    Group { tool, source, entries }
}

/// One path or glob with its access.
#[derive(Clone, Copy, Debug)]
pub struct PresetEntry {
    pub access: Access,
    pub path: &'static str,
    pub if_missing: IfMissing,
    pub private: Option<&'static PrivateFile>,
    pub refinements: Refinements,
}

const fn entry(access: Access, path: &'static str) -> PresetEntry {
    PresetEntry { access, path, if_missing: IfMissing::Skip, private: None, refinements: Refinements::NONE }
}

const fn rw(path: &'static str) -> PresetEntry {
    entry(Access::Rw, path)
}

const fn ro(path: &'static str) -> PresetEntry {
    entry(Access::Ro, path)
}

const fn exclude(path: &'static str) -> PresetEntry {
    entry(Access::Exclude, path)
}

/// Reads as a copy without its credentials inside (SPEC P16).
const fn redacted(path: &'static str, file: CredentialFile) -> PresetEntry {
    exclude(path).masked(Mask::Redacted(file))
}

impl PresetEntry {
    /// The command cannot create the path while it is missing (SPEC M4).
    const fn blocked(self) -> Self {
        Self { if_missing: IfMissing::Block, ..self }
    }

    /// Has no effect on a path that exists: the run reports a path that it created (SPEC R1).
    const fn only_missing(mut self) -> Self {
        self.refinements.only_missing = true;
        self
    }

    /// Blocked only where one of these paths of the home exists (SPEC M6).
    const fn in_use(mut self, signs: &'static [&'static str]) -> Self {
        self.refinements.in_use = signs;
        self.blocked()
    }

    /// Blocked only where the folder around it exists (SPEC M6).
    const fn blocked_in_parent(mut self) -> Self {
        self.refinements.needs_parent = true;
        self.blocked()
    }

    /// The command writes a copy, of which only listed keys reach the host (SPEC Q1).
    const fn private(self, file: &'static PrivateFile) -> Self {
        Self { private: Some(file), ..self }
    }

    /// A folder of programs or settings. The targets of symlinks in it are read-only, too (SPEC
    /// P19).
    const fn with_links(mut self) -> Self {
        self.refinements.with_links = true;
        self
    }

    /// Moved aside after a run that created it: a placeholder would be in the way (SPEC R1).
    const fn moved_aside(mut self) -> Self {
        self.refinements.moved_aside = true;
        self
    }

    /// Created before the start if `program` is on PATH (SPEC P9).
    const fn create_for(mut self, program: &'static str) -> Self {
        self.refinements.create_for = Some(program);
        self
    }

    /// Created as a file with this content.
    const fn content(mut self, content: &'static str) -> Self {
        self.refinements.content = Some(content);
        self
    }

    const fn masked(mut self, mask: Mask) -> Self {
        self.refinements.mask = mask;
        self
    }

    /// Reads as empty inside (SPEC P7).
    const fn reads_as_empty(self) -> Self {
        self.reads_as("")
    }

    /// Reads as this text inside, for a tool that stops at an empty file (SPEC P7).
    const fn reads_as(self, text: &'static str) -> Self {
        self.masked(Mask::Reads(text))
    }

    /// An empty, writable folder that belongs to the sandbox, over a folder of the host (SPEC P17).
    const fn fresh(self) -> Self {
        self.masked(Mask::Fresh)
    }

    /// An empty, writable folder of the sandbox's own at a missing path (SPEC P17).
    const fn fresh_if_missing(self) -> Self {
        self.only_missing().blocked().fresh()
    }

    /// As `fresh_if_missing`, but only where the folder around the path exists.
    const fn fresh_in_parent(self) -> Self {
        self.fresh_if_missing().blocked_in_parent()
    }

    /// Names that the pattern matches, but to which the entry does not apply.
    const fn except(mut self, names: &'static [&'static str]) -> Self {
        self.refinements.except = names;
        self
    }
}

/// A file of the home by which an agent decides which programs it runs, and for which actions it
/// needs consent.
#[derive(Clone, Copy, Debug)]
pub struct AgentFile {
    pub tool: &'static str,
    pub source: &'static str,
    pub path: &'static str,
    pub used: FileUse,
    /// The agent reads this file instead of another one as soon as it exists. A file that the run
    /// created there is moved aside when the run ends (SPEC R1).
    pub is_preferred: bool,
}

/// A folder of the home in which an agent keeps repositories or worktrees. A command must not leave
/// settings or hooks in them that git outside would obey (SPEC R18).
#[derive(Clone, Copy, Debug)]
pub struct AgentRepository {
    pub tool: &'static str,
    pub source: &'static str,
    pub folder: &'static str,
    /// Repositories lie at most this deep in the folder.
    pub depth: usize,
}

/// The meaning of the keys in an agent's file.
#[derive(Clone, Copy, Debug)]
pub enum FileUse {
    /// Settings that are read-only inside. Each string may be a part of a command, except those
    /// below these keys.
    ReadOnly { except: &'static [&'static str] },
    /// State with settings in it, which the agent writes. The keys are settings. If there are
    /// harmless keys, every other key of the top level counts as a setting, too.
    Mixed { keys: &'static [ObeyedKey], harmless: &'static [&'static str] },
}

/// A key in a file that mixes state with settings.
#[derive(Clone, Copy, Debug)]
pub struct ObeyedKey {
    /// The key in dotted form. `*` is any key, `*?type=x` any key whose value has the member
    /// `type` = `x`, and `*?!` any key with a text in its value that starts with `!`.
    pub key: &'static str,
    /// The reason why a change is reported.
    pub reason: &'static str,
    pub names_programs: bool,
}

/// Variables of one program, which rest on one source.
#[derive(Clone, Copy, Debug)]
pub struct VariableGroup {
    pub tool: &'static str,
    pub source: &'static str,
    pub effect: VariableEffect,
    /// Names to keep or to set, or names and patterns (SPEC E2) to drop. A pattern should be a
    /// prefix or a suffix, because each start compiles any other pattern.
    pub names: &'static [&'static str],
}

/// The effect of a preset on variables (SPEC E11, P14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableEffect {
    /// The variables look like credentials, and do not pass.
    Drop,
    /// Each is `*_` and a word. Names that equal the word, or end in `_` and the word, look like
    /// credentials, and do not pass (SPEC E11). Case does not matter.
    DropWord,
    /// The variables pass although they look like credentials.
    Keep,
    /// The variables get a value if this program is on PATH, or always if none is named. A
    /// variable that the caller has keeps its value (SPEC P14). `~/` at the start of a value is
    /// the home, and `.` alone is the project root.
    Set { value: &'static str, for_program: Option<&'static str> },
}

const fn variables(
    effect: VariableEffect,
    tool: &'static str,
    source: &'static str,
    names: &'static [&'static str],
) -> VariableGroup {
    VariableGroup { tool, source, effect, names }
}

/// Files that one program reads, each with the path at which the program looks for it. One source
/// documents all of them.
#[derive(Clone, Copy, Debug)]
pub struct InjectionGroup {
    pub tool: &'static str,
    pub source: &'static str,
    pub entries: &'static [InjectionEntry],
}

/// A file or folder, and the path at which a program looks for it. It is injected if the file or
/// folder exists and the path does not (SPEC J9).
#[derive(Clone, Copy, Debug)]
pub struct InjectionEntry {
    pub from: &'static str,
    pub to: &'static str,
    /// Nothing is injected if one of these paths exists, because the program reads that path
    /// instead of `to`.
    pub unless: &'static [&'static str],
}

const fn inject(from: &'static str, to: &'static str) -> InjectionEntry {
    InjectionEntry { from, to, unless: &[] }
}

impl InjectionEntry {
    const fn unless(self, paths: &'static [&'static str]) -> Self {
        Self { unless: paths, ..self }
    }
}

const fn injections(tool: &'static str, source: &'static str, entries: &'static [InjectionEntry]) -> InjectionGroup {
    InjectionGroup { tool, source, entries }
}
