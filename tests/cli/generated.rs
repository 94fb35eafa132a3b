//! Completions and manual pages name all flags of the help, for every subcommand that it lists.

use std::collections::BTreeSet;
use std::fs;

use crate::support::{Place, snapshots};
use crate::{Ran, ran, run};

/// The subcommands that `-h` lists.
pub(crate) fn subcommands() -> Vec<String> {
    let help = ran(["-h"]).out;
    let listed = help.lines().skip_while(|line| *line != "Subcommands:").skip(1).take_while(|line| !line.is_empty());
    let names = listed.map(|line| line.split_whitespace().next().unwrap().to_owned());
    let names: Vec<String> = names.filter(|name| name != "help").collect();
    assert!(names.len() >= 13, "{names:?}");
    names
}

/// The long flags that the help of `words` lists.
fn flags(words: &[&str]) -> BTreeSet<String> {
    let help = run(&Place::in_tmp(), words.iter().chain(&["-h"])).out;
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let flags = lines.filter_map(|line| line.split([' ', '[', ',', '=']).find(|word| word.starts_with("--")));
    let flags: BTreeSet<String> = flags.map(str::to_owned).collect();
    assert!(flags.contains("--color") && flags.contains("--help"), "{words:?}: {flags:?}");
    flags
}

fn completions(shell: &str) -> String {
    let ran = ran(["completions", shell]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    ran.out
}

/// The completions that bash offers for `words`, of which the last is unfinished.
fn bash_offers(place: &Place, words: &[&str]) -> BTreeSet<String> {
    // Like bash, this calls the function that `complete -p` names with the command, the last word
    // and the word before it.
    let script = r#"
        source completions.bash || exit
        registered=$(complete -p agent-sandbox) || exit
        [[ $registered =~ -F\ ([^ ]+) ]] || exit
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
        "${BASH_REMATCH[1]}" agent-sandbox "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let mut bash = place.command("bash");
    bash.args(["--norc", "-c", script, "bash", "agent-sandbox"]).args(words).current_dir(place.project());
    let ran = Ran::of(&bash.output().unwrap());
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{words:?}");
    ran.out.lines().map(str::to_owned).collect()
}

// SPEC K1
#[test]
fn bash_completes_subcommands_flags_and_values() {
    let place = Place::in_tmp();
    place.write("home/code/project/completions.bash", completions("bash"));
    let parsed = place.command("bash").arg("-n").arg(place.project().join("completions.bash")).output().unwrap();
    assert_eq!((Ran::of(&parsed).code, Ran::of(&parsed).err.as_str()), (Some(0), ""));

    let set = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<BTreeSet<_>>();
    assert_eq!(bash_offers(&place, &["ex"]), set(&["explain"]));
    assert_eq!(bash_offers(&place, &["diff", "--al"]), set(&["--allow-missing"]));
    assert_eq!(bash_offers(&place, &["lint", "--format", ""]), set(&["text", "json", "sarif"]));
    assert!(bash_offers(&place, &[""]).is_superset(&subcommands().into_iter().collect()));
    assert!(bash_offers(&place, &["--"]).is_superset(&flags(&[])));
    for subcommand in subcommands() {
        assert!(bash_offers(&place, &[&subcommand, "--"]).is_superset(&flags(&[&subcommand])), "{subcommand}");
    }
    assert!(!bash_offers(&place, &[""]).iter().any(|word| word.starts_with("__")), "an internal subcommand");
}

// SPEC K1
#[test]
fn the_other_shells_know_every_subcommand_and_flag() {
    // fish spells a flag `-l json`.
    for (shell, spell) in [("zsh", "--"), ("fish", "-l ")] {
        let text = completions(shell);
        for hidden in ["__doctor", "__verify"] {
            let mut words = text.split(|c: char| !c.is_alphanumeric() && !['_', '-'].contains(&c));
            assert!(!words.any(|word| word == hidden), "{shell}: {hidden}");
        }
        for subcommand in subcommands() {
            assert!(text.contains(&subcommand), "{shell}: {subcommand}");
            for flag in flags(&[&subcommand]) {
                let flag = flag.replacen("--", spell, 1);
                assert!(text.contains(&flag), "{shell}: {subcommand} {flag}");
            }
        }
    }
}

// SPEC K1
#[test]
fn completions_of_an_unknown_shell_are_a_mistake() {
    for words in [["completions", "tcsh"].as_slice(), &["completions"]] {
        let ran = run(&Place::in_tmp(), words);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
    }
}

/// A page without the escapes of fonts and dashes.
fn readable(page: &str) -> String {
    page.replace("\\fB", "").replace("\\fI", "").replace("\\fR", "").replace("\\-", "-")
}

fn page(words: &[&str]) -> String {
    let ran = run(&Place::in_tmp(), ["man"].iter().chain(words));
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{words:?}");
    ran.out
}

// SPEC K1
#[test]
fn every_subcommand_has_a_page_that_names_its_flags() {
    let program = readable(&page(&[]));
    for subcommand in subcommands() {
        assert!(program.contains(&format!("agent-sandbox-{subcommand}(1)")), "{subcommand}");
        let page = readable(&page(&[&subcommand]));
        assert!(page.contains(&format!("\n.TH agent-sandbox-{subcommand} 1")), "{page}");
        for flag in flags(&[&subcommand]) {
            assert!(page.contains(&flag), "{subcommand}: {flag}");
        }
    }
    for flag in flags(&[]) {
        assert!(program.contains(&flag), "{flag}");
    }
    assert!(!program.contains("__"), "an internal subcommand");
}

/// A page holds nothing that a formatter could misread: only ASCII, and only known requests.
// SPEC K1
#[test]
fn pages_are_plain_for_every_formatter() {
    let requests = [".TH", ".SH", ".TP", ".PP", ".RS", ".RE", ".IP", ".br", ".nf", ".fi", ".ie", ".el"];
    let all = subcommands();
    for words in all.iter().map(|name| vec![name.as_str()]).chain([vec![]]) {
        let page = page(&words);
        assert!(page.is_ascii(), "{words:?}");
        for line in page.lines() {
            let is_request = requests.iter().any(|known| line.split(' ').next() == Some(known));
            assert!(is_request || !line.starts_with(['.', '\'']), "{words:?}: {line}");
        }
    }
}

#[test]
fn examples_keep_their_lines_in_a_page() {
    snapshots("cli").bind(|| insta::assert_snapshot!("man-explain", page(&["explain"])));
}

// SPEC K1
#[test]
fn all_pages_are_written_at_once() {
    let place = Place::in_tmp();
    place.write("home/code/project/pages/.keep", "");
    let ran = run(&place, ["man", "--dir", "pages"]);
    let said = format!(
        "wrote {} manual pages to pages: `man -l pages/agent-sandbox.1` shows the first\n",
        subcommands().len() + 1
    );
    assert_eq!((ran.code, ran.out, ran.err.as_str()), (Some(0), said, ""));
    let folder = place.project().join("pages");
    let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names: BTreeSet<String> = names.filter(|name| name != ".keep").collect();
    let expected = subcommands().into_iter().map(|name| format!("agent-sandbox-{name}.1"));
    assert_eq!(names, expected.chain(["agent-sandbox.1".to_owned()]).collect());
    assert_eq!(fs::read_to_string(folder.join("agent-sandbox-diff.1")).unwrap(), page(&["diff"]));
    assert_eq!(fs::read_to_string(folder.join("agent-sandbox.1")).unwrap(), page(&[]));

    let failed = run(&place, ["man", "--dir", "missing"]);
    assert_eq!((failed.code, failed.codes()), (Some(125), vec!["output-failed"]));
}

// SPEC K1
#[test]
fn a_page_about_an_unknown_subcommand_is_a_mistake() {
    for name in ["exlain", "__doctor", "help"] {
        let ran = ran(["man", name]);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{name}");
        assert!(ran.err.starts_with(&format!("error: there is no subcommand `{name}`\n")), "{}", ran.err);
    }
}

#[test]
fn help_can_come_before_or_after_a_subcommand() {
    for subcommand in subcommands() {
        let (asked, flagged) = (ran(["help", &subcommand]), ran([&subcommand, "--help"]));
        assert_eq!((asked.code, asked.err.as_str()), (Some(0), ""), "{subcommand}");
        assert_eq!(asked.out, flagged.out);
    }
}
