//! Copies without credentials (SPEC P16), and programs that start beside hidden histories.

use std::fs;

use crate::sandbox::{run, sandbox, shell, succeeded, write};
use crate::support::{Place, stderr, stdout};

everywhere!(a_copy_shows_the_settings_without_the_credentials);
for_both!(
    a_copy_does_not_follow_the_host,
    a_file_without_credentials_can_be_written,
    a_rule_of_the_user_shows_the_file_itself,
    without_a_state_folder_the_copies_are_file_descriptors,
    interpreters_start_without_their_histories,
);

const NPMRC: &str = "registry=https://r.example/\n//r.example/:_authToken=T0KEN\n";
const COPY: &str = "registry=https://r.example/\n";

// SPEC P16
fn a_copy_shows_the_settings_without_the_credentials(place: &Place) {
    place.write("home/.npmrc", NPMRC);
    write(place, "web/.npmrc", NPMRC);
    let npmrc = place.project().join("web/.npmrc");
    assert_eq!(shell(place, "cat ~/.npmrc web/.npmrc"), COPY.repeat(2));
    for change in ["echo x >>", "rm -f", "mv -f /dev/null", "chmod 600"] {
        let changed = run(place, &["--", "sh", "-c", &format!("{change} web/.npmrc")]);
        assert!(!changed.status.success(), "{change}");
    }
    assert_eq!(fs::read_to_string(&npmrc).unwrap(), NPMRC);
    let printed = succeeded(sandbox(place).args(["--print-args=shell", "--", "true"]).output().unwrap());
    assert!(!printed.contains("T0KEN") && printed.contains("/web/.npmrc"), "{printed}");
    let verified = succeeded(sandbox(place).args(["verify", "--json"]).output().unwrap());
    let verified: serde_json::Value = serde_json::from_str(&verified).unwrap();
    let lines = verified.to_string();
    assert!(lines.contains("web/.npmrc") && !lines.contains("T0KEN"), "{lines}");
    let bare = succeeded(sandbox(place).args(["--no-guard", "--", "cat", "web/.npmrc"]).output().unwrap());
    assert_eq!(bare, COPY);
}

/// A process of the host changes its file during the run. The command keeps the copy of the start.
// SPEC P16
fn a_copy_does_not_follow_the_host(place: &Place) {
    place.write("home/.npmrc", NPMRC);
    let mut child = sandbox(place)
        .args(["--", "sh", "-c", "touch started; until [ -e go ]; do sleep 0.01; done; cat ~/.npmrc"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    while !place.project().join("started").exists() {
        assert!(child.try_wait().unwrap().is_none(), "the run ended too early");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    fs::write(place.home().join(".npmrc"), format!("{NPMRC}save-exact=true\n_auth=T0KEN\n")).unwrap();
    write(place, "go", "");
    assert_eq!(succeeded(child.wait_with_output().unwrap()), COPY);
    assert_eq!(shell(place, "cat ~/.npmrc"), format!("{COPY}save-exact=true\n"), "the next run has the new settings");
}

// SPEC P16
fn a_file_without_credentials_can_be_written(place: &Place) {
    write(place, ".npmrc", "save-exact=true\n//r.example/:_authToken=${NPM_TOKEN}\n");
    shell(place, "echo fund=false >>.npmrc");
    assert!(fs::read_to_string(place.project().join(".npmrc")).unwrap().ends_with("fund=false\n"));
}

// SPEC P16
fn a_rule_of_the_user_shows_the_file_itself(place: &Place) {
    place.write("home/.npmrc", NPMRC);
    write(place, ".npmrc", NPMRC);
    place.write(
        "home/.config/agent-sandbox/config.toml",
        "[filesystem]\nro = [\"~/.npmrc\"]\nexclude = [\"**/.npmrc\"]\n",
    );
    assert_eq!(shell(place, "cat ~/.npmrc"), NPMRC);
    assert!(!run(place, &["--", "cat", ".npmrc"]).status.success(), "a user's `exclude` hides all of it");
}

fn without_a_state_folder_the_copies_are_file_descriptors(place: &Place) {
    place.write("home/.npmrc", NPMRC);
    let mut command = sandbox(place);
    // A file is at the path of the state folder's parent.
    place.write("home/blocked", "");
    command.env("XDG_STATE_HOME", place.home().join("blocked"));
    // `@caches` would create placeholders for programs of this machine.
    command.args(["--preset", "!caches", "--", "cat"]).arg(place.home().join(".npmrc"));
    let output = command.output().unwrap();
    assert_eq!(succeeded(output), COPY);
}

/// An interpreter starts although it may not open its history.
fn interpreters_start_without_their_histories(place: &Place) {
    for history in [".bash_history", ".python_history", ".node_repl_history", ".viminfo", ".lesshst"] {
        place.write(format!("home/{history}"), "T0KEN\n");
    }
    let bash = run(place, &["--", "bash", "--norc", "-ic", "history; echo started"]);
    assert_eq!((stdout(&bash).as_str(), bash.status.code()), ("started\n", Some(0)), "{}", stderr(&bash));
    assert!(!stderr(&bash).contains("history"), "{}", stderr(&bash));
    assert_eq!(shell(place, "echo 'print(1)' | /usr/bin/python3 -q 2>&1"), "1\n");
    assert_eq!(shell(place, "echo x >t; less t"), "x\n");
}
