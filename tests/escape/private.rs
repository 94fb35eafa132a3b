//! Private files: changes that the command makes in its copy must start no program on the host.

use std::fs;

use crate::git::repository;
use crate::outcome::Verdict;
use crate::scene::{CANARY, Scene, run};

for_everybody!("private-keys":
    a_program_that_watches_files,
    a_folder_of_hooks,
    a_program_instead_of_ssh,
    an_alias,
    an_included_file,
    another_address,
    a_filter,
    another_address_of_a_remote,
    a_branch_of_a_planted_remote,
    a_branch_of_a_planted_path,
    a_branch_of_this_repository,
    settings_in_other_spellings,
    trust_of_codex_in_a_planted_folder,
    trust_of_gemini_in_a_planted_folder,
    programs_in_the_settings_of_agents,
);

for_everybody!("private-copy-checks":
    a_copy_that_leads_to_a_hidden_file,
    a_copy_with_another_name,
    a_copy_that_fills_the_memory,
    a_long_key_that_fills_the_memory,
);

// An emptied copy removes nothing (SPEC Q4), so this control needs both.
for_everybody!("private-copy-checks,private-keys": a_copy_that_is_a_pipe);

for_everybody!("git-preset": a_copy_that_git_cannot_parse);

for_everybody!("git-path": a_planted_git_around_a_planted_project);

for_everybody!("private-held,restore":
    losing_the_link_to_a_run_that_ends,
    losing_the_mount_of_a_run_without_guard,
    losing_the_mount_of_a_read_only_rule,
);

for_everybody!("trust": copies_of_hidden_files_that_a_planted_policy_names);

for_everybody!("own-files": the_copies_of_another_project, the_reports_of_another_project);

/// Makes a repository with a remote of the user.
fn with_remote(scene: &Scene) {
    repository(scene);
    scene.host(&["git", "clone", "-q", "--bare", ".", "../origin.git"]);
    scene.host(&["git", "remote", "add", "origin", "../origin.git"]);
    scene.host(&["git", "config", "push.default", "current"]);
}

/// Runs the attack, and then the user's ordinary git commands.
fn then_use_git(scene: &Scene, what: &str) -> Verdict {
    with_remote(scene);
    let ran = scene.attack("private.sh", &[what]).completed();
    assert!(!scene.home().join("pwned").exists() || what == "filter", "the program ran inside");
    let _ = fs::remove_file(scene.home().join("pwned"));
    let mut said = ran.err;
    for words in [
        &["git", "status"][..],
        &["git", "st"],
        &["git", "add", "file"],
        &["git", "commit", "--allow-empty", "-qm", "second"],
        &["git", "fetch"],
        &["git", "pull", "--no-edit", "-q"],
        &["git", "push"],
    ] {
        said += &scene.try_host(words).err;
    }
    Verdict::broken_if(scene.home().join("pwned").exists(), said)
}

// SPEC A12
fn a_program_that_watches_files(scene: &Scene) -> Verdict {
    then_use_git(scene, "fsmonitor")
}

/// The caller has a folder of the project on PATH. An earlier run has made a subfolder a project,
/// so that this folder is outside of it and counts as safe. agent-sandbox runs git to write a key
/// to the host's settings, and must not run the git in the folder.
// SPEC A12, Q4
fn a_planted_git_around_a_planted_project(scene: &Scene) -> Verdict {
    repository(scene);
    let mark = scene.place.path().join("ran");
    scene.attack("private.sh", &["git-around", mark.to_str().unwrap()]).completed();
    let sub = scene.project().join("sub");
    assert!(scene.project().join("bin/git").exists() && sub.join(".git").exists());
    let mut command = scene.product();
    let path = format!("{}/bin:/usr/local/bin:/usr/bin:/bin", scene.project().display());
    command.env("PATH", path).current_dir(&sub);
    command.args(["--", "/usr/bin/git", "config", "branch.main.description", "mine"]);
    let ran = crate::scene::run(command);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    if !scene.is_control() {
        let written = fs::read_to_string(sub.join(".git/config")).unwrap();
        assert!(written.contains("description = mine"), "another git writes it: {written}");
    }
    Verdict::broken_if(mark.exists(), ran.err)
}

fn a_folder_of_hooks(scene: &Scene) -> Verdict {
    then_use_git(scene, "hookspath")
}

fn a_program_instead_of_ssh(scene: &Scene) -> Verdict {
    then_use_git(scene, "sshcommand")
}

