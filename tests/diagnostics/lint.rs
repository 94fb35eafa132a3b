//! The findings of `lint`, and the reasons that keep `init` from writing.

use agent_sandbox::audit::lint::Lint;
use agent_sandbox::compile::request::Request;
use agent_sandbox::diagnostic::{Code, Diagnostics};
use agent_sandbox::host::session::Session;

use crate::support::{Place, Tree, session, stderr};
use crate::{rendered, tree};

/// All findings about a project whose file has this text.
fn found<const N: usize>(entries: [&str; N], text: &str) -> String {
    found_as(entries, text, &session("/home/u/proj"))
}

fn found_as<const N: usize>(entries: [&str; N], text: &str, session: &Session) -> String {
    let tree: Tree = tree(entries);
    tree.add(&format!("home/u/proj/.agent-sandbox.toml = {text}"));
    said(&tree, session)
}

fn said(tree: &Tree, session: &Session) -> String {
    let (compiled, said) = tree.compile_as(session, &Request::default());
    let mut lint = Lint::of_stages(&said);
    lint.look(&tree.host(), &compiled.unwrap());
    let mut diagnostics = Diagnostics::default();
    lint.findings.into_iter().for_each(|found| diagnostics.push(found.diagnostic));
    rendered(&diagnostics)
}

fn with_path(path: &str) -> Session {
    let mut session = session("/home/u/proj");
    session.env.insert("PATH".into(), path.into());
    session
}

/// The diagnostics of `init` after `prepare`.
fn init(prepare: impl Fn(&Place)) -> String {
    let place = Place::in_tmp();
    prepare(&place);
    let output = place.agent_sandbox().arg("init").output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    stderr(&output).replace(place.path().to_str().unwrap(), "/place")
}

/// Makes the project read-only for its owner.
fn close(place: &Place) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(place.project(), std::fs::Permissions::from_mode(0o555)).unwrap();
}

const KEY: &str = "home/u/proj/server.key = -----BEGIN PRIVATE KEY-----";

fn tracked() -> String {
    let tree = tree(["home/u/proj/.env = A=1\n"]);
    tree.track("home/u/proj");
    said(&tree, &session("/home/u/proj"))
}

/// The findings about a tracked file that was changed since it was added.
fn changed() -> String {
    let tree = tree(["home/u/proj/.env = A=1\n"]);
    tree.track("home/u/proj");
    tree.add("home/u/proj/.env = A=2\n");
    said(&tree, &session("/home/u/proj"))
}

cases! {
    // SPEC Z9
    TmpBeyondMemory a_tmp_that_is_larger_than_the_memory_is_pointed_out
        found([], "[limits]\nmemory = \"2G\"\n");
    ShadowedRule a_rule_that_always_loses_is_pointed_out
        found(["home/u/proj/src/"], "[filesystem]\nro = ['src']\nrw = ['src']\n");
    UnusedRule a_folder_is_no_socket found(["run/service/"], "sockets = ['/run/service']\n");
    UnusedRule a_rule_that_protects_nothing_is_pointed_out found([], "[filesystem]\nexclude = ['~/.shh']\n");
    UnblockedPath a_protected_path_that_can_be_created_is_pointed_out found([], "[filesystem]\nro = ['deploy/keys']\n");
    RedundantRule a_rule_that_changes_nothing_is_pointed_out
        found(["home/u/.config/"], "[filesystem]\nro = ['~/.config']\n");
    // SPEC N3
    GlobAsName a_pattern_that_misses_the_folder_of_its_name_is_pointed_out
        found(["home/u/proj/app/[id]/page.tsx"], "[filesystem]\nro = ['app/[id]/**']\n");
    UnusedPreset an_unused_preset_is_pointed_out found([], "[presets.team]\nro = ['Makefile']\n");
    // SPEC N5
    HardLink another_name_of_a_hidden_file_is_pointed_out
        found(["home/u/proj/keys/a", "home/u/proj/b => home/u/proj/keys/a"], "[filesystem]\nexclude = ['keys']\n");
    VisibleSecret a_readable_key_is_pointed_out found([KEY], "");
    VisibleSecret a_readable_key_of_the_home_suggests_a_private_home
        found(["home/u/backup.key = -----BEGIN PRIVATE KEY-----"], "");
    TrackedSecret a_readable_secret_that_git_holds_is_pointed_out tracked();
    HiddenTracked a_hidden_file_that_git_tracks_is_pointed_out changed();
    VisibleSocket a_visible_socket_is_pointed_out found(["home/u/proj/dev.sock="], "");
    WritablePath a_writable_folder_on_path_is_pointed_out
        found_as(["home/u/proj/bin/"], "", &with_path("/usr/bin:/home/u/proj/bin"));
    WritablePath a_missing_folder_on_path_is_pointed_out found_as([], "", &with_path("bin"));
    // SPEC N10
    SharedStore a_store_that_is_linked_into_projects_is_pointed_out found(["home/u/.cache/uv/archive/"], "");
    AlreadyThere a_policy_is_not_overwritten
        init(|place| place.write("home/code/project/.agent-sandbox.toml", ""));
    InitFailed a_policy_cannot_be_written_in_a_folder_of_another_user init(close);
}
