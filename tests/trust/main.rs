//! The grants of a project's file, case by case, and the changes that consent covers.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../support/mod.rs"]
mod support;

mod consent;
mod grants;

use agent_sandbox::compile::request::Request;
use agent_sandbox::diagnostic::{Diagnostics, Format, render};
use agent_sandbox::trust::Judged;
use support::Tree;

const FILE: &str = "home/u/proj/.agent-sandbox.toml";

/// A host with paths to open: data and keys in the home, and a project.
fn tree() -> Tree {
    Tree::new([
        "home/u/proj/src/main.rs",
        "home/u/proj/.env",
        "home/u/data/sub/file",
        "home/u/data/key",
        "home/u/vault/pub/file",
        "home/u/.ssh/id_ed25519",
        "home/u/.cache/",
        "tmp/",
    ])
}

fn user(tree: &Tree, text: &str) {
    tree.add(&format!("home/u/.config/agent-sandbox/config.toml = {text}"));
}

/// Compiles the policy, which must have no errors.
#[track_caller]
fn compiled(tree: &Tree, cwd: &str, request: &Request) -> Judged {
    let (compiled, diagnostics) = tree.judge(cwd, request);
    assert!(!diagnostics.has_errors(), "{}", text(&diagnostics));
    compiled.unwrap()
}

fn text(diagnostics: &Diagnostics) -> String {
    render(diagnostics, Format::Text { color: false })
}
