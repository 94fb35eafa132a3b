//! Regressions that random scenes and code review found, each as small as possible.

use std::path::Path;

use agent_sandbox::compile::request::Request;

use crate::access::{Class, class};
use crate::support::{self, Tree};

/// The access at `/home/u/proj/PATH` with these files and flags, without presets.
fn class_of(path: &str, entries: &[&str], request: Request) -> Class {
    let tree = Tree::new(entries);
    let request = Request { presets: vec!["!@all".into()], ..request };
    let (compiled, diagnostics) = tree.compile("/home/u/proj", &request);
    assert!(!diagnostics.has_errors(), "{diagnostics:?}");
    class(&support::model(&compiled.unwrap()), &Path::new("/home/u/proj").join(path))
}

#[test]
fn an_escaped_star_may_precede_a_star() {
    let request = Request { exclude: vec![r"\**".into()], ..Request::default() };
    assert_eq!(class_of("*a", &["home/u/proj/*a", "home/u/proj/b"], request), Class::Hidden);
}

#[test]
fn a_question_mark_is_one_character_of_any_length() {
    let request = Request { exclude: vec!["?.pem".into(), "[é].key".into()], ..Request::default() };
    assert_eq!(class_of("é.pem", &["home/u/proj/é.pem"], request.clone()), Class::Hidden);
    assert_eq!(class_of("é.key", &["home/u/proj/é.key"], request), Class::Hidden);
}

/// A command that can write to the folder can create a file `\[id\]`. In the next run `[id]` must
/// not be open because of it.
#[test]
fn a_file_named_like_an_escaped_pattern_takes_no_protection_away() {
    let request = Request { exclude: vec![r"\[id\]".into()], ..Request::default() };
    assert_eq!(class_of("[id]", &["home/u/proj/[id]", r"home/u/proj/\[id\]"], request), Class::Hidden);
}

/// SPEC D3: the base is the lowest rule, and any other beats it.
#[test]
fn a_rule_on_tmp_beats_the_setting_that_shares_it() {
    let user = "home/u/.config/agent-sandbox/config.toml = filesystem.tmp = \"host\"";
    let entries = [user, "etc/agent-sandbox/config.toml = filesystem.exclude = [\"/tmp\"]", "home/u/proj/", "tmp/a"];
    assert_eq!(class_of("/tmp/a", &entries, Request::default()), Class::Hidden);
    let entries = [user, "home/u/proj/", "tmp/a"];
    let request = Request { ro: vec!["/t*".into()], ..Request::default() };
    assert_eq!(class_of("/tmp/a", &entries, request), Class::Ro);
}

/// A rule for a link to an excluded folder opens neither the folder nor a path in it.
#[test]
fn a_link_to_an_excluded_folder_leaves_it_excluded() {
    let entries = [
        "home/u/.config/agent-sandbox/config.toml = filesystem.exclude = [\"d*\"]",
        "home/u/proj/d/secret",
        "home/u/proj/link -> d",
    ];
    let request = Request { ro: vec!["l*".into()], ..Request::default() };
    assert_eq!(class_of("d", &entries, request.clone()), Class::Hidden);
    assert_eq!(class_of("d/secret", &entries, request), Class::Hidden);
}

/// The protection by a link in an excluded folder must not depend on a rule for another path in
/// that folder.
#[test]
fn a_link_in_an_excluded_folder_means_the_same_with_and_without_a_rule_beside_it() {
    let entries = ["home/u/proj/d/link -> ../t", "home/u/proj/d/x", "home/u/proj/t"];
    let request = Request { exclude: vec!["d".into(), "**/link".into()], ..Request::default() };
    let beside = Request { ro: vec!["d/x".into()], ..request.clone() };
    assert_eq!(class_of("t", &entries, request), class_of("t", &entries, beside));
}

