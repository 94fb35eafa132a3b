//! Attacks of a command on git's files.

use std::fs;

use crate::dice::Dice;
use crate::index;
use crate::shapes::Shape;
use crate::support::Place;

#[derive(Debug)]
pub struct Attack {
    /// Every program of this attack writes the number when it runs.
    pub number: usize,
    pub script: String,
    /// A report about the attack contains one of these texts.
    pub mentions: Vec<String>,
}

pub const FUNCTIONS: &str = include_str!("attacks.sh");

const ARMS: [&str; 13] = [
    "monitor",
    "monitor",
    "monitor-and-hooks",
    "hooks",
    "hooks-path",
    "include",
    "include-if",
    "filter",
    "worktree-settings",
    "commondir",
    "settings-link",
    "hooks-link",
    "work-tree",
];
const FORMS: [&str; 8] =
    ["plain", "plain", "pointer", "pointer-relative", "link", "link-to-pointer", "in-modules", "closed"];
const NAMES: [&str; 9] = ["named", "committed", "four", "split", "replaced", "sparse", "bytes", "bytes", "long"];
/// Paths of a hook that git itself would not write into an index.
const FORGED: [&str; 4] = [
    ".git/hooks/post-checkout",
    "x/../.git/hooks/pre-commit",
    ".GIT/../.git/hooks/post-index-change",
    "$PWD/.git/hooks/pre-commit",
];
const BARE: [&str; 5] = ["plain", "files", "detached", "link", "elsewhere"];

impl Attack {
    pub fn random(dice: &mut Dice, shape: Shape, place: &Place) -> Vec<Self> {
        let bytes = index::random(dice, place.project().to_str().unwrap());
        fs::write(place.home().join("index"), bytes).unwrap();
        let number = if dice.one_in(3) { 3 } else { 1 };
        (1..=number).map(|number| Self::one(dice, shape, number)).collect()
    }

    fn one(dice: &mut Dice, shape: Shape, number: usize) -> Self {
        let (script, mentions) = match dice.roll(9) {
            0 | 1 => program(dice, number),
            8 if shape.has_repository() => state(dice, number),
            2 => repository(dice, number),
            3 if shape.has_repository() => broken(dice, number),
            4 => inner(dice, shape, number),
            _ if !shape.has_repository() => root(dice, number),
            _ => planted(dice, shape, number),
        };
        Self { number, script, mentions }
    }
}

/// Changes the programs, hooks and settings that the user's settings may name.
fn program(dice: &mut Dice, number: usize) -> (String, Vec<String>) {
    let script = match dice.roll(9) {
        0 => format!("for f in tools/prog prog.sh 'my tools/prog'; do evil \"$f\" {number}; done"),
        1 => format!("for f in tools/prog prog.sh 'my tools/prog'; do rm -f \"$f\"; evil \"$f\" {number}; done"),
        2 => format!("mv tools tools.aside; evil tools/prog {number}; hooks tools/hooks {number}"),
        3 => format!("evil evil {number}; for f in tools/prog prog.sh; do ln -sf \"$PWD/evil\" \"$f\"; done"),
        4 => format!("hooks tools/hooks {number}; hooks tools/absent/hooks {number}"),
        5 => format!("monitor {number} >>team.gitconfig; monitor {number} >absent.gitconfig"),
        6 => format!("mv team.gitconfig aside; monitor {number} >team.gitconfig"),
        7 => format!(
            "evil tools/absent {number}; evil other/prog {number}; hooks other/hooks {number}; rm -f link; ln -s other link"
        ),
        _ => format!("evil evil {number}; rm -f prog.link; cp evil prog.link"),
    };
    (script, texts(&["tools", "prog", "link", "team.gitconfig", "absent"]))
}

/// Changes the project's own repository.
fn repository(dice: &mut Dice, number: usize) -> (String, Vec<String>) {
    let arm = dice.pick(&ARMS);
    let place = dice.pick(&["--git-common-dir", "--git-dir"]);
    let script = match dice.roll(6) {
        0 => format!("mv .git .git.aside; cp -r .git.aside .git; arm .git {number} {arm}"),
        1 => format!("rm -rf .git; made .; arm .git {number} {arm}"),
        2 => format!(
            "cp -r \"$(git rev-parse --git-common-dir)\" copy; monitor {number} >>copy/config; \
             rm -rf .git; echo \"gitdir: $PWD/copy\" >.git"
        ),
        3 => format!("g=$(git rev-parse --git-common-dir); rm -rf $g/hooks; hooks $g/hooks {number}"),
        _ => format!(
            "g=$(git rev-parse {place}); arm \"$g\" {number} {arm}; arm \"$g\" {number} worktree-settings-alone"
        ),
    };
    (script, texts(&[".git", "hooks"]))
}

/// Writes files that git does not check.
fn state(dice: &mut Dice, number: usize) -> (String, Vec<String>) {
    if dice.one_in(2) {
        let script =
            format!("conflict {number} {}", dice.pick(&["../../.ssh/id_ed25519", "\"$HOME/.ssh/id_ed25519\""]));
        return (script, texts(&["MERGE_RR`"]));
    }
    let name = dice.pick(&FORGED);
    (format!("forged \"$(git rev-parse --git-path index)\" {number} \"{name}\""), texts(&["index`"]))
}

