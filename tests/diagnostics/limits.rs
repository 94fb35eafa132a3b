//! Limits: amounts that make no sense, limits that cannot be enforced here, and limits that were
//! reached.

use std::ffi::OsStr;

use agent_sandbox::audit::explain::{Explained, Explainer};
use agent_sandbox::cli::print::{PrintForm, incomplete};
use agent_sandbox::cli::{self, Paint};
use agent_sandbox::compile::request::Request;
use agent_sandbox::diagnostic::{Code, Diagnostics};
use agent_sandbox::guard::report::Report;
use agent_sandbox::host::session::Session;
use agent_sandbox::launch;
use agent_sandbox::policy::{Limit, LimitKind};

use crate::support::{Place, Tree, abs, machine, session, stderr, write_program};
use crate::{compiled, one, project, rendered, tree};

cases! {
    UnknownKey a_misspelt_limit_gets_a_suggestion project("[limits]\ntimeout = \"30m\"\n");
    UnknownKey a_limit_in_the_wrong_table_gets_the_table_limits project("memory = \"4G\"\n");
    WrongType a_time_needs_its_unit_in_a_string project("[limits]\ntime = 30\n");
    WrongType a_number_of_processes_is_no_string project("[limits]\nprocesses = \"many\"\n");
    WrongType processors_are_a_number project("[limits]\ncpus = \"2\"\n");
    InvalidValue a_time_without_a_unit_is_refused project("[limits]\ntime = \"30\"\n");
    InvalidValue a_time_with_another_unit_is_refused project("[limits]\ntime = \"30min\"\n");
    InvalidValue a_time_of_zero_is_refused project("[limits]\ntime = \"0s\"\n");
    InvalidValue zero_processes_are_refused project("[limits]\nprocesses = 0\n");
    InvalidValue a_negative_number_of_processes_is_refused project("[limits]\nprocesses = -1\n");
    InvalidValue more_processes_than_a_kernel_has_are_refused project("[limits]\nprocesses = 99999999999\n");
    InvalidValue a_file_size_in_another_unit_is_refused project("[limits]\nfile-size = \"2GB\"\n");
    InvalidValue a_file_size_that_no_file_has_is_refused project("[limits]\nfile-size = \"99999999999T\"\n");
    InvalidValue a_negative_output_is_refused project("[limits]\noutput = \"-1M\"\n");
    InvalidValue a_tmp_of_zero_bytes_is_refused project("[limits]\ntmp = \"0M\"\n");
    InvalidValue a_tmp_that_is_smaller_than_a_page_is_refused project("[limits]\ntmp = \"1B\"\n");
    // SPEC Z1
    InvalidValue too_little_memory_to_start_is_refused project("[limits]\nmemory = \"15M\"\n");
    InvalidValue a_fraction_of_a_size_is_refused project("[limits]\nmemory = \"1.5G\"\n");
    InvalidValue zero_processors_are_refused project("[limits]\ncpus = 0.0\n");
    InvalidValue a_negative_number_of_processors_is_refused project("[limits]\ncpus = -1\n");
    InvalidValue a_thousandth_of_a_processor_is_refused project("[limits]\ncpus = 1.555\n");
    // SPEC Z1
    InvalidValue a_limit_of_an_embedding_program_is_checked
        compiled(&tree([]), &Request { limits: vec![Limit::memory(1)], ..Request::default() });

    // SPEC Z8
    LimitUnavailable time_needs_a_supervisor limited("time = \"30m\"", &Request { exec: true, ..Request::default() });
    // SPEC Z8
    LimitUnavailable memory_needs_a_supervisor limited("memory = \"4G\"", &Request { exec: true, ..Request::default() });
    // SPEC Z8
    LimitUnavailable processes_need_a_guard
        limited("processes = 9", &Request { no_guard: true, ..Request::default() });
    // SPEC Z6
    LimitUnavailable the_hosts_tmp_cannot_be_limited
        shown_tmp("[filesystem]\ntmp = \"host\"\n[limits]\ntmp = \"1G\"\n");
    LimitUnavailable a_tmp_that_a_rule_shows_cannot_be_limited
        shown_tmp("[filesystem]\nrw = [\"/tmp\"]\n[limits]\ntmp = \"1G\"\n");
    LimitUnavailable memory_needs_a_systemd_user_manager scope(&tree([]), None);
    LimitUnavailable memory_needs_a_manager_that_listens scope(&tree([]), Some("/run/user/1000"));
    LimitUnavailable memory_needs_the_program_that_makes_scopes
        scope(&tree(["run/user/1000/systemd/private"]), Some("/run/user/1000"));
    LimitUnavailable a_cgroup_without_the_file_of_a_limit_is_reported one(
        Report::LimitRefused(LimitKind::Memory, "`memory.max` does not appear in `/sys/fs/cgroup/x`".to_owned()).diagnostic()
    );
    // SPEC Z7
    BwrapUntrusted a_program_that_makes_scopes_must_not_be_planted {
        let tree = tree(["run/user/1000/systemd/private"]);
        for program in ["home/u/proj/bin/systemd-run", "usr/bin/env"] {
            write_program(&tree.real(program), "#!/bin/sh\n");
        }
        scope(&tree, Some("/run/user/1000"))
    };

    // SPEC Z8
    IncompleteForm a_printed_command_has_no_supervisor {
        let tree = tree([]);
        tree.add("home/u/proj/.agent-sandbox.toml = [limits]\ntime = \"30m\"\nmemory = \"4G\"\n");
        let session = Session { executable: Some(abs("/usr/bin/agent-sandbox")), ..session("/home/u/proj") };
        let (compiled, _) = tree.compile_as(&session, &Request::default());
        let argv = compiled.unwrap().argv(&machine(), &["true".into()], &mut Diagnostics::default());
        one(incomplete(&argv, PrintForm::Shell).unwrap())
    };
    LimitReached the_limit_that_ended_the_command_is_named {
        let place = Place::in_tmp();
        stderr(&place.agent_sandbox().args(["--limit", "output=4B", "--", "echo", "12345"]).output().unwrap())
    };
    // SPEC Z5
    OutputNotWritten output_that_cannot_be_passed_on_is_reported {
        let place = Place::in_tmp();
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = place.agent_sandbox();
        command.args(["--limit", "output=1M", "--", "echo", "12345"]).stdout(full);
        stderr(&command.stderr(std::process::Stdio::piped()).spawn().unwrap().wait_with_output().unwrap())
    };
    TmpFull a_full_tmp_has_a_remedy {
        let place = Place::in_tmp();
        let script = "yes >/tmp/file 2>/dev/null; true";
        stderr(&place.agent_sandbox().args(["--limit", "tmp=64K", "--", "sh", "-c", script]).output().unwrap())
    };
}

