//! Everyday work with git.

use crate::support::Place;
use crate::{inside, output_inside, outside, succeeded};

for_both!(
    branches_are_made_merged_and_rebased,
    stash_and_clean_work_beside_protected_files,
    a_stash_beside_a_read_only_file_fails_and_loses_nothing,
    a_repository_is_made_packed_and_cloned,
    a_local_remote_is_fetched_and_pushed_to,
    a_worktree_is_added_and_removed,
    a_worktree_that_existed_at_the_start_is_removed_outside,
    a_worktree_whose_files_are_gone_stays_in_the_list_of_git,
    a_checkout_of_another_version_of_a_protected_file_is_reported,
    a_checkout_of_other_versions_in_a_protected_folder_is_reported,
    the_report_names_content_that_a_repair_cannot_restore,
    a_rebase_that_stops_at_a_protected_file_is_reported,
    husky_writes_its_scripts_into_a_folder_of_its_own,
    a_submodule_is_added_outside,
    git_works_in_a_submodule,
    a_submodule_is_fetched_and_updated,
    git_works_in_an_embedded_repository,
    hooks_of_the_host_run_and_cannot_be_changed,
    settings_that_git_writes_itself_reach_the_host,
    only_a_new_and_complete_upstream_reaches_the_host,
    other_settings_stay_with_the_project,
    a_submodule_that_is_there_is_updated,
    a_list_of_sparse_checkout_stays_with_the_project,
    ordinary_work_in_new_repositories_is_not_reported,
    worktrees_of_submodules_are_not_reported,
    repositories_in_a_folder_of_several_are_not_reported,
    a_worktree_with_the_same_programs_is_not_reported,
);

const INIT: &str = "git init -q -b main; echo one >file; git add file; git commit -qm first";

fn branches_are_made_merged_and_rebased(place: &Place) {
    outside(place, INIT);
    inside(
        place,
        "git checkout -qb topic; echo two >>file; git commit -qam second; git tag v1
         git checkout -q main; echo other >other; git add other; git commit -qm third
         git checkout -qb rebased topic; git rebase -q main
         git checkout -q main; git cherry-pick topic >/dev/null
         git checkout -qb merged HEAD~1; git merge -q --no-edit topic
         git reset -q --hard HEAD~1; git merge -q --no-edit topic; git commit -q --amend -m merge; git branch -D topic >/dev/null",
    );
    let log = outside(
        place,
        "git log --format=%s main; git log --format=%s rebased; git log -1 --format=%s merged; git fsck 2>&1",
    );
    assert_eq!(log, "second\nthird\nfirst\nsecond\nthird\nfirst\nmerge\n");
    assert_eq!(outside(place, "git log -1 --format=%s v1; git status --porcelain"), "second\n");
}

/// Hidden untracked files must not stop git commands that go through all files.
fn stash_and_clean_work_beside_protected_files(place: &Place) {
    outside(place, INIT);
    outside(place, "echo KEY=1 >.env.local; echo SECRET=1 >.env");
    inside(
        place,
        "echo changed >file; echo new >new; git add -A; git reset -q
         git stash -u -q; test ! -e new; test \"$(cat file)\" = one; git stash pop -q; test -e new
         mkdir junk; echo x >junk/x; rm new; git checkout -q file; git clean -fdq; test ! -e junk
         echo kept >kept; git add -A; git commit -qm kept",
    );
    assert_eq!(outside(place, "git show --format= --name-only HEAD; cat .env .env.local"), "kept\nSECRET=1\nKEY=1\n");
    assert_eq!(outside(place, "git status --porcelain"), "?? .env\n?? .env.local\n", "git outside sees them as before");
}

