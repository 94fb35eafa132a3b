//! Exactly the directories that a rule names cannot be moved (SPEC B12, B13).

use std::cell::Cell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use agent_sandbox::compile::lower::{Argv, Operation};
use agent_sandbox::compile::plan::Purpose;
use agent_sandbox::compile::request::Request;
use agent_sandbox::diagnostic::Diagnostics;
use agent_sandbox::policy::path::AbsPath;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::access::Class;
use crate::naive::{self, Naive, Verdict};
use crate::scene::{Access, Entry, HOME, Kind, Missing, Node, Scene, Stage};
use crate::support::{self, Tree, abs};
use crate::{for_all, generate, read, rules};

/// A random scene with deep folders. The project, and sometimes the whole home, is writable, and
/// more rules name paths in these folders.
fn deep_scene() -> impl Strategy<Value = Scene> {
    let more = vec(rules::rule(), 1..5);
    (generate::scene(), more, any::<bool>()).prop_map(|(mut scene, more, home_too)| {
        let project = if scene.cwd.ends_with("s") { scene.cwd.parent().unwrap() } else { &scene.cwd }.to_path_buf();
        let mut deep: Vec<Node> = scene.nodes[..7].to_vec();
        for path in ["a", "a/b", "a/b/a", "a/b/a/s", "a/b/a/s/x", "a/s", "a/s/b", "a/s/b/x"] {
            let kind = if path.ends_with('x') { Kind::File } else { Kind::Directory };
            let node = Node { path: project.join(path), kind };
            let taken = scene.nodes.iter().find(|other| other.path == node.path);
            if taken.is_some_and(|other| other.kind != node.kind) {
                break;
            }
            deep.push(node);
        }
        if deep.len() > 7 {
            let entries = more.iter().map(|rule| rule.entry(&deep, &scene.cwd));
            scene.flags.entries.extend(entries.map(|entry| Entry { missing: Missing::Skip, ..entry }));
        }
        let opened = [Some(project.as_path()), home_too.then_some(Path::new(HOME))];
        scene.flags.entries.extend(opened.into_iter().flatten().map(|path| Entry {
            access: Access::Rw,
            text: rules::exactly(path),
            missing: Missing::Skip,
        }));
        let known: Vec<PathBuf> = scene.nodes.iter().map(|node| node.path.clone()).collect();
        scene.nodes.extend(deep.into_iter().filter(|node| !known.contains(&node.path)));
        scene
    })
}

/// The argv and the naive reading of a scene. `None` if the policy is refused.
fn compiled(scene: &Scene) -> Option<(Stage, Argv, Naive)> {
    let stage = scene.build();
    let (compiled, diagnostics) = stage.compile(scene, &scene.request());
    let Verdict::Policy(naive) = naive::judge(scene, &stage) else { return None };
    if diagnostics.has_errors() {
        return None;
    }
    let argv = compiled.argv(&support::machine(), &["true".into()], &mut Diagnostics::default());
    Some((stage, argv, naive))
}

fn words(argv: &Argv) -> Vec<OsString> {
    argv.words()
}

fn pinned(operation: &Operation) -> Option<AbsPath> {
    matches!(operation.purpose, Purpose::Pin { .. }).then(|| abs(&operation.words[1]))
}

// SPEC B12, B13
#[test]
fn a_directory_can_be_renamed_just_where_no_protective_rule_names_it() {
    assert_only_what_is_named_is_held(&deep_scene());
}

pub fn assert_only_what_is_named_is_held(scenes: &impl Strategy<Value = Scene>) {
    let (free, held) = (Cell::new(0), Cell::new(0));
    for_all(scenes, |scene| {
        let Some((stage, argv, naive)) = compiled(&scene) else { return Ok(false) };
        // A glob need not find its matches in a hidden folder (SPEC G3), and then keeps no
        // directory in place.
        if naive.hides_what_a_pattern_names() {
            return Ok(false);
        }
        let model = read(&argv)?;
        for (path, kind) in stage.paths() {
            // Directories on a tmpfs of the sandbox do not count.
            if !kind.is_dir() || naive.class(&path) == Class::Private {
                continue;
            }
            let (is, ought) = (model.can_rename(&abs(&path)), naive.may_be_renamed(&path));
            prop_assert_eq!(is, ought, "{:?} can be renamed: {}\n{:?}", path, is, words(&argv));
            free.set(free.get() + u32::from(is));
        }
        held.set(held.get() + argv.operations.iter().filter_map(pinned).count());
        Ok(true)
    });
    println!("{} directories could be renamed, and {} were held", free.get(), held.get());
    assert!(free.get() > 100 && held.get() > 100, "{} and {}", free.get(), held.get());
}

// SPEC B12
#[test]
fn every_ancestor_of_an_exactly_named_path_stays_where_it_is() {
    for_all(&deep_scene(), |scene| {
        let Some((_, argv, naive)) = compiled(&scene) else { return Ok(false) };
        let model = read(&argv)?;
        for path in naive.exactly_protected() {
            for above in path.ancestors().skip(1).filter(|above| naive.class(above) == Class::Rw) {
                prop_assert!(!model.can_rename(&abs(above)), "{above:?}, and with it {path:?}\n{:?}", words(&argv));
            }
        }
        Ok(true)
    });
}

// SPEC B12
#[test]
fn without_any_one_pin_its_directory_could_be_renamed() {
    for_all(&deep_scene(), |scene| {
        let Some((_, argv, _)) = compiled(&scene) else { return Ok(false) };
        for (index, operation) in argv.operations.iter().enumerate() {
            let Some(directory) = pinned(operation) else { continue };
            let mut without = argv.clone();
            without.operations.remove(index);
            prop_assert!(read(&without)?.can_rename(&directory), "{directory} would stay without a pin");
        }
        Ok(true)
    });
}

/// Of two equally strong patterns, the texts decide which one is stored as the winner. The other
/// one must still keep its directories in place.
#[test]
fn each_of_several_equally_strong_patterns_names_its_directories() {
    for other in ["a/x*", "[a]/x", "?/x", "{a,b}/x"] {
        let tree = Tree::new(["home/u/proj/a/x"]);
        let ro = vec!["**/x".into(), other.into()];
        let request = Request { ro, rw: vec![".".into()], presets: vec!["!@all".into()], ..Request::default() };
        let (compiled, _) = tree.compile("/home/u/proj", &request);
        assert!(!support::model(&compiled.unwrap()).can_rename(&abs("/home/u/proj/a")), "{other}");
    }
}
