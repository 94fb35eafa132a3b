//! Folders of the home, besides those of PATH, in which programs keep files that they need to run.
//! They are visible in a private home, read-only unless a preset opens them.

/// The folders of one program.
pub struct Program {
    pub name: &'static str,
    /// The reason to show them, which rests on the program's documentation.
    pub why: &'static str,
    /// Relative to the home.
    pub paths: &'static [&'static str],
    /// Variables that name such a folder.
    pub variables: &'static [&'static str],
}

const fn program(
    name: &'static str,
    why: &'static str,
    paths: &'static [&'static str],
    variables: &'static [&'static str],
) -> Program {
    Program { name, why, paths, variables }
}

pub const PROGRAMS: &[Program] = &[
    program("rustup", "rustup: its proxies on PATH run these toolchains", &[".rustup"], &["RUSTUP_HOME", "CARGO_HOME"]),
    program("nvm", "nvm: the versions of Node.js that PATH leads to", &[".nvm"], &["NVM_DIR"]),
    program("fnm", "fnm: the versions of Node.js that PATH leads to", &[".local/share/fnm", ".fnm"], &["FNM_DIR"]),
    program("Volta", "Volta: its shims on PATH run these tools", &[".volta"], &["VOLTA_HOME"]),
    program("n", "n: the version of Node.js that PATH leads to", &[], &["N_PREFIX"]),
    program("npm", "npm: programs on PATH lead to packages of this prefix", &[".npm-global"], &["NPM_CONFIG_PREFIX"]),
    program("pnpm", "pnpm: programs on PATH lead to these packages", &[".local/share/pnpm"], &["PNPM_HOME"]),
    program("Yarn", "Yarn 1: programs on PATH lead to these packages", &[".config/yarn/global"], &[]),
    program("Deno", "Deno: programs on PATH", &[".deno"], &["DENO_INSTALL"]),
    program("Bun", "Bun: programs on PATH lead to these packages", &[], &["BUN_INSTALL"]),
    program("pyenv", "pyenv: its shims on PATH run these versions", &[".pyenv"], &["PYENV_ROOT"]),
    program("pip", "pip: programs of `pip install --user` import these packages", &[".local/lib"], &[]),
    program(
        "pipx",
        "pipx: programs on PATH lead to these environments",
        &[".local/share/pipx", ".local/pipx"],
        &["PIPX_HOME"],
    ),
    program(
        "uv",
        "uv: programs on PATH lead to these environments",
        &[".local/share/uv"],
        &["UV_TOOL_DIR", "UV_PYTHON_INSTALL_DIR"],
    ),
    program("Poetry", "Poetry: the program on PATH leads there", &[".local/share/pypoetry"], &["POETRY_HOME"]),
    program(
        "conda",
        "conda: the environment that PATH leads to",
        &["miniconda3", "anaconda3", "miniforge3", "mambaforge"],
        &["CONDA_PREFIX", "MAMBA_ROOT_PREFIX"],
    ),
    program("Python", "Python: the active environment", &[], &["VIRTUAL_ENV"]),
    program("rbenv", "rbenv: its shims on PATH run these versions", &[".rbenv"], &["RBENV_ROOT"]),
    program("RVM", "RVM: the versions of Ruby that PATH leads to", &[".rvm"], &["rvm_path"]),
    program("asdf", "asdf: its shims on PATH run these versions", &[".asdf"], &["ASDF_DIR", "ASDF_DATA_DIR"]),
    program(
        "mise",
        "mise: its shims on PATH run these tools",
        &[".local/share/mise", ".config/mise"],
        &["MISE_DATA_DIR", "MISE_CONFIG_DIR"],
    ),
    program("SDKMAN!", "SDKMAN!: the versions that PATH leads to", &[".sdkman"], &["SDKMAN_DIR"]),
    program("Java", "Java: the JDK that programs run", &[".jdks"], &["JAVA_HOME"]),
    program("Go", "Go: the toolchain that PATH leads to", &["sdk"], &["GOROOT"]),
    program("Nix", "Nix: the profile that PATH leads to", &[".nix-profile", ".local/state/nix"], &[]),
    program("Homebrew", "Homebrew: programs on PATH lead to these packages", &[".linuxbrew"], &["HOMEBREW_PREFIX"]),
    program("Claude Code", "Claude Code: the program on PATH leads there", &[".local/share/claude"], &[]),
    program("Cursor", "Cursor: the program on PATH leads there", &[".local/share/cursor-agent"], &[]),
    program("opencode", "opencode: its settings", &[".config/opencode", ".opencode"], &["OPENCODE_CONFIG_DIR"]),
];
