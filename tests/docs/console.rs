//! Every `console` block of the documents shows the output of a real run.
//!
//! A block has one or more examples: a line `$ COMMAND`, and its output. In the output a line `…`
//! matches any number of lines, and `…` inside a line any text. `sh` blocks show commands without
//! output. `DOCS_UPDATE=1 cargo test --test docs console` updates the output of blocks without `…`.

use std::fs;
use std::process::{Command, Output};

use super::answers::answer;
use super::markdown::blocks;
use super::support::{Place, binary, require_bwrap, stdout, write_program};
use super::{document, documents, top};

/// Examples that no test runs, by the beginning of the command, with the reason.
const EXCEPTIONS: [(&str, &str); 2] = [
    ("agent-sandbox doctor", "its answers depend on the machine; `each_documented_line_of_doctor_is_in_a_real_run`"),
    ("agent-sandbox -- claude mcp add", "needs Claude Code; scripts/test-agents runs it"),
];

/// The way in which the output of an example is compared.
#[derive(Clone, Copy)]
enum Compare {
    Text,
    /// Ignores the width of columns, which depends on the paths, and counts, which depend on the
    /// machine.
    Table,
}

/// A command that the documents show, and the home and project in which it runs.
struct Scene {
    command: &'static str,
    place: fn() -> Place,
    compare: Compare,
    code: i32,
}

const fn scene(command: &'static str, place: fn() -> Place) -> Scene {
    Scene { command, place, compare: Compare::Text, code: 0 }
}

const fn table(command: &'static str, place: fn() -> Place) -> Scene {
    Scene { command, place, compare: Compare::Table, code: 0 }
}

const fn fails(code: i32, command: &'static str, place: fn() -> Place) -> Scene {
    Scene { command, place, compare: Compare::Text, code }
}

const SCENES: [Scene; 16] = [
    scene("agent-sandbox -h", Place::in_tmp),
    scene(
        "agent-sandbox -- sh -c 'cat .env; cat ~/.ssh/id_ed25519; echo evil >> .git/hooks/pre-commit; echo evil >> ~/.bashrc; touch built && ls'",
        shop,
    ),
    scene("agent-sandbox --print-args -- make test", shop_with_agent),
    fails(125, "agent-sandbox -- make", opening),
    fails(1, "agent-sandbox check", misspelt),
    table("agent-sandbox diff git:HEAD", changed),
    table("agent-sandbox verify", shop),
    scene("agent-sandbox init --stdout", careless),
    fails(1, "agent-sandbox lint", careless),
    scene("agent-sandbox trust --list", agreed),
    scene("agent-sandbox -- codex", with_codex),
    scene("agent-sandbox -- sh -c 'echo export A=1 > .envrc'", shop),
    scene("agent-sandbox report --last", reported),
    table("agent-sandbox private list", with_copy),
    scene("agent-sandbox private show", with_copy),
    scene("agent-sandbox sweep", shop),
];

/// Ada's project: a repository, a secret, a policy.
fn shop() -> Place {
    let place = Place::outside_tmp();
    let policy = "[filesystem]\nexclude = [\"deploy/keys\"]\nro = [\"deploy\"]\n";
    for (file, text) in [
        ("code/project/.agent-sandbox.toml", policy),
        ("code/project/.env", "PASSWORD=1\n"),
        ("code/project/deploy/keys/id", "key\n"),
        ("code/project/main.rs", "fn main() {}\n"),
        (".bashrc", "# Ada's\n"),
        (".ssh/id_ed25519", "key\n"),
    ] {
        place.write(format!("home/{file}"), text);
    }
    git(&place, &["init", "-q", "-b", "main"]);
    place.write("home/code/project/.git/hooks/pre-commit", "#!/bin/sh\n");
    place
}

fn shop_with_agent() -> Place {
    let place = shop();
    place.write("home/.claude/hooks/x", "");
    place.write("home/.claude/settings.json", "{}");
    place
}

/// The project's file opens more than the defaults do.
fn opening() -> Place {
    let place = Place::in_tmp();
    let policy = "[filesystem]\nexclude = [\"deploy/keys\"]\nrw = [\"~/team-fixtures\", \"~/.ssh\"]\n";
    place.write("home/code/project/.agent-sandbox.toml", policy);
    place.write("home/team-fixtures/x", "");
    place.write("home/.ssh/id", "");
    place
}

fn agreed() -> Place {
    let place = opening();
    place.trust();
    place
}

fn misspelt() -> Place {
    let place = Place::in_tmp();
    let policy = "[filesystem]\nexcludes = [\"deploy/keys\", \"**/*.pem\"]\n";
    place.write("home/code/project/.agent-sandbox.toml", policy);
    place
}

