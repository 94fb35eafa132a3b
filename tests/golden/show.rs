//! `show` over the golden cases: text and JSON are snapshots in `snapshots/show`.

use agent_sandbox::audit::schema;
use agent_sandbox::audit::show::{Shown, show};
use agent_sandbox::cli::{self, Folding, Paint};
use agent_sandbox::compile::request::Request;

use super::support::effective::agreeing;
use super::{Case, Tree, cases, model, session, support};

const AS_TEXT: &[&str] = &[
    "defaults",
    "nesting-with-gaps",
    "aliases",
    "missing-block",
    "missing-create",
    "second-place",
    "tmp-host",
    "env-layers",
    "pins-by-kind-of-pattern",
    "planted-git-keeps-what-is-forbidden-above",
    "odd-names",
    "inject-folder",
];

fn shown(name: &str) -> Shown {
    show(&Case::read(name).compiled().unwrap_or_else(|| panic!("{name} does not compile")))
}

// SPEC X7, X9
#[test]
fn the_whole_policy_is_shown() {
    support::snapshots("show").bind(|| {
        for name in AS_TEXT {
            insta::assert_snapshot!(*name, cli::shown(&shown(name), Folding::default(), Paint(false)));
        }
        for name in ["missing-block", "env-layers"] {
            insta::assert_snapshot!(format!("{name}-json"), serde_json::to_string_pretty(&shown(name)).unwrap());
        }
    });
}

// SPEC X7
#[test]
fn show_counts_the_folded_paths() {
    support::snapshots("show").bind(|| {
        for depth in [0, 2] {
            let folding = Folding { depth: Some(depth), ..Folding::default() };
            insta::assert_snapshot!(
                format!("defaults-depth-{depth}"),
                cli::shown(&shown("defaults"), folding, Paint(false))
            );
        }
    });
}

/// The many matches of one pattern are shown as one line, but exceptions below keep their lines.
// SPEC X7
#[test]
fn many_matches_of_one_rule_are_one_line_unless_all_are_asked_for() {
    let packages = (0..120).map(|n| format!("home/u/proj/packages/p{n:03}/.env"));
    let others = ["home/u/proj/packages/p007/.env.d/", "tmp/"].map(str::to_owned);
    let tree = Tree::new(packages.chain(others));
    let request = Request {
        presets: vec!["!@all".into(), "@base".into()],
        exclude: vec!["**/.env".into()],
        ro: vec!["packages/p007".into()],
        ..Request::default()
    };
    let shown = show(&tree.compile_as(&session("/home/u/proj"), &request).0.unwrap());
    let text = cli::shown(&shown, Folding::default(), Paint(false));
    support::snapshots("show").bind(|| insta::assert_snapshot!("many-matches", text));
    let all = cli::shown(&shown, Folding { all: true, ..Folding::default() }, Paint(false));
    assert_eq!(all.matches("/.env ").count() + all.matches("─ .env ").count(), 120, "{all}");
}

// SPEC X1, X8
#[test]
fn everything_that_is_shown_agrees_with_the_model_and_fits_the_schema() {
    let validator = jsonschema::validator_for(&schema::<Shown>()).unwrap();
    for name in cases() {
        let case = Case::read(&name);
        let Some(compiled) = case.compiled() else { continue };
        let (shown, model) = (show(&compiled), model(&compiled));
        for (path, _) in compiled.decisions.iter() {
            assert!(shown.paths.iter().any(|node| node.path == *path), "{name}: {path} is not shown");
        }
        for node in &shown.paths {
            let said = agreeing(&model, &node.path);
            assert!(said.contains(&node.access), "{name}: {} is shown as {}, {said:?}", node.path, node.access);
        }
        let value = serde_json::to_value(&shown).unwrap();
        let mistakes: Vec<String> =
            validator.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(mistakes.is_empty(), "{name}: {mistakes:?}");
    }
}
