//! The kinds of projects, and the paths in them that a policy may protect.

/// A language or tool. Only its projects have files with the names in `markers`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProjectKind {
    pub name: &'static str,
    /// Names, or `*` and the end of a name.
    markers: &'static [&'static str],
    pub lint: Option<&'static str>,
    /// Folders of the home that its tools write and the defaults do not open, and a reason.
    pub wants: Option<(&'static [&'static str], &'static str)>,
}

pub(super) const CONTAINERS: &str = "containers";

const fn kind(name: &'static str, markers: &'static [&'static str]) -> ProjectKind {
    ProjectKind { name, markers, lint: None, wants: None }
}

pub(super) const KINDS: [ProjectKind; 14] = [
    kind("Rust", &["Cargo.toml"]).lint("lint/rust"),
    kind("JavaScript", &["package.json", "deno.json", "deno.jsonc"]).lint("lint/ts"),
    kind("Python", &["pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile"]).lint("lint/python"),
    kind("Go", &["go.mod", "go.work"]).lint("lint/go"),
    kind("Ruby", &["Gemfile", "gems.rb"]).wants(&["~/.bundle", "~/.gem"], "where `bundle` and `gem` install"),
    kind("Java", &["pom.xml", "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"]),
    kind(".NET", &["global.json", "*.csproj", "*.sln"]).wants(&["~/.nuget/packages"], "where `dotnet` keeps packages"),
    kind("PHP", &["composer.json"]),
    kind("Elixir", &["mix.exs"]).wants(&["~/.mix", "~/.hex"], "where `mix` installs"),
    kind("Haskell", &["stack.yaml", "cabal.project", "*.cabal"]).wants(&["~/.stack"], "where `stack` installs"),
    kind("CMake", &["CMakeLists.txt"]),
    kind("Meson", &["meson.build"]),
    kind("Make", &["Makefile", "makefile", "GNUmakefile"]),
    kind(CONTAINERS, &["Dockerfile", "Containerfile", "compose.yaml", "compose.yml", "docker-compose.yml"]),
];

impl ProjectKind {
    const fn lint(self, preset: &'static str) -> Self {
        Self { lint: Some(preset), ..self }
    }

    const fn wants(self, folders: &'static [&'static str], why: &'static str) -> Self {
        Self { wants: Some((folders, why)), ..self }
    }

    pub(super) fn has_marker(&self, name: &str) -> bool {
        self.markers.iter().any(|marker| match marker.strip_prefix('*') {
            Some(end) => name.ends_with(end),
            None => name == *marker,
        })
    }
}

const PIPELINE: &str = "runs in CI with the project's credentials";
const REVIEWERS: &str = "names the people who must agree to a change";

/// Paths that take effect outside of the sandbox, or that control how the work is reviewed and
/// built. The list leaves out paths that `@autorun` covers, and the work itself (build files,
/// tests).
pub(super) const GUARDED: &[(&str, &str)] = &[
    (".github/workflows", PIPELINE),
    (".github/actions", PIPELINE),
    (".gitlab-ci.yml", PIPELINE),
    (".circleci", PIPELINE),
    (".buildkite", PIPELINE),
    (".woodpecker", PIPELINE),
    (".woodpecker.yml", PIPELINE),
    (".forgejo/workflows", PIPELINE),
    (".gitea/workflows", PIPELINE),
    (".drone.yml", PIPELINE),
    (".travis.yml", PIPELINE),
    ("Jenkinsfile", PIPELINE),
    ("azure-pipelines.yml", PIPELINE),
    ("bitbucket-pipelines.yml", PIPELINE),
    ("cloudbuild.yaml", PIPELINE),
    ("CODEOWNERS", REVIEWERS),
    (".github/CODEOWNERS", REVIEWERS),
    (".gitlab/CODEOWNERS", REVIEWERS),
    ("docs/CODEOWNERS", REVIEWERS),
    (".cargo/config.toml", "can name a linker or a wrapper, which the next `cargo build` outside starts"),
    (".cargo/config", "can name a linker or a wrapper, which the next `cargo build` outside starts"),
    ("rust-toolchain.toml", "names the toolchain that the next `cargo` outside downloads and starts"),
    ("rust-toolchain", "names the toolchain that the next `cargo` outside downloads and starts"),
    (".npmrc", "names the sources of packages"),
    (".yarnrc.yml", "names the program that every `yarn` outside starts"),
    (".yarn/releases", "holds the program that every `yarn` outside starts"),
    (".yarn/plugins", "holds code that every `yarn` outside loads"),
    (".pnpmfile.cjs", "is code that every `pnpm install` outside runs"),
    (".bundle/config", "names the sources of gems"),
    ("gradle/wrapper", "holds and names the program that every `gradlew` outside starts"),
    (".mvn", "names extensions that every `mvn` outside loads"),
];

/// Agents, with the paths that each leaves in a project.
pub(super) const AGENTS: &[(&str, &[&str])] = &[
    ("Claude Code", &[".claude", "CLAUDE.md"]),
    ("Codex", &[".codex"]),
    ("opencode", &[".opencode", "opencode.json", "opencode.jsonc"]),
    ("Gemini CLI", &[".gemini", "GEMINI.md"]),
    ("Cursor", &[".cursor", ".cursorrules"]),
    ("pi", &[".pi"]),
    ("Amp", &[".amp"]),
    ("Goose", &[".goosehints"]),
    ("aider", &[".aider.conf.yml"]),
    ("agents that read `AGENTS.md`", &["AGENTS.md"]),
];

/// Instructions for agents. Many projects want the agent to keep them up to date.
pub(super) const INSTRUCTIONS: [&str; 5] = ["AGENTS.md", "CLAUDE.md", "GEMINI.md", ".cursorrules", ".goosehints"];
