//! Injected files: attacks that write, replace, commit or misuse them.

use std::fs;
use std::os::unix::fs::symlink;

use crate::outcome::Verdict;
use crate::scene::{BASE_ONLY, CANARY, DEFAULTS, ORIGINAL, Running, Scene};

everywhere!("injected-read-only": writing_through_an_injected_file, writing_into_an_injected_folder);
everywhere!("pins": replacing_the_folder_of_an_injected_file);
everywhere!("secrets-preset": reading_the_siblings_of_an_injected_file);
everywhere!("injected-sources": injecting_a_hidden_file, injecting_a_folder_with_a_hidden_file);
for_everybody!("injected-sources": choosing_what_is_injected_into_a_private_home);
everywhere!("injected-ignored":
    committing_an_injected_text,
    committing_an_injection_in_a_nested_repository,
    committing_an_injection_where_the_list_of_ignored_files_is_a_link,
    committing_an_injection_that_gitignore_includes_again,
    committing_one_of_two_injections_in_linked_work_trees,
);
everywhere!("project-markers": raising_the_root_of_another_run);
everywhere!("injected-untracked": committing_an_injection_over_a_tracked_file);
everywhere!("restore": reading_the_file_under_an_injection_that_the_user_saved_again);
for_everybody!("trust": injecting_instructions_outside_of_the_project);
for_everybody!("link-checks": making_the_product_create_a_file_behind_a_link);
for_everybody!("guard-check,look-again": swapping_the_source_for_a_link_while_a_sandbox_starts);
for_root!("root-capabilities,own-names,own-writes,mount-lock": taking_an_injection_off_as_root);

fn inject(from: &str, to: &str) -> String {
    format!("[[inject]]\nfrom = '{from}'\nto = '{to}'\n")
}

// SPEC J1
fn writing_through_an_injected_file(scene: &Scene) -> Verdict {
    scene.write_home("shared/rules", ORIGINAL);
    scene.write("notes", "");
    scene.policy(BASE_ONLY, &inject("~/shared/rules", "notes"));
    let ran = scene.attack("write.py", &["notes"]).completed();
    Verdict::broken_if(scene.changed(scene.home().join("shared/rules")), ran.out)
}

// SPEC J3
fn writing_into_an_injected_folder(scene: &Scene) -> Verdict {
    scene.write_home("shared/skill/text", ORIGINAL);
    scene.mkdir("skills");
    scene.policy(BASE_ONLY, &inject("~/shared", "skills"));
    let ran = scene.attack("write.py", &["skills/skill/text"]).completed();
    let planted = scene.home().join("shared/skill/text.aside").exists();
    Verdict::broken_if(planted || scene.changed(scene.home().join("shared/skill/text")), ran.out)
}

/// The file of the home is not secret, but a private home shows no other files of the home.
// SPEC J4
fn choosing_what_is_injected_into_a_private_home(scene: &Scene) -> Verdict {
    scene.write_home("notes", CANARY);
    scene.policy(BASE_ONLY, "home = 'private'\n");
    scene.attack("sh", &["-c", "ln -s ~/notes instructions; mkdir s; ln -s ~/notes s/a; echo done"]).completed();
    let mut out = String::new();
    for (from, to) in [("instructions", "AGENTS.md"), ("s", "skills")] {
        scene.policy(BASE_ONLY, &format!("home = 'private'\n{}", inject(from, to)));
        out += &scene.attack("sh", &["-c", "cat AGENTS.md skills/a"]).out;
    }
    Verdict::broken_if(out.contains(CANARY), out)
}

// SPEC J2
fn replacing_the_folder_of_an_injected_file(scene: &Scene) -> Verdict {
    scene.write("conf/app", ORIGINAL);
    scene.write("other", "injected");
    scene.policy(BASE_ONLY, &inject("other", "conf/app"));
    let ran = scene.attack("move.py", &["rename", "conf", "conf/app"]).completed();
    Verdict::broken_if(scene.changed("conf/app"), ran.out)
}

// SPEC J2
fn reading_the_siblings_of_an_injected_file(scene: &Scene) -> Verdict {
    for name in [".env", ".env.local", "sub/.env"] {
        scene.write(name, CANARY);
    }
    scene.write(".env.sandbox", "harmless");
    scene.policy(DEFAULTS, &inject(".env.sandbox", ".env"));
    let ran = scene.attack("look.py", &["."]).completed();
    assert!(ran.out.contains("read ./.env b'harmless'"), "{ran:?}");
    Verdict::broken_if(ran.shows_canary(), ran.out)
}

