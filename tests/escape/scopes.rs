//! Attacks on a program or a hook that settings outside of the repository name, or that settings
//! name indirectly.

use crate::git::repository;
use crate::outcome::Verdict;
use crate::scene::{Scene, run, words};

for_everybody!("git-preset,nested-repositories":
    changing_a_program_that_a_shell_reads,
    changing_a_program_in_the_folder_of_the_shell,
    changing_a_program_below_the_top_level,
    changing_a_program_in_the_folder_that_a_command_enters,
    changing_a_program_that_a_trailer_runs,
    planting_a_hook_that_the_systems_settings_name,
    planting_a_hook_that_numbered_variables_name,
    planting_a_hook_that_a_quoted_variable_names,
    planting_a_hook_below_the_home_of_another_user,
    changing_a_program_that_a_variable_names,
);

/// Runs the attack and then the user's git commands, all with `variables` in the environment.
fn judged(scene: &Scene, variables: &[(&str, &str)], attack: &str, way: &str) -> Verdict {
    let pwned = scene.home().join("pwned");
    let mut command = scene.product();
    command.envs(variables.iter().copied()).arg("--");
    words(&mut command, attack, &[way]);
    let mut said = run(command).completed().err;
    assert!(!pwned.exists());
    for arguments in
        [&["status"][..], &["diff"], &["add", "file"], &["commit", "--allow-empty", "-qm", "second\n\nx: y"]]
    {
        let mut git = scene.outside("git");
        git.envs(variables.iter().copied()).args(arguments);
        said += &run(git).err;
    }
    said += &scene.try_host(&["git", "interpret-trailers", "file"]).err;
    Verdict::broken_if(pwned.exists(), said)
}

/// Runs an attack in a repository with a filter for all files, whose program is `command`.
fn filtered(scene: &Scene, command: &str, way: &str) -> Verdict {
    repository(scene);
    for path in ["tools/program", "program.sh"] {
        scene.write(path, "#!/bin/sh\ncat\n");
        scene.host(&["chmod", "755", path]);
    }
    scene.write(".git/info/attributes", "* filter=own\n");
    scene.host(&["git", "config", "filter.own.clean", command]);
    scene.write("file", "other\n");
    judged(scene, &[], "nested.sh", way)
}

fn changing_a_program_that_a_shell_reads(scene: &Scene) -> Verdict {
    filtered(scene, "sh program.sh", "program-alone")
}

fn changing_a_program_in_the_folder_of_the_shell(scene: &Scene) -> Verdict {
    filtered(scene, "\"$PWD\"/tools/program", "program")
}

// SPEC A11
fn changing_a_program_below_the_top_level(scene: &Scene) -> Verdict {
    filtered(scene, "\"$(git rev-parse --show-toplevel)/tools/program\"", "program")
}

// SPEC P8
fn changing_a_program_in_the_folder_that_a_command_enters(scene: &Scene) -> Verdict {
    filtered(scene, "cd tools && ./program", "program")
}

fn changing_a_program_that_a_trailer_runs(scene: &Scene) -> Verdict {
    repository(scene);
    scene.write("tools/program", "#!/bin/sh\n");
    scene.host(&["chmod", "755", "tools/program"]);
    scene.host(&["git", "config", "trailer.x.command", "tools/program"]);
    judged(scene, &[], "nested.sh", "program")
}

fn with_hooks(scene: &Scene) {
    repository(scene);
    scene.write("tools/hooks/pre-commit", "#!/bin/sh\n");
    scene.host(&["chmod", "755", "tools/hooks/pre-commit"]);
}

// SPEC P8
fn planting_a_hook_that_the_systems_settings_name(scene: &Scene) -> Verdict {
    with_hooks(scene);
    scene.write_home("system", "[core]\n\thooksPath = tools/hooks\n");
    let file = scene.home().join("system");
    judged(scene, &[("GIT_CONFIG_SYSTEM", file.to_str().unwrap())], "git.sh", "hookspath")
}

// SPEC P8, A11
fn planting_a_hook_that_numbered_variables_name(scene: &Scene) -> Verdict {
    with_hooks(scene);
    let variables =
        [("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "core.hooksPath"), ("GIT_CONFIG_VALUE_0", "tools/hooks")];
    judged(scene, &variables, "git.sh", "hookspath")
}

fn planting_a_hook_that_a_quoted_variable_names(scene: &Scene) -> Verdict {
    with_hooks(scene);
    judged(scene, &[("GIT_CONFIG_PARAMETERS", "'core.hooksPath'='tools/hooks'")], "git.sh", "hookspath")
}

/// Every machine has the user `daemon`, whose home is a folder such as `/usr/sbin`.
// SPEC P8
fn planting_a_hook_below_the_home_of_another_user(scene: &Scene) -> Verdict {
    with_hooks(scene);
    let hooks = format!("~daemon/../../..{}/tools/hooks", scene.project().display());
    scene.host(&["git", "config", "--global", "core.hooksPath", &hooks]);
    judged(scene, &[], "git.sh", "hookspath")
}

fn changing_a_program_that_a_variable_names(scene: &Scene) -> Verdict {
    repository(scene);
    scene.write("tools/program", "#!/bin/sh\n");
    scene.host(&["chmod", "755", "tools/program"]);
    scene.write("file", "other\n");
    judged(scene, &[("GIT_EXTERNAL_DIFF", "tools/program")], "nested.sh", "program")
}