/// git adds the read-only file to the stash, but cannot remove it.
// SPEC M5
fn a_stash_beside_a_read_only_file_fails_and_loses_nothing(place: &Place) {
    outside(place, INIT);
    outside(place, "mkdir .vscode; echo '{}' >.vscode/settings.json; echo new >new; echo changed >file");
    let output = output_inside(place, "git stash -u");
    assert!(!output.status.success(), "{output:?}");
    assert_eq!(outside(place, "git stash list | wc -l; cat .vscode/settings.json"), "1\n{}\n");
    let stashed = "git show 'stash@{0}:file' 'stash@{0}^3:new' 'stash@{0}^3:.vscode/settings.json'";
    assert_eq!(outside(place, stashed), "changed\nnew\n{}\n");
}

fn a_repository_is_made_packed_and_cloned(place: &Place) {
    inside(
        place,
        "git init -q -b main below; cd below; echo one >file; git add file; git commit -qm first
         git gc -q; git repack -adq; git prune; cd ..; git clone -q below clone; test -e clone/file",
    );
    assert_eq!(outside(place, "git -C clone log --format=%s; git -C below fsck 2>&1"), "first\n");
}

fn a_local_remote_is_fetched_and_pushed_to(place: &Place) {
    outside(place, INIT);
    outside(
        place,
        "git clone -q --bare . remote.git; git remote add origin \"$PWD/remote.git\"; echo remote.git >>.git/info/exclude",
    );
    outside(
        place,
        "git clone -q remote.git ../other; cd ../other; echo two >>file; git commit -qam second; git push -q origin main",
    );
    inside(
        place,
        "git fetch -q; git merge -q --ff-only origin/main; echo three >>file; git commit -qam third
         git push -q origin main; git pull -q --ff-only origin main",
    );
    assert_eq!(outside(place, "git -C remote.git log --format=%s main"), "third\nsecond\nfirst\n");
}

fn a_worktree_is_added_and_removed(place: &Place) {
    outside(place, INIT);
    inside(
        place,
        "git worktree add -q tree -b other; cd tree; echo two >>file; git commit -qam second; cd ..
         git worktree list | grep -q tree; git worktree remove tree; git gc -q",
    );
    assert_eq!(outside(place, "git log --format=%s other; git worktree list | wc -l"), "second\nfirst\n1\n");
}

/// The kernel does not remove a mount point of the command's own namespace. git removes files
/// until it meets one and fails. The commits and the list of worktrees stay, and git outside can
/// remove the rest.
fn a_worktree_that_existed_at_the_start_is_removed_outside(place: &Place) {
    outside(place, INIT);
    outside(place, "git worktree add -q tree -b other; cd tree; echo two >>file; git commit -qam second");
    let output = output_inside(place, "git worktree remove tree");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("Device or resource busy"), "{said}");
    assert_eq!(outside(place, "git worktree list | wc -l; git -C tree log -1 --format=%s"), "2\nsecond\n");
    outside(place, "git worktree remove --force tree");
    let tidy = outside(
        place,
        "git log --format=%s other; git worktree list | wc -l; ls -A .git/worktrees 2>&1 | wc -l; git fsck 2>&1",
    );
    assert!(tidy.starts_with("second\nfirst\n1\n"), "{tidy}");
    assert_eq!(outside(place, "git worktree add -q tree other; cat tree/file"), "one\ntwo\n");
}

/// This test removes the files itself, because the order in the folder decides which files
/// `git worktree remove` removes before it fails.
// SPEC R2
fn a_worktree_whose_files_are_gone_stays_in_the_list_of_git(place: &Place) {
    outside(place, &format!("git init -q ../sub; cd ../sub; {INIT}"));
    outside(
        place,
        &format!("{INIT}; git -c protocol.file.allow=always submodule --quiet add ../sub sub; git commit -qm sub"),
    );
    outside(place, "git worktree add -q tree -b other; git worktree add -q ../beside -b beside");
    let output = output_inside(place, "rm -f .git/worktrees/*/gitdir .git/worktrees/*/HEAD");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected = "warning[repository-repaired]: the run broke the list of worktrees; put back: `";
    assert!(said.starts_with(expected) && !said.contains("planted-repository"), "{said}");
    assert_eq!(
        outside(
            place,
            "git worktree prune; git -C ../beside status -s; git -C tree status -s; git worktree list | wc -l"
        ),
        "3\n"
    );
}