/// The policy differs from the committed one.
fn changed() -> Place {
    let place = shop();
    let old =
        "network = false\n\n[filesystem]\nro = [\"deploy/keys\", { path = \".envrc\", if-missing = \"block\" }]\n";
    place.write("home/code/project/.agent-sandbox.toml", old);
    git(&place, &["add", ".agent-sandbox.toml"]);
    git(&place, &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "policy", "--no-verify"]);
    let new = "[filesystem]\nexclude = [\"deploy/keys\"]\n\nrw = [\"~/team-fixtures\"]\n";
    place.write("home/code/project/.agent-sandbox.toml", new);
    place.write("home/team-fixtures/x", "");
    place
}

/// A policy with mistakes, and secrets that no rule covers.
fn careless() -> Place {
    let place = Place::in_tmp();
    let policy = "[filesystem]\nexclude = [\"deploy/keyz\", \"app/[id]/**\"]\nro = [\"~/.config\"]\n";
    for (file, text) in [
        ("Cargo.toml", ""),
        ("clippy.toml", ""),
        (".github/workflows/ci.yml", ""),
        (".env", "A=1\n"),
        ("deploy/keys/server.key", "-----BEGIN PRIVATE KEY-----\n"),
        ("app/[id]/page.tsx", ""),
        (".agent-sandbox.toml", policy),
        ("../../.config/x", ""),
    ] {
        place.write(format!("home/code/project/{file}"), text);
    }
    place
}

/// A program called `codex`: the warning depends on the name alone.
fn with_codex() -> Place {
    let place = Place::outside_tmp();
    write_program(&place.home().join("bin/codex"), "#!/bin/sh\n");
    place.give_away();
    place
}

fn reported() -> Place {
    let place = shop();
    run(&place, "agent-sandbox -- sh -c 'echo export A=1 > .envrc'");
    place
}

fn with_copy() -> Place {
    let place = shop();
    run(&place, "agent-sandbox -- git remote add fork ../fork");
    place
}

fn git(place: &Place, args: &[&str]) {
    let output = place.command("git").args(args).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {output:?}");
}

/// Runs a command line of a document. Standard error goes where standard output goes.
pub(super) fn run(place: &Place, command: &str) -> Output {
    let mut shell: Command = place.command("sh");
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", place.home().join("bin").display());
    let arguments = command.strip_prefix("agent-sandbox").unwrap_or_else(|| panic!("`{command}` is another program"));
    shell.env("PATH", path).env("AGENT_SANDBOX_BINARY", binary());
    shell.args([
        "-c",
        &format!("exec 2>&1; binary=$AGENT_SANDBOX_BINARY; unset AGENT_SANDBOX_BINARY; \"$binary\" {arguments}"),
    ]);
    shell.output().unwrap()
}

/// The output, with Ada's paths and user id.
pub(super) fn as_ada(place: &Place, output: &Output) -> String {
    let text = stdout(output).replace(place.project().to_str().unwrap(), "/home/ada/shop");
    let text = text.replace(place.home().to_str().unwrap(), "/home/ada");
    text.replace(&format!("/run/user/{}", place.uid), "/run/user/1000")
}

/// An example of a document.
struct Example {
    /// The document and the line of the block.
    place: String,
    command: String,
    shown: String,
}

impl Example {
    /// Writes `printed` into the document.
    fn replace(&self, printed: &str) {
        let (name, _) = self.place.rsplit_once(':').unwrap();
        let block = |shown: &str| format!("$ {}\n{}", self.command, shown.trim_end()).trim_end().to_owned() + "\n";
        let text = document(name).replacen(&block(&self.shown), &block(printed), 1);
        fs::write(top().join(name), text).unwrap();
    }
}

fn examples() -> Vec<Example> {
    let mut examples = Vec::new();
    for (name, text) in documents() {
        for block in blocks(&text).into_iter().filter(|block| block.language == "console") {
            assert!(block.text.starts_with("$ "), "{name}:{}: a `console` block begins with `$ `", block.line);
            for part in format!("\n{}", block.text).split("\n$ ").skip(1) {
                let (command, shown) = part.split_once('\n').unwrap_or((part, ""));
                let place = format!("{name}:{}", block.line);
                examples.push(Example { place, command: command.to_owned(), shown: shown.to_owned() });
            }
        }
    }
    examples
}

fn exception(command: &str) -> Option<&'static str> {
    EXCEPTIONS.iter().map(|(start, _)| *start).find(|start| command.starts_with(start))
}

fn is_answer(command: &str) -> bool {
    command.starts_with("agent-sandbox explain") || command.starts_with("agent-sandbox show")
}

