//! git works with the default policy, and files that git on the host obeys stay unchanged.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::sandbox::{Found, failed, probe, run, sandbox, succeeded, write};
use crate::support::{Place, stderr};

everywhere!(
    everyday_git_works,
    hooks_and_settings_cannot_be_written,
    a_hooks_folder_that_is_missing_cannot_be_made,
    a_commit_in_a_linked_worktree_works,
    a_commit_in_a_submodule_works,
    a_project_in_a_subdirectory_of_a_repository_can_commit,
    strict_git_keeps_other_branches_and_tags,
    excluded_tracked_files_leave_the_index_alone,
    a_tracked_env_file_is_left_alone_until_it_differs,
    without_supervision_a_missing_list_stays_missing,
    settings_that_cannot_be_read_for_the_moment_stop_the_start,
);

/// Holds a lease on the file. While this process lives, a non-blocking open of the file fails.
const LEASE: &str = "
import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
fcntl.fcntl(os.open(sys.argv[1], os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_WRLCK)
print('leased', flush=True)
sys.stdin.read()
";

/// git's settings may name paths that must be protected, so a run must read them.
// SPEC P8
fn settings_that_cannot_be_read_for_the_moment_stop_the_start(place: &Place) {
    outside(
        place,
        &place.project(),
        "git init -q; git config core.hooksPath my-hooks; mkdir my-hooks; touch my-hooks/x",
    );
    let mut holder = place.command("python3");
    let config = place.project().join(".git/config");
    let mut holder =
        holder.args(["-c", LEASE]).arg(&config).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = [0; 6];
    holder.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    let write = ["--", "sh", "-c", "echo planted >my-hooks/x"];
    let output = run(place, &write);
    drop(holder.stdin.take());
    holder.wait().unwrap();
    failed(&output, 125, ".git/config` cannot be read: resource temporarily unavailable");
    assert!(stderr(&run(place, &write)).contains("my-hooks/x: Read-only file system"));
}

/// Runs git with a fixed identity and without the settings of the user and the system.
fn with_identity(command: &mut Command) -> &mut Command {
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "A Tester").env(format!("GIT_{who}_EMAIL"), "tester@example.org");
    }
    command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "protocol.file.allow")
        .env("GIT_CONFIG_VALUE_0", "always")
        .env("PATH", "/usr/bin:/bin")
}

/// A shell script on the host, in `folder`.
pub fn outside(place: &Place, folder: &Path, script: &str) -> String {
    let mut shell = place.command("sh");
    succeeded(with_identity(&mut shell).current_dir(folder).args(["-ec", script]).output().unwrap())
}

/// A shell script in the sandbox, started in `folder`.
pub fn inside(place: &Place, folder: &Path, script: &str) -> String {
    inside_with(place, &[], folder, script)
}

fn inside_with(place: &Place, flags: &[&str], folder: &Path, script: &str) -> String {
    let mut command = sandbox(place);
    with_identity(&mut command).current_dir(folder).args(flags).args(["--", "sh", "-ec", script]);
    succeeded(command.output().unwrap())
}

const INIT: &str = "git init -q -b main . && echo one >file && git add -A && git commit -qm first";

/// A repository with one commit in the project.
pub fn repository(place: &Place) -> PathBuf {
    outside(place, &place.project(), INIT);
    place.project()
}

#[track_caller]
fn read_only(place: &Place, paths: &[PathBuf]) {
    for (path, found) in paths.iter().zip(probe::<&str>(place, &[], paths)) {
        let kind = if path.is_dir() { "directory" } else { "file" };
        assert_eq!(found, Found::ro(kind), "{path:?}");
    }
}

fn everyday_git_works(place: &Place) {
    let project = repository(place);
    let script = "
        echo two >>file && git commit -qam second
        git checkout -qb feature && echo new >other && git add other && git commit -qm feature
        git checkout -q main && echo three >third && git add . && git commit -qm third
        echo unfinished >>file && git stash -q && test -z \"$(git status --porcelain)\" && git stash pop -q
        git checkout -q file
        git checkout -q feature && git rebase -q main && git commit -q --amend -m rebased
        git checkout -q main && git merge -q --ff-only feature && git branch -qd feature
        git tag v1 && git tag -am annotated v2
        git worktree add -q inner && git worktree remove inner && git branch -qD inner
        git cherry-pick --allow-empty --keep-redundant-commits HEAD >/dev/null && git reset -q --hard HEAD~1
        git gc -q && git repack -qad && git pack-refs --all && git fsck --no-dangling
        git status --porcelain
        git log --format=%s";
    assert_eq!(inside(place, &project, script), "rebased\nthird\nsecond\nfirst\n");
    let judged =
        outside(place, &project, "git fsck --no-dangling; git status --porcelain; git tag; cat file third other");
    assert_eq!(judged, "v1\nv2\none\ntwo\nthree\nnew\n");
}

