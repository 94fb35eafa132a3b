//! What the README shows of `explain` and `show` is what they answer, on the host that the README is about.

use std::ffi::OsString;

use agent_sandbox::audit::explain::{Explained, Explainer};
use agent_sandbox::audit::show::show;
use agent_sandbox::cli::{self, Folding, Paint};
use agent_sandbox::compile::request::Request;
use agent_sandbox::host::session::Session;

use super::document;
use super::markdown::blocks;
use super::support::{Tree, abs};

/// Ada's machine, as far as it matters.
const HOST: [&str; 12] = [
    "home/ada/.bashrc",
    "home/ada/.cache/",
    "home/ada/.ssh/id_ed25519",
    "home/ada/shop/.agent-sandbox.toml = [filesystem]\nexclude = [\"deploy/keys\", \"**/*.pem\"]\nro = [\"deploy\"]\n",
    "home/ada/shop/.env",
    "home/ada/shop/.git/HEAD = ref: refs/heads/main\n",
    "home/ada/shop/.git/config",
    "home/ada/shop/.git/hooks/",
    "home/ada/shop/.git/objects/",
    "home/ada/shop/.git/refs/heads/main",
    "home/ada/shop/deploy/keys/id",
    "tmp/",
];

fn answer(words: &[&str]) -> String {
    let tree = Tree::new(HOST);
    let env = [("HOME", "/home/ada"), ("PATH", "/usr/bin"), ("SSH_AUTH_SOCK", "/tmp/agent")];
    let session = Session {
        cwd: abs("/home/ada/shop"),
        uid: 1000,
        env: env.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect(),
        executable: Some(abs("/usr/local/bin/agent-sandbox")),
    };
    let (compiled, diagnostics) = tree.compile_as(&session, &Request::default());
    let compiled = compiled.filter(|_| !diagnostics.has_errors()).unwrap();
    match words {
        ["explain", asked @ ..] => {
            let host = tree.host();
            let explainer = Explainer::new(&host, &compiled);
            let paths = asked.iter().map(|asked| explainer.explain(asked.as_ref()).map_err(|d| d.message).unwrap());
            cli::explained(&Explained { paths: paths.collect(), ..Explained::default() }, Paint(false))
        }
        ["show", "--depth", depth] => {
            cli::shown(&show(&compiled), Folding { depth: depth.parse().ok(), ..Folding::default() }, Paint(false))
        }
        words => panic!("what is {words:?}?"),
    }
}

#[test]
fn what_the_readme_shows_of_explain_and_show_is_what_they_answer() {
    let mut count = 0;
    for block in blocks(&document("README.md")) {
        let Some((asked, shown)) = block.text.split_once('\n') else { continue };
        let words: Vec<&str> = asked.strip_prefix("$ agent-sandbox ").unwrap_or_default().split(' ').collect();
        if !["explain", "show"].contains(&words[0]) {
            continue;
        }
        let answer = answer(&words);
        assert!(shown.trim_end() == answer.trim_end(), "README.md:{}: `{asked}` answers:\n{answer}", block.line);
        count += 1;
    }
    assert_eq!(count, 2, "one for each");
}
