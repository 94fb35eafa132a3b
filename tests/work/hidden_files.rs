//! Tools work in a folder with a hidden file, because they skip files that are not regular.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::fs::{FlockOperation, flock};

use crate::sandbox::{sandbox, write};
use crate::support::{Place, build_folder, stderr, stdout};
use crate::{inside, need, output_inside, outside, prepared, succeeded};

everywhere!(
    vite_builds,
    the_dev_server_of_vite_runs_and_does_not_restart,
    settings_are_loaded_in_python,
    the_project_is_copied_and_archived,
    a_write_to_dev_null_wakes_no_watcher,
    a_hidden_file_can_be_neither_used_nor_replaced,
    a_hidden_file_cannot_be_read_without_a_state_folder,
);
for_both!(git_stages_nothing_beside_a_tracked_hidden_file, git_cannot_stash_a_hidden_file_and_loses_nothing);

const ENV: &str = "VITE_KEY=hidden-value\n";
const ENV_LOCAL: &str = "VITE_KEY=other-hidden-value\n";

fn hidden_files(place: &Place) {
    write(place, ".env", ENV);
    write(place, ".env.local", ENV_LOCAL);
}

#[track_caller]
fn are_unchanged_outside(place: &Place) {
    assert_eq!(outside(place, "cat .env .env.local"), format!("{ENV}{ENV_LOCAL}"));
}

/// Runs a script that installs tools in a folder below the build folder, once for all tests. The
/// sandbox shows the folder read-only.
fn installed(name: &str, script: &str) -> PathBuf {
    let folder = build_folder().join(format!("tools-{name}"));
    let lock = File::create(build_folder().join(format!("tools-{name}.lock"))).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let is_complete = folder.join("complete");
    if !is_complete.exists() {
        if folder.exists() {
            fs::remove_dir_all(&folder).unwrap();
        }
        fs::create_dir(&folder).unwrap();
        let output = Command::new("sh")
            .args(["-ec", &format!("umask 022; chmod 755 .; {script}")])
            .current_dir(&folder)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "this test installs {name} with the network, and that failed:\n{}{}",
            stdout(&output),
            stderr(&output)
        );
        fs::write(is_complete, "").unwrap();
    }
    folder
}

/// The program of Vite, for a script.
fn vite() -> String {
    need("node");
    need("npm");
    let install = "echo '{ \"private\": true }' >package.json
                   npm install --no-audit --no-fund --no-package-lock --ignore-scripts vite@7.3.8";
    installed("vite-7.3.8", install).join("node_modules/vite/bin/vite.js").display().to_string()
}

/// A Python with the two packages with which most projects load `.env`.
fn python_with_settings() -> String {
    let install = "/usr/bin/python3 -m venv venv
                   venv/bin/pip install --disable-pip-version-check --only-binary :all: \
                       python-dotenv==1.2.4 pydantic-settings==2.16.3 pydantic==2.14.3";
    installed("settings-2.16.3", install).join("venv/bin/python").display().to_string()
}

fn web_project(place: &Place) {
    hidden_files(place);
    write(place, "package.json", r#"{ "private": true, "type": "module" }"#);
    write(place, "index.html", "<!doctype html><title>x</title><script type=module src=/main.js></script>\n");
    write(place, "main.js", "import './one.js'; import './two.js'; document.title = import.meta.env.VITE_KEY;\n");
    write(place, "one.js", "console.log(1);\n");
    write(place, "two.js", "console.log(2);\n");
}

// SPEC B4
fn vite_builds(place: &Place) {
    web_project(place);
    inside(place, &format!("node {} build", vite()));
    assert_eq!(outside(place, "ls dist; ! grep -r hidden-value dist"), "assets\nindex.html\n");
    are_unchanged_outside(place);
}

/// If the mask were `/dev/null`, each write of any process to `/dev/null` would restart the server.
// SPEC B4
fn the_dev_server_of_vite_runs_and_does_not_restart(place: &Place) {
    web_project(place);
    write(place, "dev_server.py", include_str!("dev_server.py"));
    inside(place, &format!("exec /usr/bin/python3 dev_server.py {}", vite()));
    are_unchanged_outside(place);
}

// SPEC B4
fn settings_are_loaded_in_python(place: &Place) {
    hidden_files(place);
    write(
        place,
        "settings.py",
        r#"
import dotenv
from pydantic_settings import BaseSettings, SettingsConfigDict

class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_file=(".env", ".env.local"), extra="ignore")
    vite_key: str = "default"

class OneFile(Settings):
    model_config = SettingsConfigDict(env_file=".env")

print(dotenv.load_dotenv(), dotenv.load_dotenv(".env"))
print(dict(dotenv.dotenv_values()), dict(dotenv.dotenv_values(".env")))
print(Settings().vite_key, OneFile().vite_key)
"#,
    );
    let python = python_with_settings();
    assert_eq!(inside(place, &format!("{python} settings.py")), "False False\n{} {}\ndefault default\n");
    assert_eq!(
        outside(place, &format!("{python} settings.py")),
        "True True\n{'VITE_KEY': 'hidden-value'} {'VITE_KEY': 'hidden-value'}\nhidden-value hidden-value\n",
        "outside of the sandbox, the same program finds the values"
    );
}