fn an_alias(scene: &Scene) -> Verdict {
    then_use_git(scene, "alias")
}

fn an_included_file(scene: &Scene) -> Verdict {
    then_use_git(scene, "include")
}

fn another_address(scene: &Scene) -> Verdict {
    then_use_git(scene, "insteadof")
}

fn a_filter(scene: &Scene) -> Verdict {
    then_use_git(scene, "filter")
}

// SPEC A12
fn another_address_of_a_remote(scene: &Scene) -> Verdict {
    then_use_git(scene, "remote-url")
}

// SPEC Q4
fn a_branch_of_a_planted_remote(scene: &Scene) -> Verdict {
    then_use_git(scene, "branch-remote")
}

fn a_branch_of_a_planted_path(scene: &Scene) -> Verdict {
    then_use_git(scene, "branch-path")
}

fn settings_in_other_spellings(scene: &Scene) -> Verdict {
    then_use_git(scene, "text")
}

/// The remote `.` is the repository itself, so a push would move another of its branches.
fn a_branch_of_this_repository(scene: &Scene) -> Verdict {
    with_remote(scene);
    scene.attack("private.sh", &["branch-dot"]).completed();
    let remote = scene.try_host(&["git", "config", "branch.main.remote"]).out;
    Verdict::broken_if(remote == ".\n", remote)
}

/// If the copy is a link, a harmless key could carry the content of the hidden file into the
/// project's settings.
// SPEC A12, Q7
fn a_copy_that_leads_to_a_hidden_file(scene: &Scene) -> Verdict {
    repository(scene);
    scene.write_home(".netrc", format!("[branch \"main\"]\n\tdescription = {CANARY}\n"));
    let hidden = scene.home().join(".netrc");
    scene.attack("private.sh", &["link", hidden.to_str().unwrap()]).completed();
    let settings = String::from_utf8(scene.bytes(".git/config").unwrap()).unwrap();
    Verdict::broken_if(settings.contains(CANARY), settings)
}

fn a_copy_with_another_name(scene: &Scene) -> Verdict {
    repository(scene);
    scene.attack("private.sh", &["hard-link"]).completed();
    let settings = String::from_utf8(scene.bytes(".git/config").unwrap()).unwrap();
    Verdict::broken_if(settings.contains("leaked"), settings)
}

/// A pipe reads as an empty file, which would remove all harmless keys from the host's file.
fn a_copy_that_is_a_pipe(scene: &Scene) -> Verdict {
    repository(scene);
    scene.host(&["git", "config", "branch.main.description", "mine"]);
    let ran = scene.attack("private.sh", &["fifo"]).completed();
    Verdict::broken_if(scene.try_host(&["git", "config", "branch.main.description"]).out != "mine\n", ran.err)
}

/// Runs the arguments, and prints the peak memory in KiB of the largest of their processes.
const MEASURE: &str = "import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)";

// SPEC Q7
fn a_copy_that_fills_the_memory(scene: &Scene) -> Verdict {
    fill_the_memory(scene, &["large", "300M"])
}

/// Each key of a section contains the section's name, so a long name multiplies.
// SPEC Q7
fn a_long_key_that_fills_the_memory(scene: &Scene) -> Verdict {
    fill_the_memory(scene, &["long-key"])
}

fn fill_the_memory(scene: &Scene, words: &[&str]) -> Verdict {
    repository(scene);
    let product = scene.product();
    let mut command = scene.outside("python3");
    scene.switch_off(&mut command);
    command.args(["-I", "-c", MEASURE]).arg(product.get_program()).args(product.get_args()).arg("--");
    crate::scene::words(&mut command, "private.sh", words);
    let ran = crate::scene::run(command);
    assert!(ran.out.starts_with("done\n") && ran.code == Some(0), "{ran:#?}");
    let most: u64 = ran.out.lines().last().unwrap().parse().unwrap();
    Verdict::broken_if(most > 250 << 10, format!("{most} KiB: {}", ran.err))
}

/// git on the host, and the next run, must still work.
fn a_copy_that_git_cannot_parse(scene: &Scene) -> Verdict {
    repository(scene);
    scene.attack("private.sh", &["unparsable"]).completed();
    let outside = scene.try_host(&["git", "status"]);
    let next = scene.attack_with(&[], "git", &["status"]);
    Verdict::broken_if(outside.code != Some(0) || next.code != Some(0), outside.err + &next.err)
}

