//! A command removes the rights of a folder, so that the next run, or the supervisor at the end of
//! this run, cannot look into it, and later restores them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use crate::git::{repository, with_submodule};
use crate::outcome::Verdict;
use crate::scene::Scene;

for_user!("unreadable-stops": closing_the_folder_of_a_program_that_the_settings_name);
for_user!("placeholders,nested-repositories":
    closing_the_repository_so_that_nothing_is_blocked,
    leading_a_submodule_elsewhere_from_a_worktree,
);
for_user!("nested-repositories": closing_the_folder_of_a_planted_repository);
for_user!("head-restore": closing_the_project_around_a_planted_repository);

/// A start that an unreadable folder stops has this text.
const REFUSED: &str = "ermission denied";

const EVIL: &str = r#"printf '#!/bin/sh\ntouch "$HOME/pwned"\n' >evil.sh; chmod 755 evil.sh"#;

/// Runs both scripts, each in a run of its own, and then git outside.
fn then_use_git(scene: &Scene, first: &str, second: &str) -> Verdict {
    let run = |script: &str| scene.attack("sh", &["-c", &format!("{script}; echo done")]);
    let mut said = run(first).completed().err;
    let ran = run(&format!("{EVIL}; {second}"));
    ran.refused_or_completed(REFUSED);
    said += &ran.err;
    scene.host(&["chmod", "-R", "u+rwX", "."]);
    said += &scene.try_host(&["git", "status"]).err;
    Verdict::broken_if(scene.home().join("pwned").exists(), said)
}

// SPEC M6
fn closing_the_repository_so_that_nothing_is_blocked(scene: &Scene) -> Verdict {
    repository(scene);
    let lead_elsewhere = r#"chmod 755 .git
        cp -rL .git evil; rm -f evil/commondir
        printf '[core]\n\tfsmonitor = %s/evil.sh\n' "$PWD" >>evil/config
        echo ../evil >.git/commondir"#;
    then_use_git(scene, "chmod 555 .git", lead_elsewhere)
}

// SPEC P8
fn closing_the_folder_of_a_program_that_the_settings_name(scene: &Scene) -> Verdict {
    repository(scene);
    scene.write("tools/monitor", "#!/bin/sh\n");
    scene.host(&["chmod", "755", "tools/monitor"]);
    scene.host(&["git", "config", "core.fsmonitor", "./tools/monitor"]);
    then_use_git(scene, "chmod 444 tools", "chmod 755 tools; cp evil.sh tools/monitor")
}

/// The project is a worktree inside of another worktree, whose repository has the git directory of
/// the submodule.
// SPEC P11
fn leading_a_submodule_elsewhere_from_a_worktree(scene: &Scene) -> Verdict {
    with_submodule(scene);
    scene.host(&["git", "commit", "-qm", "with a submodule"]);
    scene.host(&["git", "worktree", "add", "-q", "tree"]);
    let script = r#"printf '#!/bin/sh\ntouch "$HOME/pwned"\n' >evil.sh; chmod 755 evil.sh; evil=$PWD/evil.sh
        cd ../.git/modules/sub && mkdir evil && cp -rL objects refs config HEAD evil/
        printf '[core]\n\tfsmonitor = %s\n' "$evil" >>evil/config
        echo evil >commondir; chmod 311 ..; echo done"#;
    let mut command = scene.product();
    command.current_dir(scene.project().join("tree")).args(["--", "sh", "-c", script]);
    let ran = crate::scene::run(command).completed();
    let said = ran.err + &scene.try_host(&["git", "status"]).err;
    Verdict::broken_if(scene.home().join("pwned").exists(), said)
}

// SPEC R5
fn closing_the_folder_of_a_planted_repository(scene: &Scene) -> Verdict {
    with_submodule(scene);
    let plant = r#"cp -r .git/modules/sub .git/modules/new
        printf '[core]\n\tfsmonitor = evil\n' >>.git/modules/new/config
        chmod 311 .git/modules; echo done"#;
    let ran = scene.attack("sh", &["-c", plant]).completed();
    Verdict::broken_if(scene.project().join(".git/modules/new").exists(), ran.err)
}

// SPEC R2
fn closing_the_project_around_a_planted_repository(scene: &Scene) -> Verdict {
    repository(scene);
    let plant = r#"git init -q sub && git -C sub -c user.name=a -c user.email=a@b commit -qm a --allow-empty
        id=$(git -C sub rev-parse HEAD) && printf '[core]\n\tfsmonitor = touch ~/pwned; false\n' >>sub/.git/config
        git update-index --add --cacheinfo "160000,$id,sub"; chmod 0 .; echo done"#;
    let mode = || fs::metadata(scene.project()).unwrap().permissions().mode();
    let before = mode();
    let ran = scene.attack("sh", &["-c", plant]).completed();
    assert!(scene.is_control() || mode() == before, "the permissions are not restored: {:o}", mode());
    fs::set_permissions(scene.project(), Permissions::from_mode(0o755)).unwrap();
    let said = ran.err + &scene.try_host(&["git", "status"]).err;
    Verdict::broken_if(scene.home().join("pwned").exists(), said)
}