/// Asserts that the command changes only a copy of each file.
fn private(place: &Place, paths: &[PathBuf]) {
    for path in paths {
        let before = fs::read(path).unwrap();
        let script =
            "git config --file \"$1\" core.pager evil && git config --file \"$1\" core.pager && readlink \"$1\"";
        let output = sandbox(place).args(["--", "sh", "-c", script, "sh"]).arg(path).output().unwrap();
        let found = succeeded(output);
        assert!(found.starts_with("evil\n/run/agent-sandbox/private/"), "{}: {found}", path.display());
        assert_eq!(fs::read(path).unwrap(), before, "{}", path.display());
    }
}

fn hooks_and_settings_cannot_be_written(place: &Place) {
    let project = repository(place);
    let hooks = project.join(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    fs::write(hooks.join("post-checkout"), "#!/bin/sh\n").unwrap();
    place.give_away();
    let before = fs::read(project.join(".git/config")).unwrap();
    read_only(place, &[hooks.clone(), hooks.join("post-checkout")]);
    private(place, &[project.join(".git/config")]);
    for attempt in [
        "echo evil >.git/hooks/pre-commit",
        "mv .git/config .git/config.old",
        "mv .git/hooks .git/old",
        "rm .git/config",
        "ln -sf /bin/true .git/hooks/pre-push",
    ] {
        let output = with_identity(sandbox(place).args(["--", "sh", "-c", attempt])).output().unwrap();
        assert!(!output.status.success(), "{attempt}");
    }
    assert_eq!(fs::read(project.join(".git/config")).unwrap(), before);
    assert_eq!(
        fs::read_dir(&hooks)
            .unwrap()
            .filter(|entry| {
                let name = entry.as_ref().unwrap().file_name();
                !name.to_str().unwrap().ends_with(".sample")
            })
            .count(),
        1
    );
}

fn a_hooks_folder_that_is_missing_cannot_be_made(place: &Place) {
    outside(place, &place.project(), &INIT.replace("init", "init --template="));
    let hooks = place.project().join(".git/hooks");
    assert!(!hooks.exists());
    succeeded(run(place, &["--print-args", "--", "true"]));
    assert!(!hooks.exists(), "printing creates nothing");
    let found = probe::<&str>(place, &[], std::slice::from_ref(&hooks));
    assert_eq!(found, [Found::ro("directory")]);
    assert!(!hooks.exists(), "the folder exists only during the run");
}

fn a_commit_in_a_linked_worktree_works(place: &Place) {
    let main = place.home().join("code/main");
    fs::create_dir(&main).unwrap();
    place.give_away();
    outside(place, &main, &format!("{INIT} && git worktree add -q -b linked ../project"));
    let project = place.project();
    let script = "echo two >>file && git commit -qam second && git status --porcelain && git log --format=%s";
    assert_eq!(inside(place, &project, script), "second\nfirst\n");
    assert_eq!(outside(place, &main, "git log --format=%s linked && git status --porcelain"), "second\nfirst\n");
    private(place, &[main.join(".git/config")]);
    read_only(place, &[main.join("file"), main.join(".git/hooks"), main]);
}

fn a_commit_in_a_submodule_works(place: &Place) {
    let library = place.home().join("code/library");
    fs::create_dir(&library).unwrap();
    place.give_away();
    outside(place, &library, INIT);
    let project = repository(place);
    outside(place, &project, "git submodule --quiet add ../library sub && git commit -qm sub");
    let modules = project.join(".git/modules/sub");
    let commit = "git checkout -q main && echo two >>file && git commit -qam second && git log --format=%s";

    // The project is the superproject.
    assert_eq!(inside(place, &project, &format!("(cd sub && {commit}) && git commit -qam moved")), "second\nfirst\n");
    read_only(place, &[modules.join("hooks")]);
    private(place, &[modules.join("config"), project.join(".git/config")]);

    // The project is the submodule.
    let sub = project.join("sub");
    assert_eq!(inside(place, &sub, &commit.replace("second", "third")), "third\nsecond\nfirst\n");
    let script = "for path in ../file ../../library/file ../.git/config; do
            (: >>$path) 2>/dev/null && echo $path || true
        done";
    assert_eq!(inside(place, &sub, script), "", "a run in the submodule writes outside of it");
    assert_eq!(
        outside(place, &sub, "git status --porcelain && git fsck && git log --format=%s"),
        "third\nsecond\nfirst\n"
    );
}

fn a_project_in_a_subdirectory_of_a_repository_can_commit(place: &Place) {
    let around = place.home().join("code");
    write(place, ".agent-sandbox.toml", "");
    write(place, "own", "");
    outside(place, &around, INIT);
    let script =
        "echo two >>own && git add own && git commit -qm second && git status --porcelain && git log --format=%s";
    assert_eq!(inside(place, &place.project(), script), "second\nfirst\n");
    assert_eq!(outside(place, &around, "git status --porcelain && git show --format= --name-only"), "project/own\n");
    read_only(place, &[around.join("file"), around.join(".git/hooks")]);
    private(place, &[around.join(".git/config")]);
}

fn strict_git_keeps_other_branches_and_tags(place: &Place) {
    let project = repository(place);
    outside(
        place,
        &project,
        "git branch other && git branch deep/er && git tag v1 && git commit -q --allow-empty -m next",
    );
    let flags = ["--preset", "git-strict"];
    let commit = "echo more >>file && git commit -qam strict && git status --porcelain && git log -1 --format=%s";
    let refs = "git for-each-ref --format='%(refname) %(objectname)' | grep -v refs/heads/main";
    let before = outside(place, &project, refs);
    // A packed branch has no file that could be read-only. It can be moved, but not deleted.
    let move_branches =
        ["git branch -f other HEAD", "git branch -f deep/er HEAD", "git update-ref refs/heads/other HEAD"];
    let others =
        ["git tag v2", "git tag -f v1", "git tag -d v1", "git branch -D other", "git update-ref refs/tags/v1 HEAD"];
    for (packed, attempts) in [(false, [&others[..], &move_branches].concat()), (true, others.to_vec())] {
        if packed {
            outside(place, &project, "git pack-refs --all");
        }
        assert_eq!(inside_with(place, &flags, &project, commit), "strict\n");
        assert_eq!(outside(place, &project, "git log -1 --format=%s main"), "strict\n");
        for attempt in attempts {
            let mut command = sandbox(place);
            let output = with_identity(command.args(flags).args(["--", "sh", "-c", attempt])).output().unwrap();
            assert!(!output.status.success(), "packed: {packed}, {attempt}: {}", stderr(&output));
            assert_eq!(outside(place, &project, refs), before, "packed: {packed}, {attempt}");
        }
    }
}

fn excluded_tracked_files_leave_the_index_alone(place: &Place) {
    let project = repository(place);
    write(place, "secret/deep/key", "host");
    write(place, "secret/other", "host");
    write(place, "key", "host");
    outside(place, &project, "git add -A && git commit -qm tracked && echo changed >>file");
    let flags = ["--exclude", "secret", "--exclude", "key"];
    let staged = "git ls-files -s && git diff --cached --name-status";
    let before = outside(place, &project, staged);
    for attempt in ["git add -u", "git add -A", "git commit -qam lost", "git stash"] {
        let mut command = sandbox(place);
        let output = with_identity(command.args(flags).args(["--", "sh", "-c", attempt])).output().unwrap();
        assert!(!output.status.success(), "{attempt}");
        assert_eq!(outside(place, &project, staged), before, "{attempt}");
    }
    assert_eq!(outside(place, &project, "cat secret/deep/key secret/other key"), "hosthosthost");
    assert_eq!(outside(place, &project, "git log --format=%s"), "tracked\nfirst\n");
}

// SPEC P6
fn a_tracked_env_file_is_left_alone_until_it_differs(place: &Place) {
    let project = repository(place);
    write(place, ".env", "PUBLIC=1\n");
    write(place, ".env.example", "PUBLIC=\n");
    outside(place, &project, "git add -A && git commit -qm env");
    write(place, "sub/.env", "SECRET=1\n");
    let names = [".env", ".env.example", "sub/.env"].map(|name| project.join(name));
    let found = probe::<&str>(place, &[], &names);
    assert_eq!(found, [Found::rw("file"), Found::rw("file"), Found::masked_file()]);
    assert_eq!(inside(place, &project, "echo more >>file && git commit -qam all && git log -1 --format=%s"), "all\n");

    write(place, ".env", "SECRET=1\n");
    let found = probe::<&str>(place, &[], &names);
    assert_eq!(found, [Found::masked_file(), Found::rw("file"), Found::masked_file()]);
    let said = stderr(&run(place, &["--", "true"]));
    assert_eq!(said.matches("note[hidden-tracked]: ").count(), 1, "{said}");
    assert!(said.contains(&format!("`{}` is hidden, and git tracks it", names[0].display())), "{said}");
}

/// Without supervision no process could remove a file that is created as a mount point.
// SPEC M5
fn without_supervision_a_missing_list_stays_missing(place: &Place) {
    write(place, ".env", "secret");
    outside(place, &place.project(), "git init -q --template= .");
    for flags in [&["--exec"][..], &["--exec", "--no-guard"]] {
        let ran = inside_with(place, flags, &place.project(), "cat .env 2>/dev/null || echo hidden");
        assert_eq!(ran, "hidden\n", "{flags:?}");
        assert!(!place.project().join(".git/info").exists(), "{flags:?}");
    }
}
