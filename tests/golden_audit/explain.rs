//! `explain` over the hosts and policies of `tests/golden`: text and JSON are snapshots in `snapshots/explain`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use agent_sandbox::audit::explain::{Explained, Explainer};
use agent_sandbox::audit::schema;
use agent_sandbox::cli;
use agent_sandbox::host::FileKind;
use agent_sandbox::path::AbsPath;
use agent_sandbox::pipeline::Compiled;

use super::support::effective::agreeing;
use super::{Case, cases, model, support, unescape};

/// What is asked in each case, and answered as text.
const ASKED: &[(&str, &[&str])] = &[
    (
        "defaults",
        &[
            ".env",
            ".git/hooks/pre-commit",
            "new.txt",
            "~/.ssh",
            "/usr",
            "/tmp/x",
            "/run",
            "/run/user/1000",
            "/dev/null",
            "/proc/1",
        ],
    ),
    ("layers-on-one-path", &["data", "data/in"]),
    ("path-over-glob", &["keys/a.pem", "keys/b.pem", "keys/new.pem"]),
    ("restrictive-within-a-layer", &["a", "b", "x1", "x2"]),
    ("nesting-with-gaps", &["hidden", "hidden/a", "hidden/a/b/open/new", "hidden/a/c/file"]),
    ("glob-stays-out-of-excluded", &["hidden/package.json", "hidden/open/package.json", "hidden/new/package.json"]),
    ("glob-meets-a-link-in-excluded", &["/opt/data", "hidden/link", "hidden/open"]),
    ("link-to-outside", &["data/in", "up/file", "up"]),
    ("link-matched-by-glob", &["a.pem", "o.txt", "out/b.pem"]),
    ("aliases", &["/mnt/home/.ssh/id", "~/.ssh", "/mnt/deep", "Makefile"]),
    ("hard-links-allowed", &["key", "b.pem"]),
    ("missing-block", &[".mcp.json", "keys", "keys/new"]),
    ("missing-skip", &["gone", "gone/in", "new.pem"]),
    ("missing-create", &["~/.cache/x", "hidden"]),
    ("missing-block-where-nothing-can-be-made", &["closed/x", "/tmp/x", "opened"]),
    ("pins-by-kind-of-pattern", &["one/a/x", "b/c/two", "f/g/four/x"]),
    ("second-place", &["~/.claude.json", "~/.claude/.claude.json"]),
    ("tmp-host", &["/tmp/new", "/tmp/.X11-unix/X0"]),
    ("own-files", &[".agent-sandbox.toml"]),
    ("odd-names", &["odd/line\\nbreak", "odd/stray\\xff", "two words"]),
];

/// For tools: one of each kind of answer is enough to look at.
const AS_JSON: &[(&str, &[&str])] = &[
    ("link-to-outside", &["up/file"]),
    ("pins-by-kind-of-pattern", &["one/a/x"]),
    ("missing-block", &[".mcp.json"]),
    ("odd-names", &["odd/stray\\xff"]),
];

fn explained(case: &Case, compiled: &Compiled, asked: &[OsString]) -> Explained {
    let host = case.tree.host();
    let explainer = Explainer::new(&host, compiled);
    let explain = |asked: &OsString| explainer.explain(asked).unwrap_or_else(|d| panic!("{asked:?}: {}", d.message));
    Explained { paths: asked.iter().map(explain).collect() }
}

fn in_case(name: &str, asked: &[&str]) -> Explained {
    let case = Case::read(name);
    let compiled = case.compiled().unwrap_or_else(|| panic!("{name} does not compile"));
    let asked: Vec<OsString> = asked.iter().map(|path| OsString::from_vec(unescape(path))).collect();
    explained(&case, &compiled, &asked)
}

#[test]
fn what_governs_a_path_is_explained() {
    support::snapshots("explain").bind(|| {
        for (name, asked) in ASKED {
            insta::assert_snapshot!(*name, cli::explained(&in_case(name, asked)));
        }
        for (name, asked) in AS_JSON {
            let json = serde_json::to_string_pretty(&in_case(name, asked)).unwrap();
            insta::assert_snapshot!(format!("{name}-json"), json);
        }
    });
}

/// At every path that a rule decides, around it and in it, with and without the second stage.
#[test]
fn every_explanation_agrees_with_the_model_and_fits_the_schema() {
    let validator = jsonschema::validator_for(&schema::<Explained>()).unwrap();
    for name in cases() {
        let case = Case::read(&name);
        let Some(compiled) = case.compiled() else { continue };
        let model = model(&compiled, &case.session);
        let decided = compiled.decisions.iter().map(|(path, _)| path).chain(compiled.plan.borders());
        let host = case.tree.host();
        let is_folder = |path: &AbsPath| host.kind(path).unwrap() == Some(FileKind::Directory);
        let asked = decided.flat_map(|path| {
            let inside = is_folder(path).then(|| path.child("zz"));
            [Some(path.clone()), path.parent(), inside]
        });
        let asked: Vec<OsString> = asked.flatten().map(|path| path.as_os_str().to_owned()).collect();
        let explained = explained(&case, &compiled, &asked);
        for explanation in &explained.paths {
            let said = agreeing(&model, &explanation.path);
            let (path, access) = (&explanation.path, explanation.access);
            assert!(said.contains(&access), "{name}: {path} is explained as {access}, and the model says {said:?}");
        }
        let value = serde_json::to_value(&explained).unwrap();
        let mistakes: Vec<String> =
            validator.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(mistakes.is_empty(), "{name}: {mistakes:?}");
    }
}