/// A cloned policy file may inject files into the project without consent.
// SPEC J4
fn injecting_a_hidden_file(scene: &Scene) -> Verdict {
    scene.write(".agent-sandbox.toml", inject("~/.ssh/id_ed25519", "notes"));
    let ran = scene.attack("look.py", &["notes"]);
    ran.refused_or_completed("is hidden from the command");
    Verdict::broken_if(ran.shows_canary(), ran.err)
}

// SPEC J4
fn injecting_a_folder_with_a_hidden_file(scene: &Scene) -> Verdict {
    scene.write_home("vault/deep/key", CANARY);
    scene.policy(DEFAULTS, "exclude = ['~/vault/deep/key']");
    scene.write(".agent-sandbox.toml", inject("~/vault", "notes"));
    let ran = scene.attack("look.py", &["notes"]);
    ran.refused_or_completed("is hidden from the command");
    Verdict::broken_if(ran.shows_canary(), ran.err)
}

/// Commits all changes that git sees in `folder`. The injected text must not be in the commit.
fn commit_all(scene: &Scene, folder: &str, target: &str, refusal: &str) -> Verdict {
    let script = format!("cd {folder}; echo more >other; git add -A; git commit -qam second; echo done");
    let ran = scene.attack("sh", &["-c", &script]);
    ran.refused_or_completed(refusal);
    let committed = scene.try_host(&["git", "-C", folder, "show", &format!("HEAD:{target}")]).out;
    Verdict::broken_if(committed.contains("injected"), ran.err)
}

fn repository(scene: &Scene, folder: &str) {
    scene.write_home(".gitconfig", "[user]\n\tname = U\n\temail = u@example.org\n");
    scene.host(&["git", "init", "-q", folder]);
    scene.host(&["git", "-C", folder, "commit", "-q", "--allow-empty", "-m", "first"]);
}

// SPEC J6
fn committing_an_injected_text(scene: &Scene) -> Verdict {
    repository(scene, ".");
    scene.policy(DEFAULTS, "[[inject]]\ntext = 'injected'\nto = 'docs/CLAUDE.md'");
    commit_all(scene, ".", "docs/CLAUDE.md", "git tracks")
}

// SPEC J6
fn committing_an_injection_in_a_nested_repository(scene: &Scene) -> Verdict {
    repository(scene, ".");
    repository(scene, "sub");
    scene.policy(DEFAULTS, "[[inject]]\ntext = 'injected'\nto = 'sub/CLAUDE.md'");
    commit_all(scene, "sub", "CLAUDE.md", "git tracks")
}

/// The run cannot mount its list over a link, so it injects nothing.
// SPEC J6
fn committing_an_injection_where_the_list_of_ignored_files_is_a_link(scene: &Scene) -> Verdict {
    repository(scene, ".");
    scene.write("ignored", "");
    scene.host(&["ln", "-sf", "../../ignored", ".git/info/exclude"]);
    scene.policy(DEFAULTS, "[[inject]]\ntext = 'injected'\nto = 'docs/CLAUDE.md'");
    commit_all(scene, ".", "docs/CLAUDE.md", "git cannot be told")
}

/// A `.gitignore` outranks `info/exclude`, in which the run names the injected path.
// SPEC J4
fn committing_an_injection_that_gitignore_includes_again(scene: &Scene) -> Verdict {
    repository(scene, ".");
    scene.write(".gitignore", "*.local\n!CLAUDE.*\n");
    scene.policy(DEFAULTS, "[[inject]]\ntext = 'injected'\nto = 'docs/CLAUDE.md'");
    commit_all(scene, ".", "docs/CLAUDE.md", "has a line with `!`")
}

/// Both work trees read the same `info/exclude`, over which only one file can be mounted.
// SPEC J6
fn committing_one_of_two_injections_in_linked_work_trees(scene: &Scene) -> Verdict {
    repository(scene, ".");
    scene.host(&["git", "worktree", "add", "-q", "wt"]);
    scene.write(".git/info/exclude", "/wt\n");
    let inject = |to: &str| format!("[[inject]]\ntext = 'injected'\nto = '{to}'\n");
    scene.policy(DEFAULTS, &(inject("one.md") + &inject("wt/two.md")));
    let linked = commit_all(scene, "wt", "two.md", "git tracks");
    match commit_all(scene, ".", "one.md", "git tracks") {
        Verdict::Held(_) => linked,
        broken => broken,
    }
}

