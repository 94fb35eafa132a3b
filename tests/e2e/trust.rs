//! Policy files that a command leaves in the project open nothing in the next run without the
//! user's consent.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use crate::sandbox::{failed, python, run, sandbox, shell, shell_with, succeeded, write};
use crate::support::{Place, stderr, stdout};

everywhere!(
    a_file_that_widens_does_not_run_without_consent,
    a_file_planted_by_a_command_opens_nothing_in_the_next_run,
    a_file_planted_in_a_subfolder_opens_nothing_for_runs_there,
    a_trusted_file_cannot_be_changed_inside,
    consent_ends_with_a_byte_of_the_file,
    consent_does_not_follow_a_link_to_somewhere_else,
    consent_cannot_be_written_inside,
    consent_cannot_be_planted_where_there_is_none_yet,
    a_damaged_or_replaced_trust_record_is_no_consent,
    trust_asks_on_a_terminal,
    trust_is_refused_inside,
    trust_is_neither_listed_nor_revoked_inside,
);
for_both!(the_users_identity_over_none_needs_consent);

const WIDENS: &str = "[filesystem]\nrw = ['~/data']\n";
const FILE: &str = ".agent-sandbox.toml";

fn with_data(place: &Place) -> PathBuf {
    place.write("home/data/file", "host");
    place.write("home/.ssh/id_ed25519", "secret");
    place.home().join("data/file")
}

/// Tries to change the path that the file would open, and asserts that no command starts.
#[track_caller]
fn refused(place: &Place) {
    let output = run(place, &["--", "sh", "-c", "echo changed >~/data/file; touch started"]);
    failed(&output, 125, "error[untrusted-policy]");
    assert_eq!(fs::read_to_string(place.home().join("data/file")).unwrap(), "host");
    assert!(!place.project().join("started").exists());
}

// SPEC T4
fn a_file_that_widens_does_not_run_without_consent(place: &Place) {
    let data = with_data(place);
    write(place, FILE, WIDENS);
    refused(place);
    let once = "echo once >~/data/file; cat ~/data/file";
    assert_eq!(shell_with(place, &["--config", FILE], once), "once\n");
    fs::write(&data, "host").unwrap();
    refused(place);
    shell_with(place, &["--no-project-config"], "! echo changed >~/data/file");
    assert_eq!(fs::read_to_string(&data).unwrap(), "host");
    place.trust();
    assert_eq!(shell(place, "echo trusted >~/data/file; cat ~/data/file"), "trusted\n");
}

// SPEC U6
fn the_users_identity_over_none_needs_consent(place: &Place) {
    place.write("home/.gitconfig", "[user]\nname = Ada\n");
    let user = "home/.config/agent-sandbox/config.toml";
    place.write(user, "[git]\nidentity = false\n[filesystem]\nhome = 'private'\n");
    write(place, FILE, "[git]\nidentity = 'host'\n");
    let output = run(place, &["--", "true"]);
    failed(&output, 125, "variable `GIT_AUTHOR_NAME`: given to the command");
    // By default the user passes the identity into a private home, so the project's file may
    // choose a private home.
    place.write(user, "");
    write(place, FILE, "[filesystem]\nhome = 'private'\n");
    assert_eq!(shell(place, "printenv GIT_AUTHOR_NAME"), "Ada\n");
}

// SPEC T4
fn a_file_planted_by_a_command_opens_nothing_in_the_next_run(place: &Place) {
    with_data(place);
    shell(place, &format!("printf '%s' \"{WIDENS}\" >{FILE}"));
    assert_eq!(fs::read_to_string(place.project().join(FILE)).unwrap(), WIDENS, "a missing file can be created");
    refused(place);
    fs::remove_file(place.project().join(FILE)).unwrap();
    shell(place, &format!("printf '[filesystem]\\npresets = [\"!@all\", \"@base\"]' >{FILE}"));
    failed(&run(place, &["--", "cat", ".env"]), 125, "preset `@secrets`: on → off (.agent-sandbox.toml:2:12)");
}

