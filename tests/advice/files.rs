use agent_sandbox::diagnostic::{Code, Diagnostic};

use crate::support::session;
use crate::{FILE, NOTHING, codes, found, look, tree};

const KEY: &str = "-----BEGIN PRIVATE KEY-----\nMIIB";

#[test]
fn secrets_that_a_rule_hides_are_no_findings() {
    let key = format!("home/u/proj/deploy/server.key = {KEY}");
    let entries = [key.as_str(), "home/u/proj/.env", "home/u/.ssh/id_rsa", "home/u/.kube/config = token: x"];
    assert_eq!(codes(entries, ""), ["warning visible-secret"]);
    assert_eq!(codes(entries, "[filesystem]\nexclude = ['deploy']\n"), NOTHING);
    let off = "[filesystem]\nexclude = ['deploy']\npresets = ['!@secrets']\n";
    assert_eq!(codes(entries, off), ["warning visible-secret"; 3]);
}

#[test]
fn lint_checks_files_opened_in_a_hidden_folder() {
    let key = format!("home/u/proj/vault/open/server.key = {KEY}");
    let text = "[filesystem]\nexclude = ['vault']\nrw = ['vault/open']\n";
    assert_eq!(codes([key.as_str()], text), ["warning visible-secret"]);
}

// SPEC N6
#[test]
fn lint_searches_the_places_of_credentials_in_the_home() {
    let entries = [
        "home/u/.npmrc = //registry.example/:_authToken=s3cr3t",
        "home/u/.m2/settings.xml = <settings/>",
        "home/u/.gem/credentials = :rubygems_api_key: s3cr3t",
        "home/u/store.p12",
        "home/u/other/deep/id_rsa",
    ];
    let tree = tree(entries);
    let paths = |found: &[String]| -> Vec<String> {
        found.iter().map(|found| found.split('`').nth(1).unwrap().to_owned()).collect()
    };
    assert_eq!(paths(&found(&tree)), ["/home/u/store.p12"], "`@secrets` hides the others");
    tree.add(&format!("{FILE} = [filesystem]\npresets = ['!@secrets']\n"));
    let found = found(&tree);
    assert_eq!(paths(&found), ["/home/u/.gem/credentials", "/home/u/.npmrc", "/home/u/store.p12"]);
    assert!(!found.concat().contains("s3cr3t"), "{found:?}");
}

/// In a private home, only the secrets that the sandbox shows are findings.
// SPEC O9
#[test]
fn a_private_home_has_fewer_findings() {
    let entries = ["home/u/store.p12", "home/u/.cache/huggingface/token", "home/u/tools/a"];
    let with = |text: &str| {
        let tree = tree(entries);
        tree.add(&format!("home/u/.config/agent-sandbox/config.toml = [filesystem]\npresets = ['!@secrets']\n{text}"));
        let said = look(&tree, &session("/home/u/proj")).0.findings.into_iter().map(|found| found.diagnostic);
        let secrets = said.filter(|said| said.code == Code::VisibleSecret);
        let hint = "set `home = \"private\"`";
        let is_hinted = |said: &Diagnostic| said.help.as_ref().is_some_and(|help| help.contains(hint));
        secrets.map(|said| (said.message.split('`').nth(1).unwrap().to_owned(), is_hinted(&said))).collect::<Vec<_>>()
    };
    let token = ("/home/u/.cache/huggingface/token".to_owned(), false);
    assert_eq!(with("rw = ['~/tools']\n"), [token.clone(), ("/home/u/store.p12".to_owned(), true)]);
    assert_eq!(with("home = 'private'\n"), [token]);
}

// SPEC N6
#[test]
fn lint_does_not_search_third_party_code_and_links() {
    let entries = ["home/u/proj/node_modules/x/id_rsa", "home/u/proj/target/id_rsa", "home/u/proj/id_rsa -> /etc/none"];
    assert_eq!(codes(entries, ""), NOTHING);
}