/// The second run would take the placeholder of the first run for the file of a project.
// SPEC J4, M7
fn raising_the_root_of_another_run(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "");
    scene.write("one/source", "");
    scene.mkdir("two");
    let start = |folder: &str, flags: &[&str], script: &str| {
        let mut command = scene.product();
        command.current_dir(scene.project().join(folder)).args(flags).args(["--", "sh", "-c", script]);
        Running::start(command)
    };
    let wait = "touch started; while ! test -e stop; do sleep 0.1; done; echo done";
    let mut first = start("one", &["--inject", "source:../.git"], wait);
    if scene.is_control() {
        first.until("started", || scene.project().join("one/started").exists());
    }
    start("two", &[], "touch ../planted; echo done").wait().completed();
    scene.write("one/stop", "");
    let ran = first.wait();
    ran.refused_or_completed("would make the folder around it a project");
    Verdict::broken_if(scene.project().join("planted").exists(), ran.err)
}

// SPEC J4
fn committing_an_injection_over_a_tracked_file(scene: &Scene) -> Verdict {
    repository(scene, ".");
    scene.write("CLAUDE.md", ORIGINAL);
    scene.host(&["git", "add", "CLAUDE.md"]);
    scene.host(&["git", "commit", "-qm", "second"]);
    scene.policy(DEFAULTS, "[[inject]]\ntext = 'injected'\nto = 'CLAUDE.md'");
    commit_all(scene, ".", "CLAUDE.md", "git tracks")
}

/// The kernel detaches the mount when the user replaces the file. The supervisor then hides the new
/// file.
// SPEC J8
fn reading_the_file_under_an_injection_that_the_user_saved_again(scene: &Scene) -> Verdict {
    scene.write(".env", "before");
    scene.write(".env.sandbox", "harmless");
    scene.policy(BASE_ONLY, &inject(".env.sandbox", ".env"));
    let mut running = scene.start("restore.py", &[".env", "read"]);
    running.until("started", || scene.project().join("started").exists());
    scene.write("new", CANARY);
    fs::rename(scene.project().join("new"), scene.project().join(".env")).unwrap();
    if !scene.is_control() {
        running.until_said("until the supervisor covered it again");
    }
    scene.write("replaced", "");
    let ran = running.wait().completed();
    Verdict::broken_if(ran.shows_canary(), ran.out)
}

/// A cloned policy file must not change the user's own instructions for agents.
// SPEC J7
fn injecting_instructions_outside_of_the_project(scene: &Scene) -> Verdict {
    scene.write_home(".claude/x", "");
    scene.write(".agent-sandbox.toml", "[[inject]]\ntext = 'planted'\nto = '~/.claude/CLAUDE.md'\n");
    let instructions = scene.home().join(".claude/CLAUDE.md");
    let ran = scene.attack("look.py", &[instructions.to_str().unwrap()]);
    ran.refused_or_completed("untrusted-policy");
    Verdict::broken_if(ran.out.contains("planted"), ran.err)
}

/// A command has replaced a folder of the project by a link to a folder of the home. The next run
/// must not create a placeholder behind the link.
// SPEC J4
fn making_the_product_create_a_file_behind_a_link(scene: &Scene) -> Verdict {
    scene.write_home("other/x", "");
    scene.policy(BASE_ONLY, "[[inject]]\ntext = 'injected'\nto = 'out/new'");
    symlink(scene.home().join("other"), scene.project().join("out")).unwrap();
    scene.place.give_away();
    let made = scene.home().join("other/new");
    let ran = scene.attack("sh", &["-c", "test -e \"$0\" && echo made; echo done", made.to_str().unwrap()]);
    ran.refused_or_completed("a symlink that a command can replace");
    Verdict::broken_if(ran.says("made"), ran.err)
}

/// The policy is compiled for a harmless file. Before bwrap mounts the file, another process
/// replaces it by a link to the keys.
// SPEC J8
fn swapping_the_source_for_a_link_while_a_sandbox_starts(scene: &Scene) -> Verdict {
    scene.write("source", "harmless");
    scene.write("notes", "");
    scene.policy(DEFAULTS, &inject("source", "notes"));
    let mut held = scene.hold(&["before-bwrap"], &[], "look.py", &["notes"]);
    held.stopped();
    fs::remove_file(scene.project().join("source")).unwrap();
    symlink(scene.home().join(".ssh/id_ed25519"), scene.project().join("source")).unwrap();
    held.go_on("before-bwrap");
    let ran = held.running.wait();
    ran.refused_or_completed("");
    Verdict::broken_if(ran.shows_canary(), format!("{}{}", ran.out, ran.err))
}

fn taking_an_injection_off_as_root(scene: &Scene) -> Verdict {
    scene.write(".env", CANARY);
    scene.write(".env.sandbox", "harmless");
    scene.policy(BASE_ONLY, &inject(".env.sandbox", ".env"));
    let script = "import ctypes; ctypes.CDLL(None).umount2(b'.env', 2); print(open('.env').read()); print('done')";
    let ran = scene.attack("python3", &["-c", script]).completed();
    Verdict::broken_if(ran.shows_canary(), ran.out)
}
