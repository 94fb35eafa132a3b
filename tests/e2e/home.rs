//! A private home, and a minimal base (SPEC section 25).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use crate::sandbox::{Found, policy, probe, run, sandbox, shell_with, succeeded, write};
use crate::situations;
use crate::support::{Place, stderr, stdout, write_program};

everywhere!(
    a_private_home_shows_what_rules_open_and_nothing_else,
    files_written_in_a_private_home_are_gone_after_the_run,
    a_users_own_rules_show_paths_in_a_private_home,
    programs_of_the_home_on_path_run_in_a_private_home,
    packages_of_npm_run_by_their_folder_on_path,
    links_lead_to_visible_paths_in_a_private_home,
    a_minimal_base_shows_folders_of_programs_and_named_paths,
    verify_agrees_with_a_private_home_and_a_minimal_base,
);
for_both!(
    private_files_work_in_a_private_home,
    folders_stay_in_their_place_in_a_minimal_base,
    git_works_in_a_minimal_base,
    commands_behind_links_run_in_private_places,
    a_home_that_is_a_link_is_private,
    a_home_that_is_the_project_is_refused,
    the_library_of_a_program_of_the_home_is_visible,
);

const PRIVATE: &[&str] = &["--home=private"];
const MINIMAL: &[&str] = &["--base=minimal"];

fn in_home(place: &Place, names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(|name| place.home().join(name)).collect()
}

// SPEC O2
fn a_private_home_shows_what_rules_open_and_nothing_else(place: &Place) {
    for file in [".bashrc", ".ssh/id", ".npmrc", ".config/fish/config.fish", ".cache/a", ".claude/history", "other/a"] {
        place.write(format!("home/{file}"), "x");
    }
    write(place, "README", "x");
    let hidden = in_home(place, &[".bashrc", ".ssh", ".npmrc", ".config", "other", "code/other"]);
    let shown = in_home(place, &[".cache/a", ".claude/history", "code/project/README"]);
    let all: Vec<PathBuf> = hidden.iter().chain(&shown).cloned().collect();
    let is_there = |found: &Found| found.kind != "none";
    assert_eq!(probe::<&str>(place, &[], &all).iter().filter(|found| is_there(found)).count(), 8, "the control");
    assert_eq!(probe(place, PRIVATE, &hidden), vec![Found::none("ENOENT"); 6]);
    assert_eq!(probe(place, PRIVATE, &shown), vec![Found::rw("file"); 3]);
}

// SPEC O1
fn files_written_in_a_private_home_are_gone_after_the_run(place: &Place) {
    place.write("home/.profile", "as it was\n");
    let script = "echo x >~/.foorc && echo x >~/.profile && mkdir ~/.config && cat ~/.foorc ~/.profile; ls -A ~/code";
    assert_eq!(shell_with(place, PRIVATE, script), "x\nx\nproject\n");
    assert!(!place.home().join(".foorc").exists() && !place.home().join(".config").exists());
    assert_eq!(fs::read_to_string(place.home().join(".profile")).unwrap(), "as it was\n");
    assert_eq!(shell_with(place, PRIVATE, "ls ~/.foorc ~/.profile 2>/dev/null; true"), "");
}

// SPEC O2
fn a_users_own_rules_show_paths_in_a_private_home(place: &Place) {
    policy(place, "home = 'private'\nro = ['~/.vimrc', '~/doc']\nrw = ['~/data']\nexclude = ['~/data/keys']\n");
    for file in [".vimrc", "doc/a", "data/a", "data/keys/a"] {
        place.write(format!("home/{file}"), "x");
    }
    let paths = in_home(place, &[".vimrc", "doc/a", "data/a", "data/keys/a"]);
    let expected = [Found::ro("file"), Found::ro("file"), Found::rw("file"), Found::none("EACCES")];
    assert_eq!(probe::<&str>(place, &[], &paths), expected);
}

// SPEC O3
fn programs_of_the_home_on_path_run_in_a_private_home(place: &Place) {
    place.write("home/tools/bin/tool", "");
    write_program(&place.home().join("tools/bin/tool"), "#!/bin/sh\necho ran\n");
    place.write("home/tools/secret", "x");
    place.give_away();
    let path = format!("{}:/usr/bin:/bin", place.home().join("tools/bin").display());
    let script = "tool; ls ~/tools; echo x >~/tools/bin/tool";
    let output = sandbox(place).env("PATH", path).args(PRIVATE).args(["--", "sh", "-c", script]).output().unwrap();
    assert_eq!(stdout(&output), "ran\nbin\n");
    assert!(stderr(&output).contains("Read-only file system"), "{output:?}");
}

