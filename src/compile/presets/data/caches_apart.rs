//! `@caches-apart`: stores from which package managers hard-link files into projects.
//!
//! A file of the store and its links in other projects are one file: a command that can write the
//! store changes all of them. The stores are read-only, and downloads inside go to the private
//! `/tmp`.

use super::VariableEffect::Set;
use super::{BuiltinPreset, group, ro, variables};

pub(super) const CACHES_APART: BuiltinPreset = BuiltinPreset {
    groups: &[
        group(
            "uv",
            "uv, \"Caching\" and UV_CACHE_DIR; UV_LINK_MODE is `hardlink` on Linux",
            &[ro("~/.cache/uv/").blocked()],
        ),
        group(
            "pnpm",
            "pnpm, \"Settings\": storeDir and packageImportMethod",
            &[ro("~/.local/share/pnpm/store/").blocked(), ro("~/.pnpm-store")],
        ),
        group(
            "Bun",
            "Bun, \"Global cache\" and BUN_INSTALL_CACHE_DIR: `hardlink` is the backend on Linux",
            &[ro("~/.bun/install/cache/").blocked()],
        ),
    ],
    variables: &[
        variables(Set { value: "/tmp/uv-cache", for_program: None }, "uv", "uv, \"Caching\"", &["UV_CACHE_DIR"]),
        variables(
            Set { value: "/tmp/pnpm-store", for_program: None },
            "pnpm",
            "pnpm, \"Settings\": storeDir",
            &["pnpm_config_store_dir"],
        ),
        variables(
            Set { value: "/tmp/bun-cache", for_program: None },
            "Bun",
            "Bun, \"Global cache\"",
            &["BUN_INSTALL_CACHE_DIR"],
        ),
    ],
    ..BuiltinPreset::new("caches-apart", "stores that are hard-linked into projects are read-only")
};
