//! `@all` and `@base`.

use super::{BuiltinPreset, group, ro, rw};

// `@git-strict`, `@autorun-strict`, `@caches-apart` and `@lint/*` are not included, because they
// get in the way of ordinary work. A user must turn them on.
pub(super) const ALL: BuiltinPreset = BuiltinPreset {
    include: &["base", "secrets", "caches", "agents", "git", "autorun"],
    ..BuiltinPreset::new("all", "the presets that are on unless a layer says `!@all`")
};

pub(super) const BASE: BuiltinPreset = BuiltinPreset {
    groups: &[
        group("all", "the command works on the project", &[rw(".")]),
        // The whole file system is read-only already. This entry keeps the home read-only if a rule
        // opens a folder above it.
        group("all", "the home is read, and changed only where a preset says so", &[ro("~")]),
    ],
    ..BuiltinPreset::new("base", "the project is writable, the home is readable")
};
