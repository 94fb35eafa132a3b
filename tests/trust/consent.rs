use agent_sandbox::compile::request::Request;
use agent_sandbox::trust;

use crate::support::Tree;
use crate::{FILE, compiled, tree, user};

/// Records consent to the grants of the file with these flags.
fn agree(tree: &Tree, request: &Request) {
    let compiled = compiled(tree, "/home/u/proj", request);
    trust::record(&tree.host(), &compiled.compiled.layers, &compiled.widening.unwrap()).unwrap();
}

/// The grants for which a run with these flags is refused.
fn refused(tree: &Tree, request: &Request) -> Vec<String> {
    let compiled = compiled(tree, "/home/u/proj", request);
    let refusal = compiled.refusal(&tree.host());
    refusal.map(|refusal| refusal.details.notes).unwrap_or_default()
}

fn without_data() -> Request {
    Request { exclude: vec!["/home/u/data".into()], ..Request::default() }
}

// SPEC T6
#[test]
fn consent_holds_for_what_was_agreed_to_and_for_less() {
    let tree = tree();
    tree.add(&format!("{FILE} = [filesystem]\nrw = ['~/data', '~/vault', '~/data/sub']\n"));
    assert_eq!(refused(&tree, &Request::default()).len(), 2);
    agree(&tree, &Request::default());
    assert_eq!(refused(&tree, &Request::default()), [""; 0]);
    // The user's own file now opens one of the paths.
    user(&tree, "[filesystem]\nrw = ['~/data']\n");
    assert_eq!(refused(&tree, &Request::default()), [""; 0]);
    user(&tree, "[filesystem]\nexclude = ['~/vault']\n");
    assert_eq!(
        refused(&tree, &Request::default()),
        ["`/home/u/vault`: hidden → writable (.agent-sandbox.toml:2:17)"],
        "the path was not hidden when the user agreed"
    );
}

/// The file opens different paths with different flags.
// SPEC T6
#[test]
fn consents_to_the_same_content_add_up() {
    let tree = tree();
    tree.add(&format!("{FILE} = [filesystem]\nrw = ['~/data/sub', '~/vault']\n"));
    agree(&tree, &without_data());
    assert_eq!(refused(&tree, &without_data()), [""; 0]);
    agree(&tree, &Request::default());
    for request in [without_data(), Request::default()] {
        assert_eq!(refused(&tree, &request), [""; 0]);
    }
    tree.add(&format!("{FILE} = [filesystem]\nrw = ['~/data/sub', '~/vault'] # more\n"));
    assert_eq!(refused(&tree, &Request::default()).len(), 2, "consent covers only the content of the file then");
    agree(&tree, &Request::default());
    assert_eq!(
        refused(&tree, &without_data()),
        ["`/home/u/data/sub`: hidden → writable (.agent-sandbox.toml:2:7)"],
        "consent to earlier content is forgotten"
    );
}

#[test]
fn consent_is_for_one_file() {
    let tree = tree();
    let text = "[filesystem]\nrw = ['~/data']\n";
    tree.add(&format!("{FILE} = {text}"));
    tree.add(&format!("home/u/other/.agent-sandbox.toml = {text}"));
    agree(&tree, &Request::default());
    let other = compiled(&tree, "/home/u/other", &Request::default());
    assert!(other.refusal(&tree.host()).is_some());
}

#[test]
fn a_match_that_is_new_was_not_agreed_to() {
    let tree = tree();
    tree.add(&format!("{FILE} = [filesystem]\nrw = ['~/data/s*']\npresets = ['!@secrets']\n"));
    agree(&tree, &Request::default());
    assert_eq!(refused(&tree, &Request::default()), [""; 0]);
    tree.add("home/u/data/second/");
    tree.add("home/u/proj/.env.local");
    assert_eq!(
        refused(&tree, &Request::default()),
        [
            "`/home/u/data/second`: read-only → writable (.agent-sandbox.toml:2:7)",
            "`/home/u/proj/.env.local`: hidden → writable (.agent-sandbox.toml:3:12)",
        ]
    );
}

/// A record that cannot be read now may be a valid consent later, so it must be removed, too.
// SPEC T10
#[test]
fn consent_that_cannot_be_read_ends_with_its_file() {
    let tree = tree();
    tree.add(&format!("{FILE} = [filesystem]\nrw = ['~/data']\n"));
    agree(&tree, &Request::default());
    let layers = compiled(&tree, "/home/u/proj", &Request::default()).compiled.layers;
    let folder = tree.real("home/u/.local/state/agent-sandbox/trust");
    let record = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    std::fs::rename(&record, folder.join("aside")).unwrap();
    std::os::unix::fs::symlink("aside", &record).unwrap();
    let file = agent_sandbox::policy::AbsPath::root().join(FILE);
    trust::end_consent(&tree.host(), &layers, &file).unwrap();
    assert!(record.symlink_metadata().is_err());
    // Without a record, ending consent succeeds.
    trust::end_consent(&tree.host(), &layers, &file).unwrap();
}
