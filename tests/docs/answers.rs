//! Answers of `explain` and `show` on Ada's machine, the example of the documents.

use std::ffi::OsString;

use agent_sandbox::audit::explain::{Explained, Explainer, variable};
use agent_sandbox::audit::show::show;
use agent_sandbox::cli::{self, Folding, Paint};
use agent_sandbox::compile::request::Request;
use agent_sandbox::host::session::Session;

use super::support::{Tree, abs};

/// The part of Ada's machine that matters.
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

pub fn answer(words: &[&str]) -> String {
    let tree = Tree::new(HOST);
    let env = [("HOME", "/home/ada"), ("PATH", "/usr/bin"), ("SSH_AUTH_SOCK", "/tmp/agent"), ("GITHUB_TOKEN", "x")];
    let session = Session {
        cwd: abs("/home/ada/shop"),
        uid: 1000,
        env: env.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect(),
        executable: Some(abs("/usr/local/bin/agent-sandbox")),
        memory: u64::MAX,
    };
    let (compiled, diagnostics) = tree.compile_as(&session, &Request::default());
    let compiled = compiled.filter(|_| !diagnostics.has_errors()).unwrap();
    match words {
        ["explain", "--env", name] => {
            let variables = vec![variable(&session, &compiled, name.as_ref())];
            cli::explained(&Explained { variables, ..Explained::default() }, Paint(false))
        }
        ["explain", asked @ ..] => {
            let host = tree.host();
            let explainer = Explainer::new(&host, &compiled);
            let paths = asked.iter().map(|asked| explainer.explain(asked.as_ref()).map_err(|d| d.message).unwrap());
            cli::explained(&Explained { paths: paths.collect(), ..Explained::default() }, Paint(false))
        }
        ["show", "--depth", depth] => {
            cli::shown(&show(&compiled), Folding { depth: depth.parse().ok(), ..Folding::default() }, Paint(false))
        }
        words => panic!("{words:?} has no answer here"),
    }
}
