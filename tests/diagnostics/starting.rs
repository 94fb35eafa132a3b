//! The checks before a start: of the caller, of this machine, and of the command.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, lchown};
use std::process::Stdio;

use agent_sandbox::cli::print::{PrintForm, incomplete};
use agent_sandbox::compile::Compiled;
use agent_sandbox::compile::lower::{Argv, Kernel, Machine};
use agent_sandbox::compile::request::Request;
use agent_sandbox::diagnostic::{Code, Diagnostic};
use agent_sandbox::host::session::Session;
use agent_sandbox::launch;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Place, Tree, USER, abs, machine, session, stderr, write_program};
use crate::{one, plain, tree};

cases! {
    AlreadyInside a_sandbox_in_a_sandbox_is_refused {
        let tree = tree(["run/agent-sandbox/inside/"]);
        one(launch::check_caller(&tree.host(), &session("/home/u/proj"), false).unwrap_err())
    };

    RootRefused root_needs_a_flag one(launch::check_caller(&tree([]).host(), &root(), false).unwrap_err());
    RootAllowed root_is_allowed_in_a_container root_allowed(&[".dockerenv"], None);
    RootAllowed root_is_allowed_in_a_container_of_podman root_allowed(&["run/.containerenv"], None);
    RootAllowed root_is_allowed_in_ci root_allowed(&[], Some("true"));

    ForeignProject root_in_the_project_of_another_user_is_refused foreign_project();

    BwrapMissing a_missing_bwrap_is_reported_with_its_package find_bwrap(&tree([]), "/usr/bin:/bin");

    BwrapUntrusted a_bwrap_in_the_project_is_not_used {
        let tree = tree([]);
        write_program(&tree.real("home/u/proj/bin/bwrap"), "#!/bin/sh\n");
        find_bwrap(&tree, "/home/u/proj/bin:/usr/bin")
    };
    // SPEC S14
    BwrapTooOld a_flag_that_bwrap_lacks_is_named_with_a_release_that_has_it without_perms();
    // SPEC S2
    BwrapUntrusted a_bwrap_in_a_writable_cache_is_not_used {
        let tree = tree([]);
        write_program(&tree.real("home/u/.cache/tools/bwrap"), "#!/bin/sh\n");
        find_bwrap(&tree, "/home/u/.cache/tools:/usr/bin")
    };

    SandboxUnavailable user_namespaces_that_are_off_can_be_turned_on
        unavailable(&tree(["proc/sys/user/max_user_namespaces = 0\n"]), "/usr/bin/bwrap");
    SandboxUnavailable user_namespaces_for_root_alone_can_be_opened
        unavailable(&tree(["proc/sys/kernel/unprivileged_userns_clone = 0\n"]), "/usr/bin/bwrap");
    SandboxUnavailable a_restriction_by_apparmor_names_our_profile
        one(launch::explain_refusal("setting up uid map: Permission denied", true));
    SandboxUnavailable a_container_that_hides_parts_of_proc_gets_the_flags_to_start_with
        one(launch::explain_refusal("Can't mount proc on /newroot/proc: Operation not permitted", false));
    SandboxUnavailable a_container_without_namespaces_gets_the_flags_to_start_with
        one(launch::explain_refusal("No permissions to create new namespace", false));
    SandboxUnavailable a_bwrap_that_fails_silently_is_reported one(launch::explain_refusal("", false));

    OwnSandbox codex_is_told_that_its_own_sandbox_cannot_work {
        let (compiled, _) = tree([]).compile("/home/u/proj", &Request::default());
        one(launch::own_sandbox(&tree([]).host(), &compiled.unwrap(), &["codex".into()]).unwrap())
    };

    // SPEC C8
    ProtectionMissing a_protection_that_this_machine_lacks_is_named lacking("");
    // SPEC C8
    ProtectionRequired a_protection_that_the_policy_requires_stops_the_run
        lacking("require = [\"landlock\", \"seccomp\"]\n");
    ProtectionRequired a_required_guard_cannot_be_switched_off {
        let tree = tree(["home/u/proj/.agent-sandbox.toml = require = [\"guard\"]\n"]);
        said_of(&tree, &alone(), &machine())
    };

    // SPEC C1
    GuardRefused a_guard_without_its_plan_starts_nothing {
        stderr(&Place::in_tmp().agent_sandbox().args(["__guard", "--", "true"]).output().unwrap())
    };
    GuardUnavailable a_guard_without_a_namespace_suggests_no_guard without_namespaces();

    VerifyFailed a_probe_without_questions_has_no_answer {
        stderr(&Place::in_tmp().agent_sandbox().arg("__verify").output().unwrap())
    };

    // SPEC S5
    OpenDirectory a_directory_on_standard_input_is_refused {
        let place = Place::in_tmp();
        let folder = fs::File::open(place.path()).unwrap();
        stderr(&place.agent_sandbox().args(["--", "true"]).stdin(folder).output().unwrap())
    };
    // SPEC S5
    UnsafeStream a_file_that_is_not_even_opened_is_refused {
        let place = Place::in_tmp();
        place.write("file", "");
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
        let file = rustix::fs::open(place.path().join("file"), flags, rustix::fs::Mode::empty()).unwrap();
        stderr(&place.agent_sandbox().args(["--", "true"]).stdin(file).output().unwrap())
    };

    CommandNotFound a_command_and_its_arguments_in_one_word_get_a_hint command(&tree(["usr/bin/"]), "ls -la");
    CommandNotFound an_unknown_command_gets_a_hint command(&tree(["usr/bin/"]), "grpe");
    CommandNotFound a_command_that_is_hidden_inside_is_named_with_its_path {
        let tree = tree([]);
        write_program(&tree.real("tmp/tool"), "#!/bin/sh\n");
        command(&tree, "/tmp/tool")
    };

    CommandNotFound a_command_that_leads_to_a_hidden_file_names_that_file {
        let tree = tree(["usr/bin/tool -> /tmp/tool"]);
        write_program(&tree.real("tmp/tool"), "#!/bin/sh\n");
        command(&tree, "tool")
    };

    CommandNotExecutable a_script_that_is_not_executable_suggests_chmod command(&tree(["home/u/proj/build.sh"]), "./build.sh");

    CommandNotExecutable a_folder_is_no_command command(&tree(["home/u/proj/tools/"]), "./tools");

    CreateFailed a_directory_that_cannot_be_made_names_the_setting {
        let tree = tree([]);
        let session = session("/home/u/proj");
        let (compiled, mut argv) = argv(&tree, &session, &[]);
        // The path was free while compiling, and is taken now.
        tree.add("home/u/state");
        argv.create.push(abs("/home/u/state/tool"));
        one(launch::ready(&tree.host(), &session, &compiled, &argv).unwrap_err())
    };

    IncompleteForm arguments_alone_do_not_open_a_descriptor
        one(incomplete(&needing(&tree(["home/u/.netrc"]), ""), PrintForm::Nul).unwrap());
    IncompleteForm arguments_alone_do_not_make_a_directory one(incomplete(
        &needing(&tree([]), "[filesystem]\nrw = [{ path = \"made\", if-missing = \"create\" }]\n"),
        PrintForm::Lines,
    ).unwrap());
    IncompleteForm arguments_alone_do_not_drop_a_variable one(incomplete(
        &started_with("", &[("CI", "1"), ("DISPLAY", ":0"), ("TMPDIR", "/var/tmp")]),
        PrintForm::Nul,
    ).unwrap());
    IncompleteForm arguments_alone_do_not_drop_all_other_variables one(incomplete(
        &started_with("[env]\ninherit = false\n", &[("CI", "1"), ("PATH", "/bin")]),
        PrintForm::Nul,
    ).unwrap());
    IncompleteForm everything_that_the_arguments_need_is_named one(incomplete(
        &needing(
            &tree(["home/u/.netrc", "home/u/.pypirc"]),
            "[filesystem]\nrw = [{ path = \"a\", if-missing = \"create\" }, { path = \"b\", if-missing = \"create\" }]\n",
        ),
        PrintForm::Nul,
    ).unwrap());
    IncompleteForm a_script_is_not_confined_before_bwrap_starts
        one(incomplete(&needing(&tree(["home/u/.netrc"]), ""), PrintForm::Shell).unwrap());

    // SPEC J5
    IncompleteForm a_pasted_command_leaves_the_mount_points_of_injections one(incomplete(
        &needing(&tree(["home/u/proj/a"]), "[[inject]]\nfrom = \"a\"\nto = \"sub/b\"\n"),
        PrintForm::Shell,
    ).unwrap());

    SandboxLost a_killed_bwrap_is_reported killed_bwrap();

    OutputFailed a_result_that_could_not_be_written_is_an_error full_disk();

    StartFailed a_bwrap_that_cannot_be_executed_is_named with_bwrap("#!/nowhere/sh\n");
    StartFailed a_bwrap_that_ends_before_the_command_starts_is_reported
        with_bwrap("#!/bin/sh\n[ \"$1\" = --unshare-all ] || exit 1\n");
    StartFailed a_bwrap_that_is_gone_at_the_trial_is_named
        unavailable(&tree([".dockerenv"]), "/nowhere/bwrap");
}

