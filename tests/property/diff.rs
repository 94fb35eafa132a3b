//! `diff` names exactly the differences of two argvs, at every path and in both directions.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_sandbox::audit::diff::{Diff, DiffState, PolicyChange, Subject, diff};
use agent_sandbox::compile::Compiled;
use agent_sandbox::compile::request::Request;
use agent_sandbox::model::Model;
use agent_sandbox::policy::origin::Source;
use agent_sandbox::policy::path::AbsPath;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::access::class;
use crate::scene::{Document, Own, PROJECT_FILE, Scene, Stage};
use crate::{for_all, generate, places, read, support};

/// Two policies for one project.
struct Pair {
    stage: Stage,
    old: Compiled,
    new: Compiled,
    before: Model,
    now: Model,
}

impl Pair {
    /// The second policy has the project's file of another scene. `None` if either is refused.
    fn of(scene: &Scene, other: &Scene) -> Result<Option<Self>, TestCaseError> {
        let text_of = |scene: &Scene| {
            let file = scene.files.iter().find(|(path, _)| path.ends_with(PROJECT_FILE));
            file.map(|(_, document)| document.toml()).unwrap_or_default()
        };
        let stage = Scene { own: Own::Found, ..scene.clone() }.build();
        let mut compiled = Vec::new();
        for text in [text_of(scene), text_of(other)] {
            let source = Arc::new(Source::new("project".to_owned(), text));
            let request = Request { supposed: Some(source), config: None, no_project_config: false, ..scene.request() };
            let (one, diagnostics) = stage.compile(scene, &request);
            if diagnostics.has_errors() {
                return Ok(None);
            }
            compiled.push(one);
        }
        let (new, old) = (compiled.pop().unwrap(), compiled.pop().unwrap());
        let model = |of: &Compiled| read(&support::argv(of));
        let (before, now) = (model(&old)?, model(&new)?);
        Ok(Some(Self { stage, old, new, before, now }))
    }

    fn diff(&self) -> Diff {
        diff(("a", &self.old), ("b", &self.new))
    }

    fn ranks(&self, path: &Path) -> (u8, u8) {
        (class(&self.before, path).of_the_host(), class(&self.now, path).of_the_host())
    }

    /// All paths of the tree, and all paths that one of the argvs names.
    fn candidates(&self) -> Vec<PathBuf> {
        let borders = self.old.plan.borders().chain(self.new.plan.borders());
        let created = self.old.resolution.create.iter().chain(&self.new.resolution.create);
        let named = borders.chain(created).map(|path| path.as_path().to_path_buf());
        places(&self.stage).into_iter().chain(named).collect()
    }
}

fn swapped(changes: &[PolicyChange]) -> Vec<PolicyChange> {
    let swap = |change: &PolicyChange| PolicyChange {
        what: change.what.clone(),
        old: change.new.clone(),
        new: change.old.clone(),
    };
    changes.iter().map(swap).collect()
}

fn path_of(change: &PolicyChange) -> Option<&AbsPath> {
    match &change.what {
        Subject::Path { path } => Some(path),
        _ => None,
    }
}

/// Whether a state gives the access `rank` to the host. A blocked path is read-only or hidden.
fn fits(state: DiffState, rank: u8) -> bool {
    match state {
        DiffState::Hidden | DiffState::Private => rank == 0,
        DiffState::ReadOnly => rank == 1,
        DiffState::Writable => rank == 2,
        DiffState::Blocked => rank < 2,
        other => panic!("{other:?} is no state of a path"),
    }
}

fn scenes() -> impl Strategy<Value = (Scene, Scene)> {
    (generate::scene(), generate::scene())
}

