//! Files that the host replaces while the command runs are covered again (SPEC section 23).

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::sandbox::{policy, sandbox, write};
use crate::support::{Place, stderr, stdout};

everywhere!(
    a_hidden_file_is_hidden_again_after_each_of_fifty_renames,
    a_hidden_file_is_hidden_again_each_time_it_is_removed_and_created,
    a_read_only_file_is_read_only_again_after_each_of_fifty_renames,
    a_read_only_file_is_read_only_again_each_time_it_is_removed_and_created,
    settings_of_git_are_private_again_after_each_of_fifty_changes,
    settings_of_git_are_read_only_again_after_each_of_fifty_changes,
);

for_both!(
    a_file_that_reads_as_empty_is_hidden,
    a_generated_file_is_read_only_again,
    a_secret_in_a_read_only_home_is_hidden_again,
    a_file_that_became_something_else_is_hidden,
    a_file_that_vim_moves_away_is_covered_again,
    a_replacement_is_noted_at_once_and_reported,
    a_program_that_draws_on_the_terminal_is_not_disturbed,
    without_inotify_a_warning_says_so_and_the_report_names_the_file,
    without_a_supervisor_nothing_is_covered_again,
    beyond_the_watched_directories_a_warning_says_so,
);

/// Turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(120);

/// Creates `covered-N` when the policy again applies to the file that was replaced for the Nth
/// time.
const INSIDE: &str = r#"
import os, stat, sys, time
path, how, times = sys.argv[1], sys.argv[2], int(sys.argv[3])

def opens(flags):
    try:
        os.close(os.open(path, flags | os.O_NONBLOCK))
        return True
    except OSError:
        return False

def is_covered():
    if how == "hidden":
        return os.path.lexists(path) and not opens(os.O_RDONLY) and not opens(os.O_WRONLY)
    if how == "read-only":
        return opens(os.O_RDONLY) and not opens(os.O_WRONLY)
    return os.path.islink(path) and os.readlink(path).startswith("/run/agent-sandbox/private/")

def wait_for(condition):
    while not condition():
        time.sleep(0.002)

assert is_covered()
open("started", "x").close()
for number in range(times):
    wait_for(lambda: os.path.exists(f"replaced-{number}"))
    wait_for(is_covered)
    try:
        os.unlink(path)
        sys.exit("removed")
    except OSError:
        pass
    open(f"covered-{number}", "x").close()
wait_for(lambda: os.path.exists("end"))
print("ended", flush=True)
"#;

/// A command that waits for replacements of one file.
struct Watched<'p> {
    place: &'p Place,
    child: Child,
    err: PathBuf,
}

impl<'p> Watched<'p> {
    fn start(place: &'p Place, path: &str, how: &str, times: usize) -> Self {
        Self::start_with(place, &mut sandbox(place), path, how, times)
    }

    fn start_with(place: &'p Place, command: &mut Command, path: &str, how: &str, times: usize) -> Self {
        let err = place.path().join("err");
        let to = fs::File::create(&err).unwrap();
        command.args(["--", "/usr/bin/python3", "-I", "-c", INSIDE, path, how, &times.to_string()]);
        let child = command.stdout(Stdio::piped()).stderr(to).spawn().unwrap();
        let mut watched = Self { place, child, err };
        watched.until("started", |watched| watched.has("started"));
        watched
    }

