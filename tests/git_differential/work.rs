//! The work of a user with git on the host, after the run.

use crate::dice::Dice;
use crate::shapes::Shape;

/// Commands that prompts and editors run all the time.
const ALWAYS: [&str; 2] = ["git status", "git diff"];

const SOMETIMES: [&str; 21] = [
    "git diff --cached",
    "git log -p -2",
    "git show --stat",
    "echo more >>file; git add file",
    "git add -u",
    "git checkout -q .; git restore .; git checkout-index -a -f; git checkout -q -b again",
    "git commit --allow-empty -m 'work\n\nt: x'",
    "git commit --allow-empty --amend",
    "git commit --allow-empty --trailer t=x -m work",
    "git checkout -q -b other; echo a >>file; git commit -qam a; git checkout -q -; echo b >>file; git commit -qam b; \
     git merge -q other",
    "git stash; git stash pop",
    "git rebase -q -i HEAD~1",
    "git fetch -q ssh://localhost/x",
    "git fetch -q git://localhost:1/x",
    "git remote add origin \"$HOME/code/library\"; git fetch -q origin",
    "git submodule status; git -c protocol.file.allow=always submodule --quiet update --init --recursive",
    "printf 'protocol=https\\nhost=localhost\\n\\n' | git credential fill",
    "git archive --format=t HEAD",
    "yes y | head -20 | git add -p",
    "rm -rf \"$HOME/clone\"; git clone -q . \"$HOME/clone\"",
    "git gc -q --prune=now",
];

pub fn random(dice: &mut Dice, shape: Shape) -> String {
    script(shape, &(0..6).map(|_| *dice.pick(&SOMETIMES)).collect::<Vec<_>>())
}

/// The work that follows each control.
pub fn fixed(shape: Shape) -> String {
    script(shape, &["echo more >>file; git add file", "git commit --allow-empty -m work"])
}

fn script(shape: Shape, chosen: &[&str]) -> String {
    let mut script = String::from("export GIT_TERMINAL_PROMPT=0\nexec </dev/null\n");
    for folder in shape.folders() {
        // In a folder that is no repository, git would search its parents.
        script.push_str(&format!(
            "cd \"$HOME/code/{folder}\" 2>/dev/null && export GIT_CEILING_DIRECTORIES=\"${{PWD%/*}}\" && {{\n"
        ));
        for command in ALWAYS.iter().chain(chosen) {
            // Without the limit, git would wait forever for a filter that does not answer.
            let quoted = command.replace('\'', "'\\''");
            script.push_str(&format!("timeout 5 sh -c '{quoted}' >/dev/null 2>&1\n"));
        }
        script.push_str("}\n");
    }
    // A secret that rerere has stored counts as one more program that ran.
    script.push_str(
        "cd \"$HOME/code/project\" && grep -ls secret .git/rr-cache/*/postimage ../main/.git/rr-cache/*/postimage \\\n\
         .bare/rr-cache/*/postimage | sed 's|.*/0*\\([0-9]*\\)/postimage|\\1 rerere|' >>\"$HOME/pwned\"\nexit 0\n",
    );
    script
}