/// A bwrap that can make a sandbox, but neither knows `--perms` nor names it in its help.
fn without_perms() -> String {
    let script = "#!/bin/sh\ncase $1 in --help) echo --bind ;; --unshare-all) ;; *) exit 1 ;; esac\n";
    with_bwrap(script).replace("/PLACE/bin", "/usr/bin")
}

/// The diagnostics on a machine with an old kernel.
fn lacking(policy: &str) -> String {
    let tree = tree([&*format!("home/u/proj/.agent-sandbox.toml = {policy}")]);
    let session = Session { executable: Some(abs("/usr/bin/agent-sandbox")), ..session("/home/u/proj") };
    said_of(
        &tree,
        &session,
        &Machine {
            kernel: Kernel { landlock: false, landlock_changes: true, seccomp: policy.is_empty() },
            ..machine()
        },
    )
}

fn said_of(tree: &Tree, session: &Session, machine: &Machine) -> String {
    let (compiled, mut diagnostics) = tree.compile_as(session, &Request::default());
    compiled.unwrap().argv(machine, &["true".into()], &mut diagnostics);
    let mut rendered: Vec<String> = diagnostics.iter().cloned().map(one).collect();
    rendered.dedup_by(|a, b| a.lines().next() == b.lines().next());
    rendered.remove(0)
}