/// Codex starts the servers that a trusted folder names.
// SPEC A12
fn trust_of_codex_in_a_planted_folder(scene: &Scene) -> Verdict {
    settings_of_an_agent(scene, ".codex/config.toml", "codex")
}

/// Gemini CLI starts the servers and hooks that a trusted folder names.
// SPEC A12
fn trust_of_gemini_in_a_planted_folder(scene: &Scene) -> Verdict {
    settings_of_an_agent(scene, ".gemini/trustedFolders.json", "gemini")
}

fn settings_of_an_agent(scene: &Scene, file: &str, what: &str) -> Verdict {
    repository(scene);
    scene.write_home(file, if what == "codex" { "model = \"mine\"\n" } else { "{}\n" });
    scene.attack("private.sh", &[what]).completed();
    let found = fs::read_to_string(scene.home().join(file)).unwrap();
    Verdict::broken_if(found.contains("planted"), found)
}

// SPEC Q4
fn programs_in_the_settings_of_agents(scene: &Scene) -> Verdict {
    repository(scene);
    let files = [".codex/config.toml", ".gemini/settings.json", ".claude/settings.json"];
    for file in files {
        scene.write_home(file, if file.ends_with("json") { "{}\n" } else { "" });
    }
    scene.attack("private.sh", &["agents"]).completed();
    let found = files.map(|file| fs::read_to_string(scene.home().join(file)).unwrap()).concat();
    assert_eq!(found.matches("harmless").count(), 3, "the models reach the host: {found}");
    Verdict::broken_if(found.contains("evil"), found)
}

/// When another run replaces the file, the mount of the link is lost, and the command could write
/// to the host's file.
// SPEC Q8
fn losing_the_link_to_a_run_that_ends(scene: &Scene) -> Verdict {
    repository(scene);
    let mut first = scene.start("private.sh", &["wait"]);
    first.until("started", || scene.project().join("started").exists());
    let second = scene.attack_with(&[], "git", &["config", "branch.main.description", "second"]);
    assert_eq!(second.code, Some(0), "{}", second.err);
    scene.write("go", "");
    let ran = first.wait().completed();
    assert_eq!(scene.host(&["git", "config", "branch.main.description"]), "second\n", "{}", ran.err);
    Verdict::broken_if(scene.try_host(&["git", "config", "core.fsmonitor"]).code == Some(0), ran.err)
}

/// A run without a copy has a read-only mount over the host's file.
// SPEC Q8
fn losing_the_mount_of_a_run_without_guard(scene: &Scene) -> Verdict {
    lose_the_mount(scene, &["--no-guard"])
}

// SPEC Q8
fn losing_the_mount_of_a_read_only_rule(scene: &Scene) -> Verdict {
    lose_the_mount(scene, &["--ro", ".git/config"])
}

fn lose_the_mount(scene: &Scene, flags: &[&str]) -> Verdict {
    repository(scene);
    let mut first = scene.start_with(flags, "private.sh", &["wait"]);
    first.until("started", || scene.project().join("started").exists());
    let second = scene.attack_with(&[], "git", &["config", "branch.main.description", "second"]);
    assert_eq!(second.code, Some(0), "{}", second.err);
    scene.write("go", "");
    let ran = first.wait().completed();
    let is_broken = scene.try_host(&["git", "config", "core.fsmonitor"]).code == Some(0);
    if !is_broken {
        assert!(
            second.err.contains("private-not-written") && second.err.contains("another run uses it"),
            "{}",
            second.err
        );
        assert_eq!(scene.attack_with(&[], "true", &[] as &[&str]).code, Some(0));
        assert_eq!(scene.host(&["git", "config", "branch.main.description"]), "second\n", "the next run writes it");
    }
    Verdict::broken_if(is_broken, ran.err)
}

// SPEC A12, Q6
fn the_copies_of_another_project(scene: &Scene) -> Verdict {
    repository(scene);
    let state = scene.home().join(".local/state/agent-sandbox/private/another/copies/file");
    scene.write_home(state.join("config"), CANARY);
    let ran = scene.attack("private.sh", &["others"]).completed();
    Verdict::broken_if(ran.out.contains(CANARY), ran.out)
}

/// A report contains values that stayed in the copies of its project.
// SPEC Q6
fn the_reports_of_another_project(scene: &Scene) -> Verdict {
    repository(scene);
    scene.write_home(scene.home().join(".local/state/agent-sandbox/reports/another.json"), CANARY);
    let ran = scene.attack("private.sh", &["reports"]).completed();
    Verdict::broken_if(ran.out.contains(CANARY), ran.out)
}