/// The file makes the subfolder a project of its own, and counts instead of the file above.
// SPEC T1
fn a_file_planted_in_a_subfolder_opens_nothing_for_runs_there(place: &Place) {
    with_data(place);
    write(place, FILE, "[filesystem]\nrw = ['~/data']\nexclude = ['hidden']\n");
    write(place, "hidden/key", "secret");
    place.trust();
    shell(
        place,
        &format!(
            "mkdir sub && printf '%s' '[filesystem]\nrw = [\"~/data\", \"../hidden\", \"../hidden/key\"]' >sub/{FILE}"
        ),
    );
    let start = |script: &str| sandbox(place).args(["-C", "sub", "--", "sh", "-c", script]).output().unwrap();
    let output = start("cat ../hidden/key");
    failed(&output, 125, "error[untrusted-policy]");
    let said = stderr(&output);
    assert!(said.contains("/hidden/key`: hidden → writable") && !said.contains("/hidden`"), "{said}");
    assert!(
        said.contains("/data`: read-only → writable"),
        "consent to the file above is not consent to this one: {said}"
    );
    // A file that opens nothing is obeyed, and the file above then opens nothing here.
    write(place, format!("sub/{FILE}"), "[filesystem]\nro = ['.']\n");
    assert_eq!(succeeded(start("echo x >~/data/file; echo x >new; cat ../hidden/key; echo done")), "done\n");
    assert_eq!(fs::read_to_string(place.home().join("data/file")).unwrap(), "host");
}

fn a_trusted_file_cannot_be_changed_inside(place: &Place) {
    with_data(place);
    write(place, FILE, WIDENS);
    place.trust();
    let script = format!("echo '# more' >>{FILE}; rm -f {FILE}; mv {FILE} x; ln -sf x {FILE}; cat {FILE}");
    assert_eq!(shell(place, &script), WIDENS);
    assert_eq!(shell(place, "echo still >~/data/file; cat ~/data/file"), "still\n");
}

// SPEC T6
fn consent_ends_with_a_byte_of_the_file(place: &Place) {
    with_data(place);
    write(place, FILE, WIDENS);
    place.trust();
    write(place, FILE, format!("{WIDENS}\n"));
    refused(place);
    let said = stderr(&run(place, &["--", "true"]));
    assert!(said.contains("has changed since you agreed to it"), "{said}");
    write(place, FILE, WIDENS);
    succeeded(run(place, &["--", "true"]));
}

/// A changed symlink gives the same policy file another meaning.
// SPEC T6
fn consent_does_not_follow_a_link_to_somewhere_else(place: &Place) {
    with_data(place);
    write(place, FILE, "[filesystem]\nrw = ['~/links/data']\n");
    fs::create_dir(place.home().join("links")).unwrap();
    symlink("../data", place.home().join("links/data")).unwrap();
    place.give_away();
    place.trust();
    assert_eq!(shell(place, "cat ~/links/data/file && echo host >~/data/file"), "host");
    fs::write(place.home().join("data/file"), "host").unwrap();
    fs::remove_file(place.home().join("links/data")).unwrap();
    fs::create_dir(place.home().join("other")).unwrap();
    symlink("../other", place.home().join("links/data")).unwrap();
    place.give_away();
    refused(place);
    let said = stderr(&run(place, &["--", "true"]));
    assert!(said.contains("opens more here than you agreed to"), "{said}");
    assert!(
        said.contains("/other`: read-only → writable (.agent-sandbox.toml:2:7)") && !said.contains("/data`"),
        "{said}"
    );
}

/// The user's own file, which needs no consent, makes the folders around the records writable.
// SPEC T7
fn consent_cannot_be_written_inside(place: &Place) {
    with_data(place);
    place.write("home/.config/agent-sandbox/config.toml", "[filesystem]\nrw = ['~/.local/state']\n");
    write(place, FILE, WIDENS);
    place.trust();
    let records = place.home().join(".local/state/agent-sandbox/trust");
    let before = crate::sandbox::snapshot(&records);
    let script = "cd ~/.local/state && touch beside && cd agent-sandbox/trust && \
        for f in *; do echo {} >$f; rm -f $f; mv $f x; done; touch new; cd ../..; mv agent-sandbox other; rm -rf agent-sandbox; \
        mkdir -p agent-sandbox/trust/new; ls";
    assert_eq!(stdout(&run(place, &["--", "sh", "-c", script])), "agent-sandbox\nbeside\n");
    assert_eq!(crate::sandbox::snapshot(&records), before);
}

/// A command that could create the state folder first could put forged records into it.
// SPEC D6
fn consent_cannot_be_planted_where_there_is_none_yet(place: &Place) {
    with_data(place);
    fs::create_dir_all(place.home().join(".local/state")).unwrap();
    place.give_away();
    let script = "cd ~/.local/state && touch beside; mkdir -p agent-sandbox/trust && touch agent-sandbox/trust/forged; \
        rmdir agent-sandbox; mv agent-sandbox x; ls; ls agent-sandbox";
    let output = run(place, &["--rw", place.home().join(".local/state").to_str().unwrap(), "--", "sh", "-c", script]);
    assert_eq!(stdout(&output), "agent-sandbox\nbeside\nmounts\nruns\n", "{}", stderr(&output));
    let state = place.home().join(".local/state/agent-sandbox");
    let mut names: Vec<_> = fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["mounts", "runs"], "contents that bwrap binds, and journals");
    // Without the rule, the command cannot create the folder.
    fs::remove_dir_all(&state).unwrap();
    shell(place, "! mkdir ~/.local/state/agent-sandbox/trust 2>/dev/null");
    assert!(!state.join("trust").exists());
}

