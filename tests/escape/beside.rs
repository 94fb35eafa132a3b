//! Two sandboxes at once: the command of one hides a file from the other's search, or changes a
//! path that the other protects.

use std::fs;

use crate::outcome::Verdict;
use crate::scene::{BASE_ONLY, CANARY, PLANTED, Running, Scene, words};

for_everybody!("overlap":
    laundering_a_submodule,
    laundering_a_rebase,
    laundering_a_link,
    laundering_a_file_that_copies_others,
    laundering_a_mark,
    laundering_a_bare_repository,
    laundering_a_graft,
);

for_everybody!("look-again":
    moving_a_folder_while_another_sandbox_searches_for_its_files,
    moving_a_hidden_file_away_and_back_while_a_sandbox_starts,
    ending_a_sandbox_whose_placeholder_another_one_mounts_on,
);

everywhere!("own-names,own-writes": renaming_a_path_that_another_sandbox_protects);

/// The search of the second sandbox lists both ends of the project, one after the other. The folder
/// is always at the end that is not being listed, so the search does not find it.
// SPEC C12
fn moving_a_folder_while_another_sandbox_searches_for_its_files(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "exclude = ['**/.env', { path = '.blocked', if-missing = 'block' }]");
    scene.write("a/first/box/.env", CANARY);
    scene.mkdir("z/last");
    let mut mover = scene.start::<&str>("shuffle.py", &[]);
    mover.until("started", || scene.project().join("started").exists());
    let mut at = "a";
    let mut move_to = |end: &'static str| {
        if at != end {
            scene.write(format!("to-{end}"), "");
            mover.until("moved", || scene.project().join(format!("at-{end}")).exists());
            fs::remove_file(scene.project().join(format!("at-{end}"))).unwrap();
            at = end;
        }
    };
    let point = |folder: &str| format!("read-folder:{}", scene.project().join(folder).display());
    let (a, z) = (point("a/first"), point("z/last"));
    let mut held = scene.hold(&[&a, &z], &[], "look_for.py", &[".env"]);
    for _ in 0..2 {
        let listed_next = held.stopped();
        move_to(if listed_next == a { "z" } else { "a" });
        held.go_on(&listed_next);
    }
    let ran = held.running.wait();
    scene.write("stop", "");
    mover.wait().completed();
    // The product may refuse to start while another command changes the matches of its rules.
    ran.refused_or_completed("the sandbox is not as planned");
    Verdict::broken_if(ran.shows_canary(), format!("{}{}", ran.out, ran.err))
}

/// bwrap hides another file of the same name, which is removed after the guard has compared the
/// mounts. Then the original file, with the device and inode of the plan, is at the path again.
// SPEC C14
fn moving_a_hidden_file_away_and_back_while_a_sandbox_starts(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "exclude = ['.env']");
    scene.write(".env", CANARY);
    let at = |name: &str| scene.project().join(name);
    let mut held = scene.hold(&["before-bwrap", "before-go"], &[], "look.py", &[".env"]);
    assert_eq!(held.stopped(), "before-bwrap");
    fs::rename(at(".env"), at("away")).unwrap();
    scene.write(".env", "harmless");
    held.go_on("before-bwrap");
    assert_eq!(held.stopped(), "before-go");
    fs::remove_file(at(".env")).unwrap();
    fs::rename(at("away"), at(".env")).unwrap();
    held.go_on("before-go");
    let ran = held.running.wait().completed();
    Verdict::broken_if(ran.shows_canary(), format!("{}{}", ran.out, ran.err))
}

/// A placeholder of the second sandbox appears after the first has created its own. When the second
/// sandbox ends, it removes the placeholder, and with it the mount of the first sandbox.
// SPEC C12
fn ending_a_sandbox_whose_placeholder_another_one_mounts_on(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "ro = [{ path = 'kept/', if-missing = 'block' }]");
    scene.mkdir("kept");
    let at = |name: &str| scene.project().join(name);
    let attack = ["first-started", "second-has-ended", "kept/planted"];
    let mut held = scene.hold(&["placeholders:put-up"], &[], "wait_then_write.py", &attack);
    held.stopped();
    fs::remove_dir(at("kept")).unwrap();
    let mut second = scene.start("wait_then_write.py", &["second-started", "end"]);
    second.until("started", || at("second-started").exists());
    held.go_on("placeholders:put-up");
    held.running.until("started", || at("first-started").exists());
    scene.write("end", "");
    second.wait().completed();
    scene.write("second-has-ended", "");
    let ran = held.running.wait().completed();
    Verdict::broken_if(at("kept/planted").exists(), format!("{}{}", ran.out, ran.err))
}