// SPEC B4
fn the_project_is_copied_and_archived(place: &Place) {
    hidden_files(place);
    write(place, "src/file", "text");
    let copied = inside(place, "cp -r . /tmp/copy; cat /tmp/copy/src/file; ! grep -rs hidden-value /tmp/copy");
    assert_eq!(copied, "text");
    let archived = inside(place, "tar cf /tmp/x.tar .; tar tf /tmp/x.tar | grep -e file -e env");
    assert_eq!(archived, "./src/file\n");
}

/// inotify watches an inode, and all processes of the machine write to the inode of `/dev/null`.
/// Events are ordered: if the first event is that of the sentinel, no earlier write caused one.
// SPEC B4
fn a_write_to_dev_null_wakes_no_watcher(place: &Place) {
    const WATCH: [&str; 4] = ["/usr/bin/python3", "-I", "-c", include_str!("watch.py")];
    hidden_files(place);
    let start = |command: &mut Command, arguments: &[&str]| {
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut command = sandbox(place);
    prepared(&mut command).args(["--network=false", "--"]).args(WATCH);
    // A start may create placeholders in the project, so the host's watcher begins after it.
    let mut inside = start(&mut command, &["inside", "sentinel", ".", ".env", ".env.local"]);
    is_ready(&mut inside);
    let mut command = place.command(WATCH[0]);
    let mut host = start(command.args(&WATCH[1..]), &["host", ".", ".env", ".env.local"]);
    is_ready(&mut host);
    let inside = succeeded(inside.wait_with_output().unwrap());
    assert_eq!(inside, "cannot watch .env: EACCES\ncannot watch .env.local: EACCES\ncreated sentinel\n");
    assert_eq!(succeeded(host.wait_with_output().unwrap()), "created sentinel\n");
}

/// Waits for the first line of a child.
#[track_caller]
fn is_ready(child: &mut Child) {
    let mut line = String::new();
    // The child sends no byte after this line until the test closes its input.
    BufReader::with_capacity(1, child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
}

// SPEC B4
fn a_hidden_file_can_be_neither_used_nor_replaced(place: &Place) {
    hidden_files(place);
    write(place, "file", "");
    write(
        place,
        "use.py",
        r#"
import errno, os, socket

def connect(kind):
    with socket.socket(socket.AF_UNIX, kind) as s: s.connect(".env")

for name, use in {
    "read": lambda: open(".env"),
    "write": lambda: open(".env", "w"),
    "append": lambda: open(".env", "a"),
    "list": lambda: os.listdir(".env"),
    "rm": lambda: os.unlink(".env"),
    "mv": lambda: os.rename(".env", "moved"),
    "mv onto": lambda: os.rename("file", ".env"),
    "chmod": lambda: os.chmod(".env", 0o600),
    "chown": lambda: os.chown(".env", os.getuid(), os.getgid()),
    "touch": lambda: os.utime(".env"),
    "connect": lambda: connect(socket.SOCK_STREAM),
    "connect datagram": lambda: connect(socket.SOCK_DGRAM),
}.items():
    try:
        use()
        print(name, "ok")
    except OSError as e:
        print(name, errno.errorcode[e.errno])
print(os.path.exists(".env"), os.path.isfile(".env"), os.path.isdir(".env"), oct(os.stat(".env").st_mode & 0o7777))
"#,
    );
    let found = inside(place, "/usr/bin/python3 use.py");
    let expected = "read EACCES\nwrite EACCES\nappend EACCES\nlist ENOTDIR\nrm EBUSY\nmv EBUSY\nmv onto EBUSY\n\
                    chmod EROFS\nchown EROFS\ntouch EROFS\nconnect EACCES\nconnect datagram EACCES\n\
                    True False False 0o0\n";
    assert_eq!(found, expected);
    for command in ["cat .env", "rm -f .env", "mv .env moved", "chmod 600 .env", "cp .env copied"] {
        assert!(!output_inside(place, command).status.success(), "{command}");
    }
    are_unchanged_outside(place);
}

/// Without a state folder for the mask, the mask is `/dev/null` on a mount with `nodev`.
// SPEC B4
fn a_hidden_file_cannot_be_read_without_a_state_folder(place: &Place) {
    hidden_files(place);
    place.write("home/file", "");
    let mut command = sandbox(place);
    prepared(&mut command).env("XDG_STATE_HOME", place.home().join("file/none"));
    let script = "for file in .env .env.local; do ! cat $file || exit; ! echo x >>$file || exit; done";
    // `@caches` would create placeholders for programs of this machine.
    let flags = ["--preset", "!caches", "--network=false", "--", "sh", "-c", script];
    let output = command.args(flags).output().unwrap();
    let said = stderr(&output);
    for file in [".env", ".env.local"] {
        assert!(said.contains(&format!("cat: {file}: Permission denied")), "{}: {said}", output.status);
    }
    assert_eq!(succeeded(output), "");
    are_unchanged_outside(place);
}

const INIT: &str = "git init -q -b main; echo one >file; echo secret >key; git add file key; git commit -qm first";
/// The contents of HEAD and of the index, the stashes, and the hidden file.
const STATE: &str = "git rev-parse HEAD^{tree}; git ls-files -s; git stash list; cat key; git fsck --no-dangling 2>&1";

/// The mask is a socket, which git does not add. So no command commits it in place of the file.
// SPEC B4
fn git_stages_nothing_beside_a_tracked_hidden_file(place: &Place) {
    outside(place, INIT);
    let before = outside(place, STATE);
    outside(place, "echo two >>file; echo new >new");
    for command in ["git add -A", "git add .", "git add key", "git commit -qam second", "git stash -q", "git stash -uq"]
    {
        let mut sandbox = sandbox(place);
        prepared(&mut sandbox).args(["--network=false", "--exclude", "key", "--", "sh", "-ec", command]);
        let output = sandbox.output().unwrap();
        let said = stderr(&output);
        assert!(!output.status.success() && said.contains("key"), "{command}: {} {said}", output.status);
        outside(place, "git diff --cached --quiet");
        assert_eq!(outside(place, STATE), before, "{command}");
        assert_eq!(outside(place, "cat file new; git status -s"), "one\ntwo\nnew\n M file\n?? new\n", "{command}");
    }
}

/// A known limit: `git stash -a` also saves ignored files, and git cannot store the mask, a socket.
/// The command fails before it changes the work tree or the index.
// SPEC B4
fn git_cannot_stash_a_hidden_file_and_loses_nothing(place: &Place) {
    outside(place, INIT);
    hidden_files(place);
    let before = outside(place, STATE);
    outside(place, "echo two >>file; echo new >new");
    let output = output_inside(place, "git stash -a");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("Cannot save the untracked files"), "{}", stderr(&output));
    outside(place, "git diff --cached --quiet");
    assert_eq!(outside(place, STATE), before);
    assert_eq!(outside(place, "cat file new"), "one\ntwo\nnew\n");
    assert_eq!(outside(place, "git status -s"), " M file\n?? .env\n?? .env.local\n?? new\n");
    are_unchanged_outside(place);
    // Without `-a`, git leaves the hidden files out of the stash.
    inside(place, "git stash -uq; test ! -e new; git stash pop -q; test -e new");
    are_unchanged_outside(place);
}
