//! An injection shows its content at its path, and changes nothing anywhere else (SPEC J1, J2).

use std::fs;
use std::path::{Path, PathBuf};

use agent_sandbox::compile::request::Request;
use agent_sandbox::model::ModelView;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::access::class;
use crate::scene::{Kind, Scene};
use crate::support::abs;
use crate::{argv, for_all, generate, places, read};

/// The folder of the sources, which is visible even in a minimal base.
const SOURCE: &str = "/usr/source";

/// A file of the scene, or a missing path in one of its directories, and whether a folder can be
/// injected at the path.
fn target(scene: &Scene, index: Index) -> (PathBuf, bool) {
    let nodes: Vec<_> = scene.nodes.iter().filter(|node| !matches!(node.kind, Kind::Link(_))).collect();
    let node = index.get(&nodes);
    if node.kind == Kind::Directory { (node.path.join("zz/new"), true) } else { (node.path.clone(), false) }
}

// SPEC J2
#[test]
fn an_injection_changes_its_own_path_alone() {
    for_all(&(generate::scene(), any::<Index>(), any::<bool>()), |(scene, index, is_folder)| {
        let stage = scene.build();
        fs::create_dir_all(stage.real(Path::new(SOURCE)).join("folder/in")).unwrap();
        fs::write(stage.real(Path::new(SOURCE)).join("file"), "injected").unwrap();
        let (target, takes_folder) = target(&scene, index);
        // The entries of a folder are injected one by one, each as a whole.
        let (from, at, shows) = match is_folder && takes_folder {
            false => ("file", target.clone(), "file"),
            true => ("folder", target.join("in"), "folder/in"),
        };
        let inject = vec![(format!("{SOURCE}/{from}").into(), target.clone().into())];
        let plain = argv(&scene, &stage, &scene.request());
        let injected = argv(&scene, &stage, &Request { inject, ..scene.request() });
        let Some(plain) = plain else {
            prop_assert!(injected.is_none(), "an injection lets a policy run that is refused without it");
            return Ok(false);
        };
        // The injection is refused because of a link on the way, or at a file of agent-sandbox.
        let Some(injected) = injected else { return Ok(false) };
        let (plain, injected) = (read(&plain)?, read(&injected)?);
        let source = abs(format!("{SOURCE}/{shows}"));
        let is_shown = |view| matches!(view, ModelView::Host { source: of, writable: false, .. } if of == source);
        prop_assert!(is_shown(injected.view(&abs(&at))), "{at:?} shows {:?}", injected.view(&abs(&at)));
        for path in places(&stage).into_iter().filter(|path| !path.starts_with(&at)) {
            let (before, after) = (class(&plain, &path), class(&injected, &path));
            let means = before.means(after, &path, &scene);
            prop_assert!(means, "{path:?} is {after:?}, and {before:?} without the injection");
        }
        Ok(true)
    });
}
