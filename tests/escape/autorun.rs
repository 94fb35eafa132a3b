//! Files that programs of the host run or obey later without asking the user.

use std::fs;
use std::os::unix::fs::symlink;

use crate::outcome::Verdict;
use crate::scene::{BASE_ONLY, DEFAULTS, ORIGINAL, Scene};

for_everybody!("autorun-preset": changing_files_of_the_project_that_run_by_themselves, changing_files_of_an_open_home_that_run_by_themselves);
for_everybody!("the presets of caches and agents": changing_programs_in_caches_and_in_folders_of_agents);
for_everybody!("links-in-folders": changing_the_targets_of_links_in_folders);
for_everybody!("placeholders": making_folders_that_are_obeyed);
for_everybody!("reports": making_files_that_tools_obey_without_a_report);

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
    ".hg/hgrc",
    ".jj/repo/config.toml",
    ".sl/config",
    ".helix/languages.toml",
    ".direnv/flake-profile.rc",
    "team.code-workspace",
    "mise.toml",
    "mise.local.toml",
    "mise.ci.toml",
    ".Rprofile",
    ".kiro/hooks/save.kiro.hook",
    ".qwen/settings.json",
    "crush.json",
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
    ".cache/node/corepack/v1/pnpm/9.0.0/bin/pnpm.cjs",
    ".cache/fish/generated_completions/git.fish",
    ".cache/zsh/zcompdump-5.9",
    ".npm/bin/tool",
    ".claude/settings.json",
    ".claude/hooks/start.sh",
    ".codex/config.toml",
    ".codex/environments.toml",
    ".codex/automations/daily/automation.toml",
    ".pi/agent/settings.json",
    ".pi/agent/trust.json",
];

fn change(scene: &Scene, paths: Vec<std::path::PathBuf>) -> Verdict {
    let ran = scene.attack("write.py", &paths).completed();
    let changed: Vec<_> = paths.iter().filter(|path| scene.changed(path)).collect();
    Verdict::broken_if(!changed.is_empty(), format!("changed: {changed:?}\n{}", ran.out))
}

// SPEC A13
fn changing_files_of_the_project_that_run_by_themselves(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "");
    for path in PROJECT {
        scene.write(path, ORIGINAL);
    }
    change(scene, PROJECT.iter().map(|path| scene.project().join(path)).collect())
}

fn changing_files_of_an_open_home_that_run_by_themselves(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "rw = ['~']");
    for path in HOME {
        scene.write_home(path, ORIGINAL);
    }
    change(scene, HOME.iter().map(|path| scene.home().join(path)).collect())
}

/// Links in the home and their targets in the project, which is the repository of the user's
/// dotfiles.
const LINKS: &[(&str, &str)] = &[
    ("home/code/project/.vscode/tasks.json", "shared/tasks"),
    ("home/code/project/.cursor/hooks.json", "shared/hooks"),
    ("home/code/project/.husky/pre-commit", "shared/check"),
    ("home/code/project/.claude/skills/deploy/run", "shared/run"),
    ("home/.config/git/config", "dots/git"),
    ("home/.config/fish/config.fish", "dots/fish"),
    ("home/.config/nvim/lua", "dots/lua"),
    ("home/.config/systemd/user/default.target.wants/job.service", "dots/job"),
    ("home/.claude/hooks/start.sh", "dots/start"),
];

// SPEC P19, A13
fn changing_the_targets_of_links_in_folders(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "");
    let mut targets = Vec::new();
    for (link, target) in LINKS {
        // Neovim's folder of modules.
        let target = if link.ends_with("lua") { format!("{target}/init.lua") } else { (*target).to_owned() };
        scene.write(&target, ORIGINAL);
        targets.push(target);
    }
    for (link, target) in LINKS {
        let link = scene.place.path().join(link);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(scene.project().join(target), link).unwrap();
    }
    scene.place.give_away();
    change(scene, targets.iter().map(|target| scene.project().join(target)).collect())
}

// SPEC A13
fn changing_programs_in_caches_and_in_folders_of_agents(scene: &Scene) -> Verdict {
    if scene.is_control() {
        scene.policy(
            BASE_ONLY,
            "rw = ['~/.cache', '~/.cargo', '~/.gradle', '~/.m2', '~/go', '~/.npm', '~/.claude', '~/.codex', '~/.pi']",
        );
    } else {
        scene.policy(DEFAULTS, "");
    }
    for path in CACHES_AND_AGENTS {
        scene.write_home(path, ORIGINAL);
    }
    change(scene, CACHES_AND_AGENTS.iter().map(|path| scene.home().join(path)).collect())
}

/// Creates folders that the user's editors obey and, with `@autorun-strict`, folders that any tool
/// obeys.
// SPEC A13
fn making_folders_that_are_obeyed(scene: &Scene) -> Verdict {
    let editors = [".vscode/tasks.json", ".idea/workspace.xml", ".zed/tasks.json", ".cursor/mcp.json"];
    let others =
        [".devcontainer/devcontainer.json", ".husky/pre-commit", ".codex/config.toml", ".gemini/settings.json"];
    for editor in [".config/Code/x", ".config/JetBrains/x", ".config/zed/x", ".cursor/x"] {
        scene.write_home(editor, "");
    }
    scene.policy(DEFAULTS, "");
    let by_default = making(scene, &[], &editors);
    let strict = making(scene, &["--preset", "@autorun-strict"], &[&editors[..], &others].concat());
    Verdict::broken_if(!by_default.is_empty() || !strict.is_empty(), format!("made: {by_default:?} {strict:?}"))
}

/// The paths of `paths` that a command could create.
fn making<'p>(scene: &Scene, flags: &[&str], paths: &[&'p str]) -> Vec<&'p str> {
    scene.attack_with(flags, "write.py", paths).completed();
    let made: Vec<_> = paths.iter().copied().filter(|path| scene.bytes(path).is_some()).collect();
    for path in paths.iter().filter(|_| made.is_empty()) {
        let folder = scene.project().join(path).parent().unwrap().to_owned();
        assert!(!folder.exists(), "{folder:?} was left behind");
    }
    made
}

/// The default presets let a command create these files, and the run reports them.
const REPORTED: &[&str] = &[
    ".envrc",
    ".mcp.json",
    ".husky/x",
    ".devcontainer/x",
    ".Rprofile",
    "mise.local.toml",
    ".miserc.toml",
    ".helix/x",
    ".kiro/x",
    ".lite_project.lua",
    ".project",
    ".byebugrc",
    "prek.toml",
    "hk.pkl",
    "captainhook.json",
    "lefthook-local.json",
    ".lefthook.toml",
    ".config/lefthook-local.yml",
    ".jj/repo",
    "_darcs/prefs/defaults",
    ".github/extensions/x",
    ".github/lsp.json",
    ".github/copilot/settings.json",
];

// SPEC A13
fn making_files_that_tools_obey_without_a_report(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "");
    let ran = scene.attack("write.py", REPORTED).completed();
    assert!(REPORTED.iter().all(|path| scene.bytes(path).is_some()), "{ran:?}");
    let silent = |path: &&str| !ran.err.contains(&format!("`{}`", path.trim_end_matches("/x")));
    let silent: Vec<_> = REPORTED.iter().copied().filter(silent).collect();
    let broken = if scene.is_control() { silent.len() == REPORTED.len() } else { !silent.is_empty() };
    Verdict::broken_if(broken, format!("not a word about {silent:?}: {}", ran.err))
}
