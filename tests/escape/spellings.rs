//! Spellings of a path that must not mislead a rule.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use crate::outcome::Verdict;
use crate::scene::{BASE_ONLY, CANARY, DEFAULTS, Scene, run, words};

everywhere!("an order by components": spelling_a_rule_so_that_it_comes_too_early);
everywhere!("the rule": reading_files_with_odd_names);
everywhere!("exclude-through-link": reading_keys_that_are_kept_elsewhere);

// SPEC A5
fn spelling_a_rule_so_that_it_comes_too_early(scene: &Scene) -> Verdict {
    scene.write("secret/key", CANARY);
    scene.mkdir("sub");
    if scene.is_control() {
        // In the order of the text, the second mount covers the first.
        let project = scene.project().to_str().unwrap().to_owned();
        let (secret, open) = (format!("{project}/secret"), format!("{project}/sub/.."));
        let mut command = scene.outside("bwrap");
        command.args(["--ro-bind", "/", "/", "--dev", "/dev", "--tmpfs", &secret, "--bind", &open, &open, "--"]);
        words(&mut command, "look.py", &["."]);
        let ran = run(command).completed();
        return Verdict::broken_if(ran.shows_canary(), ran.out);
    }
    let mut said = String::new();
    for rules in [
        "exclude = ['secret/']\nrw = ['./././sub/..']",
        "exclude = ['sub/../secret//']\nrw = ['././.']",
        "exclude = ['./././secret/.']\nrw = ['~/code/project/']",
        "exclude = ['../project/secret']\nrw = ['sub/../sub/..//']",
        "exclude = ['~/code/../code/project/secret']\nrw = ['../../code/project']",
    ] {
        scene.policy(BASE_ONLY, rules);
        let ran = scene.attack("look.py", &[".", "secret", "sub/../secret"]).completed();
        if ran.shows_canary() {
            said += rules;
        }
    }
    Verdict::broken_if(!said.is_empty(), said)
}

// SPEC A5
fn reading_files_with_odd_names(scene: &Scene) -> Verdict {
    let names: Vec<&OsStr> = [
        &b"two words"[..],
        b" leading",
        b"trailing ",
        b"new\nline",
        b"quote'single",
        b"quote\"double",
        b"back\\slash",
        b"-dash",
        b"--ro-bind",
        b"star*",
        b"[id]",
        b"{a,b}",
        b"quest?ion",
        b"$HOME",
        b"~",
        b"\xff\xfe",
        b"\x01\x1b[31m",
        "ünïcödé".as_bytes(),
        b"...",
        b"#hash",
    ]
    .map(OsStr::from_bytes)
    .into();
    scene.policy(BASE_ONLY, "");
    for name in &names {
        scene.write(name, CANARY);
        scene.write(std::path::Path::new("folders").join(name).join("key"), CANARY);
    }
    let mut command = scene.product();
    if !scene.is_control() {
        for name in &names {
            for folder in ["./", "folders/"] {
                let rule: OsString = [OsStr::new(folder), name].concat_os();
                command.arg("--exclude").arg(rule);
            }
        }
    }
    command.arg("--");
    words(&mut command, "look.py", &["."]);
    let ran = run(command).completed();
    Verdict::broken_if(ran.shows_canary(), format!("{}{}", ran.out, ran.err))
}

trait ConcatOs {
    fn concat_os(self) -> OsString;
}

impl ConcatOs for [&OsStr; 2] {
    fn concat_os(self) -> OsString {
        let mut whole = self[0].to_owned();
        whole.push(self[1]);
        whole
    }
}

/// The home has links to a folder of dotfiles, as some programs make them.
// SPEC A5
fn reading_keys_that_are_kept_elsewhere(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "exclude = ['~/.token']");
    scene.write_home("dotfiles/token", CANARY);
    fs::rename(scene.home().join(".ssh"), scene.home().join("dotfiles/ssh")).unwrap();
    symlink("dotfiles/ssh", scene.home().join(".ssh")).unwrap();
    symlink("dotfiles/token", scene.home().join(".token")).unwrap();
    scene.place.give_away();
    let home = scene.home();
    let paths = [home.join("dotfiles"), home.join(".ssh"), home.join(".token")];
    let ran = scene.attack("look.py", &paths).completed();
    Verdict::broken_if(ran.shows_canary(), ran.out)
}