/// A checkout inside names the file and continues, and a merge stops.
// SPEC R13
fn a_checkout_of_another_version_of_a_protected_file_is_reported(place: &Place) {
    outside(
        place,
        &format!("{INIT}; echo one >.envrc; git add .envrc; git commit -qm second; git checkout -q -b other"),
    );
    outside(place, "echo two >.envrc; git commit -qam third; git checkout -q main; echo mine >.mcp.json");
    let said_after = |script: &str| String::from_utf8_lossy(&output_inside(place, script).stderr).into_owned();
    let said = said_after(
        "git checkout -q other 2>/dev/null; test \"$(git status -s)\" = \"$(printf ' M .envrc\n?? .mcp.json')\"",
    );
    let expected = "warning[not-checked-out]: git expects another version of `.envrc` since this run, and could not write it inside\n";
    assert!(said.starts_with(expected), "{said}");
    assert_eq!(said_after("git status -s"), "", "once");
    assert_eq!(outside(place, "cat .envrc; git checkout -q -- .envrc; cat .envrc"), "one\ntwo\n");
    let said = said_after("! git merge -q main~1 2>/dev/null; git checkout -q main 2>/dev/null");
    assert!(said.starts_with(expected), "{said}");
}

/// A rule for the folder protects its files. git leaves `.vscode` unchanged, and reports success.
// SPEC R13
fn a_checkout_of_other_versions_in_a_protected_folder_is_reported(place: &Place) {
    outside(
        place,
        &format!(
            "{INIT}; mkdir .vscode; echo one | tee .vscode/tasks.json .vscode/old >.mcp.json
             git add -A; git commit -qm second; git checkout -q -b other"
        ),
    );
    outside(
        place,
        "echo two >.vscode/tasks.json; echo two >.vscode/new; git rm -q .vscode/old .mcp.json; git add -A
         git commit -qm third; git checkout -q main",
    );
    let output = output_inside(place, "git checkout -q other 2>/dev/null");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success() && said.contains("git expects another version of 2 paths since this run"),
        "{said}"
    );
    assert!(said.contains("= note: `.vscode/new`\n  = note: `.vscode/tasks.json`\n"), "{said}");
    assert!(said.contains("git no longer tracks 2 paths since this run, and could not remove them inside"), "{said}");
    assert!(said.contains("= note: `.mcp.json`\n  = note: `.vscode/old`\n"), "{said}");
    assert_eq!(String::from_utf8_lossy(&output_inside(place, "git status -s").stderr), "", "once");
    let remedy = "git checkout -q -- .vscode/new .vscode/tasks.json; rm .vscode/old .mcp.json; git status -s";
    assert_eq!(outside(place, &format!("{remedy}; cat .vscode/*")), "two\ntwo\n");
}

// SPEC R2, R5
fn the_report_names_content_that_a_repair_cannot_restore(place: &Place) {
    outside(place, INIT);
    let said = |script: &str| String::from_utf8_lossy(&output_inside(place, script).stderr).into_owned();
    let broken = said("rm -rf .git/objects .git/refs .git/HEAD");
    assert!(broken.contains("the run broke the repository; put back: `"), "{broken}");
    assert!(broken.contains("the run broke the repository; put back empty, without the history: `"), "{broken}");
    outside(place, "rm -rf .git");
    let held = said("git init -q; echo evil >.git/hooks/post-commit; chmod 755 .git/hooks/post-commit");
    assert!(held.matches("warning[planted-repository]").count() == 1 && held.contains("/.git.held` now\n"), "{held}");
}

// SPEC R17
fn a_rebase_that_stops_at_a_protected_file_is_reported(place: &Place) {
    outside(place, &format!("{INIT}; mkdir .vscode; echo one >.vscode/tasks.json; git add -A; git commit -qm second"));
    outside(place, "git checkout -q -b other; echo two >other; git add -A; git commit -qm third");
    outside(place, "echo two >.vscode/tasks.json; git commit -qam fourth; git checkout -q main");
    outside(place, "echo three >third; git add -A; git commit -qm fifth");
    let output = output_inside(place, "! git rebase -q main other 2>/dev/null");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.starts_with("warning[left-unfinished]: the run left a rebase of git unfinished\n"), "{said}");
    assert_eq!(String::from_utf8_lossy(&output_inside(place, "git status -s").stderr), "", "once");
}

