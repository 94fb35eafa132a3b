//! The access that the built-in presets promise, path by path. The list is a second one, so that a
//! test fails if an entry is lost from the data.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::fs;
use std::path::Path;

use agent_sandbox::compile::request::Request;
use agent_sandbox::model::ModelView as View;
use support::{Tree, abs, model};

/// Below the home, or in the project where it does not start with `~/`. A trailing `/` makes a
/// directory.
const HIDDEN: &[&str] = &[
    "~/.ssh/",
    "~/.gnupg/",
    "~/.aws/",
    "~/.azure/",
    "~/.kube/",
    "~/.config/gcloud/",
    "~/.config/gh/",
    "~/.docker/config.json",
    "~/.netrc",
    "~/.git-credentials",
    "~/.pypirc",
    "~/.password-store/",
    "~/.local/share/keyrings/",
    "~/.cargo/credentials.toml",
    "~/.mozilla/",
    "~/.config/google-chrome/",
    "~/.config/chromium/",
    "~/.config/BraveSoftware/",
    ".env",
    ".env.local",
    "packages/web/.env.production",
];

const WRITABLE: &[&str] = &[
    "src/",
    "~/.cache/",
    "~/.npm/",
    "~/.bun/",
    "~/go/",
    "~/.cargo/",
    "~/.rustup/",
    "~/.gradle/",
    "~/.m2/",
    "~/.local/share/pnpm/store/",
    "~/.claude/",
    "~/.claude.json",
    "~/.codex/",
    "~/.pi/",
    "~/.local/share/opencode/",
    "~/.gemini/",
    "~/.local/share/amp/",
    "~/.cursor/",
    "~/.local/share/goose/",
    "~/.aider/",
    ".git/objects/",
    ".env.example",
    ".env.sample",
    ".env.template",
    "node_modules/x/.env",
];

const READ_ONLY: &[&str] = &[
    "~/notes",
    "~/.bashrc",
    "~/.profile",
    "~/.gitconfig",
    "~/.npmrc",
    "~/.local/bin/",
    "~/.config/systemd/",
    "~/.config/autostart/",
    "~/.cargo/bin/",
    "~/.cargo/config.toml",
    "~/.cargo/env",
    "~/go/bin/",
    "~/.bun/bin/",
    "~/.rustup/toolchains/",
    "~/.gradle/init.d/",
    "~/.m2/settings.xml",
    "~/.local/share/pnpm/pnpm",
    "~/.claude/settings.json",
    "~/.claude/hooks/",
    "~/.claude/plugins/",
    "~/.codex/config.toml",
    "~/.codex/hooks.json",
    "~/.codex/rules/",
    "~/.pi/agent/settings.json",
    "~/.pi/agent/extensions/",
    "~/.config/opencode/",
    "~/.gemini/settings.json",
    "~/.gemini/extensions/",
    "~/.config/amp/",
    "~/.cursor/mcp.json",
    "~/.cursor/hooks.json",
    "~/.config/goose/config.yaml",
    "~/.aider.conf.yml",
    ".git/config",
    ".git/config.worktree",
    ".git/hooks/",
    ".git/info/attributes",
    ".git/modules/lib/config",
    ".git/modules/lib/hooks/",
    ".vscode/",
    ".idea/",
    ".devcontainer/",
    ".envrc",
    ".mise.toml",
    ".mcp.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".cursor/",
    ".codex/",
    ".gitmodules",
    ".husky/",
];

const LINT: &[&str] = &[
    "eslint.config.js",
    ".eslintrc.json",
    "packages/web/.prettierrc.json",
    "biome.json",
    ".prettierrc",
    ".golangci.yml",
    "ruff.toml",
    "pyrightconfig.json",
    "mypy.ini",
    "clippy.toml",
    "crates/a/rustfmt.toml",
    "deny.toml",
    ".editorconfig",
];

fn written(path: &str) -> String {
    match path.strip_prefix("~/") {
        Some(rest) => format!("/home/u/{rest}"),
        None => format!("/home/u/proj/{path}"),
    }
}

fn tree() -> Tree {
    let tree = Tree::new(["home/u/proj/.git/HEAD = ref: refs/heads/main\n", "home/u/proj/.git/refs/heads/"]);
    for path in [HIDDEN, WRITABLE, READ_ONLY, LINT].concat() {
        tree.add(&written(path)[1..]);
    }
    tree
}

fn assert_all(paths: &[&str], request: &Request, what: &str, is: impl Fn(&View) -> bool) {
    let (compiled, diagnostics) = tree().compile("/home/u/proj", request);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    let model = model(&compiled.unwrap());
    for path in paths {
        let view = model.view(&abs(written(path)));
        assert!(is(&view), "{path} is not {what}: {view:?}");
    }
}

#[test]
fn secrets_are_hidden_by_default() {
    assert_all(HIDDEN, &Request::default(), "hidden", |view| {
        matches!(view, View::MaskedFile | View::Data | View::Fresh { mode: 0, writable: false })
    });
}

#[test]
fn what_work_needs_is_writable_by_default() {
    assert_all(WRITABLE, &Request::default(), "writable", |view| matches!(view, View::Host { writable: true, .. }));
}

#[test]
fn what_the_host_obeys_later_is_read_only_by_default() {
    assert_all(READ_ONLY, &Request::default(), "read-only", |view| matches!(view, View::Host { writable: false, .. }));
}

#[test]
fn lint_settings_are_read_only_on_request() {
    assert_all(LINT, &Request::default(), "writable", |view| matches!(view, View::Host { writable: true, .. }));
    let request = Request { presets: vec!["@lint/all".into()], ..Request::default() };
    assert_all(LINT, &request, "read-only", |view| matches!(view, View::Host { writable: false, .. }));
}

/// A preset's `ro` shows nothing (SPEC P12), so data that relied on one to re-open what a preset
/// excludes would be wrong.
#[test]
fn no_preset_relies_on_a_ro_to_show_what_one_excludes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/compile/presets/data");
    let data: Vec<toml::Table> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap().parse().unwrap())
        .collect();
    let paths = |key: &str| -> Vec<String> {
        let lists = data.iter().filter_map(|preset| preset.get(key)?.as_array());
        let text = |entry: &toml::Value| entry.get("path").unwrap_or(entry).as_str().unwrap().to_owned();
        lists.flatten().map(text).collect()
    };
    let (shown, hidden) = (paths("ro"), paths("exclude"));
    assert!(shown.len() > 200 && hidden.len() > 40, "{} and {}", shown.len(), hidden.len());
    for path in &shown {
        let around = hidden.iter().find(|hidden| Path::new(path).starts_with(hidden));
        assert_eq!(around, None, "`ro` on {path}");
    }
}
