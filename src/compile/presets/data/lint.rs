//! `@lint/*`. Settings are read-only even if git tracks them: an agent should fix the findings of a
//! check, not loosen it.
//!
//! `package.json`, `tsconfig.json`, `pyproject.toml`, `setup.cfg`, `tox.ini` and `Cargo.toml` may
//! hold such settings too. They stay writable, because the agent must be able to change them.

use super::{BuiltinPreset, Group, group, ro};

// Third-party code brings its own settings; making them read-only would only break `rm -rf
// node_modules`.
const THIRD_PARTY: &[&str] = &[
    ".git",
    "node_modules",
    "target",
    ".venv",
    "venv",
    "site-packages",
    ".tox",
    ".nox",
    "vendor",
    ".next",
    ".nuxt",
    ".svelte-kit",
    ".turbo",
    ".yarn",
];

const EDITORCONFIG: Group = group("EditorConfig", "the EditorConfig specification", &[ro("**/.editorconfig")]);

pub(super) const ALL: BuiltinPreset = BuiltinPreset {
    include: &["lint/ts", "lint/go", "lint/python", "lint/rust"],
    ..BuiltinPreset::new("lint/all", "lint and format settings of all languages that have a preset are read-only")
};

pub(super) const GO: BuiltinPreset = BuiltinPreset {
    skip_directories: THIRD_PARTY,
    groups: &[
        group(
            "golangci-lint",
            "golangci-lint, \"Configuration File\"; `.custom-gcl.yml` names its plugins",
            &[
                ro("**/.golangci.yml"),
                ro("**/.golangci.yaml"),
                ro("**/.golangci.toml"),
                ro("**/.golangci.json"),
                ro("**/.custom-gcl.yml"),
                ro("**/.custom-gcl.yaml"),
            ],
        ),
        group("Staticcheck", "Staticcheck, \"Configuration\"", &[ro("**/staticcheck.conf")]),
        group("revive", "revive, README, \"Configuration\"", &[ro("**/revive.toml"), ro("**/.revive.toml")]),
        group("go-arch-lint", "go-arch-lint, README", &[ro("**/.go-arch-lint.yml")]),
        EDITORCONFIG,
    ],
    ..BuiltinPreset::new("lint/go", "lint settings of Go projects are read-only")
};

pub(super) const PYTHON: BuiltinPreset = BuiltinPreset {
    skip_directories: THIRD_PARTY,
    groups: &[
        group("Ruff", "Ruff, \"Configuring Ruff\"", &[ro("**/ruff.toml"), ro("**/.ruff.toml")]),
        group("Flake8", "Flake8, \"Configuring Flake8\"", &[ro("**/.flake8")]),
        group(
            "Pylint",
            "Pylint, \"Configuration\"",
            &[ro("**/.pylintrc"), ro("**/pylintrc"), ro("**/.pylintrc.toml"), ro("**/pylintrc.toml")],
        ),
        group("pycodestyle", "pycodestyle, \"Configuration\"", &[ro("**/.pycodestyle")]),
        group("pydocstyle", "pydocstyle, \"Configuration Files\"", &[ro("**/.pydocstyle"), ro("**/.pydocstyle.ini")]),
        group("Import Linter", "Import Linter, \"Usage\"", &[ro("**/.importlinter")]),
        group("mypy", "mypy, \"The mypy configuration file\"", &[ro("**/mypy.ini"), ro("**/.mypy.ini")]),
        group("Pyright", "Pyright, \"Configuration\"", &[ro("**/pyrightconfig.json")]),
        group("Pyrefly", "Pyrefly, \"Configuration\"", &[ro("**/pyrefly.toml")]),
        group("ty", "ty, \"Configuration\"", &[ro("**/ty.toml")]),
        group("Pyre", "Pyre, \"Configuration\"", &[ro("**/.pyre_configuration")]),
        group("isort", "isort, \"Supported Config Files\"", &[ro("**/.isort.cfg")]),
        group("YAPF", "YAPF, README, \"Formatting style\"", &[ro("**/.style.yapf"), ro("**/.yapfignore")]),
        group("Bandit", "Bandit, \"Configuration\"", &[ro("**/.bandit"), ro("**/bandit.yaml"), ro("**/bandit.yml")]),
        EDITORCONFIG,
    ],
    ..BuiltinPreset::new("lint/python", "lint, format and type-check settings of Python projects are read-only")
};

