use crate::support::Tree;
use crate::{FILE, NOTHING, USER_FILE, codes, found, found_in, tree};

// SPEC N9
#[test]
fn an_empty_project_has_no_findings() {
    assert_eq!(found(&tree([])), NOTHING);
    assert_eq!(found_in([], ""), NOTHING);
    assert_eq!(found_in([], "[filesystem]\npresets = ['@lint/all', '@git-strict']\n"), NOTHING);
}

/// `lint` does not report paths of presets that are missing on the host.
// SPEC N2
#[test]
fn rules_of_built_in_presets_that_match_nothing_are_no_findings() {
    let tree = tree(["home/u/.claude/settings.json", "home/u/.ssh/id_rsa", "home/u/.cargo/bin/", "home/u/.bashrc"]);
    assert_eq!(found(&tree), NOTHING);
}

#[test]
fn a_rule_that_counts_is_no_finding() {
    let entries = ["home/u/proj/src/gen/", "home/u/proj/keys/a", "home/u/proj/keys/public", "home/u/data/"];
    let text =
        "[filesystem]\nro = ['src']\nrw = ['src/gen', '~/data', 'keys/public']\nexclude = ['keys', '**/*.none']\n";
    assert_eq!(codes(entries, text), ["note unused-rule"], "the glob alone");
}

// SPEC N2
#[test]
fn a_rule_that_wins_at_one_path_is_not_shadowed() {
    let entries = ["home/u/proj/a/x.lock", "home/u/proj/b/x.lock"];
    assert_eq!(codes(entries, "[filesystem]\nro = ['**/*.lock']\nrw = ['a/x.lock']\n"), NOTHING);
    let text = "[filesystem]\nro = ['a/*.lock']\nrw = ['a/x.lock']\n";
    assert_eq!(codes(entries, text), ["warning shadowed-rule"]);
}

/// Without the injection, the rule decides the access of the path.
// SPEC N2
#[test]
fn a_rule_under_an_injection_is_no_finding() {
    let entries = ["home/u/proj/settings", "home/u/proj/other"];
    let text = "[[inject]]\nfrom = 'other'\nto = 'settings'\n\n[filesystem]\nexclude = ['settings']\n";
    assert_eq!(codes(entries, text), NOTHING);
}

#[test]
fn a_rule_that_only_repeats_another_is_a_note() {
    assert_eq!(
        found_in(["home/u/proj/src/"], "[filesystem]\nro = ['src', './src']\n"),
        ["note shadowed-rule: `src` repeats other rules"]
    );
}

// SPEC N2
#[test]
fn idle_rules_in_files_for_many_projects_are_notes() {
    let tree = tree(["home/u/proj/src/"]);
    tree.add(&format!(
        "{USER_FILE} = [filesystem]\nro = ['src', 'Makefile']\nexclude = ['~/none']\n\n[presets.team]\nro = ['x']\n"
    ));
    tree.add(&format!("{FILE} = [filesystem]\nrw = ['src']\n"));
    let found = found(&tree);
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found.iter().all(|found| found.starts_with("note ")), "{found:?}");
}

/// Without this rule another rule decides, so it is needed although its mount is dropped.
// SPEC N2
#[test]
fn a_rule_that_beats_another_is_not_redundant() {
    let entries = ["home/u/.netrc", "home/u/.config/x"];
    assert_eq!(codes(entries, "[filesystem]\nro = ['~/.netrc']\n"), ["warning visible-secret"]);
    assert_eq!(codes(entries, "[filesystem]\nro = ['~/.config']\n"), ["note redundant-rule"]);
}

/// A preset's `ro` opens nothing (SPEC P12). So in a hidden folder, a rule that hides a path of the
/// preset changes nothing, and a rule that shows the path does.
// SPEC N2
#[test]
fn a_preset_that_only_tightens_makes_no_rule_shadowed_or_needed() {
    let entries = ["home/u/.bashrc", "home/u/.config/x"];
    let text = "[filesystem]\nexclude = ['~', '~/.bashrc']\n";
    assert_eq!(codes(entries, text), ["note redundant-rule"]);
    for shown in ["~/.bashrc", "~/.bash*"] {
        assert_eq!(codes(entries, &format!("[filesystem]\nexclude = ['~']\nro = ['{shown}']\n")), NOTHING, "{shown}");
    }
    assert_eq!(codes(entries, "[filesystem]\nexclude = ['~/.bash*']\n"), NOTHING);
}

#[test]
fn a_socket_that_is_shown_is_not_redundant() {
    let entries = ["home/u/agent.sock="];
    assert_eq!(codes(entries, "sockets = ['~/agent.sock']\n"), NOTHING);
    assert_eq!(codes([], "sockets = ['~/agent.sock']\n"), ["note unused-rule"]);
}

