//! The facts about every process inside: its capabilities, namespaces, variables and descriptors.

use std::collections::BTreeSet;
use std::ffi::OsString;

use schemars::JsonSchema;
use serde::Serialize;

use crate::compile::Compiled;
use crate::compile::lower::Argv;
use crate::diagnostic::or_none;
use crate::model::{Model, Namespace};
use crate::policy::{AbsPath, Limit, LimitKind, Word, escape_for_display};

use super::CheckResult;
use super::limit_trial::TriedLimit;
use super::probe::{ProbeProcess, ProbedLimits, name_of};

/// A property of every process inside.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Fact {
    pub name: String,
    pub expected: String,
    /// The value that the process found.
    pub kernel: String,
    pub result: CheckResult,
    /// The reason why the fact cannot be tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Fact {
    pub(super) fn new(name: &str, expected: impl Into<String>, kernel: impl Into<String>) -> Self {
        let (expected, kernel) = (expected.into(), kernel.into());
        let result = if expected == kernel { CheckResult::Ok } else { CheckResult::Mismatch };
        Self { name: name.to_owned(), expected, kernel, result, note: None }
    }

    /// An operation that must be refused, with any error.
    fn refused(name: &str, errno: i32, on_host: Option<i32>) -> Self {
        let kernel = possible_or_error(errno);
        let refused_anyway = on_host.filter(|errno| *errno != 0);
        let result = match (errno, refused_anyway) {
            (0, _) => CheckResult::Mismatch,
            (_, Some(_)) => CheckResult::NotTestable,
            (_, None) => CheckResult::Ok,
        };
        let note = refused_anyway.map(|errno| format!("the host itself refuses: {}", name_of(errno)));
        Self { name: name.to_owned(), expected: "refused".to_owned(), kernel, result, note }
    }
}

pub(super) fn facts(
    compiled: &Compiled,
    argv: &Argv,
    model: &Model,
    inside: &ProbeProcess,
    host: &ProbeProcess,
    tried: &[TriedLimit],
) -> Vec<Fact> {
    let policy = &compiled.policy;
    let (has_filter, has_scope) = match &argv.guard {
        Some(guard) => (guard.plan.seccomp, guard.plan.landlock),
        None => (argv.words().iter().any(|word| word == "--seccomp"), argv.pre_exec.scope),
    };
    let status = |name: &str| inside.status.get(name).cloned().unwrap_or_default();
    let workshop = inside.workshop.as_ref().map_or_else(|| "yes".to_owned(), |problem| format!("no: {problem}"));
    let mut facts = vec![
        Fact::new("the probe can write, rename and remove in a place of its own", "yes", workshop),
        Fact::new("marked as a sandbox", "yes", if inside.marker { "yes" } else { "no" }),
        Fact::new("no new privileges", "1", status("NoNewPrivs")),
        Fact::new("filter of system calls", if has_filter { "2" } else { "0" }, status("Seccomp")),
        Fact::new("capabilities", "none", or_none(&capabilities(inside, argv))),
    ];
    facts.extend(namespaces(policy.network.value, model, inside, host));
    let user_namespaces = "user namespaces of its own";
    facts.push(match policy.nested.value {
        true => Fact::new(user_namespaces, "possible", possible_or_error(inside.user_namespace)),
        false => Fact::refused(user_namespaces, inside.user_namespace, None),
    });
    facts.push(unmounting(&inside.unmounts));
    facts.push(Fact::refused("changing the kernel's settings", inside.settings, Some(host.settings)));
    if has_scope || !policy.network.value {
        facts.push(Fact::refused("abstract sockets of the host", inside.socket, Some(host.socket)));
    }
    facts.extend(argv.limits().filter_map(|limit| limited(limit, &inside.limits)));
    facts.extend(tried.iter().map(TriedLimit::fact));
    facts.push(environment(argv, model, inside));
    facts.push(Fact::new("other descriptors", "none", or_none(&inside.descriptors)));
    let shown = |path: &Option<AbsPath>| path.as_ref().map_or_else(|| "unknown".to_owned(), ToString::to_string);
    facts.push(Fact::new("working directory", shown(&model.cwd), shown(&inside.cwd)));
    facts
}

/// A limit, compared with the amount that the probe found. `None` for a limit that is tried in a
/// sandbox of its own.
fn limited(limit: Limit, found: &ProbedLimits) -> Option<Fact> {
    let name = format!("limit: {}", limit.kind());
    let amount = |found: Option<u64>| found.map_or_else(|| "none".to_owned(), |amount| amount.to_string());
    let both = |[soft, hard]: [Option<u64>; 2]| match soft == hard {
        true => amount(soft),
        false => format!("{}, can be raised to {}", amount(soft), amount(hard)),
    };
    let expected = limit.amount();
    Some(match limit.kind() {
        LimitKind::Processes => Fact::new(&name, expected.to_string(), both(found.processes)),
        LimitKind::FileSize => Fact::new(&name, expected.to_string(), both(found.file_size)),
        // The kernel gives whole pages.
        LimitKind::Tmp => {
            let expected = expected.next_multiple_of(found.page.max(1));
            Fact::new(&name, expected.to_string(), amount(found.tmp))
        }
        LimitKind::Time | LimitKind::Output => return None,
        // The supervisor starts a probe only after it has read this limit from the cgroup.
        LimitKind::Memory | LimitKind::Cpus => {
            let in_cgroup = format!("{} in the cgroup", limit.value());
            Fact::new(&name, in_cgroup.clone(), in_cgroup)
        }
    })
}

fn possible_or_error(errno: i32) -> String {
    if errno == 0 { "possible".to_owned() } else { name_of(errno) }
}

/// The capability sets of the probe that are not empty. Without a guard the bounding set does not
/// count: bwrap alone does not change it for an ordinary user, and it has no effect while the other
/// sets are empty.
fn capabilities(inside: &ProbeProcess, argv: &Argv) -> Vec<String> {
    let is_empty = |set: &str| set.bytes().all(|digit| digit == b'0');
    let counts = |name: &str| name.starts_with("Cap") && (name != "CapBnd" || argv.guard.is_some());
    let has = inside.status.iter().filter(|(name, set)| counts(name) && !is_empty(set));
    has.map(|(name, set)| format!("{name} {set}")).collect()
}

fn namespaces(network: bool, model: &Model, inside: &ProbeProcess, host: &ProbeProcess) -> Vec<Fact> {
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
            fact.result = CheckResult::Mismatch;
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

/// Compares names only, because a value may be a secret.
fn environment(argv: &Argv, model: &Model, inside: &ProbeProcess) -> Fact {
    let promised: BTreeSet<OsString> = model.environment(argv.environment.variables.clone()).into_keys().collect();
    let found: BTreeSet<OsString> = inside.environment.iter().map(|Word(name)| name.clone()).collect();
    #[cfg(feature = "ablate")]
    let found: BTreeSet<OsString> = found.into_iter().filter(|name| name != crate::sys::ablate::VARIABLE).collect();
    let beyond = |all: &BTreeSet<OsString>, others: &BTreeSet<OsString>, what: &str| {
        let names: Vec<String> = all.difference(others).map(|name| escape_for_display(name)).collect();
        (!names.is_empty()).then(|| format!("{what} {}", names.join(", ")))
    };
    let expected = format!("{} names", promised.len());
    let differences = [beyond(&found, &promised, "also"), beyond(&promised, &found, "not")];
    let kernel = differences.into_iter().flatten().collect::<Vec<_>>().join(", ");
    Fact::new("variables", expected.clone(), if kernel.is_empty() { expected } else { kernel })
}
