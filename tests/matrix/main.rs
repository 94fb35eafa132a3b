//! Compiles every combination of two rules, and of the settings, on a real tree. Each row is
//! compared with an expectation that this suite computes from SPEC alone, with the model of the
//! argv, and with the reviewed table in `snapshots/matrix`.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod dimensions;
mod expected;
mod pairs;
mod places;
mod reach;
mod settings;
#[path = "../support/mod.rs"]
mod support;

use std::fmt;

use agent_sandbox::model::{Model, ModelView as View};
use agent_sandbox::policy::path::AbsPath;
use agent_sandbox::policy::rule::LayerKind;
use dimensions::Access;
use support::Tree;

/// The access of a process inside at a path, according to the model of the argv.
fn seen(model: &Model, path: &AbsPath) -> Access {
    match model.view(path) {
        View::Host { source, writable, devices: false } if source == *path => {
            if writable {
                Access::Rw
            } else {
                Access::Ro
            }
        }
        View::MaskedFile
        | View::Fresh { mode: 0 | 0o111, writable: false }
        | View::Absent { creatable: false }
        | View::Unreachable { reopenable: false, .. } => Access::Exclude,
        other => panic!("{path} is {other:?}"),
    }
}

/// Writes the user's and the project's file, with these entries and no presets.
fn configure(tree: &Tree, entries: &[(LayerKind, Access, String)]) {
    let lists = |layer: LayerKind| -> String {
        let list = |access: &Access| {
            let here = entries.iter().filter(|entry| (entry.0, entry.1) == (layer, *access));
            let texts: Vec<String> = here.map(|(_, _, text)| format!("{text:?}")).collect();
            format!("{access} = [{}]\n", texts.join(", "))
        };
        Access::ALL.iter().map(list).collect()
    };
    let (user, project) = (lists(LayerKind::User), lists(LayerKind::Project));
    tree.add(&format!("home/u/.config/agent-sandbox/config.toml = [filesystem]\n{user}"));
    tree.add(&format!("home/u/proj/.agent-sandbox.toml = [filesystem]\npresets = [\"!@all\"]\n{project}"));
}

/// A table, and the mistakes in it.
#[derive(Default)]
struct Table {
    rows: Vec<String>,
    wrong: Vec<String>,
}

impl Table {
    fn row(&mut self, situation: fmt::Arguments, expected: &str, actual: &str) {
        self.rows.push(format!("{situation} | {actual}"));
        if expected != actual {
            self.wrong.push(format!("{situation}\n    expected {expected}\n         got {actual}"));
        }
    }

    fn check(&self, name: &str, rows: usize) {
        assert_eq!(self.rows.len(), rows, "each combination is one row");
        assert!(self.wrong.is_empty(), "{} rows of {name}:\n{}", self.wrong.len(), self.wrong.join("\n"));
        let text = self.rows.join("\n");
        support::snapshots("matrix").bind(|| insta::assert_snapshot!(name, text));
    }
}