// SPEC T7
fn a_damaged_or_replaced_trust_record_is_no_consent(place: &Place) {
    use std::os::unix::fs::PermissionsExt;
    with_data(place);
    write(place, FILE, WIDENS);
    place.trust();
    let folder = place.home().join(".local/state/agent-sandbox/trust");
    let record = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let good = fs::read_to_string(&record).unwrap();
    let mode = |path: &PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&folder), mode(&record)), (0o700, 0o600));
    for bad in ["", "{}", "[]", &good.replace("\"version\": 1", "\"version\": 2"), &good.replace("code/project", "x")] {
        fs::write(&record, bad).unwrap();
        refused(place);
        let said = stderr(&run(place, &["--", "true"]));
        assert!(said.contains("cannot be used: it is damaged"), "{said}");
    }
    // A link to a valid record is no consent, nor is a record in a folder that others can write.
    let elsewhere = place.home().join("elsewhere.json");
    fs::write(&elsewhere, &good).unwrap();
    fs::remove_file(&record).unwrap();
    symlink(&elsewhere, &record).unwrap();
    place.give_away();
    refused(place);
    place.trust();
    assert!(record.symlink_metadata().unwrap().is_file() && elsewhere.symlink_metadata().unwrap().is_file());
    succeeded(run(place, &["--", "true"]));
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    refused(place);
}

/// Answers the question of `trust` on a terminal, and prints the exit code of each answer.
const ANSWERS: &str = "
import os, pty, sys
def code_of(answer):
    pid, master = pty.fork()
    if pid == 0:
        os.execv(sys.argv[1], sys.argv[1:])
    seen = b''
    while not seen.endswith(b'[y/N] '):
        seen += os.read(master, 4096)
    assert b'/data' in seen and b'recorded' not in seen, seen
    os.write(master, answer)
    try:
        while os.read(master, 4096):
            pass
    except OSError:
        pass
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
for answer in sys.stdin.read().split('|'):
    print(code_of(answer.encode()))
";

// SPEC T5
fn trust_asks_on_a_terminal(place: &Place) {
    with_data(place);
    write(place, FILE, WIDENS);
    let binary = crate::support::binary();
    let codes = |answers: &str| {
        let mut command = place.command("sh");
        command.args(["-c", "printf %s \"$0\" | exec \"$@\"", answers]);
        python(&mut command, ANSWERS, &[binary.to_str().unwrap(), "trust"])
    };
    // Control-D is the end of input.
    assert_eq!(codes("\n|n\n|yes please\n|\u{4}"), "1\n1\n1\n1\n");
    refused(place);
    assert_eq!(codes("Y\n"), "0\n");
    succeeded(run(place, &["--", "true"]));
}

// SPEC T5
fn trust_is_refused_inside(place: &Place) {
    with_data(place);
    let binary = crate::support::binary();
    let script = format!("printf '%s' \"{WIDENS}\" >{FILE}; '{}' trust", binary.display());
    failed(&run(place, &["--", "sh", "-c", &script]), 125, "error[already-inside]");
    refused(place);
}

/// Inside, neither agent-sandbox nor another program can change the records.
// SPEC T8, T9
fn trust_is_neither_listed_nor_revoked_inside(place: &Place) {
    with_data(place);
    place.write("home/.config/agent-sandbox/config.toml", "[filesystem]\nrw = ['~/.local']\n");
    write(place, FILE, WIDENS);
    place.trust();
    let records = place.home().join(".local/state/agent-sandbox/trust");
    let before = crate::sandbox::snapshot(&records);
    let binary = crate::support::binary();
    for (words, said) in
        [("--list", "consents are not listed inside"), ("--revoke", "nothing can be revoked from inside")]
    {
        let output = run(place, &["--", binary.to_str().unwrap(), "trust", words]);
        failed(&output, 125, "error[already-inside]");
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    }
    shell(place, "cd ~/.local/state/agent-sandbox/trust && ! rm -f *.json 2>/dev/null && cat *.json >/dev/null");
    assert_eq!(crate::sandbox::snapshot(&records), before);
    succeeded(run(place, &["--", "true"]));
}
