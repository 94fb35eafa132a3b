//! What kinds of project there are, and what in them somebody may want to protect. OWNS both lists.

/// A language or tool, by the files that only its projects have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub name: &'static str,
    /// Names, or `*` and how a name ends.
    markers: &'static [&'static str],
    /// The preset for its linters' settings.
    pub lint: Option<&'static str>,
    /// What of the home it writes to and the defaults do not open, and who.
    pub wants: Option<(&'static [&'static str], &'static str)>,
}

const fn kind(name: &'static str, markers: &'static [&'static str]) -> Kind {
    Kind { name, markers, lint: None, wants: None }
}

pub(super) const KINDS: [Kind; 14] = [
    Kind { lint: Some("lint/rust"), ..kind("Rust", &["Cargo.toml"]) },
    Kind { lint: Some("lint/ts"), ..kind("JavaScript", &["package.json", "deno.json", "deno.jsonc"]) },
    Kind {
        lint: Some("lint/python"),
        ..kind("Python", &["pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile"])
    },
    Kind { lint: Some("lint/go"), ..kind("Go", &["go.mod", "go.work"]) },
    Kind {
        wants: Some((&["~/.bundle", "~/.gem"], "where `bundle` and `gem` install")),
        ..kind("Ruby", &["Gemfile", "gems.rb"])
    },
    kind("Java", &["pom.xml", "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"]),
    Kind {
        wants: Some((&["~/.nuget/packages"], "where `dotnet` keeps packages")),
        ..kind(".NET", &["global.json", "*.csproj", "*.sln"])
    },
    kind("PHP", &["composer.json"]),
    Kind { wants: Some((&["~/.mix", "~/.hex"], "where `mix` installs")), ..kind("Elixir", &["mix.exs"]) },
    Kind {
        wants: Some((&["~/.stack"], "where `stack` installs")),
        ..kind("Haskell", &["stack.yaml", "cabal.project", "*.cabal"])
    },
    kind("CMake", &["CMakeLists.txt"]),
    kind("Meson", &["meson.build"]),
    kind("Make", &["Makefile", "makefile", "GNUmakefile"]),
    kind("containers", &["Dockerfile", "Containerfile", "compose.yaml", "compose.yml", "docker-compose.yml"]),
];

impl Kind {
    pub(super) fn has_marker(&self, name: &str) -> bool {
        self.markers.iter().any(|marker| match marker.strip_prefix('*') {
            Some(end) => name.ends_with(end),
            None => name == *marker,
        })
    }

    pub(super) fn uses_containers(&self) -> bool {
        self.name == "containers"
    }
}

const PIPELINE: &str = "runs with the project's credentials, where it is pushed to";
const REVIEWERS: &str = "says who must agree to a change";

/// What is there and takes effect outside of the sandbox, or decides about the work. Not what `@autorun` covers, and not what
/// is the work itself (build files, tests).
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
    (".npmrc", "says where packages come from"),
    (".yarnrc.yml", "names the program that every `yarn` outside starts"),
    (".yarn/releases", "holds the program that every `yarn` outside starts"),
    (".yarn/plugins", "holds code that every `yarn` outside loads"),
    (".pnpmfile.cjs", "is code that every `pnpm install` outside runs"),
    (".bundle/config", "says where gems come from"),
    ("gradle/wrapper", "holds and names the program that every `gradlew` outside starts"),
    (".mvn", "names extensions that every `mvn` outside loads"),
];

/// Agents that are in use, by what they leave in a project.
pub(super) const AGENTS: &[(&str, &str)] = &[
    (".claude", "Claude Code"),
    ("CLAUDE.md", "Claude Code"),
    (".codex", "Codex"),
    (".opencode", "opencode"),
    ("opencode.json", "opencode"),
    ("opencode.jsonc", "opencode"),
    (".gemini", "Gemini CLI"),
    ("GEMINI.md", "Gemini CLI"),
    (".cursor", "Cursor"),
    (".cursorrules", "Cursor"),
    (".pi", "pi"),
    (".amp", "Amp"),
    (".goosehints", "Goose"),
    (".aider.conf.yml", "aider"),
    ("AGENTS.md", "agents that read `AGENTS.md`"),
];

/// Text that agents take as instructions. Many projects want the agent to keep it up to date.
pub(super) const INSTRUCTIONS: [&str; 5] = ["AGENTS.md", "CLAUDE.md", "GEMINI.md", ".cursorrules", ".goosehints"];
