//! `init` over many kinds of project: each proposal is a snapshot, compiles, opens nothing, and has
//! no findings.

use agent_sandbox::audit::init;
use agent_sandbox::compile::request::Request;
use agent_sandbox::diagnostic::{Format, render};

use crate::support::{Tree, session, snapshots};
use crate::{FILE, look};

/// The name, the files of the project, and whether git tracks all of them.
const PROJECTS: &[(&str, &[&str], bool)] = &[
    ("empty", &[], false),
    (
        "rust",
        &[
            "Cargo.toml",
            "clippy.toml",
            "rustfmt.toml",
            ".cargo/config.toml",
            "rust-toolchain.toml",
            ".github/workflows/ci.yml",
        ],
        true,
    ),
    (
        "node",
        &[
            "package.json",
            "eslint.config.mjs",
            ".prettierrc.json",
            ".npmrc = registry=https://r.example/",
            ".env",
            ".env.local",
            ".env.example",
            ".gitlab-ci.yml",
        ],
        false,
    ),
    (
        "node-with-a-token",
        &["package.json", ".npmrc = //r.example/:_authToken=s3cr3t", "pnpm-lock.yaml", ".pnpmfile.cjs"],
        false,
    ),
    (
        "python",
        &["pyproject.toml", "ruff.toml", "mypy.ini", "requirements.txt", ".venv/bin/python", ".venv/lib/id_rsa"],
        true,
    ),
    ("go", &["go.mod", ".golangci.yml", "vendor/x/.golangci.yml", "Makefile"], true),
    ("ruby", &["Gemfile", "config/master.key", "config/credentials.yml.enc", ".bundle/config"], false),
    ("java", &["pom.xml", ".mvn/wrapper/maven-wrapper.properties", "Jenkinsfile"], true),
    ("gradle", &["build.gradle.kts", "gradle/wrapper/gradle-wrapper.properties", "azure-pipelines.yml"], true),
    ("dotnet", &["App.sln", "src/App.csproj", ".editorconfig"], true),
    ("c", &["CMakeLists.txt", "Makefile", ".editorconfig"], false),
    (
        "containers",
        &[
            "Dockerfile",
            "compose.yaml",
            "certs/ca.pem = -----BEGIN CERTIFICATE-----",
            "certs/server.key = -----BEGIN PRIVATE KEY-----",
        ],
        false,
    ),
    (
        "monorepo",
        &[
            "package.json",
            "apps/web/package.json",
            "apps/web/eslint.config.js",
            "crates/core/Cargo.toml",
            "crates/core/rustfmt.toml",
            "services/api/go.mod",
            "tools/x/pyproject.toml",
            ".editorconfig",
            "apps/web/.env.production",
            "CODEOWNERS",
        ],
        true,
    ),
    (
        "agents",
        &[
            ".claude/settings.json",
            "CLAUDE.md",
            "AGENTS.md",
            ".codex/config.toml",
            "opencode.json",
            ".cursorrules",
            ".mcp.json",
            "GEMINI.md",
        ],
        false,
    ),
    ("submodules", &["Cargo.toml", ".gitmodules", "libs/a/Cargo.toml"], true),
    (
        "linked-worktree",
        &[
            "go.mod",
            ".git = gitdir: /home/u/main/.git/worktrees/w\n",
            "../main/.git/HEAD = ref: refs/heads/main\n",
            "../main/.git/objects/",
            "../main/.git/config",
            "../main/.git/hooks/",
            "../main/.git/worktrees/w/HEAD = ref: refs/heads/w\n",
            "../main/.git/worktrees/w/commondir = ../..\n",
            "../main/.git/worktrees/w/gitdir = /home/u/proj/.git\n",
        ],
        false,
    ),
    ("secrets-that-git-holds", &["tests/id_rsa = x", ".env = A=1", "key.p12 = x"], true),
    ("odd-names", &["app/[id]/id_rsa", "a \"b\"\n/store.p12", "~/id_rsa", "clippy.toml"], false),
    (
        "hard-links-and-links",
        &["id_rsa", "other => PROJ/id_rsa", ".github/workflows -> ../ci", "ci/", "CODEOWNERS -> ci/owners"],
        false,
    ),
];

fn project(entries: &[&str], is_tracked: bool) -> Tree {
    let tree = Tree::new(["home/u/proj/", "tmp/"]);
    for entry in entries {
        tree.add(&format!("home/u/proj/{}", entry.replace("PROJ", "home/u/proj")));
    }
    if is_tracked {
        tree.track("home/u/proj");
    }
    tree
}

fn proposed(tree: &Tree) -> String {
    let (compiled, _) = tree.compile("/home/u/proj", &Request::default());
    init::propose(&tree.host(), &compiled.unwrap().layers.project)
}

// SPEC I1, O9
#[test]
fn each_kind_of_project_gets_its_file() {
    let differs = |(name, entries, is_tracked): &&(&str, &[&str], bool)| {
        let text = proposed(&project(entries, *is_tracked));
        snapshots("init").bind(|| std::panic::catch_unwind(|| insta::assert_snapshot!(*name, text)).is_err())
    };
    let different: Vec<&str> = PROJECTS.iter().filter(differs).map(|(name, ..)| *name).collect();
    assert!(different.is_empty(), "not as in snapshots/init: {different:?}");
}

// SPEC I2
#[test]
fn the_proposed_file_compiles_opens_nothing_and_lints_clean() {
    for (name, entries, is_tracked) in PROJECTS {
        let tree = project(entries, *is_tracked);
        let text = proposed(&tree);
        std::fs::write(tree.real(FILE), &text).unwrap();
        let (judged, said) = tree.judge("/home/u/proj", &Request::default());
        assert!(said.is_empty(), "{name}:\n{}", render(&said, Format::Text { color: false }));
        let grants = judged.unwrap().widening.map(|widening| widening.grants).unwrap_or_default();
        assert!(grants.is_empty(), "{name} opens {grants:?}");
        let (lint, _) = look(&tree, &session("/home/u/proj"));
        // No rule covers a file with several hard links, so this finding is left to the user.
        let is_left = |message: &str| *name == "hard-links-and-links" && message.contains("/id_rsa`");
        let to_mend: Vec<&str> = lint
            .findings
            .iter()
            .map(|found| &found.diagnostic)
            .filter(|said| !said.is_note && said.code.severity() != agent_sandbox::diagnostic::Severity::Note)
            .map(|said| said.message.as_str())
            .filter(|message| !is_left(message))
            .collect();
        assert!(to_mend.is_empty(), "{name}: {to_mend:?}\n{text}");
        assert_eq!(proposed(&tree), text, "{name}: the existing file does not change the proposal");
    }
}

// SPEC I1
#[test]
fn every_proposed_rule_has_a_reason() {
    for (name, entries, is_tracked) in PROJECTS {
        for line in proposed(&project(entries, *is_tracked)).lines().filter(|line| line.starts_with("    ")) {
            assert!(line.contains("\", # "), "{name}: {line}");
        }
    }
}

/// No proposal contains a secret.
#[test]
fn contents_of_files_are_not_copied() {
    for (name, entries, is_tracked) in PROJECTS {
        let text = proposed(&project(entries, *is_tracked));
        assert!(!text.contains("s3cr3t") && !text.contains("BEGIN"), "{name}");
    }
}