pub(super) const RUST: BuiltinPreset = BuiltinPreset {
    skip_directories: THIRD_PARTY,
    groups: &[
        group("Clippy", "Clippy, \"Configuration\"", &[ro("**/clippy.toml"), ro("**/.clippy.toml")]),
        group("rustfmt", "rustfmt, README, \"Configuring Rustfmt\"", &[ro("**/rustfmt.toml"), ro("**/.rustfmt.toml")]),
        group("cargo-deny", "cargo-deny, \"The config file\"", &[ro("**/deny.toml"), ro("**/.deny.toml")]),
        EDITORCONFIG,
    ],
    ..BuiltinPreset::new("lint/rust", "lint and format settings of Rust projects are read-only")
};

pub(super) const TS: BuiltinPreset = BuiltinPreset {
    skip_directories: THIRD_PARTY,
    groups: &[
        group(
            "ESLint",
            "ESLint, \"Configuration Files\"",
            &[ro("**/.eslintrc"), ro("**/.eslintrc.*"), ro("**/eslint.config.*"), ro("**/.eslintignore")],
        ),
        group(
            "Biome",
            "Biome, \"Configure Biome\"; `rome.json` is the old name",
            &[
                ro("**/biome.json"),
                ro("**/biome.jsonc"),
                ro("**/.biome.json"),
                ro("**/.biome.jsonc"),
                ro("**/rome.json"),
            ],
        ),
        group(
            "Oxlint, Oxfmt",
            "Oxc, \"Configuration\"",
            &[
                ro("**/.oxlintrc.json"),
                ro("**/.oxlintrc.jsonc"),
                ro("**/oxlint.config.*"),
                ro("**/.oxfmtrc.json"),
                ro("**/.oxfmtrc.jsonc"),
            ],
        ),
        group(
            "Prettier",
            "Prettier, \"Configuration File\"",
            &[ro("**/.prettierrc"), ro("**/.prettierrc.*"), ro("**/prettier.config.*"), ro("**/.prettierignore")],
        ),
        group(
            "dprint",
            "dprint, \"Configuration\"",
            &[ro("**/dprint.json"), ro("**/dprint.jsonc"), ro("**/.dprint.json"), ro("**/.dprint.jsonc")],
        ),
        group(
            "Stylelint",
            "Stylelint, \"Configuring\"",
            &[ro("**/.stylelintrc"), ro("**/.stylelintrc.*"), ro("**/stylelint.config.*"), ro("**/.stylelintignore")],
        ),
        group("XO", "XO, readme, \"Config\"", &[ro("**/xo.config.*")]),
        group("TSLint", "TSLint, \"Configuring TSLint\"", &[ro("**/tslint.json")]),
        group("JSHint", "JSHint, \"Configuration\"", &[ro("**/.jshintrc")]),
        group("Knip", "Knip, \"Configuration\"", &[ro("**/knip.json"), ro("**/knip.jsonc")]),
        group(
            "lint-staged",
            "lint-staged, README, \"Configuration\": runs before a commit",
            &[ro("**/.lintstagedrc"), ro("**/.lintstagedrc.*"), ro("**/lint-staged.config.*")],
        ),
        group(
            "commitlint",
            "commitlint, \"Configuration\": runs on the message of a commit",
            &[ro("**/.commitlintrc"), ro("**/.commitlintrc.*"), ro("**/commitlint.config.*")],
        ),
        EDITORCONFIG,
    ],
    ..BuiltinPreset::new("lint/ts", "lint and format settings of JavaScript and TypeScript projects are read-only")
};
