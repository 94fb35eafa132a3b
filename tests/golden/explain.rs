//! `explain` over the golden cases: text and JSON are snapshots in
//! `snapshots/explain`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use agent_sandbox::audit::explain::{Explained, Explainer, LoserReason};
use agent_sandbox::audit::schema;
use agent_sandbox::cli::{self, Paint};
use agent_sandbox::compile::Compiled;
use agent_sandbox::compile::request::Request;
use agent_sandbox::host::FileKind;
use agent_sandbox::policy::path::AbsPath;

use super::support::effective::agreeing;
use super::{Case, Tree, cases, model, support, unescape};

/// The questions of each case, which are answered as text.
const ASKED: &[(&str, &[&str])] = &[
    (
        // SPEC X3, X6
        "defaults",
        &[
            ".",
            ".env",
            "node_modules/p/.env",
            ".git",
            ".git/info/exclude",
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
    ("inject-over-a-mask", &[".env", ".env.local", ".env.sandbox"]),
    ("inject-folder", &["out", "out/one.md", "out/new/deep/x", "out/both"]),
    ("inject-text", &["notes/now.md", "notes"]),
    ("harness-claude", &["CLAUDE.md", ".claude/skills/a/SKILL.md", "~/.claude/CLAUDE.md"]),
    // SPEC X3
    ("layers-on-one-path", &["data", "data/in"]),
    // SPEC X3, X4
    ("path-over-glob", &["keys/a.pem", "keys/b.pem", "keys/new.pem"]),
    // SPEC X3
    ("restrictive-within-a-layer", &["a", "b", "x1", "x2"]),
    ("nesting-with-gaps", &["hidden", "hidden/a", "hidden/a/b/open/new", "hidden/a/c/file"]),
    // SPEC X3
    ("glob-stays-out-of-excluded", &["hidden/package.json", "hidden/open/package.json", "hidden/new/package.json"]),
    // SPEC X2
    ("glob-meets-a-link-in-excluded", &["/opt/data", "hidden/link", "hidden/open"]),
    ("link-to-outside", &["data/in", "up/file", "up"]),
    // SPEC X3
    ("link-matched-by-glob", &["a.pem", "o.txt", "out/b.pem"]),
    // SPEC X3
    ("aliases", &["/mnt/home/.ssh/id", "~/.ssh", "/mnt/deep", "Makefile"]),
    // SPEC X6
    ("hard-links-allowed", &["key", "b.pem"]),
    // SPEC X6
    ("missing-block", &[".mcp.json", "keys", "keys/new"]),
    // SPEC X4
    ("missing-skip", &["gone", "gone/in", "new.pem"]),
    // SPEC X6
    ("missing-create", &["~/.cache/x", "hidden"]),
    // SPEC X3
    ("missing-block-where-nothing-can-be-made", &["closed/x", "/tmp/x", "opened"]),
    // SPEC X5
    ("pins-by-kind-of-pattern", &["one/a/x", "b/c/two", "f/g/four/x"]),
    // SPEC X3
    ("preset-ro-only-tightens", &["~/.bashrc", "~/.zshrc", "~/.claude/settings.json", ".claude/settings.json"]),
    ("preset-ro-under-a-glob", &[".config/mise.toml", ".config", "sub"]),
    ("second-place", &["~/.claude.json", "~/.claude/.claude.json"]),
    ("tmp-host", &["/tmp/new", "/tmp/.X11-unix/X0"]),
    ("own-files", &[".agent-sandbox.toml"]),
    (
        "preset-secrets-redacted",
        &["~/.npmrc", ".npmrc", "web/.npmrc", "~/.yarnrc.yml", ".yarnrc.yml", "~/.pip/pip.conf", "~/.my.cnf"],
    ),
    ("odd-names", &["odd/line\\nbreak", "odd/stray\\xff", "two words"]),
];

/// The questions that are answered as JSON: one for each kind of answer.
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
    Explained { paths: asked.iter().map(explain).collect(), ..Explained::default() }
}

fn in_case(name: &str, asked: &[&str]) -> Explained {
    let case = Case::read(name);
    let compiled = case.compiled().unwrap_or_else(|| panic!("{name} does not compile"));
    let asked: Vec<OsString> = asked.iter().map(|path| OsString::from_vec(unescape(path))).collect();
    explained(&case, &compiled, &asked)
}

#[test]
fn explanations_of_paths_match_their_snapshots() {
    support::snapshots("explain").bind(|| {
        for (name, asked) in ASKED {
            insta::assert_snapshot!(*name, cli::explained(&in_case(name, asked), Paint(false)));
        }
        for (name, asked) in AS_JSON {
            let json = serde_json::to_string_pretty(&in_case(name, asked)).unwrap();
            insta::assert_snapshot!(format!("{name}-json"), json);
        }
    });
}

/// The paths are those that a rule decides, their parents and their entries, with and without the
/// guard.
// SPEC X1, X8
#[test]
fn every_explanation_agrees_with_the_model_and_fits_the_schema() {
    let validator = jsonschema::validator_for(&schema::<Explained>()).unwrap();
    for name in cases() {
        let case = Case::read(&name);
        let Some(compiled) = case.compiled() else { continue };
        let model = model(&compiled);
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

/// Each row has the files, the project's file, the path in question, a rule, and the reason why the
/// rule does not count.
// SPEC X3
#[test]
fn each_reason_is_given_where_it_applies() {
    let table: &[(&[&str], &str, &str, &str, LoserReason)] = &[
        (&["x1/"], "rw = ['.']\nro = ['*1', 'x*']", "x1", "x*", LoserReason::Equal),
        (&["x1/"], "rw = ['x1']\nro = ['*1']", "x1", "*1", LoserReason::Glob),
        (&["x", "y"], "exclude = ['x']\n[[inject]]\nfrom = 'y'\nto = './x'", "x", "x", LoserReason::Injection),
        (&["x1/"], "rw = ['x1']\nro = ['x1']", "x1", "x1", LoserReason::LessStrict),
        (&["a/b/"], "rw = ['.', 'a']\nro = ['a/b']", "a/b/c", "a", LoserReason::NextInLine),
        (&["a/b/"], "rw = ['.', 'a']\nro = ['a/b']", "a/b/c", ".", LoserReason::LessSpecific),
        // Without the winner, the other rule at the same path would govern.
        (&["a/b/"], "rw = ['a', 'a/b']\nro = ['a/b']", "a/b", "a", LoserReason::LessSpecific),
        (&["d/x", "l -> d/x"], "exclude = ['d']\nro = ['l']", "d/x", "l", LoserReason::DoesNotTighten),
        (&["d/r/"], "exclude = ['d']\nro = ['**/r', 'd/r*']", "d/r", "**/r", LoserReason::OutOfReach),
        (&["d/r/"], "exclude = ['d']\nro = ['**/r']", "d/r/in", "**/r", LoserReason::OutOfReach),
        (&["d/r/"], "exclude = ['d']\nro = ['**/r']\nrw = ['d/r*']", "d/r", "d/r*", LoserReason::BehindOneOutOfReach),
        (&[], "rw = ['.', '*.toml']", ".agent-sandbox.toml", "*.toml", LoserReason::OwnFile),
        (&[], "ro = ['gone']", "gone/in", "gone", LoserReason::Missing),
        (&[], "ro = [{ path = 'gone', if-missing = 'block' }]", "gone", "gone", LoserReason::NothingToBlock),
        (&["t", "l.txt -> t"], "rw = ['*.txt']", "l.txt", "*.txt", LoserReason::LinkNotFollowed),
        (&["l.pem -> gone"], "exclude = ['*.pem']", "l.pem", "*.pem", LoserReason::DanglingLink),
        (&[], "exclude = ['**/.env']", "a/.env", "**/.env", LoserReason::ExpandedAtStart),
    ];
    for (entries, policy, asked, text, why) in table {
        let tree = Tree::new(entries.iter().map(|entry| format!("home/u/proj/{entry}")));
        tree.add(&format!("home/u/proj/.agent-sandbox.toml = [filesystem]\npresets = ['!@all']\n{policy}"));
        let (compiled, diagnostics) = tree.compile("/home/u/proj", &Request::default());
        assert!(!diagnostics.has_errors(), "{policy}");
        let (host, compiled) = (tree.host(), compiled.unwrap());
        let explanation = Explainer::new(&host, &compiled).explain(asked.as_ref()).map_err(|d| d.message).unwrap();
        let losers = explanation.losers.iter().map(|loser| (loser.rule.text.as_ref(), loser.why));
        let told: Vec<LoserReason> =
            losers.filter(|(of, _)| of.is_some_and(|of| of.0 == *text)).map(|(_, why)| why).collect();
        assert_eq!(told, [*why], "{text} at {asked} with {policy}: {:?}", explanation.losers);
    }
}
