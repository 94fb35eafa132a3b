//! `@caches-apart`: stores from which package managers hard-link files into projects.
//!
//! A file of the store and its links in other projects are one file: who can write the store changes
//! all of them. The stores are read-only, and what is downloaded inside goes to the private `/tmp`.

use super::{BuiltinPreset, group, ro};

pub(super) const CACHES_APART: BuiltinPreset = BuiltinPreset {
    groups: &[
        group(
            "uv",
            "uv, \"Caching\" and UV_CACHE_DIR; UV_LINK_MODE is `hardlink` on Linux",
            &[ro("~/.cache/uv/").blocked().sets("UV_CACHE_DIR", "/tmp/uv-cache")],
        ),
        group(
            "pnpm",
            "pnpm, \"Settings\": storeDir and packageImportMethod",
            &[
                ro("~/.local/share/pnpm/store/").blocked().sets("pnpm_config_store_dir", "/tmp/pnpm-store"),
                ro("~/.pnpm-store"),
            ],
        ),
        group(
            "Bun",
            "Bun, \"Global cache\" and BUN_INSTALL_CACHE_DIR: `hardlink` is the backend on Linux",
            &[ro("~/.bun/install/cache/").blocked().sets("BUN_INSTALL_CACHE_DIR", "/tmp/bun-cache")],
        ),
    ],
    ..BuiltinPreset::new("caches-apart", "stores that are hard-linked into projects are read-only")
};
