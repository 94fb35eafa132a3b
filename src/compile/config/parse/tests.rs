use super::super::Tmp;
use super::*;
use crate::policy::IfMissing;

fn source(text: &str) -> Arc<Source> {
    Arc::new(Source::new(".agent-sandbox.toml".to_owned(), text.to_owned()))
}

fn accepted(text: &str) -> ConfigFile {
    let mut diagnostics = Diagnostics::default();
    let file = parse(&source(text), &mut diagnostics);
    assert_eq!(diagnostics, Diagnostics::default());
    file
}

/// The text at the place of `origin`.
fn written(origin: &Origin) -> &str {
    origin.place().map_or("", |place| &place.source.text[place.span.clone()])
}

fn paths(entries: &[Entry]) -> Vec<(&str, IfMissing, &str)> {
    entries
        .iter()
        .map(|entry| (entry.path.to_str().unwrap_or_default(), entry.if_missing, written(&entry.origin)))
        .collect()
}

fn strings(strings: &[Sourced<String>]) -> Vec<(&str, &str)> {
    strings.iter().map(|string| (string.value.as_str(), written(&string.origin))).collect()
}

#[test]
fn an_empty_file_says_nothing() {
    assert_eq!(accepted(""), ConfigFile::default());
    assert_eq!(accepted("# nothing yet\n[filesystem]\n[presets]\n"), ConfigFile::default());
}

#[test]
fn every_value_keeps_the_place_where_it_was_written() {
    let file = accepted(
        r#"
        network = false
        docker = true
        [filesystem]
        presets = ["@lint/eslint", "!@caches"]
        ro = ["src", 'a\b', { path = "~/.x", if-missing = "error" }]
        rw = [{ if-missing = "create", path = "dist" }]
        exclude = ["**/*.pem"]
        tmp = "host"
        "#,
    );
    let network = file.network.map(|given| (given.value, written(&given.origin).to_owned()));
    assert_eq!(network, Some((false, "false".to_owned())));
    let docker = file.docker.map(|given| (given.value, written(&given.origin).to_owned()));
    assert_eq!(docker, Some((true, "true".to_owned())));
    let filesystem = file.filesystem;
    assert_eq!(strings(&filesystem.presets), [("@lint/eslint", r#""@lint/eslint""#), ("!@caches", r#""!@caches""#)]);
    assert_eq!(
        paths(&filesystem.ro),
        [
            ("src", IfMissing::Skip, r#""src""#),
            ("a\\b", IfMissing::Skip, "'a\\b'"),
            ("~/.x", IfMissing::Error, r#""~/.x""#),
        ]
    );
    assert_eq!(paths(&filesystem.rw), [("dist", IfMissing::Create, r#""dist""#)]);
    assert_eq!(paths(&filesystem.exclude), [("**/*.pem", IfMissing::Skip, r#""**/*.pem""#)]);
    let tmp = filesystem.tmp.map(|given| (given.value, written(&given.origin).to_owned()));
    assert_eq!(tmp, Some((Tmp::Host, r#""host""#.to_owned())));
}

#[test]
fn a_definition_is_placed_at_its_name() {
    let file = accepted("[presets.'my/tools']\nro = ['a']\ninclude = ['@git']\n[presets]\nempty.rw = ['b']\n");
    let names: Vec<&str> = file.presets.keys().map(String::as_str).collect();
    assert_eq!(names, ["empty", "my/tools"]);
    let tools = &file.presets["my/tools"];
    assert_eq!(written(&tools.origin), "'my/tools'");
    assert_eq!(paths(&tools.ro), [("a", IfMissing::Skip, "'a'")]);
    assert_eq!(strings(&tools.include), [("@git", "'@git'")]);
    assert_eq!(written(&file.presets["empty"].origin), "empty");
}

#[test]
fn valid_values_are_kept_when_others_are_invalid() {
    let mut diagnostics = Diagnostics::default();
    let file = parse(&source("docker = 1\nnetwork = true\n[filesystem]\nro = ['', 'a', 1]\n"), &mut diagnostics);
    assert_eq!(diagnostics.iter().count(), 3);
    assert_eq!(file.network.map(|given| given.value), Some(true));
    assert_eq!(paths(&file.filesystem.ro), [("a", IfMissing::Skip, "'a'")]);
}