    fn has(&self, name: &str) -> bool {
        self.place.project().join(name).exists()
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.err).unwrap()
    }

    #[track_caller]
    fn until(&mut self, what: &str, happened: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !happened(self) {
            if Instant::now() > deadline || self.child.try_wait().unwrap().is_some() {
                let _ = self.child.kill();
                panic!("never {what}: {}", self.said());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Tells the command that the file was replaced, and waits until it is covered again.
    #[track_caller]
    fn replaced(&mut self, number: usize) {
        fs::write(self.place.project().join(format!("replaced-{number}")), "").unwrap();
        self.until("covered again", |watched| watched.has(&format!("covered-{number}")));
    }

    /// Ends the command and returns its standard error.
    #[track_caller]
    fn end(mut self) -> String {
        fs::write(self.place.project().join("end"), "").unwrap();
        let mut out = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success() && out == "ended\n", "{status}: {out}{}", self.said());
        self.said()
    }
}

/// Writes a new file on the host and renames it to `path`.
fn rename(place: &Place, path: &str, content: &str) {
    place.write(place.project().join("new"), content);
    fs::rename(place.project().join("new"), place.project().join(path)).unwrap();
}

fn create_anew(place: &Place, path: &str, content: &str) {
    fs::remove_file(place.project().join(path)).unwrap();
    place.write(place.project().join(path), content);
}

const COVERED: &str = "was replaced on the host during the run, and open to the command until the supervisor covered";

fn fifty_times(place: &Place, path: &str, how: &str, replace: fn(&Place, &str, &str)) {
    write(place, path, "original");
    let rule = if how == "hidden" { "exclude" } else { "ro" };
    policy(place, &format!("{rule} = ['{path}']"));
    let mut watched = Watched::start(place, path, how, 50);
    for number in 0..50 {
        replace(place, path, &format!("content {number}"));
        watched.replaced(number);
    }
    let said = watched.end();
    // The run notes it when it covers the file, and warns in its report.
    assert_eq!(said.matches(&format!("`{path}` {COVERED}")).count(), 2, "{said}");
    assert_eq!(fs::read_to_string(place.project().join(path)).unwrap(), "content 49");
}

// SPEC Y1
fn a_hidden_file_is_hidden_again_after_each_of_fifty_renames(place: &Place) {
    fifty_times(place, ".env", "hidden", rename);
}

// SPEC Y1
fn a_hidden_file_is_hidden_again_each_time_it_is_removed_and_created(place: &Place) {
    fifty_times(place, "deep/er/.env", "hidden", create_anew);
}

// SPEC Y1
fn a_read_only_file_is_read_only_again_after_each_of_fifty_renames(place: &Place) {
    fifty_times(place, "deep/settings", "read-only", rename);
}

// SPEC Y1
fn a_read_only_file_is_read_only_again_each_time_it_is_removed_and_created(place: &Place) {
    fifty_times(place, "settings", "read-only", create_anew);
}

fn git(place: &Place, words: &[&str]) -> String {
    let output = place.command("git").args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", stderr(&output));
    stdout(&output)
}

fn fifty_settings(place: &Place, how: &str) {
    git(place, &["init", "-q"]);
    let mut watched = Watched::start(place, ".git/config", how, 50);
    for number in 0..50 {
        git(place, &["config", "test.number", &number.to_string()]);
        watched.replaced(number);
    }
    let said = watched.end();
    assert!(said.contains(&format!("`.git/config` {COVERED}")), "{said}");
    assert_eq!(git(place, &["config", "test.number"]), "49\n");
}

// SPEC Y1
fn settings_of_git_are_private_again_after_each_of_fifty_changes(place: &Place) {
    fifty_settings(place, "linked");
}

// SPEC Y1
fn settings_of_git_are_read_only_again_after_each_of_fifty_changes(place: &Place) {
    policy(place, "ro = ['.git/config']");
    fifty_settings(place, "read-only");
}

/// The run generates the `info/exclude` that git inside reads instead of the host's file.
// SPEC Y1
fn a_generated_file_is_read_only_again(place: &Place) {
    git(place, &["init", "-q"]);
    write(place, ".env", "secret");
    let mut watched = Watched::start(place, ".git/info/exclude", "read-only", 1);
    rename(place, ".git/info/exclude", "*.log\n");
    watched.replaced(0);
    assert!(watched.end().contains(&format!("`.git/info/exclude` {COVERED}")));
}

/// At first the command reads an empty file. The new mask refuses to be opened instead.
// SPEC Y1
fn a_file_that_reads_as_empty_is_hidden(place: &Place) {
    place.write(place.home().join(".pypirc"), "password = canary");
    let file = place.home().join(".pypirc");
    let script = format!(
        "cat {0}; touch started; until [ -e go ]; do sleep 0.01; done; while cat {0}; do sleep 0.01; done",
        file.display()
    );
    let mut child =
        sandbox(place).args(["--", "sh", "-c", &script]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !place.project().join("started").exists() {
        assert!(child.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(2));
    }
    place.write(place.home().join("new"), "password = canary");
    fs::rename(place.home().join("new"), &file).unwrap();
    write(place, "go", "");
    let output = child.wait_with_output().unwrap();
    assert!(stderr(&output).contains("Permission denied"), "{}", stderr(&output));
}

/// The command cannot write to the folder of the secret, but a program of the host may replace it.
// SPEC Y1
fn a_secret_in_a_read_only_home_is_hidden_again(place: &Place) {
    place.write(place.home().join("notes/secret"), "first");
    policy(place, "exclude = ['~/notes/secret']");
    let path = place.home().join("notes/secret");
    let mut watched = Watched::start(place, path.to_str().unwrap(), "hidden", 1);
    place.write(place.home().join("notes/new"), "second");
    fs::rename(place.home().join("notes/new"), &path).unwrap();
    watched.replaced(0);
    let said = watched.end();
    assert!(said.contains(COVERED), "{said}");
}

// SPEC Y2
fn a_file_that_became_something_else_is_hidden(place: &Place) {
    let at = |name: &str| place.project().join(name);
    policy(place, "ro = ['settings']\nexclude = ['key']");
    for path in ["settings", "key"] {
        for kind in ["symlink", "fifo", "directory", "socket"] {
            for name in ["started", "replaced-0", "covered-0", "end"] {
                let _ = fs::remove_file(at(name));
            }
            let _ = fs::remove_dir_all(at("settings"));
            for file in ["settings", "key", "target"] {
                let _ = fs::remove_file(at(file));
                let _ = fs::remove_dir_all(at(file));
                write(place, file, "content");
            }
            let how = if path == "key" { "hidden" } else { "read-only" };
            let mut watched = Watched::start(place, path, how, 0);
            fs::remove_file(at(path)).unwrap();
            match kind {
                "symlink" => symlink("target", at(path)).unwrap(),
                "directory" => write(place, format!("{path}/in"), "content"),
                "socket" => drop(std::os::unix::net::UnixListener::bind(at(path)).unwrap()),
                _ => assert!(Command::new("mkfifo").arg(at(path)).status().unwrap().success()),
            }
            watched.until("warned of", |watched| {
                watched.said().contains(COVERED) || watched.said().contains("hidden now")
            });
            let said = watched.end();
            let is_told =
                path == "key" && kind != "directory" || said.contains("hidden now, because it is no regular file");
            assert!(is_told, "{path} {kind}: {said}");
        }
    }
}

/// vim renames the old file together with its mount, and then creates a new file.
// SPEC Y1
fn a_file_that_vim_moves_away_is_covered_again(place: &Place) {
    write(place, ".env", "original");
    policy(place, "exclude = ['.env']");
    let mut watched = Watched::start(place, ".env", "hidden", 1);
    fs::rename(place.project().join(".env"), place.project().join(".env~")).unwrap();
    write(place, ".env", "newer");
    fs::remove_file(place.project().join(".env~")).unwrap();
    watched.replaced(0);
    assert!(watched.end().contains(&format!("`.env` {COVERED}")));
}

// SPEC Y4
fn a_replacement_is_noted_at_once_and_reported(place: &Place) {
    write(place, ".env", "original");
    policy(place, "exclude = ['.env']");
    let mut watched = Watched::start(place, ".env", "hidden", 1);
    rename(place, ".env", "newer");
    let told = format!("[replaced-during-run]: `.env` {COVERED} it again\n");
    watched.until("noted", |watched| watched.said() == format!("note{told}"));
    watched.replaced(0);
    let said = watched.end();
    assert!(said.starts_with(&format!("note{told}")), "{said}");
    assert_eq!(said.matches(&format!("warning{told}")).count(), 1, "{said}");
    assert_eq!(said.matches("help:").count(), 1, "{said}");
    let output = place.agent_sandbox().args(["report", "--last", "--json"]).output().unwrap();
    assert!(stdout(&output).contains(COVERED), "{}", stdout(&output));
}

/// The run shows its report after the program has ended.
// SPEC Y4
fn a_program_that_draws_on_the_terminal_is_not_disturbed(place: &Place) {
    write(place, ".env", "original");
    policy(place, "exclude = ['.env']");
    let program = r#"
import os, pty, sys, termios, time, tty
pid, master = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
inside, text = False, b""
tty.setraw(master)
while True:
    try:
        piece = os.read(master, 4096)
    except OSError:
        break
    if not piece:
        break
    text += piece
    if b"drawing" in text and not inside:
        inside = True
        with open("new", "w") as file:
            file.write("newer")
        os.rename("new", ".env")
        open("replaced", "x").close()
os.waitpid(pid, 0)
sys.stdout.buffer.write(text)
"#;
    let script = "stty raw; echo drawing; until [ -e replaced ]; do sleep 0.01; done
                  while cat .env 2>/dev/null; do sleep 0.01; done; stty cooked; echo drawn";
    let mut command = place.command("/usr/bin/python3");
    command.args(["-I", "-c", program]).arg(crate::support::binary());
    if place.uid == 0 {
        command.arg("--allow-root");
    }
    let output = command.args(["--", "sh", "-c", script]).output().unwrap();
    let text = stdout(&output);
    let (during, after) = text.split_once("drawn").unwrap_or_else(|| panic!("{text}{}", stderr(&output)));
    assert!(!during.contains("replaced-during-run") && after.contains(COVERED), "{text}");
}

// SPEC Y5
fn without_inotify_a_warning_says_so_and_the_report_names_the_file(place: &Place) {
    write(place, ".env", "original");
    policy(place, "exclude = ['.env']");
    let mut command = place.command("unshare");
    let limit = "echo 0 >/proc/sys/user/max_inotify_instances && exec \"$@\"";
    command.args(["--user", "--map-root-user", "sh", "-c", limit, "sh"]).arg(crate::support::binary());
    let watched = Watched::start_with(place, command.arg("--allow-root"), ".env", "hidden", 0);
    let warning = "warning[not-covered-again]: protected files are not covered again if the host replaces them";
    assert!(watched.said().contains(warning), "{}", watched.said());
    rename(place, ".env", "newer");
    let said = watched.end();
    assert!(
        said.contains("`.env` was replaced on the host during the run, and open to the command from then on"),
        "{said}"
    );
}

// SPEC Y5
fn without_a_supervisor_nothing_is_covered_again(place: &Place) {
    for flag in ["--exec", "--no-guard"] {
        for name in ["started", "go"] {
            let _ = fs::remove_file(place.project().join(name));
        }
        write(place, ".env", "original");
        policy(place, "exclude = ['.env']");
        let script = "touch started; until [ -e go ]; do sleep 0.01; done; cat .env";
        let mut command = sandbox(place);
        command.args([flag, "--", "sh", "-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        while !place.project().join("started").exists() {
            assert!(child.try_wait().unwrap().is_none());
            std::thread::sleep(Duration::from_millis(2));
        }
        rename(place, ".env", "newer");
        write(place, "go", "");
        let output = child.wait_with_output().unwrap();
        assert_eq!(stdout(&output), "newer", "{flag}: {}", stderr(&output));
    }
}

/// A command can create any number of directories with protected files. The run watches those near
/// the root, and warns about the others.
// SPEC Y5
fn beyond_the_watched_directories_a_warning_says_so(place: &Place) {
    write(place, ".env", "original");
    for number in 0..1030 {
        let directory = place.project().join("deep").join(number.to_string());
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(".env"), "").unwrap();
    }
    policy(place, "exclude = ['**/.env']");
    let mut watched = Watched::start(place, ".env", "hidden", 1);
    let said = watched.said();
    assert!(said.starts_with("warning[not-covered-again]: protected files"), "{said}");
    assert!(said.contains("more than 1024 directories"), "{said}");
    rename(place, ".env", "newer");
    watched.replaced(0);
    let said = watched.end();
    assert!(said.contains(&format!("`.env` {COVERED}")), "{said}");
}
