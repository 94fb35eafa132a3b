//! The findings of `lint` about the golden cases.

use agent_sandbox::audit::lint::{Lint, sarif};
use agent_sandbox::diagnostic::{Diagnostics, Format, render};

use crate::{Case, cases, support};

/// The cases in which `lint` has findings.
const SHOWN: [&str; 8] = [
    "hard-links-allowed",
    "layers-on-one-path",
    "link-matched-by-glob",
    "missing-skip",
    "mounts-that-change-nothing",
    "pattern-that-is-a-name",
    "restrictive-within-a-layer",
    "sockets-allowed",
];

fn lint(case: &Case) -> (Lint, Option<agent_sandbox::compile::Compiled>) {
    let (compiled, said) = case.tree.compile_as(&case.session, &case.request);
    let mut lint = Lint::of_stages(&said);
    if let Some(compiled) = compiled.as_ref().filter(|_| !said.has_errors()) {
        lint.look(&case.tree.host(), compiled);
    }
    (lint, compiled)
}

// SPEC N2
#[test]
fn cases_are_linted_to_their_snapshots() {
    for name in SHOWN {
        let case = Case::read(name);
        let (lint, _) = lint(&case);
        let mut diagnostics = Diagnostics::default();
        lint.findings.iter().for_each(|found| diagnostics.push(found.diagnostic.clone()));
        let text = render(&diagnostics, Format::Text { color: false });
        let json = serde_json::to_string_pretty(&lint.report()).unwrap();
        let all = format!("{}\n\n{text}\njson:\n{json}\n", case.why);
        support::snapshots("lint").bind(|| insta::assert_snapshot!(name, all));
    }
}

/// `lint` accepts every policy, and gives the same result twice.
// SPEC N9
#[test]
fn every_case_can_be_linted() {
    for name in cases() {
        let case = Case::read(&name);
        let (first, compiled) = lint(&case);
        assert_eq!(first.findings, lint(&case).0.findings, "{name}");
        sarif::sarif(&first, compiled.as_ref().map(|compiled| &compiled.layers));
    }
}