// SPEC F4
#[test]
fn a_change_that_widens_in_one_direction_narrows_in_the_other() {
    let differing = Cell::new(0);
    for_all(&scenes(), |(scene, other)| {
        let Some(pair) = Pair::of(&scene, &other)? else { return Ok(true) };
        let there = pair.diff();
        let back = diff(("b", &pair.new), ("a", &pair.old));
        prop_assert_eq!(&there.widened, &swapped(&back.narrowed));
        prop_assert_eq!(&there.narrowed, &swapped(&back.widened));
        let same = diff(("a", &pair.old), ("a", &pair.old));
        prop_assert_eq!((same.widened, same.narrowed), (vec![], vec![]));
        differing.set(differing.get() + u32::from(there.widened.len() + there.narrowed.len() > 0));
        Ok(true)
    });
    assert!(differing.get() >= 30, "only {} pairs differed", differing.get());
}

// SPEC F5
#[test]
fn every_witness_is_true_and_every_difference_has_one() {
    let (wider, narrower) = (Cell::new(0), Cell::new(0));
    for_all(&scenes(), |(scene, other)| {
        let Some(pair) = Pair::of(&scene, &other)? else { return Ok(true) };
        let found = pair.diff();
        for change in found.widened.iter().chain(&found.narrowed) {
            let Some(path) = path_of(change) else { continue };
            let (from, to) = pair.ranks(path.as_path());
            let is_true = fits(change.old.is, from) && fits(change.new.is, to);
            prop_assert!(is_true, "{path} goes from {from} to {to}, and the diff says {change:?}");
            prop_assert!(change.old.rule.is_some() && change.new.rule.is_some(), "{change:?}");
        }
        for path in pair.candidates() {
            let (from, to) = pair.ranks(&path);
            let said = if to > from { &found.widened } else { &found.narrowed };
            let says = |change: &PolicyChange| {
                let at = path_of(change).is_some_and(|above| path.starts_with(above.as_path()));
                at && fits(change.old.is, from) && fits(change.new.is, to)
            };
            let is_said = from == to || said.iter().any(says);
            prop_assert!(is_said, "{path:?} goes from {from} to {to} without a word: {said:?}");
        }
        let paths = |changes: &[PolicyChange]| u32::from(changes.iter().any(|change| path_of(change).is_some()));
        wider.set(wider.get() + paths(&found.widened));
        narrower.set(narrower.get() + paths(&found.narrowed));
        Ok(true)
    });
    println!("{} pairs widened a path, {} narrowed one", wider.get(), narrower.get());
    assert!(wider.get() >= 20 && narrower.get() >= 20, "{} wider, {} narrower", wider.get(), narrower.get());
}

/// With a single added rule, the expected report is known.
#[test]
fn an_added_rule_is_reported_once() {
    let tree = support::Tree::new(["home/u/proj/a/b", "home/u/data/x"]);
    let compile = |document: &Document| {
        let source = Arc::new(Source::new("p".to_owned(), document.toml()));
        let request = Request { supposed: Some(source), ..Request::default() };
        let (compiled, diagnostics) = tree.compile("/home/u/proj", &request);
        assert!(!diagnostics.has_errors());
        compiled.unwrap()
    };
    let entry =
        |access, text: &str| crate::scene::Entry { access, text: text.into(), missing: crate::scene::Missing::Skip };
    let none = compile(&Document::default());
    let some = compile(&Document {
        entries: vec![entry(crate::scene::Access::Exclude, "a"), entry(crate::scene::Access::Rw, "/home/u/data")],
        ..Document::default()
    });
    let found = diff(("none", &none), ("some", &some));
    let said = |changes: &[PolicyChange]| {
        let all = changes.iter().map(|change| (path_of(change).unwrap().to_string(), change.old.is, change.new.is));
        all.collect::<Vec<_>>()
    };
    assert_eq!(said(&found.widened), [("/home/u/data".to_owned(), DiffState::ReadOnly, DiffState::Writable)]);
    assert_eq!(said(&found.narrowed), [("/home/u/proj/a".to_owned(), DiffState::Writable, DiffState::Hidden)]);
}