/// These are the steps of husky 9 in `npm install`.
// SPEC P17, M5
fn husky_writes_its_scripts_into_a_folder_of_its_own(place: &Place) {
    outside(place, &format!("{INIT}; mkdir .husky; echo 'echo hook ran' >.husky/pre-commit"));
    outside(place, "git add -A; git commit -qm second; echo kept >.git/info/exclude");
    let install = "git config core.hooksPath .husky/_; rm -f .husky/_/husky.sh; mkdir -p .husky/_
        echo '*' >.husky/_/.gitignore; echo \"# $0\" >.husky/_/husky.sh
        printf '#!/bin/sh\n. .husky/pre-commit\n' >.husky/_/pre-commit; chmod 755 .husky/_/pre-commit";
    let commit = "git commit -q --allow-empty -m commit 2>&1; git clean -qfd; git status -s";
    for _ in 0..2 {
        assert_eq!(inside(place, &format!("git clean -qfd; git status -s; {install}; {commit}")), "hook ran\n");
        assert_eq!(
            outside(place, "git status -s; ls -A .husky; git config core.hooksPath || echo unset"),
            "pre-commit\nunset\n"
        );
    }
    outside(place, install);
    let scripts = "cat .husky/_/*; git config core.hooksPath";
    let before = outside(place, scripts);
    assert_eq!(inside(place, &format!("{commit}; {install}; echo 'evil' >.husky/_/husky.sh; {commit}")), "hook ran\n");
    assert_eq!(outside(place, scripts), before);
    assert_eq!(outside(place, commit), "hook ran\n");
}

/// The first submodule that is added inside creates `.gitmodules`, which is reported. Later ones
/// fail, because they would have to change it.
fn a_submodule_is_added_outside(place: &Place) {
    outside(place, &format!("mkdir ../library; cd ../library; {INIT}"));
    outside(place, INIT);
    let add = |name: &str| format!("git -c protocol.file.allow=always submodule --quiet add --force ../library {name}");
    let first = output_inside(place, &add("one"));
    let said = String::from_utf8_lossy(&first.stderr).into_owned();
    assert!(first.status.success() && said.contains("created during the run: `.gitmodules`"), "{said}");
    outside(place, "git commit -qm submodule");
    let second = output_inside(place, &add("two"));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(!second.status.success() && said.contains("could not write config file .gitmodules"), "{said}");
    let added = outside(place, &format!("{}; git submodule status | wc -l", add("two")));
    assert!(added.ends_with("\n2\n"), "{added}");
}

/// `submodule add` and `submodule init` write settings, and must run outside.
fn git_works_in_a_submodule(place: &Place) {
    outside(place, &format!("mkdir ../library; cd ../library; {INIT}"));
    outside(place, INIT);
    outside(
        place,
        "git -c protocol.file.allow=always submodule --quiet add \"$PWD/../library\" library; git commit -qm module",
    );
    inside(
        place,
        "cd library; echo two >>file; git commit -qam second; cd ..; git submodule status | grep -q library
         git add library; git commit -qm 'newer library'; git submodule --quiet foreach 'git status -s'",
    );
    assert_eq!(
        outside(place, "git -C library log -1 --format=%s; git log -1 --format=%s; git status -s"),
        "second\nnewer library\n"
    );
}

