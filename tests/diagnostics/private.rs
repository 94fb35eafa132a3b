//! Diagnostics about private files. The state folder and the host's files are real.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use agent_sandbox::compile::request::Request;
use agent_sandbox::diagnostic::{Code, Diagnostics};
use agent_sandbox::policy::sha256;
use agent_sandbox::private;

use crate::support::{Place, Tree, abs, session, stderr};
use crate::{compiled, rendered, tree};

cases! {
    // SPEC Q5
    PrivateKept changes_of_a_private_file_are_reported after(".gemini/settings.json", "{}", None, r#"{"a": {"b": 1}, "theme": "x", "hooks": {}}"#);
    PrivateKept settings_of_git_are_reported_with_the_command_that_sets_them after(
        "proj/.git/config",
        "[core]\n\tbare = false\n",
        None,
        "[alias]\n\tst = !evil 'x'\n[remote \"o\"]\n\tfetch = a\n\tfetch = b\n\turl = \"\\t\"\n",
    );
    // SPEC Q5
    PrivateKept an_upstream_says_which_remote_the_host_lacks after(
        "proj/.git/config",
        "[core]\n\tbare = false\n",
        None,
        "[core]\n\tbare = false\n[branch \"main\"]\n\tremote = new\n\tmerge = refs/heads/main\n",
    );
    PrivateKept a_long_key_and_many_values_are_cut after(
        "proj/.git/config",
        "",
        None,
        &format!("[a \"{}\"]\n\tb = c\n[d]\n{}", "x".repeat(4000), "\te = f\n".repeat(1000)),
    );
    PrivateConflict a_key_that_changed_on_both_sides_gets_the_hosts_value after(
        ".gemini/settings.json",
        r#"{"a": 1, "b": 1}"#,
        Some(r#"{"a": 2, "b": 1}"#),
        r#"{"a": 3, "b": 3}"#,
    );
    PrivateSetAside a_copy_that_cannot_be_parsed_is_kept_aside after(".gemini/settings.json", "{}", None, "{");
    PrivateNotWritten keys_that_cannot_be_written_are_named after(
        "proj/.git/config",
        "[core]\n\tbare = false\n",
        None,
        "[core]\n\tbare = false\n[branch \"x\"]\n\tdescription = y\n",
    );
    PrivateNotWritten without_git_the_copy_stays_as_it_is after(
        "proj/.git/config",
        "[core]\n\tbare = false\n",
        Some("[core]\n\tbare = true\n"),
        "[core]\n\tbare = false\n[alias]\n\tst = x\n",
    );

    // SPEC Q10
    PrivateFailed copies_in_a_folder_of_another_user_are_not_read {
        let place = Place::in_tmp();
        let folder = place.home().join(".local/state/agent-sandbox/private");
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        place.give_away();
        let output = place.agent_sandbox().args(["private", "list"]).output().unwrap();
        stderr(&output).replace(place.path().to_str().unwrap(), "/PLACE")
    };

    PrivateUnavailable without_the_guard_a_private_file_is_read_only {
        let request = Request { no_guard: true, ..Request::default() };
        compiled(&tree(["home/u/proj/.git/HEAD = ref: refs/heads/main\n", "home/u/proj/.git/config", "home/u/.codex/config.toml"]), &request)
    };
    PrivateUnavailable a_private_file_that_is_a_symlink_is_read_only compiled(
        &tree([
            "home/u/.tool/",
            "home/u/dotfiles/tool.json",
            "home/u/.tool/tool.json -> ../dotfiles/tool.json",
            "home/u/.config/agent-sandbox/config.toml = [filesystem]\nprivate = ['~/.tool/tool.json']\n",
        ]),
        &Request::default(),
    );
}

/// `lint` names such a symlink.
// SPEC Q9
#[test]
fn a_symlink_that_a_preset_names_is_no_warning_of_a_run() {
    let tree =
        tree(["home/u/.codex/", "home/u/dotfiles/codex.toml", "home/u/.codex/config.toml -> ../dotfiles/codex.toml"]);
    let (_, said) = tree.compile_as(&session("/home/u/proj"), &Request::default());
    assert!(said.is_empty(), "{said:?}");
}

/// The report after a run that leaves `copy`. With `meanwhile`, which then replaces the host's
/// file, the diagnostics of the next start instead.
fn after(file: &str, before: &str, meanwhile: Option<&str>, copy: &str) -> String {
    let path = format!("home/u/{file}");
    let tree = tree(["home/u/proj/.git/HEAD = ref: refs/heads/main\n"]);
    tree.add(&path);
    fs::write(tree.real(&path), before).unwrap();
    let session = session("/home/u/proj");
    let compile = || tree.compile_as(&session, &Request::default()).0.unwrap();
    let policy = compile();
    let mut run = private::prepare(&tree.host(), &session, &policy).unwrap();
    fs::write(copy_of(&tree, &path), copy).unwrap();
    let mut said = Diagnostics::default();
    run.finish(&tree.host(), &session, &policy, &mut said, &mut |_| {});
    if let Some(meanwhile) = meanwhile {
        said = Diagnostics::default();
        fs::write(tree.real(&path), meanwhile).unwrap();
        said.extend(private::prepare(&tree.host(), &session, &compile()).unwrap().said.iter().cloned());
    }
    let root = tree.real("");
    rendered(&said).replace(root.to_str().unwrap().trim_end_matches('/'), "")
}

fn copy_of(tree: &Tree, path: &str) -> PathBuf {
    let hash = |path: &str| sha256(abs(format!("/{path}")).as_os_str().as_bytes());
    let folder = tree.real(format!("home/u/.local/state/agent-sandbox/private/{}/copies", hash("home/u/proj")));
    folder.join(&hash(path)[..16]).join(path.rsplit('/').next().unwrap())
}