// SPEC N6
#[test]
fn a_secret_that_git_tracks_unchanged_is_a_note() {
    let tree = tree(["home/u/proj/tests/id_rsa = for tests", "home/u/proj/.env = A=1"]);
    tree.track("home/u/proj");
    let levels = |found: Vec<String>| -> Vec<String> {
        found.into_iter().map(|f| f.split(':').next().unwrap().to_owned()).collect()
    };
    assert_eq!(levels(found(&tree)), ["note tracked-secret"; 2]);
    tree.add("home/u/proj/tests/id_rsa = for real");
    assert_eq!(levels(found(&tree)), ["note tracked-secret", "warning visible-secret"]);
}

// SPEC N6
#[test]
fn a_hidden_file_that_git_tracks_is_a_note() {
    let tree = tree(["home/u/proj/.env = A=1", "home/u/proj/sub/.env = A=1"]);
    tree.track("home/u/proj");
    tree.add("home/u/proj/sub/.env = A=2");
    tree.add("home/u/proj/.env.local = untracked");
    let found = found(&tree);
    let said = |start: &str| found.iter().filter(|found| found.starts_with(start)).count();
    assert_eq!((said("note tracked-secret: `/home/u/proj/.env`"), found.len()), (1, 2), "{found:?}");
    assert_eq!(said("note hidden-tracked: `/home/u/proj/sub/.env`"), 1, "{found:?}");
}

// SPEC N5
#[test]
fn accepted_hard_links_are_notes() {
    let entries = ["home/u/proj/key", "home/u/proj/other => home/u/proj/key"];
    let text = "[filesystem]\nexclude = [{ path = 'key', hard-links = 'allow' }]\n";
    assert_eq!(codes(entries, text), ["note hard-link"]);
}

// SPEC N6
#[test]
fn sockets_that_are_hidden_or_allowed_are_no_findings() {
    let entries = ["home/u/proj/dev.sock="];
    assert_eq!(codes(entries, ""), ["warning visible-socket"]);
    assert_eq!(codes(entries, "sockets = ['dev.sock']\n"), NOTHING);
    assert_eq!(codes(entries, "[filesystem]\nexclude = ['dev.sock']\n"), NOTHING);
}

// SPEC N7
#[test]
fn writable_folders_on_path_are_findings() {
    let tree =
        tree(["home/u/proj/bin/", "home/u/proj/tools -> bin", "home/u/.cargo/bin/", "usr/bin/", "home/u/.local/bin/"]);
    let mut session = session("/home/u/proj");
    let path = "/usr/bin:/home/u/.cargo/bin:/home/u/.local/bin:/home/u/proj/bin:tools:/home/u/proj/bin/:/tmp/x";
    session.env.insert("PATH".into(), path.into());
    let (lint, _) = look(&tree, &session);
    let paths: Vec<String> = lint.findings.iter().map(|found| found.path.as_ref().unwrap().to_string()).collect();
    assert_eq!(paths, ["/home/u/proj/bin"], "once");
    tree.add(&format!("{FILE} = [filesystem]\nro = ['bin']\n"));
    assert_eq!(look(&tree, &session).0.findings.len(), 0);
}

/// The rules that the findings advise, as lines of a file.
fn advised(lint: &agent_sandbox::audit::lint::Lint) -> Vec<String> {
    let helps = lint.findings.iter().map(|found| found.diagnostic.help.as_ref().unwrap());
    helps.map(|help| help.split('`').nth(1).unwrap().to_owned()).collect()
}

/// The advised rules remove the findings.
#[test]
fn following_the_advice_removes_the_findings() {
    let key = format!("home/u/proj/app/[id]/a \"b\".key = {KEY}");
    let cases: [(&str, &str); 4] = [
        (key.as_str(), ""),
        ("home/u/store.p12", ""),
        ("home/u/proj/dev.sock=", ""),
        ("home/u/proj/x", "/home/u/proj/tools/bin"),
    ];
    for (entry, path) in cases {
        let tree = tree([entry]);
        let mut session = session("/home/u/proj");
        session.env.insert("PATH".into(), path.into());
        let rules = advised(&look(&tree, &session).0);
        assert_eq!(rules.len(), 1, "{entry}");
        tree.add(&format!("{FILE} = [filesystem]\n{}\n", rules[0]));
        let (lint, _) = look(&tree, &session);
        assert!(lint.findings.is_empty(), "{entry}: {:?}", lint.report());
    }
}
