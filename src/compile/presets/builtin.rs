//! The built-in presets by name.

use super::data::{BuiltinPreset, PRESETS};

/// The built-in preset `@name`.
pub fn get(name: &str) -> Option<&'static BuiltinPreset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

pub fn names<'n>() -> impl Iterator<Item = &'n str> {
    PRESETS.iter().map(|preset| preset.name)
}

#[cfg(test)]
mod tests {
    use crate::policy::{Access, IfMissing};

    use super::super::data::PresetEntry;
    use super::*;

    /// The names that `variables` knows.
    const VARIABLES: [&str; 13] = [
        "$AGENT_PROGRAMS",
        "$GIT_DIR",
        "$GIT_COMMON_DIR",
        "$GIT_OTHER_REFS",
        "$GIT_POINTER",
        "$GIT_NAMED_HOOKS",
        "$GIT_INCLUDED",
        "$GIT_REMOTES",
        "$GIT_NAMED_PROGRAMS",
        "$GIT_NESTED",
        "$GIT_KEPT_WITHIN",
        "$GIT_CROWDED",
        "$GIT_NESTED_POINTER",
    ];

    fn all() -> impl Iterator<Item = (&'static str, &'static PresetEntry)> {
        PRESETS.iter().flat_map(|preset| preset.entries().map(|entry| (preset.name, entry)))
    }

    // SPEC P13
    #[test]
    fn every_preset_and_every_entry_names_its_source() {
        assert!(PRESETS.is_sorted_by_key(|preset| preset.name));
        for preset in PRESETS {
            assert!(!preset.description.is_empty(), "@{} says what it is for", preset.name);
            let paths = preset.groups.iter().map(|group| (group.tool, group.source, group.entries.len()));
            let variables = preset.variables.iter().map(|group| (group.tool, group.source, group.names.len()));
            let injections = preset.injections.iter().map(|group| (group.tool, group.source, group.entries.len()));
            for (tool, source, entries) in paths.chain(variables).chain(injections) {
                assert!(!tool.is_empty() && source.len() > 3 && entries > 0, "@{}: {tool}, {source}", preset.name);
            }
        }
    }

    #[test]
    fn every_variable_in_a_path_is_known() {
        for (_, entry) in all() {
            let name = entry.path.split('/').next().unwrap();
            assert!(!entry.path.starts_with('$') || VARIABLES.contains(&name), "{} would be literal", entry.path);
        }
    }

    /// `git add -A` on the host would stage a placeholder file in the project. A path that no
    /// program on the host obeys is not worth a mount.
    // SPEC M6
    #[test]
    fn presets_block_no_files_in_the_project() {
        for (name, entry) in all() {
            let path = entry.path;
            let is_safe = path.ends_with('/') || path.starts_with("$GIT_") || path.starts_with("~/");
            assert!(entry.if_missing != IfMissing::Block || is_safe, "@{name} blocks {path}");
            assert!(entry.if_missing != IfMissing::Block || entry.access != Access::Rw, "@{name} blocks {path}");
        }
    }

    #[test]
    fn every_include_of_a_built_in_preset_exists() {
        for preset in PRESETS {
            assert!(preset.include.iter().all(|name| get(name).is_some()), "@{}", preset.name);
        }
    }
}
