//! Ways around a mount: sockets, other names, other mounts, our own program.

use agent_sandbox::compile::request::Request;
use agent_sandbox::diagnostic::Code;
use agent_sandbox::launch;

use crate::support::{Tree, abs, session, write_program};
use crate::{compiled, one, project_with, rendered, tree};

cases! {
    OtherNames an_excluded_file_with_another_name_is_refused project_with(
        ["home/u/old.key", "home/u/proj/deploy.key => home/u/old.key"],
        "[filesystem]\nexclude = [\"deploy.key\"]\n",
    );
    OtherNames a_read_only_file_with_another_name_is_refused project_with(
        ["home/u/proj/a.mk", "home/u/proj/b.mk => home/u/proj/a.mk", "home/u/proj/c.mk => home/u/proj/a.mk"],
        "[filesystem]\nro = [\"*.mk\"]\n",
    );

    UnplacedSocket services_in_unknown_folders_are_named_once {
        let line = "0000000000000000: 00000002 00000000 00010000 0001 01 33785 ";
        let names = ["b", "a", "b", "c", "d", "e", "f", "g\u{1b}[2J"];
        let table: String = names.iter().map(|name| format!("{line}{name}\n")).collect();
        compiled(&tree([&format!("proc/net/unix = {table}")]), &Request::default())
    };
    UnplacedSocket services_in_folders_of_their_own_descriptors_are_named {
        let line = "0000000000000000: 00000002 00000000 00010000 0001 01 33785 ";
        let table = ["/proc/self/fd/3/a", "/dev/fd/3/b"].map(|name| format!("{line}{name}\n")).concat();
        compiled(&tree([&format!("proc/net/unix = {table}")]), &Request::default())
    };

    // SPEC W4
    UnplacedSocket a_service_with_two_names_is_named_and_stops_no_run {
        let table = "0000000000000000: 00000002 00000000 00010000 0001 01 33785 /srv/a\n";
        let names = ["srv/a=", "srv/b => srv/a", &format!("proc/net/unix = {table}")];
        compiled(&tree(names), &Request::default())
    };

    WritableExecutable a_writable_folder_is_no_place_for_our_program executable(
        &tree(["home/u/.cache/bin/agent-sandbox"]),
        "/home/u/.cache/bin/agent-sandbox",
    );
    WritableExecutable a_project_that_contains_agent_sandbox_gets_a_warning executable(
        &tree(["home/u/proj/target/debug/agent-sandbox"]),
        "/home/u/proj/target/debug/agent-sandbox",
    );

    UnreadablePath a_table_of_sockets_that_cannot_be_read_stops_the_run
        compiled(&tree(["proc/net/unix/"]), &Request::default());
    UnreadablePath a_table_of_mounts_that_cannot_be_read_stops_the_run
        compiled(&tree(["proc/self/mountinfo/"]), &Request::default());

    // SPEC W2
    WritableLink no_socket_is_shown_through_a_link_that_can_be_replaced project_with(
        ["home/u/.ssh/agent=", "home/u/proj/agent -> /home/u/.ssh/agent"],
        "sockets = [\"agent\"]\n",
    );

    ExcludedCwd a_working_directory_hidden_under_another_name_is_named_with_it project_with(
        [
            "srv/work/",
            "proc/self/mountinfo = 20 1 8:1 / / rw - ext4 a rw\n21 20 8:1 /srv/work /home/u/proj rw - ext4 a rw\n",
        ],
        "[filesystem]\nexclude = [\"/srv/work\"]\n",
    );

    // SPEC S2
    BwrapUntrusted a_bwrap_around_a_planted_root_is_not_used {
        let tree = tree(["home/u/proj/.git/", "home/u/proj/sub/.git/"]);
        write_program(&tree.real("home/u/proj/bin/bwrap"), "#!/bin/sh\n");
        bwrap(&tree, "/home/u/proj/sub", &Request::default())
    };
    // SPEC S2
    BwrapUntrusted a_bwrap_that_is_read_only_in_a_writable_folder_is_not_used {
        let tree = tree([]);
        write_program(&tree.real("home/u/proj/bin/bwrap"), "#!/bin/sh\n");
        tree.add("srv/proj/");
        let (rw, ro) = (vec!["/home/u/proj/bin".into()], vec!["/home/u/proj/bin/bwrap".into()]);
        bwrap(&tree, "/srv/proj", &Request { rw, ro, ..Request::default() })
    };
}

fn executable(tree: &Tree, path: &str) -> String {
    let mut session = session("/home/u/proj");
    session.executable = Some(abs(path));
    rendered(&tree.compile_as(&session, &Request::default()).1)
}

/// The error about bwrap with `/home/u/proj/bin` first on PATH.
fn bwrap(tree: &Tree, cwd: &str, request: &Request) -> String {
    let mut session = session(cwd);
    session.env.insert("PATH".into(), "/home/u/proj/bin:/usr/bin".into());
    let (compiled, diagnostics) = tree.compile_as(&session, request);
    assert!(diagnostics.is_empty(), "{}", rendered(&diagnostics));
    one(launch::find_bwrap(&tree.host(), &session, &compiled.unwrap()).unwrap_err())
}