/// `**/r` beats `d/r*` as long as `d` is visible. Hiding `d` takes `**/r` out of reach, and then
/// `d/r*` must not open the path.
#[test]
fn hiding_a_folder_does_not_open_paths_in_it() {
    let entries = ["home/u/.config/agent-sandbox/config.toml = filesystem.rw = [\"d/r*\"]", "home/u/proj/d/r"];
    let request = Request { ro: vec!["**/r".into()], ..Request::default() };
    assert_eq!(class_of("d/r", &entries, request.clone()), Class::Ro);
    let request = Request { exclude: vec!["d".into()], ..request };
    assert_ne!(class_of("d/r", &entries, request), Class::Rw);
}

/// A command could plant a link in the project, so that a protective rule would open its target.
#[test]
fn a_planted_link_re_opens_nothing_that_is_excluded() {
    let entries = [
        "home/u/.config/agent-sandbox/config.toml = filesystem.exclude = [\"~/.ssh\"]",
        "home/u/.ssh/id",
        "home/u/proj/x.json -> ../.ssh/id",
    ];
    let request = Request { ro: vec!["*.json".into()], ..Request::default() };
    assert_eq!(class_of("/home/u/.ssh/id", &entries, request), Class::Hidden);
}

/// `d/r*` re-opens a folder in the excluded folder, and in the re-opened folder other globs apply.
#[test]
fn globs_apply_inside_a_folder_that_a_glob_re_opens() {
    let request =
        Request { exclude: vec!["d".into(), "**/secret".into()], rw: vec!["d/r*".into()], ..Request::default() };
    let entries = ["home/u/proj/d/r1/secret"];
    assert_eq!(class_of("d/r1", &entries, request.clone()), Class::Rw);
    assert_eq!(class_of("d/r1/secret", &entries, request), Class::Hidden);
}

/// `d/*` keeps `d/*/a` from opening `d/e/a` as long as `d` is visible. Hiding `d` must not change
/// this.
#[test]
fn hiding_a_folder_keeps_hidden_paths_in_it_hidden() {
    let user = "home/u/.config/agent-sandbox/config.toml = filesystem.exclude = [\"/home/*/proj/d/*\"]";
    let entries = [user, "home/u/proj/d/e/a/"];
    let request = Request { rw: vec!["d/*/a".into()], ..Request::default() };
    assert_eq!(class_of("d/e/a", &entries, request.clone()), Class::Hidden);
    let request = Request { exclude: vec!["d".into()], ..request };
    assert_eq!(class_of("d/e/a", &entries, request), Class::Hidden);
}

/// Two globs of one layer and one access are equally strong, whatever their texts are.
#[test]
fn a_glob_in_reach_counts_beside_one_that_is_out_of_reach() {
    for out_of_reach in ["**/r", "*/r", "[d]/r", "{d,x}*/r", "?/r"] {
        let ro = vec![out_of_reach.into(), "d/r*".into()];
        let request = Request { exclude: vec!["d".into()], ro, ..Request::default() };
        assert_eq!(class_of("d/r", &["home/u/proj/d/r/"], request), Class::Ro, "{out_of_reach}");
    }
}

/// The decision for the folder of a link never counts rules that came through links.
#[test]
fn a_link_still_counts_in_a_folder_that_is_hidden_through_another_link() {
    let entries = ["home/u/proj/d/l -> ../a", "home/u/proj/a", "home/u/proj/x -> d"];
    let request = Request { rw: vec![".".into()], ro: vec!["**/l".into()], ..Request::default() };
    assert_eq!(class_of("a", &entries, request.clone()), Class::Ro);
    let request = Request { exclude: vec!["x".into()], ..request };
    assert_eq!(class_of("a", &entries, request), Class::Ro);
}

/// `b/*` comes through a link and hides only hidden paths, so it does not count. The walk must not
/// stop at its match either.
#[test]
fn a_glob_through_a_link_that_does_not_count_hides_nothing_that_is_re_opened() {
    let entries = ["home/u/proj/s/a/c/d/", "home/u/proj/b -> s/a"];
    let request =
        Request { exclude: vec!["s/*".into(), "b/*".into()], rw: vec!["s/a/*/*".into()], ..Request::default() };
    assert_eq!(class_of("s/a/c", &entries, request.clone()), Class::Hidden);
    assert_eq!(class_of("s/a/c/d", &entries, request), Class::Rw);
}