/// One sandbox hands its project to a sandbox in another project, which has no mounts at the paths
/// that the first one protects.
// SPEC C13, A6
fn renaming_a_path_that_another_sandbox_protects(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "rw = ['~/shared']\nro = ['kept', { path = '.vscode/', if-missing = 'block' }]");
    scene.write("kept/file", "original");
    let shared = scene.home().join("shared");
    let mut other = start_beside(scene, "rename_lent.py", &["kept", ".vscode"]);
    other.until("started", || shared.join("started").exists());
    let lent = scene.attack("lend.py", &["while-it-runs"]).completed();
    let ran = other.wait().completed();
    let planted = |path: &str| scene.bytes(path).is_some_and(|bytes| bytes == PLANTED.as_bytes());
    let broken = planted("kept/planted") || planted(".vscode/planted");
    Verdict::broken_if(broken, format!("{}{}", lent.err, ran.out))
}

/// Starts an attack in another project of the same user, with a folder that both can write.
pub fn start_beside<A: AsRef<std::ffi::OsStr>>(scene: &Scene, attack: &str, arguments: &[A]) -> Running {
    let other = scene.home().join("code/other");
    fs::create_dir_all(&other).unwrap();
    fs::create_dir_all(scene.home().join("shared")).unwrap();
    scene.place.give_away();
    let mut product = scene.product();
    product.current_dir(&other).arg("--");
    words(&mut product, attack, arguments);
    Running::start(product)
}

/// One run plants a change. Another one, which starts later, hides the change while the first run
/// ends. Returns the reports of both.
fn launder(scene: &Scene, what: &str) -> String {
    crate::git::repository(scene);
    let touch = |name: &str| scene.write(name, "");
    let mut first = scene.start("launder.sh", &[what, "plant"]);
    first.until("planted", || scene.project().join("planted").exists());
    let mut second = scene.start("launder.sh", &[what, "hide"]);
    second.until("hidden", || scene.project().join("hidden").exists());
    touch("end-first");
    let first = first.wait().completed();
    touch("end-second");
    first.err + &second.wait().completed().err
}

// SPEC R19, R5
fn laundering_a_submodule(scene: &Scene) -> Verdict {
    let said = launder(scene, "submodule");
    scene.try_host(&["sh", "-c", "git merge -q feature; git status"]);
    Verdict::broken_if(scene.home().join("pwned").exists(), said)
}

// SPEC R19, R17
fn laundering_a_rebase(scene: &Scene) -> Verdict {
    let said = launder(scene, "rebase");
    Verdict::broken_if(!said.contains("the run left a rebase of git unfinished"), said)
}

// SPEC R19, R14
fn laundering_a_link(scene: &Scene) -> Verdict {
    let said = launder(scene, "link");
    Verdict::broken_if(scene.project().join(".git/COMMIT_EDITMSG").is_symlink(), said)
}

// SPEC R19, R16
fn laundering_a_file_that_copies_others(scene: &Scene) -> Verdict {
    let said = launder(scene, "rerere");
    Verdict::broken_if(scene.project().join(".git/MERGE_RR").exists(), said)
}

// SPEC R19, R11
fn laundering_a_mark(scene: &Scene) -> Verdict {
    let said = launder(scene, "mark");
    Verdict::broken_if(!said.contains("since this run git shows no changes of `file`"), said)
}

// SPEC R19, R11
fn laundering_a_bare_repository(scene: &Scene) -> Verdict {
    let said = launder(scene, "bare");
    Verdict::broken_if(!said.contains("`s` is a repository since this run, and has `core.fsmonitor`"), said)
}

// SPEC R19, R11
fn laundering_a_graft(scene: &Scene) -> Verdict {
    let said = launder(scene, "graft");
    Verdict::broken_if(!said.contains("since this run git shows another history"), said)
}
