//! Random sequences of operations, over a tree that the sandbox reaches through a bind or a private
//! `/tmp`.

use std::cell::RefCell;
use std::collections::BTreeSet;

use agent_sandbox::model::ModelError;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::TestRunner;

use crate::sandbox::{BASE, model, strings};
use crate::tree::Tree;

#[derive(Clone, Debug)]
enum Step {
    BindDirectory { flag: &'static str, source: Index, dest: Index },
    BindFile { flag: &'static str, source: Index, dest: Index },
    BindMissing { flag: &'static str, dest: Index },
    MaskFile { dest: Index },
    Tmpfs { size: Option<&'static str>, perms: Option<&'static str>, dest: Index },
    Directory { perms: Option<&'static str>, dest: Index },
    Symlink { dest: Index },
    RemountReadOnly { tmpfs: Index },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bind = || select(vec!["--bind", "--ro-bind", "--bind-try", "--ro-bind-try", "--dev-bind-try"]);
    let perms = || {
        let closed = vec![Some("0000"), Some("0500"), Some("0300"), Some("0600"), Some("0070")];
        let open = vec![None, Some("0111"), Some("0700"), Some("1777"), Some("0711")];
        prop_oneof![1 => select(closed), 3 => select(open)]
    };
    let size = select(vec![None, Some("1048576")]);
    let index = any::<Index>;
    let step = prop_oneof![
        6 => (bind(), index(), index())
            .prop_map(|(flag, source, dest)| Step::BindDirectory { flag, source, dest }),
        2 => (bind(), index(), index())
            .prop_map(|(flag, source, dest)| Step::BindFile { flag, source, dest }),
        1 => (bind(), index()).prop_map(|(flag, dest)| Step::BindMissing { flag, dest }),
        2 => index().prop_map(|dest| Step::MaskFile { dest }),
        5 => (size, perms(), index()).prop_map(|(size, perms, dest)| Step::Tmpfs { size, perms, dest }),
        3 => (perms(), index()).prop_map(|(perms, dest)| Step::Directory { perms, dest }),
        3 => index().prop_map(|dest| Step::Symlink { dest }),
        3 => index().prop_map(|tmpfs| Step::RemountReadOnly { tmpfs }),
    ];
    prop::collection::vec(step, 1..14)
}

/// The argv of some steps, without steps that the model intentionally does not support.
fn flags_of(tree: &Tree, base: &[&'static str], steps: &[Step]) -> Vec<String> {
    let mut flags = strings(base);
    let mut tmpfs_so_far: Vec<String> = Vec::new();
    for step in steps {
        let directory = |dest: &Index| dest.get(&tree.directories).clone();
        let with_perms = |perms: &Option<&str>, flag: &str, dest: &Index| {
            let perms = perms.map(|perms| strings(&["--perms", perms])).unwrap_or_default();
            [perms, strings(&[flag, &directory(dest)])].concat()
        };
        let more = match step {
            Step::BindDirectory { flag, source, dest } => {
                let dest = directory(dest);
                let as_deep = |other: &&String| tree.depth(other) <= tree.depth(&dest);
                let sources: Vec<&String> = tree.directories.iter().filter(as_deep).collect();
                strings(&[flag, source.get(&sources).as_str(), &dest])
            }
            Step::BindFile { flag, source, dest } => {
                let [source, dest] = [source, dest].map(|at| format!("{}/file", directory(at)));
                strings(&[flag, &source, &dest])
            }
            Step::BindMissing { flag, dest } => strings(&[flag, &format!("{}/missing", tree.root), &directory(dest)]),
            Step::MaskFile { dest } => strings(&["--ro-bind", "/dev/null", &format!("{}/file", directory(dest))]),
            Step::Tmpfs { size, perms, dest } => {
                tmpfs_so_far.push(directory(dest));
                let size = size.map(|size| strings(&["--size", size])).unwrap_or_default();
                [size, with_perms(perms, "--tmpfs", dest)].concat()
            }
            Step::Directory { perms, dest } => with_perms(perms, "--dir", dest),
            Step::Symlink { dest } => {
                // The model supports links only on a tmpfs, so links elsewhere would make most
                // sequences useless.
                let on_tmpfs = |other: &&String| tmpfs_so_far.iter().any(|at| other.starts_with(at));
                let mut places: Vec<&String> = tree.directories.iter().filter(on_tmpfs).collect();
                if places.is_empty() {
                    places = tree.directories.iter().collect();
                }
                strings(&["--symlink", "file", &format!("{}/link", dest.get(&places))])
            }
            Step::RemountReadOnly { .. } if tmpfs_so_far.is_empty() => continue,
            Step::RemountReadOnly { tmpfs } => strings(&["--remount-ro", tmpfs.get(&tmpfs_so_far).as_str()]),
        };
        let longer = [flags.clone(), more].concat();
        if !matches!(model(&longer), Err(ModelError::NotModelled { .. })) {
            flags = longer;
        }
    }
    flags
}

fn random_sequences_agree(tree: &Tree, base: &[&'static str]) {
    let met = RefCell::new(BTreeSet::new());
    let config = ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() };
    let result = TestRunner::new(config).run(&steps(), |steps| {
        let views = tree.agree(&flags_of(tree, base, &steps)).map_err(TestCaseError::fail)?;
        met.borrow_mut().extend(views);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    let all = BTreeSet::from([
        "Absent",
        "Fresh, read-only",
        "Fresh, writable",
        "Host, read-only",
        "Host, writable",
        "MaskedFile",
        "Not renamed",
        "Refused",
        "Renamed",
        "Symlink",
        "Unreachable",
    ]);
    assert_eq!(met.into_inner(), all, "the sequences did not lead to each kind of view");
}

#[test]
fn the_model_agrees_about_random_sequences_outside_tmp() {
    random_sequences_agree(&Tree::below("/var/tmp"), &BASE);
}

#[test]
fn the_model_agrees_about_random_sequences_below_a_private_tmp() {
    let base = [&BASE[..], &["--perms", "1777", "--tmpfs", "/tmp"]].concat();
    random_sequences_agree(&Tree::below("/tmp"), &base);
}