/// A submodule that was registered outside can be cloned and used inside. For an existing
/// submodule, `submodule update` would write the settings, even unchanged, so its commits are
/// checked out in the submodule itself.
// SPEC R5
fn a_submodule_is_fetched_and_updated(place: &Place) {
    outside(place, &format!("mkdir ../library; cd ../library; {INIT}"));
    outside(place, INIT);
    outside(
        place,
        "git -c protocol.file.allow=always submodule --quiet add \"$PWD/../library\" a/logs; git commit -qm module
         git submodule --quiet deinit -f a/logs; rm -rf .git/modules; git submodule --quiet init",
    );
    let update = "git -c protocol.file.allow=always submodule --quiet update; git -C a/logs log --format=%s";
    let output = output_inside(place, update);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "git's own files are no finding");
    assert_eq!(succeeded(output), "first\n");
    outside(place, "cd ../library; echo two >>file; git commit -qam second");
    inside(
        place,
        "cd a/logs; git checkout -q main; git -c protocol.file.allow=always pull -q --ff-only origin main
         git checkout -q -b topic; echo three >>file; git commit -qam third; cd ../..; git add a/logs; git commit -qm newer
         git checkout -q HEAD~1; git -C a/logs checkout -q HEAD~2; test -z \"$(git status -s)\"
         git checkout -q main; git -C a/logs checkout -q topic; git submodule status | grep -q '^ '",
    );
    assert_eq!(
        outside(
            place,
            "git -C a/logs log -1 --format=%s; git log -1 --format=%s; git status -s; git -C a/logs fsck 2>&1"
        ),
        "third\nnewer\n"
    );
}

/// The nested repository is first one of several clones in a folder, and later embedded by `git
/// add`.
// SPEC P11
fn git_works_in_an_embedded_repository(place: &Place) {
    outside(place, &format!("mkdir one; cd one; {INIT}"));
    let work = "cd one; git checkout -q -b topic; echo two >>file; git commit -qam second; git checkout -q main
                git merge -q --ff-only topic; git branch -q -d topic; git stash list; git gc -q; git status -s";
    inside(place, work);
    outside(place, &format!("{INIT}; git -c advice.addEmbeddedRepo=false add one; git commit -qm embedded"));
    inside(
        place,
        &format!("{}; cd ..; git commit -qam newer", work.replace("two", "three").replace("second", "third")),
    );
    assert_eq!(
        outside(place, "git -C one log --format=%s; git log -1 --format=%s; git status -s; git -C one fsck 2>&1"),
        "third\nsecond\nfirst\nnewer\n"
    );
}

fn hooks_of_the_host_run_and_cannot_be_changed(place: &Place) {
    outside(place, INIT);
    outside(
        place,
        "mkdir .githooks; printf '#!/bin/sh\\necho ran >>ran\\n' >.githooks/pre-commit; chmod +x .githooks/pre-commit
         git config core.hooksPath .githooks; git add .githooks; git commit -qm hooks; rm ran; echo ran >>.git/info/exclude",
    );
    inside(place, "echo two >>file; git commit -qam second; test \"$(cat ran)\" = ran");
    assert!(!output_inside(place, "echo evil >>.githooks/pre-commit").status.success());
    assert_eq!(outside(place, "cat ran; git log -1 --format=%s; git status -s"), "ran\nsecond\n");
}

/// `push -u` and `checkout -b x origin/x` set the upstream branch, and `branch -m` and `branch -D`
/// move or remove it. A plain `git push` of the user still goes to the same remote, and an emptied
/// copy removes no settings.
// SPEC Q4
fn only_a_new_and_complete_upstream_reaches_the_host(place: &Place) {
    outside(place, INIT);
    outside(
        place,
        "git remote add origin https://example.org/a; git remote add other https://example.org/b
         git config branch.main.remote origin; git config branch.main.merge refs/heads/main",
    );
    let before = outside(place, "cat .git/config");
    inside(
        place,
        "git config branch.main.remote other; git config branch.main.merge refs/heads/production
         git remote add inner https://example.org/c; git config branch.topic.remote inner
         git config branch.topic.merge refs/heads/topic",
    );
    assert_eq!(outside(place, "cat .git/config"), before);
    inside(place, "git config branch.half.remote other; git config branch.half.merge refs/tags/v1");
    assert_eq!(outside(place, "cat .git/config"), before, "a remote alone");
    inside(place, ": >.git/config");
    assert_eq!(outside(place, "cat .git/config"), before);
}

