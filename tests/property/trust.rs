//! The grants of a project's file are exactly the paths that are more open in its argv than in the
//! argv without it.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use agent_sandbox::compile::request::Request;
use agent_sandbox::trust::{Grant, Granted, Openness};
use proptest::prelude::*;

use crate::access::class;
use crate::{argv, for_all, places, presets, read};

// SPEC T2
#[test]
fn grants_are_exactly_the_paths_that_the_projects_file_opens() {
    let opened = Cell::new(0);
    for_all(&presets::some_scene(), |scene| {
        let stage = scene.build();
        let request = scene.request();
        let (compiled, diagnostics) = stage.compile(&scene, &request);
        if diagnostics.has_errors() {
            return Ok(false);
        }
        let grants = stage.grants(&scene, &request, &compiled);
        if request.config.is_some() || request.no_project_config {
            prop_assert_eq!(grants, []);
            return Ok(true);
        }
        // `--no-project-config` gives the policy without the file, independent of the comparison.
        let without = Request { no_project_config: true, ..request.clone() };
        let before = argv(&scene, &stage, &without);
        let Some(before) = before else { return Ok(false) };
        let created_before = stage.compile(&scene, &without).0.resolution.create;
        let now = argv(&scene, &stage, &request).unwrap();
        let (before, now) = (read(&before)?, read(&now)?);
        let rank = |path: &Path| (class(&before, path).of_the_host(), class(&now, path).of_the_host());

        let created = compiled.resolution.create.iter().map(|path| path.as_path().to_path_buf());
        let named = grants.iter().filter_map(path_of);
        let all: Vec<PathBuf> = places(&stage).into_iter().chain(created).chain(named).collect();
        for path in &all {
            let (from, to) = rank(path);
            let is_said = grants.iter().any(|granted| says(granted, path, from, to));
            prop_assert!(to <= from || is_said, "{path:?} goes from {from} to {to} without a word: {grants:?}");
        }
        for granted in &grants {
            let witnessed = match &granted.grant {
                Grant::Path { path, from, to } => rank(path.as_path()) == (number(*from), number(*to)),
                Grant::Create { path } => {
                    compiled.resolution.create.contains(path)
                        && !created_before.contains(path)
                        && rank(path.as_path()).0 < 2
                }
                Grant::Preset { name } => !compiled.policy.presets.contains_key(name),
                other => panic!("no scene has {other:?}"),
            };
            prop_assert!(witnessed, "{granted} is not so: {:?}", path_of(granted).map(|path| rank(&path)));
        }
        opened.set(opened.get() + u32::from(!grants.is_empty()));
        Ok(true)
    });
    println!("{} scenes opened something", opened.get());
    assert!(opened.get() >= 20, "only {} scenes opened anything", opened.get());
}

fn path_of(granted: &Granted) -> Option<PathBuf> {
    match &granted.grant {
        Grant::Path { path, .. } | Grant::Create { path } => Some(path.as_path().to_path_buf()),
        _ => None,
    }
}

fn says(granted: &Granted, at: &Path, before: u8, now: u8) -> bool {
    matches!(&granted.grant, Grant::Path { path, from, to }
        if at.starts_with(path) && (number(*from), number(*to)) == (before, now))
}

fn number(openness: Openness) -> u8 {
    match openness {
        Openness::Hidden => 0,
        Openness::Redacted => panic!("no scene has credentials"),
        Openness::ReadOnly => 1,
        Openness::Writable => 2,
    }
}
