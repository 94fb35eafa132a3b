//! The grants of the project's own file.

use std::os::unix::fs::PermissionsExt;

use agent_sandbox::audit::consents::consents;
use agent_sandbox::compile::request::Request;
use agent_sandbox::diagnostic::{Code, Diagnostic};
use agent_sandbox::trust::{self, Judged};

use crate::support::Tree;
use crate::{one, tree};

const WIDENS: &str = "network = true\n\n[filesystem]\npresets = [\"!@secrets\"]\nrw = [\"~/data\"]\n";

cases! {
    UntrustedPolicy a_file_that_opens_something_needs_consent one(refusal(&widening(WIDENS)));
    UntrustedPolicy a_file_that_has_changed_needs_consent_anew {
        let tree = widening(WIDENS);
        agree(&tree);
        tree.add(&format!("home/u/proj/.agent-sandbox.toml = {WIDENS}# more\n"));
        one(refusal(&tree))
    };
    UntrustedPolicy more_than_was_agreed_to_needs_consent_anew {
        let tree = widening(WIDENS);
        agree(&tree);
        tree.add("home/u/.aws/credentials");
        one(refusal(&tree))
    };
    UntrustedPolicy a_damaged_record_is_no_consent {
        let tree = widening(WIDENS);
        let record = agree(&tree);
        tree.add(&format!("{record} = {{}}"));
        one(refusal(&tree))
    };
    WideningPolicy commands_that_start_nothing_warn_with_the_same_list {
        let tree = widening(WIDENS);
        let judged = judged(&tree);
        one(judged.warning(&tree.host()).unwrap())
    };
    TrustFailed consent_that_cannot_be_recorded_says_where {
        let tree = widening(WIDENS);
        tree.add("home/u/.local/state/agent-sandbox");
        let judged = judged(&tree);
        one(trust::record(&tree.host(), &judged.compiled.layers, &judged.widening.unwrap()).unwrap_err())
    };
    TrustFailed consent_that_cannot_be_revoked_says_where {
        let tree = widening(WIDENS);
        agree(&tree);
        let judged = judged(&tree);
        let (state, file) = (judged.compiled.layers.state, judged.widening.unwrap().file);
        open_to_others(&tree, "home/u/.local/state/agent-sandbox/trust");
        one(trust::revoke(&tree.host(), &state, &file).unwrap_err())
    };
    TrustFailed consents_that_cannot_be_trusted_are_not_listed {
        let tree = widening(WIDENS);
        agree(&tree);
        open_to_others(&tree, "home/u/.local/state/agent-sandbox");
        one(consents(&tree.host(), &judged(&tree).compiled.layers.state).unwrap_err())
    };
}

fn open_to_others(tree: &Tree, path: &str) {
    std::fs::set_permissions(tree.real(path), std::fs::Permissions::from_mode(0o777)).unwrap();
}

fn widening(text: &str) -> Tree {
    let tree = tree(["home/u/data/", "home/u/.ssh/", "home/u/proj/.env"]);
    tree.add("home/u/.config/agent-sandbox/config.toml = network = false\n");
    tree.add(&format!("home/u/proj/.agent-sandbox.toml = {text}"));
    tree
}

fn judged(tree: &Tree) -> Judged {
    tree.judge("/home/u/proj", &Request::default()).0.unwrap()
}

fn refusal(tree: &Tree) -> Diagnostic {
    let judged = judged(tree);
    judged.refusal(&tree.host()).unwrap()
}

/// Records the consent, and returns the path of the record.
fn agree(tree: &Tree) -> String {
    let judged = judged(tree);
    trust::record(&tree.host(), &judged.compiled.layers, &judged.widening.unwrap()).unwrap().to_string()
}
