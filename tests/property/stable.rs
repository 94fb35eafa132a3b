//! Changes of a policy that must not change the argv, and changes that may only open or only
//! restrict paths.

use std::path::Path;

use agent_sandbox::compile::lower::Argv;
use agent_sandbox::compile::request::Request;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::access::class;
use crate::naive::{self, Verdict};
use crate::scene::{Access, Document, Entry, Missing, Scene};
use crate::support::abs;
use crate::{argv, for_all, generate, places, presets, read, rules, words};

// SPEC B10
#[test]
fn compiling_twice_gives_the_same_bytes() {
    for_all(&generate::scene(), |scene| {
        let stage = scene.build();
        let first = argv(&scene, &stage, &scene.request());
        prop_assert_eq!(first.as_ref().map(Argv::words), words(&scene, &stage, &scene.request()));
        first.as_ref().map(read).transpose()?;
        Ok(first.is_some())
    });
}

// SPEC B5
#[test]
fn with_and_without_optimising_the_argv_means_the_same() {
    for_all(&generate::scene(), |scene| {
        let stage = scene.build();
        let plain = argv(&scene, &stage, &Request { no_optimize: true, ..scene.request() });
        let optimised = argv(&scene, &stage, &scene.request());
        let (compiled, _) = stage.compile(&scene, &scene.request());
        let (Some(plain), Some(optimised)) = (&plain, &optimised) else {
            prop_assert!(plain.is_none() && optimised.is_none(), "only one of them is refused");
            return Ok(false);
        };
        prop_assert!(optimised.words().len() <= plain.words().len(), "optimising made the argv longer");
        let (plain, optimised) = (read(plain)?, read(optimised)?);
        for path in places(&stage) {
            let [moves, moves_plain] = [&optimised, &plain].map(|model| model.can_rename(&abs(&path)));
            // Even a redundant mount keeps its mount point from being renamed.
            let lost_a_mount = || compiled.plan.redundant.iter().any(|dropped| dropped.path.as_path() == path);
            let (plain, optimised) = (class(&plain, &path), class(&optimised, &path));
            // In a private home, the parents of a mask exist only with the mask.
            let is_own = scene.has_own_places() && optimised.of_the_host() == 0;
            let agreed = moves == moves_plain || (moves && lost_a_mount()) || is_own;
            prop_assert!(agreed, "{path:?} can be renamed: {moves}, and {moves_plain} without optimising");
            prop_assert!(
                plain.means(optimised, &path, &scene),
                "{path:?} is {optimised:?}, and {plain:?} without optimising"
            );
        }
        Ok(true)
    });
}

// SPEC D7
#[test]
fn neither_the_order_of_entries_nor_that_of_files_on_disk_changes_a_byte() {
    for_all(&(generate::scene(), any::<u64>()), |(scene, mut seed)| {
        let mut shuffled = scene.clone();
        shuffle(&mut shuffled.nodes, &mut seed);
        shuffled.for_each_document(|document| {
            shuffle(&mut document.entries, &mut seed);
            shuffle(&mut document.presets, &mut seed);
            shuffle(&mut document.definitions, &mut seed);
            for definition in &mut document.definitions {
                shuffle(&mut definition.entries, &mut seed);
                shuffle(&mut definition.include, &mut seed);
            }
        });
        let before = words(&scene, &scene.build(), &scene.request());
        let after = words(&shuffled, &shuffled.build(), &shuffled.request());
        prop_assert_eq!(&before, &after);
        Ok(before.is_some())
    });
}

/// Shuffles the list with a simple generator, so that the same seed gives the same order.
fn shuffle<T>(list: &mut [T], seed: &mut u64) {
    for last in (1..list.len()).rev() {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        list.swap(last, usize::try_from(*seed >> 33).unwrap() % (last + 1));
    }
}

#[test]
fn one_more_exclude_on_the_command_line_never_widens() {
    for_all(&(generate::scene(), any::<Index>()), |(scene, index)| {
        let hidden = &index.get(&scene.nodes[6..]).path;
        let mut more = scene.clone();
        more.flags.entries.push(exclude(hidden));
        never_widens(&scene, &more)
    });
}

#[test]
fn one_more_exclude_on_any_layer_never_widens() {
    for_all(&(presets::some_scene(), any::<Index>(), rules::exclude()), |(scene, index, added)| {
        let mut more = scene.clone();
        let mut documents: Vec<&mut Document> = more.files.values_mut().collect();
        documents.push(&mut more.flags);
        let at = index.index(documents.len());
        let entry = added.entry(&scene.nodes, &scene.cwd);
        if at + 1 < documents.len() && std::str::from_utf8(&entry.text).is_err() {
            return Ok(false);
        }
        documents[at].entries.push(entry);
        never_widens(&scene, &more)
    });
}

fn exclude(path: &Path) -> Entry {
    Entry { access: Access::Exclude, text: rules::exactly(path), missing: Missing::Skip }
}

/// Asserts that `more` opens no path that `scene` does not open. Returns whether they could be
/// compared.
fn never_widens(scene: &Scene, more: &Scene) -> Result<bool, TestCaseError> {
    let stage = scene.build();
    let more_stage = more.build();
    let verdicts = (naive::judge(scene, &stage), naive::judge(more, &more_stage));
    let (Verdict::Policy(without), Verdict::Policy(with)) = verdicts else { return Ok(false) };
    // By SPEC G3 a link in a hidden folder protects nothing elsewhere.
    if !without.links().is_subset(with.links()) {
        return Ok(false);
    }
    let before = argv(scene, &stage, &scene.request());
    let after = argv(more, &more_stage, &more.request());
    let (Some(before), Some(after)) = (before, after) else { return Ok(false) };
    let (before, after) = (read(&before)?, read(&after)?);
    for path in places(&stage) {
        let (before, after) = (class(&before, &path), class(&after, &path));
        prop_assert!(after.of_the_host() <= before.of_the_host(), "{path:?} was {before:?} and is {after:?}\n{more:?}");
    }
    Ok(true)
}