/// Runs the guard in a user namespace in which it can create no other, as under some AppArmor
/// profiles: this bwrap disables them. With `--exec` there is no supervisor, so no second start.
fn without_namespaces() -> String {
    let place = Place::in_tmp();
    write_program(
        &place.path().join("bin/bwrap"),
        "#!/bin/bash\nargs=()\nfor arg; do [ \"$arg\" = --chdir ] && args+=(--unshare-user --disable-userns); args+=(\"$arg\"); done\n\
         exec /usr/bin/bwrap \"${args[@]}\"\n",
    );
    place.give_away();
    let path = format!("{}/bin:/usr/bin:/bin", place.path().display());
    stderr(&place.agent_sandbox().env("PATH", path).args(["--exec", "--", "true"]).output().unwrap())
}

fn root() -> Session {
    Session { uid: 0, ..session("/home/u/proj") }
}

/// The warning for root on a host with these markers, with this value of `CI`.
fn root_allowed(markers: &[&str], ci: Option<&str>) -> String {
    let tree = Tree::new(markers.iter().copied());
    let mut root = root();
    root.env.extend(ci.map(|value| (OsString::from("CI"), OsString::from(value))));
    one(launch::check_caller(&tree.host(), &root, false).unwrap().unwrap())
}

#[test]
fn root_is_neither_refused_nor_warned_with_the_flag() {
    for markers in [&[][..], &[".dockerenv"]] {
        assert_eq!(launch::check_caller(&Tree::new(markers).host(), &root(), true), Ok(None));
    }
}

