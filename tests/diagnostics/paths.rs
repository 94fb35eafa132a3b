//! Rules on a host, and the argv that they result in.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use agent_sandbox::compile;
use agent_sandbox::compile::config::{BaseTree, Home};
use agent_sandbox::compile::request::Request;
use agent_sandbox::diagnostic::{Code, Diagnostics};
use agent_sandbox::host::Host;

use crate::support::{Place, machine, session, stderr};
use crate::{compiled, project, project_with, rendered, tree};

cases! {
    InvalidPattern an_open_bracket_is_shown_with_its_escaped_form project("[filesystem]\nro = [\"src/[a\"]\n");

    MissingPath a_required_path_must_exist
        project("[filesystem]\nro = [{ path = \"~/tools\", if-missing = \"error\" }]\n");
    MissingPath a_required_pattern_must_match
        project("[filesystem]\nexclude = [{ path = \"**/*.pem\", if-missing = \"error\" }]\n");
    MissingPath nothing_is_created_through_a_symlink project_with(
        ["home/u/proj/out -> /home/u/elsewhere"],
        "[filesystem]\nrw = [{ path = \"out\", if-missing = \"create\" }]\n",
    );

    InvalidValue a_writable_path_cannot_be_blocked
        project("[filesystem]\nrw = [{ path = \"a\", if-missing = \"block\" }]\n");
    InvalidValue a_pattern_cannot_be_blocked
        project("[filesystem]\nro = [{ path = \"*.json\", if-missing = \"block\" }]\n");
    DanglingLink a_link_to_nothing_where_a_preset_blocks_is_pointed_out project_with(
        ["home/u/proj/.vscode -> away", "home/u/.config/Code/"],
        "",
    );
    PlaceholderFailed nothing_is_blocked_through_a_link_to_nothing project_with(
        ["home/u/proj/out -> away"],
        "[filesystem]\nro = [{ path = \"out\", if-missing = \"block\" }]\n",
    );
    // SPEC M4
    PlaceholderFailed hooks_are_not_blocked_through_a_link_to_nothing project_with(
        ["home/u/proj/.git/HEAD = ref: refs/heads/main", "home/u/proj/.git/objects/", "home/u/proj/.git/hooks -> away"],
        "",
    );
    // A file is at the path of the state folder.
    // SPEC M8
    PlaceholderFailed without_a_journal_no_path_can_be_blocked project_with(
        ["home/u/.local/state"],
        "[filesystem]\npresets = [\"!@autorun\"]\nro = [{ path = \"a\", if-missing = \"block\" }]\n",
    );
    // SPEC M8
    PlaceholdersOff without_a_state_folder_presets_cannot_block project_with(
        ["home/u/.local/state", "home/u/.config/Code/"],
        "",
    );

    // SPEC G6
    UnreadablePath a_folder_that_cannot_be_searched_stops_a_protective_glob unreadable_folder();
    // SPEC G6
    UnreadablePath a_name_that_the_system_refuses_stops_the_run compiled(
        &tree([]),
        &Request { exclude: vec!["n".repeat(256).into()], ..Request::default() },
    );

    // SPEC P16
    NoCopy settings_that_are_not_understood_are_hidden
        project_with(["home/u/.m2/settings.xml = <settings><password>T0KEN</settings>"], "");
    NoCopy one_of_many_files_that_are_not_understood_is_named project_with(
        ["home/u/proj/a/.yarnrc.yml = {npmAuthToken: T0KEN}", "home/u/proj/b/.yarnrc.yml = {npmAuthToken: T0KEN}"],
        "",
    );
    // SPEC P16
    NoCopy an_exclude_of_the_user_avoids_the_warning {
        let settings = ["home/u/proj/a/.yarnrc.yml = {npmAuthToken: T0KEN}"];
        assert_eq!(project_with(settings, "[filesystem]\nexclude = ['a/.yarnrc.yml']\n"), "");
        project_with(settings, "")
    };
    NoCopy settings_that_are_no_regular_file_are_hidden project_with(["home/u/.npmrc="], "");
    // SPEC P16
    NoCopy settings_that_are_too_large_are_hidden
        project_with([format!("home/u/.npmrc = _auth={}", "x".repeat(1 << 20)).as_str()], "");
    // SPEC P16
    NoCopy files_beyond_the_limit_of_copies_are_hidden {
        let tree = tree([]);
        for n in 10..43 {
            tree.add(&format!("home/u/proj/{n}/.npmrc = _auth=x"));
        }
        compiled(&tree, &Request::default())
    };

    SymlinkLoop links_in_a_circle_are_named
        project_with(["home/u/proj/a -> b", "home/u/proj/b -> a"], "[filesystem]\nexclude = [\"a\"]\n");

    // SPEC G6
    BroadSymlink a_link_of_a_command_does_not_hide_the_libraries
        project_with(["usr/lib/", "home/u/proj/a/.env.x -> /usr/lib"], "");
    BroadSymlink a_pattern_does_not_hide_the_home_through_a_link
        project_with(["home/u/proj/links/home -> /home/u"], "[filesystem]\nexclude = [\"links/*\"]\n");

    ReservedPath the_whole_file_system_cannot_be_opened project("[filesystem]\nrw = [\"/\"]\n");
    ReservedPath a_rule_on_proc_is_refused project_with(["proc/sys/"], "[filesystem]\nexclude = [\"/proc/sys\"]\n");
    ReservedPath a_rule_on_dev_is_refused project_with(["dev/kvm"], "[filesystem]\nro = [\"/dev/kvm\"]\n");
    ReservedPath a_rule_on_run_is_refused project_with(["run/"], "[filesystem]\nrw = [\"/run\"]\n");

    // SPEC D4
    ReadOnlyDevice a_device_is_granted_or_hidden_but_never_read_only read_only_device();

    ProtectedPath our_own_file_stays_read_only project("[filesystem]\nrw = [\".agent-sandbox.toml\"]\n");

    // SPEC G4
    AmbiguousPattern a_file_with_the_name_of_a_pattern_is_pointed_out project_with(
        ["home/u/proj/app/[id]/page.tsx", "home/u/proj/app/i/page.tsx"],
        "[filesystem]\nro = [\"app/[id]/page.tsx\"]\n",
    );

    // SPEC G9
    LiteralPath a_variable_is_not_expanded project("[filesystem]\nexclude = [\"$HOME/.ssh\"]\n");
    LiteralPath the_home_of_another_user_is_not_expanded project("[filesystem]\nro = [\"~ada/work\"]\n");
    LiteralPath a_variable_opens_no_path project("[filesystem]\nrw = [\"$HOME/data\"]\n");
    LiteralPath a_folder_with_the_name_of_a_home_is_created project(
        "[filesystem]\nrw = [{ path = \"~ada/work\", if-missing = \"create\" }]\n",
    );
    LiteralPath another_variable_is_not_expanded project("[filesystem]\nro = [\"$WORK/data\"]\n");
    // SPEC G9
    LiteralPath a_variable_names_no_socket project("sockets = [\"$SSH_AUTH_SOCK\"]\n");
    // SPEC G9
    LiteralPath a_home_in_braces_is_not_expanded project("[filesystem]\nexclude = [\"{~/.ssh,~/.aws}\"]\n");

    HiddenTarget a_hidden_path_is_not_opened_through_a_link {
        let tree = tree(["home/u/work/out -> ../.ssh", "home/u/.ssh/key"]);
        compiled(&tree, &Request { rw: vec!["/home/u/work/out".into()], ..Request::default() })
    };
    // SPEC G8
    WritableLink nothing_is_opened_through_a_link_that_can_be_replaced project_with(
        ["home/u/data/", "home/u/proj/out -> ../data"],
        "[filesystem]\nrw = [\"out\"]\n",
    );
    // SPEC G8
    WritableLink a_replaceable_link_to_our_own_file_is_refused {
        let tree = tree(["home/u/proj/ci/policy.toml", "home/u/proj/.agent-sandbox.toml -> ci/policy.toml"]);
        compiled(&tree, &Request::default())
    };
    // SPEC G8
    ReplaceableLink a_protection_that_depends_on_a_link_is_pointed_out project_with(
        ["home/u/proj/shared/hooks/", "home/u/proj/hooks -> shared/hooks"],
        "[filesystem]\nro = [\"hooks\"]\n",
    );

    InvalidPath a_path_that_is_too_long_is_refused {
        let request = Request { ro: vec!["x".repeat(5000).into()], ..Request::default() };
        compiled(&tree([]), &request).replace(&"x".repeat(5000), "x…x")
    };

    ReservedPath a_home_that_every_program_needs_cannot_be_private {
        let tree = tree(["usr/"]);
        let mut session = session("/home/u/proj");
        session.env.insert("HOME".into(), "/usr".into());
        let request = Request { home: Some(Home::Private), presets: vec!["!all".into()], ..Request::default() };
        rendered(&tree.compile_as(&session, &request).1)
    };
    ExcludedCwd a_working_directory_in_a_private_home_does_not_exist {
        let request = Request { home: Some(Home::Private), presets: vec!["!all".into()], ..Request::default() };
        rendered(&tree([]).compile("/home/u/proj", &request).1)
    };
    // SPEC O7
    ExcludedCwd a_working_directory_outside_of_a_minimal_base_does_not_exist {
        let request = Request { base: Some(BaseTree::Minimal), presets: vec!["!all".into()], ..Request::default() };
        rendered(&tree(["srv/work/"]).compile("/srv/work", &request).1)
    };
    ExcludedCwd the_working_directory_cannot_be_hidden project("[filesystem]\nexclude = [\".\"]\n");
    ExcludedCwd a_folder_around_the_working_directory_cannot_be_hidden {
        let tree = tree(["home/u/proj/.agent-sandbox.toml = [filesystem]\nexclude = [\"sub\"]\n", "home/u/proj/sub/dir/"]);
        rendered(&tree.compile("/home/u/proj/sub/dir", &Request::default()).1)
    };
    ExcludedCwd a_working_directory_in_the_private_tmp_does_not_exist {
        let request = Request { presets: vec!["!base".into()], ..Request::default() };
        rendered(&tree(["tmp/work/"]).compile("/tmp/work", &request).1)
    };

    // SPEC B14
    TooManyWords too_many_mounts_name_the_rules_that_cost_most too_many_bwrap_args();

    NoDockerSocket docker_without_a_socket_is_pointed_out project("docker = true\n");
}