#[test]
fn every_console_block_is_the_output_of_a_real_run() {
    require_bwrap();
    let examples = examples();
    let mut wrong = Vec::new();
    for example in examples.iter().filter(|example| exception(&example.command).is_none()) {
        let (printed, compare) = if is_answer(&example.command) {
            (answer(&example.command.split(' ').skip(1).collect::<Vec<_>>()), Compare::Text)
        } else {
            let scene = SCENES.iter().find(|scene| scene.command == example.command);
            let Some(scene) = scene else {
                wrong.push(format!("{}: `{}` has no scene, and is no exception", example.place, example.command));
                continue;
            };
            let place = (scene.place)();
            let output = run(&place, scene.command);
            let printed = as_ada(&place, &output);
            assert_eq!(output.status.code(), Some(scene.code), "`{}`:\n{printed}", scene.command);
            (printed, scene.compare)
        };
        if is_shown(&example.shown, &printed, compare) {
            continue;
        }
        let is_whole = matches!(compare, Compare::Text) && !example.shown.contains('…');
        if is_whole && std::env::var_os("DOCS_UPDATE").is_some() {
            example.replace(&printed);
        } else {
            wrong.push(format!("{}: `{}` prints:\n{printed}", example.place, example.command));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_scene_and_every_exception_is_in_a_document() {
    let examples = examples();
    let is_there = |command: &str| examples.iter().any(|example| example.command == command);
    let unused = SCENES.iter().map(|scene| scene.command).filter(|command| !is_there(command));
    assert_eq!(unused.collect::<Vec<_>>(), Vec::<&str>::new());
    for (start, reason) in EXCEPTIONS {
        assert!(examples.iter().any(|example| example.command.starts_with(start)), "`{start}` ({reason})");
    }
}

/// `sh` blocks are for commands alone, because no test would compare their output.
#[test]
fn sh_blocks_show_no_output() {
    for (name, text) in documents() {
        for block in
            blocks(&text).iter().filter(|block| ["sh", "bash", "shell", "terminal"].contains(&&*block.language))
        {
            assert!(block.language == "sh" && !block.text.contains("\n$ "), "{name}:{}", block.line);
            assert!(!block.text.starts_with("$ "), "{name}:{}: a command with a prompt is `console`", block.line);
        }
    }
}

/// A real run of `doctor` has a line about each subject that the documents show.
#[test]
fn each_documented_line_of_doctor_is_in_a_real_run() {
    let output = Place::in_tmp().agent_sandbox().arg("doctor").output().unwrap();
    let subject = |line: &str| {
        let subject = line.get(9..)?.split("  ").next()?.trim().to_owned();
        Some(subject).filter(|subject| !subject.is_empty())
    };
    let asked: Vec<String> = stdout(&output).lines().filter_map(subject).collect();
    for example in examples().iter().filter(|example| example.command == "agent-sandbox doctor") {
        let shown: Vec<String> =
            example.shown.lines().filter(|line| line.starts_with("ok  ")).filter_map(subject).collect();
        assert!(shown.len() > 5);
        for subject in shown {
            assert!(asked.contains(&subject), "{}: `{subject}` is not asked: {asked:?}", example.place);
        }
    }
}

fn is_shown(shown: &str, printed: &str, compare: Compare) -> bool {
    let lines = |text: &str| text.trim_end().lines().map(|line| normalized(line, compare)).collect::<Vec<_>>();
    match_lines(&lines(shown), &lines(printed))
}

fn normalized(line: &str, compare: Compare) -> String {
    match compare {
        Compare::Text => line.trim_end().to_owned(),
        Compare::Table => {
            let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
            let is_count = |word: &str| word.bytes().all(|b| b.is_ascii_digit());
            words.split(' ').map(|word| if is_count(word) { "N" } else { word }).collect::<Vec<_>>().join(" ")
        }
    }
}

fn match_lines(shown: &[String], printed: &[String]) -> bool {
    match shown {
        [] => printed.is_empty(),
        [first, rest @ ..] if first.trim() == "…" => {
            (0..=printed.len()).any(|skip| match_lines(rest, &printed[skip..]))
        }
        [first, rest @ ..] => {
            printed.split_first().is_some_and(|(line, others)| match_line(first, line) && match_lines(rest, others))
        }
    }
}

/// Whether `line` has the pieces of `shown` between its `…`, in their order.
fn match_line(shown: &str, line: &str) -> bool {
    let pieces: Vec<&str> = shown.split('…').collect();
    let [first, middle @ .., last] = pieces.as_slice() else { return shown == line };
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    for piece in middle {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

#[test]
fn ellipses_match_what_they_leave_out_and_nothing_else() {
    let text = Compare::Text;
    for (shown, printed, expected) in [
        ("a\n…\nd\n", "a\nb\nc\nd\n", true),
        ("a\n…\nd\n", "a\nd\n", true),
        ("a\n…\nd\n", "a\nb\n", false),
        ("a\nd\n", "a\nb\nd\n", false),
        ("x … z\n", "x y z\n", true),
        ("x … z\n", "x y\n", false),
        ("a b\n", "a  b\n", false),
        ("\n", "a\n", false),
    ] {
        assert_eq!(is_shown(shown, printed, text), expected, "{shown:?} {printed:?}");
    }
    assert!(is_shown("a b\n90 ok\n", "a     b\n91 ok\n", Compare::Table));
    assert!(!is_shown("a EROFS\n", "a EACCES\n", Compare::Table));
}