// SPEC Q2, Q4
fn settings_that_git_writes_itself_reach_the_host(place: &Place) {
    outside(place, INIT);
    outside(
        place,
        "git clone -q --bare . ../project/remote.git; git remote add origin \"$PWD/remote.git\"
         echo remote.git >>.git/info/exclude; git push -q origin main:there; git fetch -q
         sed -i 's/^\\[core\\]/# mine\\n[core]/' .git/config",
    );
    let before = outside(place, "cat .git/config");
    inside(
        place,
        "git checkout -q -b topic; git push -q -u origin topic; git checkout -q -b there origin/there
         git branch -q -m topic renamed; git config branch.renamed.description text; git config branch.main.rebase true
         git branch -q gone; git config branch.gone.description gone; git branch -q -D gone",
    );
    let after = outside(place, "cat .git/config; git status -s");
    assert!(after.starts_with(&before), "comments and all that was there stay:\n{after}");
    let settings = outside(place, "git config --file .git/config --get-regexp '^branch'");
    let mut settings: Vec<&str> = settings.lines().collect();
    settings.sort_unstable();
    let expected = [
        "branch.main.rebase true",
        "branch.renamed.description text",
        "branch.renamed.merge refs/heads/topic",
        "branch.renamed.remote origin",
        "branch.there.merge refs/heads/there",
        "branch.there.remote origin",
    ];
    assert_eq!(settings, expected);
    assert_eq!(outside(place, "git checkout -q renamed; git rev-parse --abbrev-ref '@{u}'"), "origin/topic\n");
    inside(place, "git checkout -q main; git branch -q -D renamed; git branch --unset-upstream there");
    let left = outside(place, "git config --file .git/config --get-regexp '^branch'");
    assert_eq!(left, "branch.main.rebase true\n");
}

/// A setting that could run a program stays in the copy. It is reported once, and the next run has
/// it.
// SPEC Q5
fn other_settings_stay_with_the_project(place: &Place) {
    outside(place, INIT);
    let before = outside(place, "cat .git/config; stat -c %i .git/config");
    // The first command is husky's `prepare`, and the others are common ones.
    let output = output_inside(
        place,
        "git config core.hooksPath .husky/_; git remote add other /other; git config alias.x '!true'
         git config --add remote.other.fetch +refs/x:refs/x; git worktree add -q tree; git worktree remove tree",
    );
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("warning[private-kept]") && said.contains("core.hookspath .husky/_`"), "{said}");
    succeeded(output);
    assert_eq!(outside(place, "cat .git/config; stat -c %i .git/config"), before, "the file was not even replaced");
    let again = output_inside(place, "git config core.hooksPath; git remote; git config --get-all remote.other.fetch");
    assert_eq!(String::from_utf8_lossy(&again.stderr), "", "each change is reported once");
    assert_eq!(succeeded(again), ".husky/_\nother\n+refs/heads/*:refs/remotes/other/*\n+refs/x:refs/x\n");
    assert_eq!(outside(place, "git status -s; ls -A .git | grep -c lock || true"), "0\n", "no file is left");
    assert!(!output_inside(place, "git config --global core.pager evil").status.success());
}

fn a_submodule_that_is_there_is_updated(place: &Place) {
    outside(place, &format!("mkdir ../library; cd ../library; {INIT}; echo two >>file; git commit -qam second"));
    outside(place, INIT);
    outside(
        place,
        "git -c protocol.file.allow=always submodule --quiet add \"$PWD/../library\" library; git commit -qm module
         git -C library checkout -q HEAD~1",
    );
    let before = outside(place, "cat .git/modules/library/config");
    inside(
        place,
        "git submodule --quiet update; test \"$(git -C library log -1 --format=%s)\" = second
         git -C library config core.pager evil; git -C library branch -q topic",
    );
    assert_eq!(outside(place, "cat .git/modules/library/config; git status -s"), before);
}