/// The glob already makes `x/a/b` read-only, but only the exact rule keeps the command from
/// renaming `x`.
// SPEC N2
#[test]
fn a_rule_that_keeps_folders_in_their_place_is_not_redundant() {
    let entries = ["home/u/proj/x/a/b/"];
    assert_eq!(codes(entries, "[filesystem]\nro = ['**/a', 'x/a/b']\n"), NOTHING);
    assert_eq!(codes(entries, "[filesystem]\nro = ['x/a', 'x/a/b']\n"), ["note redundant-rule"]);
}

#[test]
fn a_missing_path_that_is_blocked_or_created_is_no_finding() {
    let text =
        "[filesystem]\nro = [{ path = 'a', if-missing = 'block' }]\nrw = [{ path = 'b', if-missing = 'create' }]\n";
    assert_eq!(codes([], text), NOTHING);
}

// SPEC N2
#[test]
fn only_a_missing_protected_path_is_a_warning() {
    let text = "[filesystem]\nro = ['src/gone', '~/gone']\nrw = ['out']\nexclude = ['*.none']\n";
    assert_eq!(
        codes([], text),
        ["warning unblocked-path", "warning unused-rule", "note unused-rule", "note unused-rule"]
    );
}

// SPEC N3
#[test]
fn names_that_look_like_patterns_get_the_right_finding() {
    let entries = ["home/u/proj/app/[id]/page.tsx", "home/u/proj/app/i/page.tsx"];
    // No path has this name, and the pattern matches nothing.
    assert_eq!(codes(entries, "[filesystem]\nro = ['app/[xy]']\n"), ["note unused-rule"]);
    assert_eq!(codes(["home/u/proj/app/[id]/p"], "[filesystem]\nro = ['app/[id]']\n"), ["note glob-as-name"]);
    assert_eq!(codes(entries, "[filesystem]\nro = ['app/[id]']\n"), ["warning ambiguous-pattern"]);
    assert_eq!(codes(["home/u/proj/app/[id]/p"], "[filesystem]\nro = ['app/[id]/p']\n"), ["note glob-as-name"]);
    assert_eq!(codes(entries, "[filesystem]\nro = ['app/[id]/*.tsx']\n"), ["warning glob-as-name"]);
    assert_eq!(codes(entries, "[filesystem]\nro = ['app/\\[id\\]/*.tsx', 'app/i/p*']\n"), NOTHING);
}

/// A run reports `replaceable-link` only for exact paths, and `lint` also for patterns and presets.
// SPEC N5
#[test]
fn a_protection_that_depends_on_a_link_is_found_for_presets_and_patterns() {
    let dotfiles = ["home/u/dotfiles/settings.json", "home/u/.claude/settings.json -> ../dotfiles/settings.json"];
    // The target is read-only anyway, so the link costs only the private copy.
    assert_eq!(codes(dotfiles, ""), ["warning private-unavailable"]);
    let opened = codes(dotfiles, "[filesystem]\nrw = ['~/dotfiles']\n");
    assert_eq!(opened, ["warning private-unavailable", "warning replaceable-link"], "by a preset");
    let by_pattern = ["home/u/keys/a", "home/u/proj/k.pem -> ../keys/a"];
    let text = "[filesystem]\nexclude = ['*.pem']\n";
    assert_eq!(codes(by_pattern, text), ["warning replaceable-link"]);
    assert_eq!(codes(by_pattern, "[filesystem]\nexclude = ['k.pem']\n"), ["warning replaceable-link"], "said once");
}

// SPEC N4
#[test]
fn a_preset_is_named_by_a_list_a_preset_or_a_removal() {
    let definitions = "[presets.a]\ninclude = ['@b']\n[presets.b]\nro = ['src']\n[presets.c]\nro = ['src']\n";
    let named = format!("[filesystem]\npresets = ['@a', '!@c']\n\n{definitions}");
    assert_eq!(codes(["home/u/proj/src/"], &named), NOTHING);
    assert_eq!(codes(["home/u/proj/src/"], definitions), ["warning unused-preset", "warning unused-preset"]);
}

#[test]
fn findings_come_in_the_order_of_the_file() {
    let text = "[filesystem]\nrw = ['none']\nexclude = ['gone']\nro = ['lost']\n";
    let found = found_in([], text);
    let named: Vec<&str> = found.iter().map(|found| found.split('`').nth(1).unwrap()).collect();
    assert_eq!(named, ["none", "gone", "lost"]);
}

#[test]
fn lint_accepts_names_that_are_not_utf8() {
    use std::os::unix::ffi::OsStrExt;
    let tree: Tree = tree([]);
    let folder = tree.real("home/u/proj").join(std::ffi::OsStr::from_bytes(b"\xff\n"));
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("id_rsa"), "").unwrap();
    let found = found(&tree);
    let expected = "warning visible-secret: `/home/u/proj/\\xff\\n/id_rsa` looks like a private key of SSH, and the command can read it";
    assert_eq!(found, [expected]);
}
