//! Attacks on the mounts that hide or protect a file: reads and writes that bypass them, and
//! changes of the file on the host.

use std::fs;

use crate::outcome::Verdict;
use crate::scene::{BASE_ONLY, CANARY, ORIGINAL, Ran, Scene};

everywhere!("mask-sealed": losing_writes_in_a_mask);
everywhere!("mask-denied": committing_an_emptied_file, committing_an_emptied_folder);
everywhere!("hard-links": reading_an_excluded_file_by_another_name, writing_a_read_only_file_by_another_name);
everywhere!("a rule on the folder": reading_a_file_that_the_host_saves_again);
everywhere!("reports,restore": a_saved_file_that_lost_its_mask_without_a_report);

// SPEC A14
fn losing_writes_in_a_mask(scene: &Scene) -> Verdict {
    scene.write("secret/key", CANARY);
    scene.write("secret/deep/open/file", "");
    scene.write("closed/key", CANARY);
    scene.policy(BASE_ONLY, "exclude = ['secret', 'closed']\nrw = ['secret/deep/open']");
    let ran = scene.attack("masked.py", &["secret/new", "secret/deep/new", "closed/new"]).completed();
    Verdict::broken_if(ran.says("write ok"), ran.out)
}

/// Commits all files that git considers changed. The commit must keep the committed content of the
/// excluded file.
fn commit_all(scene: &Scene, excluded: &str) -> Verdict {
    scene.write_home(".gitconfig", "[user]\n\tname = U\n\temail = u@example.org\n");
    scene.host(&["git", "init", "-q"]);
    scene.write("conf/prod.key", ORIGINAL);
    scene.host(&["git", "add", "-A"]);
    scene.host(&["git", "commit", "-qm", "first"]);
    scene.policy(BASE_ONLY, &format!("exclude = ['{excluded}']"));
    let script = "echo more >other; git add -A; git add other; git commit -qam second; git commit -qm third; echo done";
    let ran = scene.attack("sh", &["-c", script]).completed();
    let committed = scene.try_host(&["git", "show", "HEAD:conf/prod.key"]).out;
    let staged = scene.try_host(&["git", "show", ":conf/prod.key"]).out;
    Verdict::broken_if(committed != ORIGINAL || staged != ORIGINAL, ran.err)
}

// SPEC A14
fn committing_an_emptied_file(scene: &Scene) -> Verdict {
    commit_all(scene, "conf/prod.key")
}

fn committing_an_emptied_folder(scene: &Scene) -> Verdict {
    commit_all(scene, "conf")
}

fn another_name(scene: &Scene, rule: &str, content: &str) {
    scene.write("guarded", content);
    fs::hard_link(scene.project().join("guarded"), scene.project().join("other-name")).unwrap();
    scene.policy(BASE_ONLY, rule);
}

// SPEC A20
fn reading_an_excluded_file_by_another_name(scene: &Scene) -> Verdict {
    another_name(scene, "exclude = ['guarded']", CANARY);
    let ran = scene.attack("look.py", &["."]);
    ran.refused_or_completed("hard link");
    Verdict::broken_if(ran.shows_canary(), ran.err)
}

fn writing_a_read_only_file_by_another_name(scene: &Scene) -> Verdict {
    another_name(scene, "ro = ['guarded']", ORIGINAL);
    let ran = scene.attack("sh", &["-c", "echo planted >other-name; echo done"]);
    ran.refused_or_completed("hard link");
    Verdict::broken_if(scene.changed("guarded"), ran.err)
}

/// The user saves a file as editors do, while a process inside keeps reading it. The supervisor is
/// held at each of `points` until the attack has looked.
fn save_while_watched(scene: &Scene, rule: &str, points: &[&str]) -> Ran {
    // While the file is replaced, the old content may be visible for a moment.
    scene.write("vault/.env", format!("{CANARY}, before\n"));
    scene.policy(BASE_ONLY, rule);
    let mut watching = scene.hold(points, &[], "watch.py", &["vault/.env"]);
    watching.running.until("started", || scene.project().join("started").exists());
    scene.write("vault/.env.new", CANARY);
    fs::rename(scene.project().join("vault/.env.new"), scene.project().join("vault/.env")).unwrap();
    scene.write("saved", "");
    for point in points {
        watching.stopped();
        watching.running.until("looked", || scene.project().join("looked").exists());
        watching.go_on(point);
    }
    watching.running.wait().completed()
}

/// With a rule for the file alone, the new file is visible until the supervisor covers it again.
fn reading_a_file_that_the_host_saves_again(scene: &Scene) -> Verdict {
    let (rule, points) = if scene.is_control() {
        ("exclude = ['vault/.env']", &["cover-again"][..])
    } else {
        ("exclude = ['vault']", &[][..])
    };
    let ran = save_while_watched(scene, rule, points);
    Verdict::broken_if(ran.shows_canary(), ran.out)
}

/// A mount on a replaced file is lost, but the run reports this.
// SPEC A20
fn a_saved_file_that_lost_its_mask_without_a_report(scene: &Scene) -> Verdict {
    let ran = save_while_watched(scene, "exclude = ['vault/.env']", &[]);
    Verdict::broken_if(!ran.err.contains("vault/.env"), ran.err)
}
