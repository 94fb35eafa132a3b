//! Attacks through files that git's settings name outside of the project, or to which git pushes.

use crate::git::repository;
use crate::outcome::Verdict;
use crate::scene::Scene;

for_everybody!("git-preset":
    // SPEC P8
    changing_an_included_file_in_a_cache,
    // SPEC P8
    changing_hooks_in_a_cache,
    // SPEC P8
    planting_a_hook_in_a_remote_in_a_cache,
    // SPEC P8
    planting_a_hook_in_a_remote_in_the_project,
    // SPEC P8
    replacing_a_remote_in_a_cache,
    // SPEC P8
    changing_the_settings_of_a_remote_in_a_cache,
);
for_everybody!("placeholders":
    // SPEC P8
    making_an_included_file_in_a_cache,
);

const CACHE: &str = "~/.cache/mirror";

/// The user's settings name files in a cache, and a bare repository in `remote`.
fn judged(scene: &Scene, way: &str, remote: &str) -> Verdict {
    repository(scene);
    let prepare = format!(
        "mkdir -p ~/.cache/hooks {remote}.git && touch ~/.cache/settings
        git init -q --bare {remote}.git && git remote add origin {remote}
        git config include.path ~/.cache/settings && git config --add include.path '~/.cache/missing'
        echo /build >>.git/info/exclude && git push -q -u origin main"
    );
    scene.host(&["sh", "-c", &prepare]);
    if way == "hooks" {
        scene.host(&["git", "config", "core.hooksPath", "~/.cache/hooks"]);
    }
    let place = remote.replace('~', scene.home().to_str().unwrap()) + ".git";
    let mut said = scene.attack("named_elsewhere.sh", &[way, &place]).completed().err;
    said += &scene.try_host(&["sh", "-c", "git status; git commit --allow-empty -qm next; git push"]).err;
    Verdict::broken_if(scene.home().join("pwned").exists(), said)
}

fn changing_an_included_file_in_a_cache(scene: &Scene) -> Verdict {
    judged(scene, "include", CACHE)
}

fn making_an_included_file_in_a_cache(scene: &Scene) -> Verdict {
    judged(scene, "include-missing", CACHE)
}

fn changing_hooks_in_a_cache(scene: &Scene) -> Verdict {
    judged(scene, "hooks", CACHE)
}

fn planting_a_hook_in_a_remote_in_a_cache(scene: &Scene) -> Verdict {
    judged(scene, "push", CACHE)
}

fn planting_a_hook_in_a_remote_in_the_project(scene: &Scene) -> Verdict {
    judged(scene, "push", "./build/mirror")
}

fn replacing_a_remote_in_a_cache(scene: &Scene) -> Verdict {
    judged(scene, "push-moved", CACHE)
}

fn changing_the_settings_of_a_remote_in_a_cache(scene: &Scene) -> Verdict {
    judged(scene, "push-settings", CACHE)
}