/// Breaks the project's repository, so that git takes another one.
fn broken(dice: &mut Dice, number: usize) -> (String, Vec<String>) {
    let bare = dice.pick(&BARE);
    let how = dice.pick(&[
        "rm -f \"$g/HEAD\"",
        "echo nonsense >\"$g/HEAD\"",
        "mv \"$g/objects\" \"$g/objects.aside\"",
        "mv \"$g/refs\" \"$g/refs.aside\"",
        "chmod 000 \"$g\"",
        "chmod 000 \"$g/refs\"",
        "rm -f \"$g/HEAD\"; chmod 555 \"$g\"",
        "rm -f .git",
    ]);
    let script = format!("g=$(git rev-parse --git-common-dir); bare {number} {bare}; {how}");
    (script, texts(&["broke the repository", "repository since this run"]))
}

/// Makes a repository where there was none.
fn root(dice: &mut Dice, number: usize) -> (String, Vec<String>) {
    let (arm, bare, form) = (dice.pick(&ARMS), dice.pick(&BARE), dice.pick(&FORMS));
    let script = match dice.roll(3) {
        0 => format!("bare {number} {bare}"),
        1 => format!("made . && made new && arm new/.git {number} {arm}; formed new {form}; index new named"),
        _ => format!("made .; arm .git {number} {arm}; formed . {form}"),
    };
    (script, texts(&["repository since this run"]))
}

/// Changes a repository in the project other than the project's own.
fn inner(dice: &mut Dice, shape: Shape, number: usize) -> (String, Vec<String>) {
    let arm = dice.pick(&ARMS);
    let script = match (shape, dice.roll(4)) {
        (Shape::WorktreeInside, 0) => format!("monitor {number} >.git/worktrees/tree/config.worktree"),
        (Shape::WorktreeInside, 1) => {
            format!("made copy; arm copy/.git {number} {arm}; echo \"gitdir: $PWD/copy/.git\" >tree/.git")
        }
        (Shape::WorktreeInside, _) => format!(
            "made tree/new; arm tree/new/.git {number} {arm}; (cd tree && named new); \
             echo /nowhere/.git >.git/worktrees/tree/gitdir"
        ),
        (Shape::WorktreeElsewhere, 0 | 1) => format!(
            "made new; arm new/.git {number} {arm}; cp \"$HOME/index\" .git/worktrees/elsewhere/index; \
             echo /nowhere/.git >.git/worktrees/elsewhere/gitdir"
        ),
        (Shape::WorktreeElsewhere, _) => {
            format!("made new; arm new/.git {number} {arm}; cp \"$HOME/index\" .git/worktrees/elsewhere/index")
        }
        (_, 0) => format!("g=$(git -C sub rev-parse --absolute-git-dir); arm \"$g\" {number} {arm}"),
        (_, 1) => format!(
            "g=$(git -C sub rev-parse --absolute-git-dir); cp -r \"$g\" copy; arm copy {number} {arm}; \
             rm -rf sub/.git; echo \"gitdir: $PWD/copy\" >sub/.git"
        ),
        (_, 2) => format!("mv sub sub.aside; made sub; arm sub/.git {number} {arm}"),
        _ => format!(
            "rm -rf .git/modules/sub; git clone -q --bare \"$HOME/code/library\" .git/modules/sub; \
             git -C .git/modules/sub config core.bare false; \
             git -C .git/modules/sub config core.worktree ../../../sub; arm .git/modules/sub {number} {arm}"
        ),
    };
    (script, texts(&["sub", "tree", "new", "index", "elsewhere", "modules"]))
}

/// Plants a repository that an index names.
fn planted(dice: &mut Dice, shape: Shape, number: usize) -> (String, Vec<String>) {
    let (arm, form, name) = (dice.pick(&ARMS), dice.pick(&FORMS), dice.pick(&NAMES));
    let around = match shape {
        Shape::Submodule | Shape::Embedded | Shape::SubmoduleInSubmodule if dice.one_in(3) => "cd sub;",
        Shape::WorktreeInside if dice.one_in(3) => "cd tree;",
        _ => "",
    };
    // The bytes of the index are made in advance, and name `new`.
    let new = if *name == "bytes" { "new".to_owned() } else { format!("new{number}") };
    let script = match dice.roll(4) {
        0 => format!(
            "{around} made {new}; made {new}/new; arm {new}/new/.git {number} {arm}; \
             (cd {new} && formed new {form}; index new {name}); named {new}"
        ),
        1 => format!(
            "{around} mkdir -p {new}; made {new}/new; arm {new}/new/.git {number} {arm}; formed {new}/new {form}; \
             index {new}/new {name}"
        ),
        _ => format!("{around} made {new}; arm {new}/.git {number} {arm}; formed {new} {form}; index {new} {name}"),
    };
    let index: &[&str] = match around {
        "cd sub;" => &["modules/sub/index`", "sub/.git/index`"],
        "cd tree;" => &["worktrees/tree/index`"],
        _ => &["project/.git/index`", "worktrees/project/index`", ".bare/index`"],
    };
    (script, [texts(index), vec![format!("/{new}"), format!("`{new}"), "ddddd".to_owned()]].concat())
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}
