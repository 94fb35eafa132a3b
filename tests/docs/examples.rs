//! Configuration that people will copy: the files in `examples/`, and every `toml` block of the
//! documents.

use std::fs;

use agent_sandbox::compile::config;
use agent_sandbox::compile::request::Request;
use agent_sandbox::diagnostic::{Format, render};
use agent_sandbox::policy::rule::LayerKind;
use agent_sandbox::trust::Judged;

use super::markdown::blocks;
use super::support::{Tree, words};
use super::{documents, files_in, top};

/// A host on which every rule of the examples applies to some path.
const HOST: [&str; 36] = [
    "var/run/docker.sock",
    "home/u/.gitconfig",
    "home/u/.cargo/credentials.toml",
    "home/u/.rustup/",
    "home/u/.local/share/virtualenvs/",
    "home/u/proj/.git/HEAD = ref: refs/heads/main\n",
    "home/u/proj/.git/config",
    "home/u/proj/.git/hooks/",
    "home/u/proj/.git/objects/",
    "home/u/proj/.git/refs/heads/main",
    "home/u/proj/.cargo/config.toml",
    "home/u/proj/.env",
    "home/u/proj/.env.sandbox",
    "home/u/proj/AGENTS.md",
    "home/u/proj/.github/workflows/",
    "home/u/proj/CODEOWNERS",
    "home/u/proj/certs/localhost-key.pem",
    "home/u/.local/share/com.vercel.cli/config.json",
    "home/u/proj/data/raw/customers/",
    "home/u/proj/data/raw/.ipynb_checkpoints/",
    "home/u/proj/docker-compose.yml",
    "home/u/proj/docker/volumes/",
    "home/u/proj/fuzz/artifacts/",
    "home/u/proj/infra/terraform.tfstate",
    "home/u/proj/keys/server.pem",
    "home/u/proj/migrations/",
    "home/u/proj/node_modules/",
    "home/u/proj/packages/payments/api/",
    "home/u/proj/packages/payments/ledger/",
    "home/u/proj/packages/web/src/generated/",
    "home/u/proj/pnpm-workspace.yaml",
    "home/u/proj/rust-toolchain.toml",
    "home/u/proj/src/",
    "home/u/proj/supply-chain/",
    "home/u/proj/tests/fixtures/",
    "tmp/",
];

/// Compiles `text` as a project's file; any diagnostic is a failure.
fn assert_good(name: &str, text: &str) -> Judged {
    assert_fits_schema(name, text);
    let tree = Tree::new(HOST);
    fs::write(tree.real("home/u/proj/.agent-sandbox.toml"), text).unwrap();
    let (judged, diagnostics) = tree.judge("/home/u/proj", &Request::default());
    assert!(diagnostics.is_empty(), "{name}:\n{}", render(&diagnostics, Format::Text { color: false }));
    judged.unwrap()
}

fn assert_fits_schema(name: &str, text: &str) {
    let value: serde_json::Value = toml::from_str(text).unwrap_or_else(|e| panic!("{name} is not TOML: {e}"));
    let validator = jsonschema::validator_for(&config::schema()).unwrap();
    let mistakes: Vec<String> = validator.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(mistakes.is_empty(), "{name} does not fit the schema: {mistakes:?}");
}

fn examples() -> Vec<(String, String)> {
    let files = files_in(&top().join("examples"));
    let named = |path: &std::path::PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    let is_policy = |path: &&std::path::PathBuf| path.extension().is_some_and(|extension| extension == "toml");
    let examples: Vec<_> =
        files.iter().filter(is_policy).map(|path| (named(path), fs::read_to_string(path).unwrap())).collect();
    assert!(examples.len() >= 6, "{examples:?}");
    examples
}

#[test]
fn every_example_compiles_without_diagnostics() {
    for (name, text) in examples() {
        let compiled = assert_good(&name, &text).compiled;
        words(&compiled);
    }
}

/// A user who copies an example that opens something must agree to it. The example says so.
#[test]
fn exactly_the_examples_that_need_consent_say_so() {
    let mut count = 0;
    for (name, text) in examples() {
        let widening = assert_good(&name, &text).widening;
        let grants: Vec<String> =
            widening.iter().flat_map(|widening| &widening.grants).map(ToString::to_string).collect();
        assert_eq!(text.contains("`agent-sandbox trust`"), !grants.is_empty(), "{name} opens {grants:?}");
        count += usize::from(!grants.is_empty());
    }
    assert!(count > 0, "no example opens anything");
}

/// A misspelt rule would apply to nothing, without a diagnostic.
#[test]
fn every_rule_of_an_example_applies_to_something() {
    for (name, text) in examples() {
        let compiled = assert_good(&name, &text).compiled;
        let missing = compiled.resolution.missing.iter().filter(|(rule, _)| rule.layer == LayerKind::Project);
        let idle: Vec<_> = missing.map(|(rule, _)| &rule.text).collect();
        assert!(idle.is_empty(), "{name}: {idle:?} applies to nothing on the host of this test");
    }
}

/// An example begins with a comment, and has a comment in each block between empty lines.
#[test]
fn every_example_says_why() {
    for (name, text) in examples() {
        assert!(text.starts_with("# "), "{name} must begin with a comment about its purpose");
        let uncommented = text.split("\n\n").filter(|part| !part.contains('#') && !part.trim().starts_with(']'));
        assert_eq!(uncommented.collect::<Vec<_>>(), Vec::<&str>::new(), "{name}: a part without a reason");
    }
}

#[test]
fn every_example_is_mentioned_in_the_documents() {
    let documents = documents();
    for (name, _) in examples() {
        let path = format!("examples/{name}");
        let mentioned = documents.iter().any(|(_, text)| text.contains(&path));
        assert!(mentioned, "no document mentions {path}");
    }
}

#[test]
fn every_toml_block_in_the_documents_compiles_without_diagnostics() {
    let mut count = 0;
    for (name, text) in documents() {
        for block in blocks(&text).iter().filter(|block| block.language == "toml") {
            let _ = assert_good(&format!("{name}:{}", block.line), &block.text);
            count += 1;
        }
    }
    assert!(count > 0, "the documents show at least one configuration");
}
