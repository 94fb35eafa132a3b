//! `ro` rules of built-in presets beside rules of users (SPEC P12).

use std::path::Path;

use agent_sandbox::compile::request::Request;
use agent_sandbox::model::Model;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::access::{Class, class};
use crate::pins::assert_only_what_is_named_is_held;
use crate::rules::{self, RuleSeed};
use crate::scene::{Access, Entry, HOME, Kind, Missing, Node, Scene};
use crate::support::{self, Tree, abs};
use crate::{for_all, generate, means_what_the_specification_says};

/// Paths that `ro` rules of built-in presets name, in the home and in the project, each with a
/// neighbour that no rule names.
const NAMED: [(&str, &[&str]); 2] = [
    (
        HOME,
        &[
            ".bashrc",
            ".claude/settings.json",
            ".claude/statusline.sh",
            ".claude/x",
            ".config/fish/x",
            ".config/goose/memory/x",
        ],
    ),
    ("", &[".claude/settings.json", ".claude/x", ".vscode/x", ".config/mise.toml", ".config/x"]),
];

/// A random scene with the built-in presets, with paths that their `ro` rules name, and with rules
/// for these paths. Most of the rules exclude. One in two scenes has a glob without a folder.
fn scene() -> impl Strategy<Value = Scene> {
    let more = (vec(rules::exclude(), 1..4), vec(rules::rule(), 0..3));
    (generate::scene(), more, any::<bool>()).prop_map(|(scene, (excluding, others), loose)| {
        let mut scene = with_presets(scene, &[excluding, others].concat());
        if loose {
            let text = b"**/mise.toml".to_vec();
            scene.flags.entries.push(Entry { access: Access::Exclude, text, missing: Missing::Skip });
        }
        scene
    })
}

/// Random scenes, some of them with the built-in presets.
pub fn some_scene() -> impl Strategy<Value = Scene> {
    // Boxed, because the value trees of both would overflow the stack of a test thread.
    prop_oneof![2 => generate::scene().boxed(), 1 => scene().boxed()]
}

fn with_presets(mut scene: Scene, more: &[RuleSeed]) -> Scene {
    let project = scene.nodes[6].path.clone();
    // The naive reading does not support repositories.
    let has_repository = scene.nodes.iter().any(|node| node.path.ends_with(".git"));
    if !has_repository {
        scene.for_each_document(|document| document.presets.retain(|preset| preset != "!@all"));
    }
    let mut named: Vec<Node> = scene.nodes[..7].to_vec();
    for (base, paths) in NAMED {
        let base = if base.is_empty() { project.as_path() } else { Path::new(base) };
        for path in paths {
            let mut folders: Vec<&Path> = Path::new(path).ancestors().skip(1).collect();
            folders.retain(|folder| !folder.as_os_str().is_empty());
            let folders = folders.into_iter().rev().map(|folder| (base.join(folder), Kind::Directory));
            for (path, kind) in folders.chain([(base.join(path), Kind::File)]) {
                if !named.iter().any(|node| node.path == path) {
                    named.push(Node { path, kind });
                }
            }
        }
    }
    let entries = more.iter().map(|rule| Entry { missing: Missing::Skip, ..rule.entry(&named, &scene.cwd) });
    scene.flags.entries.extend(entries);
    let known: Vec<_> = scene.nodes.iter().map(|node| node.path.clone()).collect();
    scene.nodes.extend(named.into_iter().filter(|node| !known.contains(&node.path)));
    scene
}

// SPEC P12
#[test]
fn presets_beside_other_rules_mean_what_the_specification_says() {
    for_all(&scene(), |scene| means_what_the_specification_says(&scene));
}

// SPEC B13
#[test]
fn paths_named_by_presets_cannot_be_renamed_if_other_rules_hide_them() {
    assert_only_what_is_named_is_held(&scene());
}

/// The sandbox with the built-in presets, these files and these flags.
fn model_of(entries: &[&str], request: &Request) -> Model {
    let tree = Tree::new(entries.iter().chain(&["home/u/.bashrc", "home/u/proj/"]));
    let (compiled, diagnostics) = tree.compile("/home/u/proj", request);
    assert!(!diagnostics.has_errors(), "{diagnostics:?}");
    support::model(&compiled.unwrap())
}

/// An exact path beats a glob, but a preset's exact `ro` does not show what a user's glob excludes.
#[test]
fn a_glob_that_excludes_counts_where_a_preset_names_the_path() {
    for glob in ["**/mise.toml", ".config/*", "*/mise.toml"] {
        let request = Request { exclude: vec![glob.into()], ..Request::default() };
        let model = model_of(&["home/u/proj/.config/mise.toml"], &request);
        assert_eq!(class(&model, Path::new("/home/u/proj/.config/mise.toml")), Class::Hidden, "{glob}");
        assert!(!model.can_rename(&abs("/home/u/proj/.config")), "{glob}: another folder could replace it");
    }
}

/// `ro = ["~"]` of `@base` does not show a home that a rule above it hides.
#[test]
fn a_home_in_an_excluded_folder_is_hidden() {
    let request = Request { exclude: vec!["/home".into()], ..Request::default() };
    let model = model_of(&[], &request);
    assert_eq!(class(&model, Path::new("/home/u/.bashrc")), Class::Hidden);
    assert_eq!(class(&model, Path::new("/home/u/proj/file")), Class::Rw);
}

/// A user's `ro` shows a path in a folder that the user excludes, also if a preset names the path.
#[test]
fn a_users_own_ro_opens_where_a_preset_names_the_path() {
    for text in ["~/.bashrc", "~/.bash*"] {
        let request = Request { exclude: vec!["~".into()], ro: vec![text.into()], ..Request::default() };
        assert_eq!(class(&model_of(&[], &request), Path::new("/home/u/.bashrc")), Class::Ro, "{text}");
    }
    let request = Request { exclude: vec!["~".into()], rw: vec!["~/.bash*".into()], ..Request::default() };
    assert_eq!(class(&model_of(&[], &request), Path::new("/home/u/.bashrc")), Class::Ro, "a preset's `ro` tightens it");
}
