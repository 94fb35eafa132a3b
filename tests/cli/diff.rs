use std::fs;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Place, snapshots, stderr, write_program};
use crate::{Ran, run};

const FILE: &str = "home/code/project/.agent-sandbox.toml";
const OLD: &str = "network = false\nrequire = [\"landlock\"]\n\n[filesystem]\n\
    ro = [\"deploy\", { path = \"later\", if-missing = \"block\" }]\nexclude = [\"deploy/*.pem\"]\n";
const NEW: &str = "[filesystem]\npresets = [\"!@secrets\"]\nrw = [\"~/data\"]\n\
    exclude = [\"deploy\"]\n\n[env]\nset = { CI = \"1\" }\nunset = [\"LANG\"]\n";

fn place() -> Place {
    let place = Place::in_tmp();
    place.write("home/data/file", "host");
    place.write("home/code/project/.env", "SECRET=1");
    place.write("home/code/project/deploy/key.pem", "secret");
    place.write("home/code/project/deploy/run", "");
    place.write(FILE, OLD);
    place
}

fn git(place: &Place, words: &[&str]) {
    let output = place.command("git").args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(words).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

/// The first text is committed, and the second is in the work tree.
fn edited() -> Place {
    let place = place();
    git(&place, &["init", "-q", "-b", "main"]);
    git(&place, &["add", ".agent-sandbox.toml"]);
    git(&place, &["commit", "-qm", "policy"]);
    place.write(FILE, NEW);
    place
}

fn stable(text: &str, place: &Place) -> String {
    text.replace(place.path().to_str().unwrap(), "/PLACE")
}

// SPEC F4, F6
#[test]
fn diff_lists_paths_settings_and_rules() {
    let place = edited();
    let ran = run(&place, ["diff", "git:HEAD"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    snapshots("cli").bind(|| insta::assert_snapshot!("diff", stable(&ran.out, &place)));
    for revision in ["git:main", "git:main~0", "git:@"] {
        let again = run(&place, ["diff", revision]);
        assert_eq!(again.out.replace(revision, "git:HEAD").split_whitespace().collect::<Vec<_>>(), {
            ran.out.split_whitespace().collect::<Vec<_>>()
        });
    }
    let coloured = run(&place, ["--color=always", "diff", "git:HEAD"]).out;
    assert!(coloured.contains("\u{1b}[") && coloured.contains("widened"), "{coloured}");
}

// SPEC F7
#[test]
fn only_exit_code_turns_widening_into_exit_code_1() {
    let place = place();
    place.write(
        "home/narrow.toml",
        format!("{OLD}# the same\n").replace("ro = [\"deploy\"", "ro = [\"deploy\", \".env\""),
    );
    place.write("home/more.toml", OLD.replace("network = false", "network = true"));
    let code = |words: &[&str]| run(&place, words).code;
    assert_eq!(code(&["diff", "../../more.toml"]), Some(0));
    assert_eq!(code(&["diff", "--exit-code", "../../more.toml"]), Some(0), "narrower");
    assert_eq!(code(&["diff", ".agent-sandbox.toml", "../../more.toml"]), Some(0));
    assert_eq!(code(&["diff", "--exit-code", ".agent-sandbox.toml", "../../more.toml"]), Some(1), "wider");
    assert_eq!(code(&["diff", "--exit-code", "--json", ".agent-sandbox.toml", "../../more.toml"]), Some(1));
    let same = run(&place, ["diff", "--exit-code", ".agent-sandbox.toml"]);
    assert_eq!((same.code, same.out.as_str()), (Some(0), "0 widened, 0 narrowed\n"));
    // Flags of the policy apply to both operands, so the settings that they decide do not differ.
    assert_eq!(code(&["--network=false", "diff", "--exit-code", ".agent-sandbox.toml", "../../more.toml"]), Some(0));
    for flags in [["--config", "x"].as_slice(), &["--no-project-config"], &["--exec"], &["--no-guard"]] {
        assert_eq!(run(&place, flags.iter().chain(&["diff", "/dev/null"])).code, Some(2), "{flags:?}");
    }
}

/// Relative paths start at the project's folder, wherever the text comes from.
// SPEC F1, F2
#[test]
fn diff_reads_every_form_of_an_operand_as_the_project_file() {
    let place = place();
    place.write("home/elsewhere/copy.toml", OLD);
    place.write("home/elsewhere/empty.toml", "");
    assert_eq!(run(&place, ["diff", "../../elsewhere/copy.toml"]).out, "0 widened, 0 narrowed\n");
    let nothing = run(&place, ["diff", "/dev/null"]).out;
    assert!(nothing.contains("narrowed\n") && nothing.contains("/deploy"), "{nothing}");
    assert_eq!(run(&place, ["diff", "../../elsewhere/empty.toml"]).out, nothing);
    let piped = |words: &[&str]| {
        let file = fs::File::open(place.path().join(FILE)).unwrap();
        Ran::of(&place.agent_sandbox().args(words).stdin(Stdio::from(file)).output().unwrap())
    };
    assert_eq!(piped(&["diff", "-"]).out, "0 widened, 0 narrowed\n");
    assert_eq!(piped(&["diff", ".agent-sandbox.toml", "-"]).out, "0 widened, 0 narrowed\n");
    assert_eq!(piped(&["diff", "-", "-"]).code, Some(2));
    assert_eq!(run(&place, ["diff"]).code, Some(2));
    fs::remove_file(place.path().join(FILE)).unwrap();
    let gone = run(&place, ["diff", "../../elsewhere/copy.toml"]);
    assert!(gone.out.contains("\nnote: there is no `.agent-sandbox.toml` here now"), "{}", gone.out);
    assert_eq!(run(&place, ["diff", "/dev/null"]).code, Some(0));
}

// SPEC F3, F7
#[test]
fn a_diff_that_fails_names_the_operand_and_the_reason() {
    let place = edited();
    let says = |words: &[&str], code: &str, text: &str| {
        let ran = run(&place, words);
        assert_eq!((ran.code, ran.out.as_str()), (Some(125), ""), "{words:?}");
        assert!(ran.codes().contains(&code) && ran.err.contains(text), "{words:?}: {}", ran.err);
    };
    says(&["diff", "git:nowhere"], "no-comparison", "has no such revision");
    says(&["diff", "git:--output=x"], "no-comparison", "names no revision");
    says(&["diff", "git:"], "no-comparison", "names no revision");
    says(&["diff", "git:HEAD:deploy"], "no-comparison", "has no such revision");
    says(&["diff", "missing.toml"], "missing-config", "`missing.toml` does not exist");
    says(&["diff", "deploy"], "unreadable-config", "cannot read `deploy`");
    place.write("home/bad.toml", "excludes = 1\n");
    says(&["diff", "../../bad.toml"], "unknown-key", "OLD, `../../bad.toml`, cannot be compiled here");
    says(&["diff", "/dev/null", "../../bad.toml"], "unknown-key", "NEW, `../../bad.toml`, cannot be compiled here");
    git(&place, &["rm", "-q", "--cached", ".agent-sandbox.toml"]);
    git(&place, &["commit", "-qm", "none"]);
    says(&["diff", "git:HEAD"], "no-comparison", "`git:HEAD` has no `.agent-sandbox.toml`");
    let allowed = run(&place, ["diff", "--allow-missing", "git:HEAD"]);
    assert_eq!(allowed.code, Some(0));
    assert!(allowed.out.contains("note: there is no `.agent-sandbox.toml` at `git:HEAD`"), "{}", allowed.out);
    // An unreadable revision is an error. A revision without the file stands for a policy without a
    // project file.
    says(&["diff", "--allow-missing", "git:^HEAD"], "no-comparison", "cannot read the files of `git:^HEAD`");
    let bare = self::place();
    let ran = run(&bare, ["diff", "git:HEAD"]);
    assert!(ran.err.contains("no repository"), "{}", ran.err);
}

/// A cloned repository chooses its settings and files, and none of them may run a program.
// SPEC F3
#[test]
fn no_program_of_the_repository_is_run() {
    let place = edited();
    let mark = place.path().join("home/ran");
    let program = place.path().join("home/program");
    write_program(&program, &format!("#!/bin/sh\ntouch {}\n", mark.display()));
    place.give_away();
    let program = program.to_str().unwrap();
    for key in
        ["core.fsmonitor", "core.pager", "core.sshCommand", "alias.cat-file", "diff.x.textconv", "filter.x.smudge"]
    {
        git(&place, &["config", key, program]);
    }
    git(&place, &["config", "core.hooksPath", "hooks"]);
    place.write("home/code/project/.gitattributes", "* diff=x filter=x\n");
    // In a partial clone, git would run a program to fetch the missing file.
    for (key, value) in [
        ("core.repositoryformatversion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", "/nowhere"),
        ("remote.origin.uploadpack", program),
    ] {
        git(&place, &["config", key, value]);
    }
    let planted = place.project().join("git");
    write_program(&planted, &format!("#!/bin/sh\ntouch {}\n", mark.display()));
    place.give_away();
    let diff = || {
        let path = format!("{}:.:/usr/local/bin:/usr/bin:/bin", place.project().display());
        Ran::of(&place.agent_sandbox().env("PATH", path).args(["diff", "git:HEAD"]).output().unwrap())
    };
    let whole = diff();
    assert_eq!(whole.code, Some(0), "{}", whole.err);
    assert!(!mark.exists());
    let output = place.command("/bin/sh").args(["-c", "git ls-tree -z HEAD .agent-sandbox.toml"]).output().unwrap();
    let blob = String::from_utf8(output.stdout).unwrap().split([' ', '\t']).nth(2).unwrap().to_owned();
    let object = place.project().join(".git/objects").join(&blob[..2]).join(&blob[2..]);
    fs::remove_file(object).unwrap();
    let lacking = diff();
    assert!(lacking.err.contains("the repository lacks its content"), "{}{}", lacking.out, lacking.err);
    assert!(!mark.exists());
    // The control: git without our precautions runs the planted program.
    let _ = place.command("git").args(["cat-file", "blob", &blob]).output().unwrap();
    assert!(mark.exists(), "the control ran nothing");
}

// SPEC F3
#[test]
fn a_link_at_a_revision_is_not_taken_for_a_policy() {
    let place = place();
    git(&place, &["init", "-q"]);
    fs::rename(place.path().join(FILE), place.project().join("real.toml")).unwrap();
    std::os::unix::fs::symlink("real.toml", place.path().join(FILE)).unwrap();
    place.give_away();
    git(&place, &["add", ".agent-sandbox.toml"]);
    git(&place, &["commit", "-qm", "link"]);
    let ran = run(&place, ["diff", "git:HEAD"]);
    assert_eq!((ran.code, ran.codes()), (Some(125), vec!["no-comparison"]));
    assert!(ran.err.contains("is a symlink at `git:HEAD`"), "{}", ran.err);
}

// SPEC F7
#[test]
fn diff_in_json_fits_its_schema() {
    let place = edited();
    let ran = run(&place, ["diff", "--json", "git:HEAD"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let found: Value = serde_json::from_str(&ran.out).unwrap();
    crate::check::assert_fits("diff", &found);
    let text = run(&place, ["diff", "git:HEAD"]).out;
    let (widened, narrowed) = (found["widened"].as_array().unwrap().len(), found["narrowed"].as_array().unwrap().len());
    assert!(widened > 3 && narrowed > 0, "{found:#}");
    assert!(text.ends_with(&format!("\n{widened} widened, {narrowed} narrowed\n")), "{text}");
}

// SPEC S6, F1
#[test]
fn comparing_changes_nothing() {
    let place = edited();
    let listed = || {
        let output =
            place.command("/bin/sh").args(["-c", "cd ~ && find . -printf '%p %T@ %i\\n' | sort"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let before = listed();
    assert_eq!(run(&place, ["diff", "git:HEAD"]).code, Some(0));
    assert_eq!(listed(), before);
}

/// `git:HEAD` means the file in the project's root, whatever the working directory is, and wherever
/// in the repository the project is.
#[test]
fn a_revision_means_the_projects_own_file() {
    let place = Place::in_tmp();
    place.write("home/code/.agent-sandbox.toml", "network = false\n");
    place.write(FILE, "[filesystem]\nro = [\"deploy\"]\n");
    place.write("home/code/project/deploy/run", "");
    let code = place.home().join("code");
    git(&place, &["-C", code.to_str().unwrap(), "init", "-q"]);
    git(&place, &["-C", code.to_str().unwrap(), "add", "."]);
    git(&place, &["-C", code.to_str().unwrap(), "commit", "-qm", "both"]);
    place.write(FILE, "[filesystem]\nexclude = [\"deploy/run\"]\n");
    for words in [&["diff", "git:HEAD"][..], &["-C", "deploy", "diff", "git:HEAD"]] {
        let ran = run(&place, words);
        assert!(ran.out.ends_with("\n1 widened, 1 narrowed\n"), "{words:?}: {}{}", ran.out, ran.err);
    }
    // git sets GIT_DIR for hooks, and agent-sandbox must ignore it.
    let output = place.agent_sandbox().env("GIT_DIR", "/nowhere").args(["diff", "git:HEAD"]).output().unwrap();
    assert_eq!(Ran::of(&output).code, Some(0), "{}", stderr(&output));
    let debug = run(&place, ["--debug", "diff", "git:HEAD"]).err;
    assert!(debug.contains("OLD:\n") && debug.contains("\nNEW:\n"), "{debug}");
}

/// If `/` or `/usr` were the project, git itself would be one of its files.
#[test]
fn a_revision_of_the_whole_system_is_refused_as_too_broad() {
    let place = place();
    for folder in ["/", "/usr"] {
        let ran = run(&place, ["-C", folder, "diff", "git:HEAD"]);
        assert_eq!((ran.code, ran.codes()), (Some(125), vec!["unsafe-root"]), "{folder}");
    }
}