/// Runs as an ordinary user, because root can read every folder.
fn unreadable_folder() -> String {
    let place = Place::in_tmp();
    place.write("home/code/project/.agent-sandbox.toml", "[filesystem]\nexclude = [\"**/*.pem\"]\n");
    let locked = place.project().join("locked");
    fs::create_dir(&locked).unwrap();
    place.give_away();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
    let output = place.agent_sandbox().args(["--preset", "!secrets", "check"]).output().unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o755)).unwrap();
    stderr(&output).replace(place.path().to_str().unwrap(), "/PLACE")
}

/// `/dev` stands for a whole host here: every machine has a device there.
fn read_only_device() -> String {
    let request = Request { presets: vec!["!all".into()], ro: vec!["/null".into()], ..Request::default() };
    let mut diagnostics = Diagnostics::default();
    let mut session = session("/pts");
    session.env.insert("HOME".into(), "/shm".into());
    compile::compile(&Host::at("/dev"), &session, &request, &mut diagnostics);
    rendered(&diagnostics)
}

fn too_many_bwrap_args() -> String {
    let policy = "[filesystem]\nrw = [\"~/many/*\", \"~/few/*\"]\n";
    let tree = tree([&*format!("home/u/.config/agent-sandbox/config.toml = {policy}")]);
    for index in 0..2900 {
        tree.add(&format!("home/u/many/{index}"));
    }
    for index in 0..150 {
        tree.add(&format!("home/u/few/{index}"));
    }
    let (compiled, mut diagnostics) = tree.compile("/home/u/proj", &Request::default());
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    compiled.unwrap().argv(&machine(), &["true".into()], &mut diagnostics);
    rendered(&diagnostics)
}