/// npm makes symlinks to the packages, with and without a prefix.
// SPEC O3
fn packages_of_npm_run_by_their_folder_on_path(place: &Place) {
    for (bin, package, link) in [
        ("tools/node_modules/.bin", "tools/node_modules/one", "../one/cli"),
        ("prefix/bin", "prefix/lib/node_modules/two", "../lib/node_modules/two/cli"),
    ] {
        let (bin, package) = (place.home().join(bin), place.home().join(package));
        fs::create_dir_all(&bin).unwrap();
        write_program(&package.join("cli"), "#!/bin/sh\ncat \"$(dirname \"$(readlink -f \"$0\")\")/text\"\n");
        place.write(package.join("text"), "ran\n");
        symlink(link, bin.join(package.file_name().unwrap())).unwrap();
    }
    place.write("home/tools/secret", "x");
    place.write("home/prefix/lib/secret", "x");
    place.give_away();
    let bins = in_home(place, &["tools/node_modules/.bin", "prefix/bin"]);
    let path = format!("{}:{}:/usr/bin:/bin", bins[0].display(), bins[1].display());
    let script = "one; two; ls -A ~/tools ~/prefix/lib";
    let output = sandbox(place).env("PATH", path).args(PRIVATE).args(["--", "sh", "-c", script]).output().unwrap();
    let home = place.home();
    let home = home.display();
    let seen = format!("ran\nran\n{home}/prefix/lib:\nnode_modules\n\n{home}/tools:\nnode_modules\n");
    assert_eq!(succeeded(output), seen);
}

// SPEC O3
fn the_library_of_a_program_of_the_home_is_visible(place: &Place) {
    place.write("home/.nvm/lib/text", "ran\n");
    place.write("home/sdk-of-mine/lib/text", "by a variable\n");
    let script = "cat ~/.nvm/lib/text ~/sdk-of-mine/lib/text";
    let mut command = sandbox(place);
    command.env("JAVA_HOME", place.home().join("sdk-of-mine")).args(PRIVATE).args(["--", "sh", "-c", script]);
    assert_eq!(succeeded(command.output().unwrap()), "ran\nby a variable\n");
}

// SPEC O4
fn links_lead_to_visible_paths_in_a_private_home(place: &Place) {
    place.write("home/dotfiles/claude/history", "x");
    place.write("home/dotfiles/gitconfig", "[user]\n");
    place.write("home/dotfiles/other", "x");
    for (name, target) in
        [(".claude", "dotfiles/claude"), (".gitconfig", "dotfiles/gitconfig"), (".b", "dotfiles/other")]
    {
        symlink(target, place.home().join(name)).unwrap();
    }
    let flags = ["--home=private", "--ro=~/.gitconfig"];
    let paths = in_home(place, &[".claude/history", ".gitconfig", ".b", "dotfiles/other"]);
    let expected = [Found::rw("file"), Found::ro("symlink"), Found::none("ENOENT"), Found::none("ENOENT")];
    assert_eq!(probe(place, &flags, &paths), expected);
    assert_eq!(shell_with(place, &flags, "readlink ~/.claude ~/.gitconfig"), "dotfiles/claude\ndotfiles/gitconfig\n");
}

// SPEC O2
fn private_files_work_in_a_private_home(place: &Place) {
    place.write("home/.codex/config.toml", "approval_policy = \"on-request\"\n");
    let script = "sed -i --follow-symlinks '1i model = \"m\"\\nnotify = [\"x\"]' ~/.codex/config.toml";
    succeeded(run(place, &["--home=private", "--", "sh", "-c", script]));
    let text = fs::read_to_string(place.home().join(".codex/config.toml")).unwrap();
    assert!(text.contains("model = \"m\"") && !text.contains("notify"), "{text}");
    assert!(shell_with(place, PRIVATE, "cat ~/.codex/config.toml").contains("notify"));
}

// SPEC O5
fn a_minimal_base_shows_folders_of_programs_and_named_paths(place: &Place) {
    place.write("elsewhere/a", "x");
    place.write("named/a", "x");
    place.write("home/.bashrc", "x");
    write(place, "README", "x");
    let named = format!("--ro={}", place.path().join("named").display());
    let flags = ["--base=minimal", &named];
    let paths = [
        place.project().join("README"),
        place.path().join("named/a"),
        place.path().join("elsewhere/a"),
        place.home().join(".bashrc"),
        "/var/lib".into(),
        "/sys".into(),
    ];
    let none = Found::none("ENOENT");
    let (ro, rw) = (Found::ro("file"), Found::rw("file"));
    assert_eq!(probe(place, &flags, &paths), [rw, ro, none.clone(), none.clone(), none.clone(), none]);
    for (name, path) in ["bin", "sbin", "lib", "lib64"].map(|name| (name, PathBuf::from("/").join(name))) {
        let Ok(target) = fs::read_link(&path) else { continue };
        let inside = shell_with(place, &flags, &format!("readlink /{name}"));
        assert_eq!(inside.trim_end(), target.to_str().unwrap());
    }
    let refused = run(place, &["--base=minimal", "--", "sh", "-c", "touch /new; mkdir /usr/new"]);
    assert_eq!(stderr(&refused).matches("Read-only file system").count(), 2, "{refused:?}");
}

