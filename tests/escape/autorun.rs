//! Files that the host runs or obeys later without being asked.

use crate::outcome::Verdict;
use crate::scene::{BASE_ONLY, DEFAULTS, ORIGINAL, Scene};

for_everybody!("autorun-preset": changing_what_the_project_runs_by_itself, changing_what_an_open_home_runs_by_itself);
for_everybody!("the presets of caches and agents": changing_what_is_run_from_caches_and_agents);
for_everybody!("placeholders": making_folders_that_are_obeyed);
for_everybody!("reports": making_files_that_are_obeyed_without_a_word);

const PROJECT: &[&str] = &[
    ".vscode/tasks.json",
    ".idea/workspace.xml",
    ".devcontainer/devcontainer.json",
    ".envrc",
    ".mcp.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".cursor/mcp.json",
    ".codex/config.toml",
    ".gitmodules",
    ".husky/pre-commit",
];

const HOME: &[&str] = &[
    ".bashrc",
    ".profile",
    ".gitconfig",
    ".npmrc",
    ".local/bin/tool",
    ".config/systemd/user/job.service",
    ".config/autostart/job.desktop",
];

const CACHES_AND_AGENTS: &[&str] = &[
    ".cargo/bin/cargo",
    ".cargo/config.toml",
    ".gradle/init.d/init.gradle",
    ".m2/settings.xml",
    "go/bin/tool",
    ".npm/bin/tool",
    ".claude/settings.json",
    ".claude/hooks/start.sh",
    ".codex/config.toml",
    ".pi/agent/settings.json",
];

fn change(scene: &Scene, paths: Vec<std::path::PathBuf>) -> Verdict {
    let ran = scene.attack("write.py", &paths).completed();
    let changed: Vec<_> = paths.iter().filter(|path| scene.changed(path)).collect();
    Verdict::broken_if(!changed.is_empty(), format!("changed: {changed:?}\n{}", ran.out))
}

fn changing_what_the_project_runs_by_itself(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "");
    for path in PROJECT {
        scene.write(path, ORIGINAL);
    }
    change(scene, PROJECT.iter().map(|path| scene.project().join(path)).collect())
}

fn changing_what_an_open_home_runs_by_itself(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "rw = ['~']");
    for path in HOME {
        scene.write_home(path, ORIGINAL);
    }
    change(scene, HOME.iter().map(|path| scene.home().join(path)).collect())
}

fn changing_what_is_run_from_caches_and_agents(scene: &Scene) -> Verdict {
    if scene.is_control() {
        scene.policy(
            BASE_ONLY,
            "rw = ['~/.cargo', '~/.gradle', '~/.m2', '~/go', '~/.npm', '~/.claude', '~/.codex', '~/.pi']",
        );
    } else {
        scene.policy(DEFAULTS, "");
    }
    for path in CACHES_AND_AGENTS {
        scene.write_home(path, ORIGINAL);
    }
    change(scene, CACHES_AND_AGENTS.iter().map(|path| scene.home().join(path)).collect())
}

fn making_folders_that_are_obeyed(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "");
    let paths = [".vscode/tasks.json", ".idea/workspace.xml", ".devcontainer/devcontainer.json", ".cursor/mcp.json"];
    let ran = scene.attack("write.py", &paths).completed();
    let made: Vec<_> = paths.iter().filter(|path| scene.bytes(path).is_some()).collect();
    for path in paths.iter().filter(|_| made.is_empty()) {
        let folder = scene.project().join(path).parent().unwrap().to_owned();
        assert!(!folder.exists(), "{folder:?} was left behind");
    }
    Verdict::broken_if(!made.is_empty(), format!("made: {made:?}\n{}", ran.out))
}

/// A placeholder would be staged by `git add`, so these can be made; but the user hears of it.
fn making_files_that_are_obeyed_without_a_word(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "");
    let ran = scene.attack("sh", &["-c", "echo planted >.envrc; echo planted >.mcp.json; echo done"]).completed();
    assert!(scene.bytes(".envrc").is_some(), "{ran:?}");
    let silent: Vec<_> = [".envrc", ".mcp.json"].into_iter().filter(|name| !ran.err.contains(name)).collect();
    Verdict::broken_if(!silent.is_empty(), format!("not a word about {silent:?}: {}", ran.err))
}
