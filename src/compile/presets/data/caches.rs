//! `@caches`.
//!
//! These paths stay writable although the host runs them later, because the tools must write them
//! in ordinary use: `~/.npm/_npx` (packages that `npx` keeps), `~/.cache/pre-commit` (hook
//! environments, run by `git commit`), `~/.cache/ms-playwright` and the like (browsers),
//! `~/.gradle/wrapper` and `~/.m2/wrapper` (build tools). So do the sources and jars in
//! `~/go/pkg/mod`, `~/.cargo/registry`, `~/.gradle/caches` and `~/.m2/repository`. Tools check
//! these against a hash when they download them, not when they use them.
//!
//! Settings that a tool obeys and folders on PATH are blocked if they are missing: users do not
//! notice a placeholder in these folders.

use super::VariableEffect::Set;
use super::{BuiltinPreset, exclude, group, ro, rw, variables};

pub(super) const CACHES: BuiltinPreset = BuiltinPreset {
    groups: &[
        // Many programs assume that they can create this folder: go, pip, pre-commit.
        group("all", "XDG Base Directory Specification, XDG_CACHE_HOME", &[rw("~/.cache").create_for("*")]),
        group("npm", "npm-config(7), cache", &[rw("~/.npm").create_for("npm")]),
        group(
            "Bun",
            "Bun, \"Global cache\": files of the store are hard-linked into projects",
            &[rw("~/.bun").create_for("bun")],
        ),
        group("Go", "go(1), `go help gopath`, `go help modules`", &[rw("~/go").create_for("go")]),
        group("Cargo", "The Cargo Book, \"Cargo Home\"", &[rw("~/.cargo").create_for("cargo")]),
        group("rustup", "The rustup book, \"Environment variables\": RUSTUP_HOME", &[rw("~/.rustup")]),
        group("Gradle", "Gradle User Manual, \"Gradle-managed Directories\"", &[rw("~/.gradle").create_for("gradle")]),
        // The folder above these is not writable, because it holds settings. Only these are written
        // in ordinary use.
        group(
            "Maven",
            "Maven, \"Settings Reference\": localRepository; \"Maven Wrapper\"; \"Maven Build Cache Extension\"",
            &[rw("~/.m2/repository").create_for("mvn"), rw("~/.m2/wrapper").create_for("mvn"), rw("~/.m2/build-cache")],
        ),
        group("mvnd", "Apache Maven Daemon, README: logs, and the registry", &[rw("~/.m2/mvnd").create_for("mvnd")]),
        // The folder above it is not writable: it is on PATH, so any new file in it would be a
        // command.
        group("pnpm", "pnpm, \"Settings\": storeDir", &[rw("~/.local/share/pnpm/store").create_for("pnpm")]),
        // The folder above it is not writable, because Yarn 1 has programs on PATH there.
        group("Yarn", "Yarn, \"Settings\": globalFolder", &[rw("~/.yarn/berry").create_for("yarn")]),
        group(
            "Cargo",
            "The Cargo Book, \"Configuration\": build.rustc-wrapper, target runners",
            &[ro("~/.cargo/config.toml").blocked()],
        ),
        // Cargo prefers `config` to `config.toml`, so a placeholder would take settings away.
        group(
            "Cargo",
            "The Cargo Book, \"Configuration\": the name without `.toml`",
            &[ro("~/.cargo/config").moved_aside()],
        ),
        group(
            "rustup",
            "rustup: the installer has shells source `env` at each start",
            &[
                ro("~/.cargo/env").blocked(),
                ro("~/.cargo/env.fish").in_use(&["~/.config/fish/conf.d/rustup.fish"]),
                ro("~/.cargo/env.*"),
            ],
        ),
        group("Cargo", "The Cargo Book, \"Cargo Home\": `bin` is on PATH", &[ro("~/.cargo/bin/").blocked()]),
        // Builds, `rustup show` and the proxies only read these; `rustup default` and `install`
        // belong outside.
        group(
            "rustup",
            "The rustup book, \"Overrides\": the proxies run the toolchain that these name",
            &[ro("~/.rustup/toolchains/").blocked(), ro("~/.rustup/settings.toml")],
        ),
        group("Go", "go(1), `go help install`: GOPATH/bin, which is on PATH", &[ro("~/go/bin/").blocked()]),
        group("Go", "go(1), `go help gopath`: `src` holds other projects, with their git hooks", &[ro("~/go/src")]),
        group("Bun", "Bun, \"Installation\": `~/.bun/bin` is on PATH", &[ro("~/.bun/bin/").blocked()]),
        group("Bun", "Bun, bunfig.toml, install.globalDir", &[ro("~/.bun/install/global/").blocked()]),
        group("Bun", "Bun: its installer has zsh source the completions in `_bun`", &[ro("~/.bun/_bun").blocked()]),
        group("npm", "npm-config(7), prefix: where it is `~/.npm`", &[ro("~/.npm/bin"), ro("~/.npm/lib")]),
        group(
            "Gradle",
            "Gradle User Manual, \"Initialization Scripts\"",
            &[
                ro("~/.gradle/init.d/").blocked(),
                ro("~/.gradle/init.gradle").blocked(),
                ro("~/.gradle/init.gradle.kts").blocked(),
            ],
        ),
        group(
            "Gradle",
            "Gradle User Manual, \"Gradle properties\": org.gradle.jvmargs, org.gradle.java.home",
            &[ro("~/.gradle/gradle.properties").blocked()],
        ),
        // A build inside must start its own daemon: a daemon of the host would run the build
        // outside.
        group(
            "Gradle",
            "Gradle User Manual, \"Gradle Daemon\": the registry has the ports and tokens of all daemons",
            &[exclude("~/.gradle/daemon/").blocked_in_parent().fresh()],
        ),
        group(
            "mvnd",
            "Apache Maven Daemon, README: the registry has the ports and tokens of all daemons",
            &[exclude("~/.m2/mvnd/registry/").blocked_in_parent().fresh()],
        ),
        group(
            "Bazel",
            "Bazel, \"Output Directory Layout\": `server` has the port and the cookie of the server",
            &[exclude("~/.cache/bazel/*/*/server").fresh()],
        ),
        group("Gradle", "Gradle User Manual, \"Toolchains\": downloaded JDKs", &[ro("~/.gradle/jdks")]),
        // The home is read-only by `@base`. These files stay read-only if a user opens `~/.m2`.
        group(
            "Maven",
            "Maven, \"Settings Reference\", \"Using Toolchains\"; Maven 4, extensions and properties of the user",
            &[ro("~/.m2/*.xml"), ro("~/.m2/*.properties")],
        ),
        group(
            "Corepack",
            "Corepack, README, COREPACK_HOME: package managers that its shims on PATH run",
            &[ro("~/.cache/node/corepack")],
        ),
        group(
            "Copilot CLI",
            "Copilot CLI: the launcher runs the newest package in the cache",
            &[ro("~/.cache/copilot/pkg")],
        ),
        group(
            "fish",
            "fish(1), fish_update_completions: completions are sourced",
            &[ro("~/.cache/fish/").in_use(&["~/.config/fish"])],
        ),
        group(
            "zsh",
            "zshcompsys(1), compinit: the dump file is sourced",
            &[ro("~/.cache/zsh/").in_use(&["~/.zshrc", "~/.config/zsh"]), ro("~/.cache/zcompdump*")],
        ),
        group(
            "Powerlevel10k, gitstatus",
            "Powerlevel10k, README: instant prompt is sourced; gitstatusd is run",
            &[ro("~/.cache/p10k-*"), ro("~/.cache/gitstatus")],
        ),
        group("Oh My Zsh", "Oh My Zsh, ZSH_CACHE_DIR: completions are sourced", &[ro("~/.cache/oh-my-zsh")]),
        group("antidote", "antidote, ANTIDOTE_HOME: zsh sources the plugins", &[ro("~/.cache/antidote")]),
        group(
            "Nushell",
            "carapace, Starship and zoxide, \"Nushell\": `config.nu` sources `init.nu`",
            &[ro("~/.cache/carapace/init.nu"), ro("~/.cache/starship/init.nu"), ro("~/.cache/zoxide/init.nu")],
        ),
        group(
            "Oh My Posh",
            "Oh My Posh, `oh-my-posh init`: shells source the script in the cache",
            &[ro("~/.cache/oh-my-posh")],
        ),
        group("Prezto", "Prezto, `completion` module: the dump file is sourced", &[ro("~/.cache/prezto")]),
        group(
            "Zsh for Humans",
            "zsh4humans, README: zsh sources the scripts in the cache",
            &[ro("~/.cache/zsh4humans")],
        ),
        group("xonsh", "xonsh, XONSH_CACHE_SCRIPTS: compiled scripts in the cache are run", &[ro("~/.cache/xonsh")]),
        group("dein.vim", "dein.vim, `:help dein`: Vim sources the state in the cache", &[ro("~/.cache/dein")]),
        group(
            "Eclipse JDT LS, JetBrains",
            "jdtls, README, \"configuration\"; JetBrains, \"Remote development\": editors run the programs",
            &[ro("~/.cache/jdtls/config*"), ro("~/.cache/JetBrains/RemoteDev/dist")],
        ),
        group(
            "rebar3, Bun",
            "rebar3, `rebar3 local install`; Bun, \"bunx\": folders that users put on PATH",
            &[ro("~/.cache/rebar3/bin"), ro("~/.cache/.bun/bin")],
        ),
        group("pywal", "pywal: shells source `sequences` and `colors.sh`", &[ro("~/.cache/wal")]),
        group("Neovim", "Neovim, `:help vim.loader`: compiled Lua in the cache is run", &[ro("~/.cache/nvim")]),
    ],
    // Hard links between two mounts fail. Both tools then copy, uv with a warning.
    variables: &[
        variables(
            Set { value: "copy", for_program: Some("uv") },
            "uv",
            "uv, \"Environment variables\"",
            &["UV_LINK_MODE"],
        ),
        // `uvx` and `uv tool` lock this folder, which is read-only at its usual place.
        variables(
            Set { value: "/tmp/uv-tools", for_program: Some("uv") },
            "uv",
            "uv, \"Storage\" and \"Environment variables\"",
            &["UV_TOOL_DIR"],
        ),
        variables(
            Set { value: "copy", for_program: Some("pnpm") },
            "pnpm",
            "pnpm, \"Settings\": packageImportMethod",
            &["pnpm_config_package_import_method"],
        ),
        // Without this variable, pnpm would move the store into the project, from which it can
        // link.
        variables(
            Set { value: "~/.local/share/pnpm/store", for_program: Some("pnpm") },
            "pnpm",
            "pnpm, \"Settings\": storeDir",
            &["pnpm_config_store_dir"],
        ),
    ],
    ..BuiltinPreset::new(
        "caches",
        "package managers' caches are writable, programs that the host runs from them are not",
    )
};