/// The user examines the policy that the command planted, does not agree, and removes the file.
// SPEC Q1, T1
fn copies_of_hidden_files_that_a_planted_policy_names(scene: &Scene) -> Verdict {
    repository(scene);
    scene.write_home(".ssh/id_ed25519", CANARY);
    scene.write(".env", CANARY);
    let policy = "[filesystem]\nprivate = ['~/.ssh/id_ed25519', '.env']\n";
    scene.attack("sh", &["-c", &format!("printf \"{policy}\" >.agent-sandbox.toml; echo done")]).completed();
    for form in ["shell", "annotated", "script", "json", "lines", "nul"] {
        let mut command = scene.product();
        command.args([&format!("--print-args={form}"), "--", "true"]);
        assert_eq!(run(command).code, Some(0), "{form}");
    }
    fs::remove_file(scene.project().join(".agent-sandbox.toml")).unwrap();
    let ran = scene.attack("sh", &["-c", "cat /run/agent-sandbox/private/*/*; echo done"]).completed();
    Verdict::broken_if(ran.shows_canary(), ran.out)
}

/// Asserts that the host's file is unchanged, and that the next run starts with its content.
fn is_set_aside(place: fn() -> crate::support::Place, what: &str, argument: &str, said: &str) {
    crate::support::require_bwrap();
    let scene = Scene::new(place(), None);
    repository(&scene);
    scene.write_home("big", vec![0; 2 << 20]);
    let before = scene.bytes(".git/config");
    let argument = argument.replace('~', scene.home().to_str().unwrap());
    // The second copy that is set aside takes the place of the first.
    for _ in 0..2 {
        let ran = scene.attack("private.sh", &[what, &argument]).completed();
        assert!(ran.err.contains(said), "{what}: {}", ran.err);
        assert_eq!(scene.bytes(".git/config"), before, "{what}");
    }
    let home = scene.home();
    let find = ["find", home.to_str().unwrap(), "-type", "f", "-size", "+2048", "-printf", "%f\n"];
    assert_eq!(scene.host(&find), "big\n", "{what}: files of more than 1 MiB");
    let next = scene.attack_with(&[], "git", &["config", "core.bare"]);
    assert_eq!(next.out, "false\n", "{what}: {}", next.err);
    let work = scene.attack_with(&[], "git", &["config", "branch.main.description", "works again"]);
    assert_eq!(work.code, Some(0), "{what}: {}", work.err);
    assert_eq!(scene.host(&["git", "config", "branch.main.description"]), "works again\n", "{what}");
}

// SPEC Q7
#[test]
fn a_copy_that_is_no_ordinary_file_is_set_aside() {
    for (what, argument, said) in [
        ("link", "~/.ssh/id_ed25519", "it is a symlink"),
        ("fifo", "", "it is no regular file"),
        ("large", "", "only the first 1 MiB is kept"),
        ("hard-link", "", "it has another name"),
        ("folder", "~/.ssh", "the folder of the copy is not a directory"),
        ("closed-folder", "", "it cannot be read"),
        ("closed", "", "cannot be"),
        ("unparsable", "", "it cannot be parsed"),
        ("long-key", "", "it has too many keys, or one that is too long"),
    ] {
        is_set_aside(crate::support::Place::outside_tmp, what, argument, said);
    }
}

/// A file that is replaced on the host loses its mounts. So the run that ends first leaves the
/// host's file to the run that ends last, and the changes of both reach the file.
// SPEC Q8
#[test]
fn two_runs_at_once_lose_nothing_and_no_mount() {
    crate::support::require_bwrap();
    let scene = Scene::new(crate::support::Place::outside_tmp(), None);
    repository(&scene);
    let before = scene.bytes(".git/config");
    let mut first = scene.hold(&["before-go"], &[], "git", &["config", "branch.main.description", "first"]);
    first.stopped();
    let second = scene.attack_with(&[], "git", &["config", "branch.main.rebase", "true"]);
    assert_eq!(second.code, Some(0), "{}", second.err);
    assert_eq!(scene.bytes(".git/config"), before, "the first run still has a mount there");
    first.go_on("before-go");
    let ran = first.running.wait();
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(scene.host(&["git", "config", "branch.main.description"]), "first\n");
    assert_eq!(scene.host(&["git", "config", "branch.main.rebase"]), "true\n");
}
