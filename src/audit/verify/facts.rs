//! What a process inside is, whatever the path: its powers, namespaces, variables and descriptors.

use std::collections::BTreeSet;
use std::ffi::OsString;

use schemars::JsonSchema;
use serde::Serialize;

use crate::compile::Compiled;
use crate::compile::lower::Argv;
use crate::model::{Model, Namespace};
use crate::policy::path::AbsPath;
use crate::policy::path_json::Word;

use super::probe::{Process, name_of};
use super::{Outcome, listed};

/// One thing that is true of every process inside.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Fact {
    pub name: String,
    pub expected: String,
    /// What the process found.
    pub kernel: String,
    pub result: Outcome,
    /// Why it cannot be tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Fact {
    fn new(name: &str, expected: impl Into<String>, kernel: impl Into<String>) -> Self {
        let (expected, kernel) = (expected.into(), kernel.into());
        let result = if expected == kernel { Outcome::Ok } else { Outcome::Mismatch };
        Self { name: name.to_owned(), expected, kernel, result, note: None }
    }

    /// Something that must be refused, by whatever error.
    fn refused(name: &str, errno: i32, on_host: Option<i32>) -> Self {
        let kernel = if errno == 0 { "possible".to_owned() } else { name_of(errno) };
        let refused_anyway = on_host.filter(|errno| *errno != 0);
        let result = match (errno, refused_anyway) {
            (0, _) => Outcome::Mismatch,
            (_, Some(_)) => Outcome::NotTestable,
            (_, None) => Outcome::Ok,
        };
        let note = refused_anyway.map(|errno| format!("the host itself refuses: {}", name_of(errno)));
        Self { name: name.to_owned(), expected: "refused".to_owned(), kernel, result, note }
    }
}

pub(super) fn facts(compiled: &Compiled, argv: &Argv, model: &Model, inside: &Process, host: &Process) -> Vec<Fact> {
    let policy = &compiled.policy;
    let status = |name: &str| inside.status.get(name).cloned().unwrap_or_default();
    let mut facts = vec![
        Fact::new(
            "the probe can write, rename and remove in a place of its own",
            "yes",
            match &inside.workshop {
                None => "yes".to_owned(),
                Some(problem) => format!("no: {problem}"),
            },
        ),
        Fact::new("marked as a sandbox", "yes", if inside.marker { "yes" } else { "no" }),
        Fact::new("no new privileges", "1", status("NoNewPrivs")),
        Fact::new("filter of system calls", if has_filter(argv) { "2" } else { "0" }, status("Seccomp")),
        Fact::new("capabilities", "none", capabilities(inside, argv)),
    ];
    facts.extend(namespaces(policy.network.value, model, inside, host));
    facts.push(if policy.nested.value {
        Fact::new(
            "user namespaces of its own",
            "possible",
            match inside.user_namespace {
                0 => "possible".to_owned(),
                errno => name_of(errno),
            },
        )
    } else {
        Fact::refused("user namespaces of its own", inside.user_namespace, None)
    });
    facts.push(unmounting(&inside.unmounts));
    facts.push(Fact::refused("changing the kernel's settings", inside.settings, Some(host.settings)));
    if has_scope(argv) || !policy.network.value {
        facts.push(Fact::refused("abstract sockets of the host", inside.socket, Some(host.socket)));
    }
    facts.push(environment(argv, model, inside));
    facts.push(Fact::new(
        "other descriptors",
        "none",
        match inside.descriptors.as_slice() {
            [] => "none".to_owned(),
            some => some.join(", "),
        },
    ));
    let shown = |path: Option<&AbsPath>| path.map_or_else(|| "unknown".to_owned(), ToString::to_string);
    facts.push(Fact::new("working directory", shown(model.cwd.as_ref()), shown(inside.cwd.as_ref())));
    facts
}

fn has_filter(argv: &Argv) -> bool {
    match &argv.guard {
        Some(guard) => guard.plan.seccomp,
        None => argv.words().iter().any(|word| word == "--seccomp"),
    }
}

fn has_scope(argv: &Argv) -> bool {
    argv.guard.as_ref().map_or(argv.before.scope, |guard| guard.plan.landlock)
}

/// The bounding set means nothing without the others, and bwrap alone leaves an ordinary user's as it is.
fn capabilities(inside: &Process, argv: &Argv) -> String {
    let is_empty = |set: &str| set.bytes().all(|digit| digit == b'0');
    let counts = |name: &str| name.starts_with("Cap") && (name != "CapBnd" || argv.guard.is_some());
    let has = inside.status.iter().filter(|(name, set)| counts(name) && !is_empty(set));
    let has: Vec<String> = has.map(|(name, set)| format!("{name} {set}")).collect();
    if has.is_empty() { "none".to_owned() } else { has.join(", ") }
}

fn namespaces(network: bool, model: &Model, inside: &Process, host: &Process) -> Vec<Fact> {
    let kinds = [
        ("pid", Some(Namespace::Pid)),
        ("ipc", Some(Namespace::Ipc)),
        ("uts", Some(Namespace::Uts)),
        ("cgroup", Some(Namespace::Cgroup)),
        ("user", Some(Namespace::User)),
        ("mnt", None),
        ("net", Some(Namespace::Net)),
    ];
    let says = |is_own: bool| if is_own { "own" } else { "the host's" };
    let fact = |(name, kind): (&str, Option<Namespace>)| {
        let (ours, theirs) = (inside.namespaces.get(name)?, host.namespaces.get(name)?);
        let expected = name != "net" || !network;
        let mut fact = Fact::new(&format!("namespace: {name}"), says(expected), says(ours != theirs));
        if kind.is_some_and(|kind| model.is_unshared(kind) != expected) {
            fact.result = Outcome::Mismatch;
            fact.note = Some(format!("the model says: {}", says(!expected)));
        }
        Some(fact)
    };
    kinds.into_iter().filter_map(fact).collect()
}

fn unmounting(unmounts: &[i32]) -> Fact {
    let done = unmounts.iter().filter(|errno| **errno == 0).count();
    match unmounts.iter().find(|errno| **errno != 0) {
        Some(errno) if done == 0 => Fact::refused("taking mounts down", *errno, None),
        _ => Fact::new("taking mounts down", "refused", format!("{done} of {} taken down", unmounts.len())),
    }
}

/// Names only: a value may be a secret.
fn environment(argv: &Argv, model: &Model, inside: &Process) -> Fact {
    let promised: BTreeSet<OsString> = model.environment(argv.environment.variables.clone()).into_keys().collect();
    let found: BTreeSet<OsString> = inside.environment.iter().map(|Word(name)| name.clone()).collect();
    #[cfg(feature = "ablate")]
    let found: BTreeSet<OsString> = found.into_iter().filter(|name| name != crate::sys::ablate::VARIABLE).collect();
    let words =
        |names: std::collections::btree_set::Difference<'_, OsString>| names.cloned().map(Word).collect::<Vec<_>>();
    let (more, less) = (words(found.difference(&promised)), words(promised.difference(&found)));
    let kernel = match (more.as_slice(), less.as_slice()) {
        ([], []) => format!("{} names", promised.len()),
        (more, []) => format!("also {}", listed(more)),
        ([], less) => format!("not {}", listed(less)),
        (more, less) => format!("also {}, not {}", listed(more), listed(less)),
    };
    Fact::new("variables", format!("{} names", promised.len()), kernel)
}
