//! Planting settings and hooks in the repositories that agents keep in their own folders.

use crate::git::repository;
use crate::outcome::Verdict;
use crate::scene::Scene;

for_everybody!("nested-repositories":
    // SPEC R18, A13
    planting_a_setting_in_a_snapshot,
    // SPEC R18
    planting_a_hook_in_a_new_snapshot,
    // SPEC R18
    planting_a_setting_in_a_checkpoint,
    // SPEC R18
    planting_the_settings_of_the_user_of_a_checkpoint,
    // SPEC R18
    leading_a_checkpoint_elsewhere,
);

/// The git commands that the agents run outside at their next turns.
const NEXT_TURN: &str = r#"
for folder in ~/.local/share/opencode/snapshot/project/*; do
    git --git-dir "$folder" --work-tree . add --all
    git --git-dir "$folder" --work-tree . -c user.name=a -c user.email=a@b commit -qm next
done
cd ~/.gemini/history/project && HOME=$PWD git status
[ ! -e pwned ] || touch ~/pwned
"#;

fn judged(scene: &Scene, way: &str) -> Verdict {
    repository(scene);
    for (folder, words) in [
        (".local/share/opencode/snapshot/project/hash", &["git", "init", "-q", "--bare"][..]),
        (".gemini/history/project", &["git", "init", "-q"]),
    ] {
        let folder = scene.home().join(folder);
        scene.host(&[words, &[folder.to_str().unwrap()]].concat());
    }
    let pwned = scene.home().join("pwned");
    let mut said = scene.attack("agent_repositories.sh", &[way]).completed().err;
    assert!(!pwned.exists());
    said += &scene.try_host(&["sh", "-c", NEXT_TURN]).err;
    Verdict::broken_if(pwned.exists(), said)
}

fn planting_a_setting_in_a_snapshot(scene: &Scene) -> Verdict {
    judged(scene, "setting")
}

fn planting_a_hook_in_a_new_snapshot(scene: &Scene) -> Verdict {
    judged(scene, "hook")
}

fn planting_a_setting_in_a_checkpoint(scene: &Scene) -> Verdict {
    judged(scene, "checkpoint")
}

fn planting_the_settings_of_the_user_of_a_checkpoint(scene: &Scene) -> Verdict {
    judged(scene, "user")
}

fn leading_a_checkpoint_elsewhere(scene: &Scene) -> Verdict {
    judged(scene, "elsewhere")
}
