//! What the README shows of `lint` and `init` is what they print.

use super::document;
use super::markdown::blocks;
use super::support::{Place, stdout};

/// The project of the README.
fn shop() -> Place {
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

fn assert_shown(command: &str) {
    let place = shop();
    let output = place.agent_sandbox().args(command.split(' ').skip(1)).output().unwrap();
    let project = place.project();
    let printed = stdout(&output).replace(project.to_str().unwrap(), "/home/ada/shop");
    let printed = printed.replace(place.home().to_str().unwrap(), "/home/ada");
    let start = format!("$ {command}\n");
    let readme = document("README.md");
    let block = blocks(&readme).into_iter().find(|block| block.text.starts_with(&start));
    let block = block.unwrap_or_else(|| panic!("README.md has no block that begins with `{start}`"));
    assert!(block.text[start.len()..] == printed, "README.md:{}: the output is stale:\n{printed}", block.line);
}

#[test]
fn the_findings_in_the_readme_are_those_of_the_binary() {
    assert_shown("agent-sandbox lint");
}

#[test]
fn the_proposal_in_the_readme_is_that_of_the_binary() {
    assert_shown("agent-sandbox init --stdout");
}