/// git inside writes `config.worktree`, which the host does not have. Even a key that may reach the
/// host does not create the file there.
// SPEC Q4
fn a_list_of_sparse_checkout_stays_with_the_project(place: &Place) {
    outside(place, &format!("{INIT}; mkdir a b; touch a/a b/b; git add .; git commit -qm second"));
    inside(
        place,
        "git sparse-checkout set a; test ! -e b; git config --worktree core.sparseCheckout
         git config --worktree branch.main.description listed",
    );
    inside(
        place,
        "test \"$(git config --worktree core.sparseCheckout)\" = true; git sparse-checkout disable; test -e b/b",
    );
    assert_eq!(outside(place, "test ! -e .git/config.worktree; git status -s"), "");
}

/// Runs a script inside, and asserts that the report is empty.
#[track_caller]
fn silent(place: &Place, script: &str) {
    let output = output_inside(place, &format!("exec 2>errors; {script}; rm errors"));
    let errors = std::fs::read_to_string(place.project().join("errors")).unwrap_or_default();
    assert!(output.status.success(), "{output:?}: {errors}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

// SPEC R5, R11, R15
fn ordinary_work_in_new_repositories_is_not_reported(place: &Place) {
    silent(
        place,
        &format!(
            "git init -q library; git -C library commit -q --allow-empty -m first; {INIT}
             git worktree add -q wt -b one; git worktree add -q deep/wt -b two
             git clone -q --depth 1 \"file://$PWD/library\" clone
             git -C clone worktree add -q ../clone-wt; git -C clone worktree add -q ../deep/clone-wt -b three
             git -C wt commit -q --allow-empty -m second; echo two >file; git stash -q; git stash pop -q
             git commit -qam third; git rebase -q one; git gc -q; git worktree remove deep/wt"
        ),
    );
}

// SPEC R5, R15
fn worktrees_of_submodules_are_not_reported(place: &Place) {
    outside(place, "git init -q ../library; git -C ../library commit -q --allow-empty -m first");
    outside(
        place,
        &format!(
            "{INIT}; git -c protocol.file.allow=always submodule --quiet add \"$PWD/../library\" sub; git commit -qm sub"
        ),
    );
    let update = "git -c protocol.file.allow=always submodule --quiet update --init";
    silent(
        place,
        &format!(
            "git worktree add -q deep/wt; cd deep/wt; {update}; cd ../..
             git -C sub worktree add -q ../sub-wt; git -C sub worktree add -q ../deep/sub-wt -b three
             git -C sub commit -q --allow-empty -m second; git commit -qam third"
        ),
    );
    silent(place, "cd deep/wt/sub; git commit -q --allow-empty -m fourth; cd ../../..; git -C sub gc -q");
}

// SPEC R5, R15
fn repositories_in_a_folder_of_several_are_not_reported(place: &Place) {
    outside(place, "git init -q -b main one; git -C one commit -q --allow-empty -m first");
    silent(
        place,
        "git -C one worktree add -q ../one-wt; git -C one worktree add -q ../deep/wt -b two; git clone -q one two
         git -C one gc -q; git -C one-wt commit -q --allow-empty -m second; git -C two pull -q",
    );
    silent(place, "git -C one-wt commit -q --allow-empty -m third; git -C deep/wt commit -q --allow-empty -m fourth");
}

// SPEC P8
fn a_worktree_with_the_same_programs_is_not_reported(place: &Place) {
    outside(
        place,
        &format!(
            "{INIT}; mkdir tools hooks; printf '#!/bin/sh\\n' >hooks/pre-commit; printf '#!/bin/sh\\ncat\\n' >tools/clean
             chmod 755 hooks/pre-commit tools/clean; echo '*.x filter=own' >.gitattributes; git add .; git commit -qm tools
             git config filter.own.clean './tools/clean %f'; git config core.hooksPath hooks"
        ),
    );
    silent(place, "git worktree add -q deep/wt; cd deep/wt; echo x >a.x; git add a.x; git commit -qm second; cd ../..");
}
