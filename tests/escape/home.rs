//! Private homes and minimal bases: attacks on the host's files, and changes that must not reach
//! the host.

use std::os::unix::fs::symlink;

use crate::outcome::Verdict;
use crate::scene::{BASE_ONLY, CANARY, DEFAULTS, Scene};

everywhere!("private-home": reading_the_hosts_home);
for_everybody!("private-home": reading_the_hosts_home_through_links);
for_everybody!("the home of its own": planting_a_file_that_shells_obey);
for_everybody!("link-checks": showing_a_file_of_the_home_by_a_planted_link);
for_everybody!("minimal-base": reading_files_beside_the_home);
for_everybody!("git-path": running_a_planted_git_outside);
for_everybody!("pins": moving_git_away_in_a_minimal_base);

/// Files of the home that no preset hides.
const FILES: &[&str] = &["notes.txt", ".config/tool/token", "Documents/letter", "code/other/source", ".toolrc"];

fn fill_home(scene: &Scene) {
    for file in FILES {
        scene.write_home(file, format!("{CANARY}\n"));
    }
}

/// The product is broken if the attack reads one file. The control must read all of them.
fn seen(scene: &Scene, out: String, all: usize) -> Verdict {
    let seen = out.lines().filter(|line| line.contains(CANARY)).count();
    Verdict::broken_if(if scene.is_control() { seen >= all } else { seen > 0 }, out)
}

// SPEC O1
fn reading_the_hosts_home(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "home = 'private'");
    fill_home(scene);
    let ran = scene.attack("look.py", &[scene.home()]).completed();
    seen(scene, ran.out, FILES.len())
}

/// The paths are links in the project and in a visible folder of the home, and paths below
/// `/proc/self/root`.
// SPEC O4
fn reading_the_hosts_home_through_links(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "home = 'private'");
    fill_home(scene);
    symlink(scene.home().join("notes.txt"), scene.project().join("by-project")).unwrap();
    symlink("../notes.txt", scene.home().join(".cache/by-cache")).unwrap();
    let paths = [
        scene.project().join("by-project"),
        scene.home().join(".cache/by-cache"),
        scene.project().join("../../notes.txt"),
        format!("/proc/self/root{}", scene.home().join("notes.txt").display()).into(),
    ];
    let ran = scene.attack("look.py", &paths).completed();
    seen(scene, ran.out, paths.len())
}

/// The control opens the host's home instead.
// SPEC O1
fn planting_a_file_that_shells_obey(scene: &Scene) -> Verdict {
    let home = if scene.is_control() { "rw = ['~']" } else { "home = 'private'" };
    scene.policy(BASE_ONLY, home);
    let planted = [".bashrc", ".profile", ".config/fish/config.fish", "bin/ls"].map(|name| scene.home().join(name));
    let ran = scene.attack("write.py", &planted).completed();
    assert!(ran.out.contains("put ok"), "the command can write in its home: {}", ran.out);
    let found: Vec<_> = planted.iter().filter(|path| path.exists()).collect();
    let all = if scene.is_control() { found.len() == planted.len() } else { !found.is_empty() };
    Verdict::broken_if(all, format!("on the host: {found:?}"))
}

/// An earlier run made the link in a folder that it could write to.
// SPEC O4
fn showing_a_file_of_the_home_by_a_planted_link(scene: &Scene) -> Verdict {
    fill_home(scene);
    scene.policy(BASE_ONLY, "home = 'private'\nrw = ['~/.cache']\nro = ['~/.cache/settings']");
    let target = scene.home().join("notes.txt");
    let link = scene.home().join(".cache/settings");
    let script = format!("ln -s '{}' '{}'; echo done", target.display(), link.display());
    scene.attack("sh", &["-c", &script]).completed();
    assert!(link.is_symlink());
    let ran = scene.attack("look.py", &[target]).completed();
    seen(scene, ran.out, 1)
}

// SPEC O5
fn reading_files_beside_the_home(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "base = 'minimal'");
    scene.place.write("beside/secret", format!("{CANARY}\n"));
    let path = scene.place.path().join("beside");
    let through = format!("/proc/self/root{}", path.display()).into();
    let ran = scene.attack("look.py", &[path, through]).completed();
    seen(scene, ran.out, 2)
}

/// A minimal base has no bind of the host's root, so the mounts that keep `.git` in place are made
/// on the bind of the project.
// SPEC O6
fn moving_git_away_in_a_minimal_base(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "base = 'minimal'");
    let ran = scene.outside("git").args(["init", "-q", "."]).status().unwrap();
    assert!(ran.success());
    scene.attack("sh", &["-c", "mv .git .moved; echo done"]).completed();
    Verdict::broken_if(scene.project().join(".moved").exists(), "`.git` was moved")
}

/// The caller has two writable folders on PATH. agent-sandbox runs git outside to read the user's
/// identity.
// SPEC U4
fn running_a_planted_git_outside(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "home = 'private'");
    scene.write_home(".gitconfig", "[user]\nname = Ada\n");
    let folders = [scene.project().join("bin"), scene.home().join(".cache/bin")];
    let (mark, path) = (scene.place.path().join("ran"), folders.clone().map(|folder| folder.display().to_string()));
    for folder in &path {
        let script = format!("#!/bin/sh\\ntouch '{}' 2>/dev/null\\n", mark.display());
        let plant =
            format!("mkdir -p '{folder}' && printf \"{script}\" >'{folder}/git' && chmod +x '{folder}/git'; echo done");
        scene.attack("sh", &["-c", &plant]).completed();
    }
    assert!(folders.iter().all(|folder| folder.join("git").exists()));
    for folder in path {
        let mut command = scene.product();
        command.env("PATH", format!("{folder}:/usr/local/bin:/usr/bin:/bin")).args(["--", "true"]);
        assert!(command.status().unwrap().success());
    }
    Verdict::broken_if(mark.exists(), "git of the command ran outside")
}