#[test]
fn an_empty_ci_does_not_allow_root() {
    let mut root = root();
    root.env.insert("CI".into(), OsString::new());
    let refusal = launch::check_caller(&tree([]).host(), &root, false).unwrap_err();
    assert_eq!(refusal.code, Code::RootRefused);
}

#[test]
fn an_ordinary_user_is_not_warned_in_a_container() {
    let host = tree([".dockerenv"]).host();
    assert_eq!(launch::check_caller(&host, &session("/home/u/proj"), false), Ok(None));
}

fn foreign_project() -> String {
    let tree = tree([]);
    let folder = tree.real("home/u/proj");
    if rustix::process::getuid().is_root() {
        lchown(&folder, Some(USER), Some(USER)).unwrap();
    }
    let owner = fs::metadata(&folder).unwrap().uid();
    one(refused(&tree, &root(), &[])).replace(&owner.to_string(), "12345")
}

fn find_bwrap(tree: &Tree, path: &str) -> String {
    let mut session = session("/home/u/proj");
    session.env.insert("PATH".into(), path.into());
    one(launch::find_bwrap(&tree.host(), &session, &plain(tree)).unwrap_err())
}

/// A project without a file, and the argv that runs `command` in it.
fn argv(tree: &Tree, session: &Session, command: &[OsString]) -> (Compiled, Argv) {
    let (compiled, mut diagnostics) = tree.compile_as(session, &Request::default());
    let compiled = compiled.unwrap();
    let argv = compiled.argv(&machine(), command, &mut diagnostics);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    (compiled, argv)
}

/// The reason why the command does not start.
fn refused(tree: &Tree, session: &Session, command: &[OsString]) -> Diagnostic {
    let (compiled, argv) = argv(tree, session, command);
    launch::ready(&tree.host(), session, &compiled, &argv).unwrap_err()
}

fn unavailable(tree: &Tree, bwrap: &str) -> String {
    let session = session("/home/u/proj");
    let (compiled, mut argv) = argv(tree, &session, &[]);
    argv.program = abs(bwrap);
    one(launch::ready(&tree.host(), &session, &compiled, &argv).unwrap_err())
}

/// The argv of a project whose file has this text.
fn needing(tree: &Tree, text: &str) -> Argv {
    tree.add(&format!("home/u/proj/.agent-sandbox.toml = {text}"));
    argv(tree, &alone(), &["true".into()]).1
}

/// A caller without a guard.
fn alone() -> Session {
    Session { executable: None, ..session("/home/u/proj") }
}

fn started_with(text: &str, variables: &[(&str, &str)]) -> Argv {
    let tree = tree([&*format!("home/u/proj/.agent-sandbox.toml = {text}")]);
    let mut session = alone();
    session.env.extend(variables.iter().map(|(name, value)| (name.into(), value.into())));
    argv(&tree, &session, &["true".into()]).1
}

fn full_disk() -> String {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    stderr(&Place::in_tmp().agent_sandbox().arg("schema").stdout(full).output().unwrap())
}

fn command(tree: &Tree, name: &str) -> String {
    let mut session = session("/home/u/proj");
    session.env.insert("PATH".into(), "/usr/bin".into());
    one(refused(tree, &session, &[name.into()]))
}

/// The output of the binary if its bwrap is killed while the command runs.
fn killed_bwrap() -> String {
    let place = Place::in_tmp();
    let mut command = place.agent_sandbox();
    command.args(["--", "sh", "-c", "echo; exec sleep 60"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
    let id = child.id();
    let bwrap = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    let bwrap = Pid::from_raw(bwrap.trim().parse().unwrap()).unwrap();
    kill_process(bwrap, Signal::KILL).unwrap();
    stderr(&child.wait_with_output().unwrap())
}

/// The output of the binary if it finds `program` as bwrap.
fn with_bwrap(program: &str) -> String {
    let place = Place::in_tmp();
    write_program(&place.path().join("bin/bwrap"), program);
    place.give_away();
    let path = format!("{}/bin:/usr/bin:/bin", place.path().display());
    let output = place.agent_sandbox().env("PATH", path).args(["--", "true"]).output().unwrap();
    stderr(&output).replace(place.path().to_str().unwrap(), "/PLACE")
}
