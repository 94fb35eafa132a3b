//! Starting while another sandbox works in the same project.

use std::io::{BufRead, BufReader};
use std::process::{Output, Stdio};

use crate::sandbox::{policy, sandbox, shell, write};
use crate::support::{Place, stderr};
use crate::undo::Waiting;

for_both!(
    a_run_starts_beside_another_that_writes,
    overlapping_runs_do_not_report_ordinary_work,
    a_run_leaves_a_finding_to_a_run_that_is_still_alive,
);

/// The other run creates and removes files all the time, and no rule names any of them.
// SPEC C12
fn a_run_starts_beside_another_that_writes(place: &Place) {
    const WORK: &str = "
import os, sys
os.makedirs('work/deep', exist_ok=True)
print('started', flush=True)
while not os.path.exists('stop'):
    for number in range(20):
        open(f'work/deep/{number}', 'w').close()
    for number in range(20):
        os.rename(f'work/deep/{number}', f'work/{number}')
        os.unlink(f'work/{number}')
    os.mkdir('work/new')
    os.rmdir('work/new')
    __import__('time').sleep(0.02)
";
    policy(place, "exclude = ['**/.env', 'missing/**/key', { path = '.blocked', if-missing = 'block' }]");
    write(place, "sub/.env", "secret\n");
    let mut other = sandbox(place);
    other.args(["--", "/usr/bin/python3", "-I", "-c", WORK]).stdout(Stdio::piped());
    let mut other = other.spawn().unwrap();
    let mut said = String::new();
    BufReader::new(other.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "started\n");
    for _ in 0..10 {
        assert_eq!(shell(place, "cat sub/.env 2>/dev/null || echo hidden"), "hidden\n");
    }
    std::fs::write(place.project().join("stop"), "").unwrap();
    assert!(other.wait().unwrap().success());
}

/// A repository with unusual contents: a submodule with a program in its settings, a file with the
/// flag assume-unchanged, a symlink in the git directory.
fn repository(place: &Place) {
    place.write("home/.gitconfig", "[user]\n\tname = U\n\temail = u@example.org\n[init]\n\tdefaultBranch = main\n");
    place.give_away();
    let script = "
git init -q . && touch file other && git add . && git commit -qm first && git commit -q --allow-empty -m second
git init -q --bare ../origin && git clone -q ../origin ../seed 2>/dev/null
git -C ../seed commit -q --allow-empty -m first && git -C ../seed push -q
git -c protocol.file.allow=always submodule --quiet add ../origin sub && git commit -qm third && git commit -q --allow-empty -m fourth
git config -f .git/modules/sub/config core.fsmonitor true
git update-index --assume-unchanged file
ln -s ../file .git/note";
    assert!(place.command("sh").args(["-ec", script]).status().unwrap().success());
    place.give_away();
}

fn beside(place: &Place, script: &str) -> Waiting {
    let script = format!("{script}\necho started; eval \"$(cat)\"");
    Waiting::start_with(sandbox(place).args(["--", "sh", "-ec", &script]))
}

/// The warnings of a run. Notes may follow: a private copy may stay.
fn reports(ended: &Output) -> Vec<String> {
    assert!(ended.status.success(), "{}", stderr(ended));
    stderr(ended).lines().filter(|line| line.starts_with("warning")).map(str::to_owned).collect()
}

// SPEC R19
fn overlapping_runs_do_not_report_ordinary_work(place: &Place) {
    repository(place);
    let work = "git commit -q --allow-empty -m more; echo x >>other; git commit -qam other; git branch -f b; git stash -q || true";
    let first = beside(place, work);
    let second = beside(place, work);
    let third = beside(place, work);
    assert_eq!(reports(&first.end(work)), [""; 0]);
    let fourth = beside(place, work);
    for run in [second, fourth, third] {
        assert_eq!(reports(&run.end(work)), [""; 0]);
    }
    let runs = std::fs::read_dir(place.home().join(".local/state/agent-sandbox/runs"));
    let left = runs.into_iter().flatten().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(left.filter(|name| name != "lock").collect::<Vec<_>>(), [""; 0]);
}

// SPEC R19
fn a_run_leaves_a_finding_to_a_run_that_is_still_alive(place: &Place) {
    repository(place);
    let rebase = "GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git rebase -q -i --keep-empty HEAD~1 2>/dev/null";
    let first = beside(place, rebase);
    assert_eq!(reports(&beside(place, "").end("")), [""; 0]);
    let last = beside(place, "");
    let expected = ["warning[left-unfinished]: the run left a rebase of git unfinished"];
    assert_eq!(reports(&first.end("")), expected);
    assert_eq!(reports(&last.end("")), expected);
    assert_eq!(reports(&beside(place, "").end("")), [""; 0]);
}
