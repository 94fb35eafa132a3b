//! The findings of `lint` in policies on real trees, and the proposals of `init` for real projects.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../support/mod.rs"]
mod support;

mod files;
mod formats;
mod init;
mod rules;

use agent_sandbox::audit::lint::Lint;
use agent_sandbox::compile::Compiled;
use agent_sandbox::compile::request::Request;
use agent_sandbox::diagnostic::{Format, render};
use agent_sandbox::host::session::Session;
use support::{Tree, session};

const FILE: &str = "home/u/proj/.agent-sandbox.toml";
const USER_FILE: &str = "home/u/.config/agent-sandbox/config.toml";

fn tree<const N: usize>(entries: [&str; N]) -> Tree {
    let tree = Tree::new(entries);
    tree.add("home/u/proj/");
    tree.add("tmp/");
    tree
}

/// Compiles the policy without a mistake, and lints it.
#[track_caller]
fn look(tree: &Tree, session: &Session) -> (Lint, Compiled) {
    let (compiled, said) = tree.compile_as(session, &Request::default());
    assert!(!said.has_errors(), "{}", render(&said, Format::Text { color: false }));
    let compiled = compiled.unwrap();
    let mut lint = Lint::of_stages(&said);
    lint.look(&tree.host(), &compiled);
    (lint, compiled)
}

/// The findings, as `level code: message`.
#[track_caller]
fn found(tree: &Tree) -> Vec<String> {
    let (lint, _) = look(tree, &session("/home/u/proj"));
    lint.findings
        .iter()
        .map(|found| &found.diagnostic)
        .map(|said| format!("{} {}: {}", said.severity(), said.code.name(), said.message))
        .collect()
}

/// The findings for a project whose file has this text.
#[track_caller]
fn found_in<const N: usize>(entries: [&str; N], text: &str) -> Vec<String> {
    let tree = tree(entries);
    tree.add(&format!("{FILE} = {text}"));
    found(&tree)
}

/// Only the levels and codes.
#[track_caller]
fn codes<const N: usize>(entries: [&str; N], text: &str) -> Vec<String> {
    found_in(entries, text).iter().map(|found| found.split(':').next().unwrap().to_owned()).collect()
}

const NOTHING: [&str; 0] = [];
