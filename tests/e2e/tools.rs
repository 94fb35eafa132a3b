//! Common tools with `@secrets`: a tool that works without a credentials file also works with a
//! hidden one.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::sandbox::{sandbox, succeeded, write};
use crate::support::Place;

for_root!(tools_work_with_their_credentials_hidden, hidden_credentials_are_not_used);

/// Files that `@secrets` hides and one of these tools reads. `.cargo/credentials` is missing
/// because cargo prefers it to `.cargo/credentials.toml`.
const CREDENTIALS: [(&str, &str); 5] = [
    (".cargo/credentials.toml", "[registries.private]\ntoken = \"wrong\"\n"),
    (".netrc", "machine 127.0.0.1 login me password secret\n"),
    (".git-credentials", "https://me:secret@example.org\n"),
    (".pypirc", "[pypi]\nusername = me\npassword = secret\n"),
    (".docker/config.json", "{ \"auths\": {} }"),
];

/// The tools succeed on the host without the files, and in the sandbox with the hidden files.
// SPEC P7
fn tools_work_with_their_credentials_hidden(place: &Place) {
    let registry = Registry::start();
    prepare(place, registry.port);
    let scripts = [
        "cargo fetch -q && cargo build -q --offline && cargo metadata -q --offline --format-version 1 >/dev/null",
        "git -c credential.helper=store clone -q \"file://$PWD/upstream\" \"clone-$$\"",
        "python3 -c 'import urllib.request; urllib.request.urlopen(\"data:,x\").read()'",
        "python3 -c 'import netrc, os; p = os.path.expanduser(\"~/.netrc\"); os.path.exists(p) and netrc.netrc(p)'",
    ];
    for script in scripts {
        succeeded(with_tools(&mut place.command("sh"), "a-token").args(["-ec", script]).output().unwrap());
    }
    for (file, content) in CREDENTIALS {
        write(place, place.home().join(file), content);
    }
    std::fs::remove_dir_all(place.home().join(".cargo/registry")).unwrap();
    // The token looks like a credential, so it passes only by its name (SPEC E11).
    let pass = "[env]\npass = [\"CARGO_REGISTRIES_PRIVATE_TOKEN\"]\n";
    place.write("home/.config/agent-sandbox/config.toml", pass);
    for script in scripts {
        succeeded(with_tools(&mut sandbox(place), "a-token").args(["--", "sh", "-ec", script]).output().unwrap());
    }
}

/// The control: cargo does read its file outside, and cannot read it inside.
fn hidden_credentials_are_not_used(place: &Place) {
    let registry = Registry::start();
    prepare(place, registry.port);
    let right = "[registries.private]\ntoken = \"a-token\"\n";
    write(place, place.home().join(".cargo/credentials.toml"), right);
    let fetch = ["-ec", "cargo fetch -q"];
    let inside = with_tools(&mut sandbox(place), "").args(["--", "sh"]).args(fetch).output().unwrap();
    assert!(!inside.status.success(), "the token is hidden");
    succeeded(with_tools(&mut place.command("sh"), "").args(fetch).output().unwrap());
}

fn prepare(place: &Place, port: u16) {
    let project = place.project();
    let registries = format!(
        "[registries.private]\nindex = \"sparse+http://127.0.0.1:{port}/index/\"\n\
         [registry]\nglobal-credential-providers = [\"cargo:token\"]\n"
    );
    write(place, place.home().join(".cargo/config.toml"), &registries);
    let manifest = "[package]\nname = \"tree\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\
                    [dependencies]\nleaf = { version = \"0.1.0\", registry = \"private\" }\n";
    write(place, project.join("Cargo.toml"), manifest);
    write(place, project.join("src/lib.rs"), "");
    let init = "git init -q upstream && git -C upstream commit -q --allow-empty -m first";
    succeeded(with_tools(&mut place.command("sh"), "").args(["-ec", init]).output().unwrap());
}

/// Adds the toolchain that built the tests, and a token in the environment as CI passes it.
fn with_tools<'c>(command: &'c mut Command, token: &str) -> &'c mut Command {
    let cargo = Path::new(env!("CARGO"));
    let path = format!("{}:/usr/bin:/bin", cargo.parent().unwrap().display());
    command.env("PATH", path).env("GIT_CONFIG_NOSYSTEM", "1");
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "A Tester").env(format!("GIT_{who}_EMAIL"), "tester@example.org");
    }
    if !token.is_empty() {
        command.env("CARGO_REGISTRIES_PRIVATE_TOKEN", token);
    }
    command
}

struct Registry {
    server: Child,
    port: u16,
}

impl Registry {
    fn start() -> Self {
        let mut server = Command::new("/usr/bin/python3")
            .args(["-c", include_str!("private_registry.py")])
            .stdout(Stdio::piped())
            .spawn()
            .expect("these tests need /usr/bin/python3: run scripts/test, which installs it");
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { server, port: line.trim().parse().unwrap() }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }
}