// SPEC Z6
#[test]
fn every_answer_gives_tmp_at_most_half_of_the_memory() {
    let tree = tree([]);
    let session = Session { memory: 6 << 30, ..session("/home/u/proj") };
    let (compiled, diagnostics) = tree.compile_as(&session, &Request::default());
    let compiled = compiled.filter(|_| !diagnostics.has_errors()).unwrap();
    let half = 3 << 30;
    assert_eq!(compiled.policy.limit(LimitKind::Tmp), Some(half));
    let explained = Explainer::new(&tree.host(), &compiled).explain(OsStr::new("/tmp")).unwrap();
    let argv = compiled.argv(&machine(), &["true".into()], &mut Diagnostics::default());
    assert_eq!(argv.tmp_size, Some(half));
    let words = format!("--size {half} --perms 1777 --tmpfs /tmp");
    let text = argv.words().join(OsStr::new(" ")).into_string().unwrap();
    assert!(text.contains(&words), "{text}");
    let explained = cli::explained(&Explained { paths: vec![explained], ..Explained::default() }, Paint(false));
    assert!(explained.contains(&words), "{explained}");
}

fn limited(limit: &str, request: &Request) -> String {
    let tree = tree([]);
    tree.add(&format!("home/u/proj/.agent-sandbox.toml = [limits]\n{limit}\n"));
    let session = Session { executable: Some(abs("/usr/bin/agent-sandbox")), ..session("/home/u/proj") };
    rendered(&tree.compile_as(&session, request).1)
}

fn shown_tmp(text: &str) -> String {
    crate::project_with(["tmp/"], text)
}

/// The diagnostic of the search for the programs that make a scope.
fn scope(tree: &Tree, runtime: Option<&str>) -> String {
    tree.add("home/u/proj/.agent-sandbox.toml = [limits]\nmemory = \"4G\"\n");
    write_program(&tree.real("usr/bin/bwrap"), "#!/bin/sh\n");
    let mut session = Session { executable: Some(abs("/usr/bin/agent-sandbox")), ..session("/home/u/proj") };
    session.env.insert("PATH".into(), "/home/u/proj/bin:/usr/bin".into());
    session.env.extend(runtime.map(|runtime| ("XDG_RUNTIME_DIR".into(), runtime.into())));
    let (compiled, diagnostics) = tree.compile_as(&session, &Request::default());
    assert!(!diagnostics.has_errors(), "{diagnostics:?}");
    one(launch::machine(&tree.host(), &session, &compiled.unwrap()).unwrap_err())
}