// SPEC O6
fn folders_stay_in_their_place_in_a_minimal_base(place: &Place) {
    write(place, "a/b/kept", "x");
    write(place, "free/x", "x");
    let script = "mv free moved && mv moved a/b/ && mv a/b/moved . && mv a/b other";
    let output = run(place, &["--base=minimal", "--ro=a/b/kept", "--", "sh", "-c", script]);
    assert!(stderr(&output).contains("Device or resource busy"), "{output:?}");
    assert!(place.project().join("moved/x").exists() && place.project().join("a/b/kept").exists());
}

// SPEC O5
fn git_works_in_a_minimal_base(place: &Place) {
    succeeded(place.command("git").args(["init", "-q", "."]).output().unwrap());
    write(place, "README", "x");
    let script =
        "git config user.name A && git config user.email a@x && git add . && git commit -qm one && git log --format=%s";
    assert_eq!(shell_with(place, MINIMAL, script), "one\n");
}

/// `/bin` is a link on most systems, and `~/bin` often leads to a folder of dotfiles.
// SPEC O4
fn commands_behind_links_run_in_private_places(place: &Place) {
    place.write("home/dotfiles/bin/tool", "");
    write_program(&place.home().join("dotfiles/bin/tool"), "#!/bin/sh\necho ran\n");
    symlink("dotfiles/bin", place.home().join("bin")).unwrap();
    let bin = place.home().join("bin");
    for flags in [MINIMAL, PRIVATE] {
        assert_eq!(succeeded(run(place, &[flags, &["--", "/bin/sh", "-c", "echo ran"]].concat())), "ran\n");
        for name in ["tool", bin.join("tool").to_str().unwrap()] {
            let mut command = sandbox(place);
            command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
            let output = command.args(flags).args(["--", name]).output().unwrap();
            assert_eq!(succeeded(output), "ran\n", "{flags:?} {name}");
        }
    }
}

// SPEC O1
fn a_home_that_is_a_link_is_private(place: &Place) {
    place.write("home/.bashrc", "x");
    let link = place.path().join("link");
    symlink("home", &link).unwrap();
    let script = "cd -P ~ && ls -A .bashrc 2>/dev/null; echo x >.new && cat .new && pwd";
    for flags in [PRIVATE, MINIMAL] {
        let mut command = sandbox(place);
        command.env("HOME", &link).args(flags).args(["--", "sh", "-c", script]);
        let output = succeeded(command.output().unwrap());
        assert_eq!(output, format!("x\n{}\n", place.home().display()), "{flags:?}");
        assert!(!place.home().join(".new").exists());
    }
}

// SPEC O7
fn a_home_that_is_the_project_is_refused(place: &Place) {
    let mut command = sandbox(place);
    let output = command.env("HOME", place.project()).args(PRIVATE).args(["--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("error[unsafe-root]"), "{output:?}");
}

fn verify_agrees_with_a_private_home_and_a_minimal_base(place: &Place) {
    place.write("home/.bashrc", "x");
    succeeded(place.command("git").args(["init", "-q", "."]).output().unwrap());
    for flags in [PRIVATE, MINIMAL, &["--base=minimal", "--home=host"], &["--home=private", "--no-guard"]] {
        let output = sandbox(place).args(flags).arg("verify").output().unwrap();
        assert!(output.status.success(), "{flags:?}: {}{}", stdout(&output), stderr(&output));
    }
}

/// The examples run in a home that has all files that they name.
#[test]
fn the_examples_of_homes_and_identities_run() {
    situations::as_user(Place::outside_tmp, |place| {
        succeeded(place.command("git").args(["init", "-q", "."]).output().unwrap());
        place.write("home/.gitconfig", "[user]\nname = Ada\nemail = ada@x\n");
        place.write("home/.local/share/virtualenvs/a/pyvenv.cfg", "x");
        let example = |name: &str| fs::read(format!("{}/examples/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        let script = "git commit -q --allow-empty -m one && git log -1 --format='%an %ce'";
        write(place, ".agent-sandbox.toml", example("private-home.toml"));
        let looks = format!("{script}; ls -A ~ /; cat ~/.local/share/virtualenvs/a/pyvenv.cfg");
        let seen = succeeded(run(place, &["--", "sh", "-c", &looks]));
        assert!(seen.starts_with("Ada ada@x\n") && seen.ends_with('x'), "{seen}");
        assert!(!seen.contains(".gitconfig") && !seen.contains("var"), "{seen}");
        write(place, ".agent-sandbox.toml", example("identity.toml"));
        assert_eq!(succeeded(run(place, &["--", "sh", "-c", script])), "Agent agent@localhost\n");
    });
}

/// HOME is the real home of root.
// SPEC O1
#[test]
fn the_home_of_root_is_private() {
    situations::as_root("e2e::home::the_home_of_root_is_private", Place::root_outside_tmp, |place| {
        let ran = |flags: &[&str]| {
            let mut command = sandbox(place);
            command.env("HOME", "/root").env("XDG_STATE_HOME", place.path().join("state"));
            succeeded(command.args(flags).args(["--", "sh", "-c", "stat -f -c %T ~"]).output().unwrap())
        };
        assert_eq!(ran(PRIVATE), "tmpfs\n");
    });
}
