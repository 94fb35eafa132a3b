//! The built-in presets: TOML data that is part of the binary.

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;

use crate::compile::config::{self, BuiltinPreset};
use crate::diagnostic::Diagnostics;
use crate::policy::Source;

macro_rules! data_files {
    ($($name:literal => $file:literal),+ $(,)?) => {
        /// Name of each preset, and the text that defines it. Sorted by name.
        const FILES: &[(&str, &str)] = &[$(($name, include_str!(concat!("data/", $file)))),+];
    };
}

data_files! {
    "agents" => "agents.toml",
    "all" => "all.toml",
    "autorun" => "autorun.toml",
    "autorun-strict" => "autorun-strict.toml",
    "base" => "base.toml",
    "caches" => "caches.toml",
    "git" => "git.toml",
    "git-strict" => "git-strict.toml",
    "lint/all" => "lint-all.toml",
    "lint/go" => "lint-go.toml",
    "lint/python" => "lint-python.toml",
    "lint/rust" => "lint-rust.toml",
    "lint/ts" => "lint-ts.toml",
    "secrets" => "secrets.toml",
}

/// The built-in presets. Each is parsed when it is asked for: a start needs half of them.
#[derive(Default)]
pub struct Library {
    parsed: [OnceCell<BuiltinPreset>; FILES.len()],
    mistakes: RefCell<Diagnostics>,
}

impl Library {
    pub fn get(&self, name: &str) -> Option<&BuiltinPreset> {
        let at = position(name)?;
        let (name, text) = FILES[at];
        Some(self.parsed[at].get_or_init(|| parse(name, text, &mut self.mistakes.borrow_mut())))
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        FILES.iter().map(|(name, _)| *name)
    }

    pub fn contains(&self, name: &str) -> bool {
        position(name).is_some()
    }

    /// The mistakes in the presets that were read. The files are part of this crate; a mistake
    /// stops every run that uses the file.
    pub fn mistakes(self) -> Diagnostics {
        self.mistakes.into_inner()
    }
}

fn position(name: &str) -> Option<usize> {
    FILES.iter().position(|(known, _)| *known == name)
}

fn parse(name: &'static str, text: &str, diagnostics: &mut Diagnostics) -> BuiltinPreset {
    let source = Arc::new(Source::new(format!("built-in preset @{name}"), text.to_owned()));
    config::parse_builtin(name, &source, diagnostics)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::config::PresetDefinition;

    /// The names that `variables` knows.
    const VARIABLES: [&str; 10] = [
        "$GIT_DIR",
        "$GIT_COMMON_DIR",
        "$GIT_OTHER_REFS",
        "$GIT_POINTER",
        "$GIT_NAMED_HOOKS",
        "$GIT_INCLUDED",
        "$GIT_NAMED_PROGRAMS",
        "$GIT_NESTED",
        "$GIT_KEPT_WITHIN",
        "$GIT_NESTED_POINTER",
    ];

    #[test]
    fn every_data_file_is_valid() {
        for (name, text) in FILES {
            let mut diagnostics = Diagnostics::default();
            let preset = parse(name, text, &mut diagnostics);
            assert!(diagnostics.is_empty(), "{diagnostics:?}");
            assert!(!preset.description.is_empty(), "@{name} says what it is for");
            let PresetDefinition { ro, rw, exclude, .. } = &preset.definition;
            for entry in [ro, rw, exclude].into_iter().flatten() {
                let path = entry.path.to_str().unwrap();
                let name = path.split('/').next().unwrap();
                assert!(!path.starts_with('$') || VARIABLES.contains(&name), "{path} would be taken literally");
            }
        }
    }

    /// Each needs a descriptor from 3 on, git's list of what to leave alone one more, and a POSIX
    /// shell redirects only those of one digit.
    #[test]
    fn no_more_than_six_files_read_as_empty() {
        let library = Library::default();
        let presets = library.names().filter_map(|name| library.get(name));
        let entries = presets.flat_map(|preset| &preset.definition.exclude);
        assert!(
            entries
                .filter_map(|entry| entry.refinements.as_ref())
                .filter(|own| own.mask == crate::policy::rule::Mask::Empty)
                .count()
                <= 6
        );
    }

    /// Files in the project would be staged by every `git add -A` on the host, and what the host
    /// does not obey is not worth a mount.
    #[test]
    fn presets_block_no_files_in_the_project() {
        let library = Library::default();
        for (name, preset) in library.names().filter_map(|name| Some((name, library.get(name)?))) {
            let PresetDefinition { ro, rw, exclude, .. } = &preset.definition;
            for entry in [ro, rw, exclude].into_iter().flatten() {
                let path = entry.path.to_str().unwrap();
                let is_safe = path.ends_with('/') || path.starts_with("$GIT_") || path.starts_with("~/");
                assert!(entry.if_missing != crate::policy::rule::IfMissing::Block || is_safe, "@{name} blocks {path}");
            }
        }
    }

    #[test]
    fn every_include_of_a_built_in_preset_exists() {
        let library = Library::default();
        for (name, preset) in library.names().filter_map(|name| Some((name, library.get(name)?))) {
            for included in &preset.definition.include {
                let target = included.value.strip_prefix('@').unwrap_or_default();
                assert!(library.get(target).is_some(), "{name} includes {}", included.value);
            }
        }
    }
}
