//! Checks of the caller, of bwrap, of the limits, and of the files and folders that a run needs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rustix::fs::{Access, access};

use crate::compile::limits::unavailable;
use crate::compile::lower::{Machine, SIZE};
use crate::compile::{self, Request, layers};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, reason};
use crate::host::{Host, Session};
use crate::launch::limits::{CGROUP_REMEDY, try_cgroup};
use crate::launch::{self, availability, bwrap};
use crate::policy::{AbsPath, LimitKind};
use crate::sys::terminal;

use super::probe::Tried;
use super::trial::Trial;
use super::{DoctorFinding, Feature};

pub(super) fn caller(host: &Host, session: &Session, allow_root: bool) -> DoctorFinding {
    match launch::check_caller(host, session, allow_root) {
        Err(refusal) => DoctorFinding::missing(&refusal),
        Ok(Some(warning)) => DoctorFinding::ok(warning.message),
        Ok(None) if session.is_root() => DoctorFinding::ok("root, with `--allow-root`"),
        Ok(None) => DoctorFinding::ok(format!("the user with the id {}", session.uid)),
    }
}

/// Reports the bwrap that was found. `launch::machine` has already refused a bwrap that a command
/// can write.
pub(super) fn bwrap(host: &Host, machine: Option<Result<&Machine, &Diagnostic>>) -> DoctorFinding {
    let path = match machine {
        Some(Ok(machine)) => &machine.bwrap,
        Some(Err(diagnostic)) => return DoctorFinding::missing(diagnostic),
        None => {
            let effect = "without a valid policy it is not known which `bwrap` a run would use";
            return DoctorFinding::limited("not looked for", effect, "`agent-sandbox check` names every mistake");
        }
    };
    match bwrap::version(path) {
        Err(diagnostic) => DoctorFinding::missing(&diagnostic),
        Ok(version) if version.is_empty() => DoctorFinding::limited(
            format!("{path} does not say its version"),
            "it may be another program than bubblewrap",
            "make sure that the first `bwrap` on PATH is the one that you installed",
        ),
        Ok(version) => {
            let how = if availability::is_setuid(host, path) { "setuid root" } else { "not setuid" };
            DoctorFinding::ok(format!("{path}, {version}, {how}"))
        }
    }
}

/// Flags of bwrap and their use here, oldest first.
const FEATURES: [(&str, &str); 5] = [
    ("--perms", "masks that cannot be opened, on bwrap alone"),
    ("--cap-drop", "root without capabilities"),
    ("--seccomp", "the filter of system calls, on bwrap alone"),
    ("--size", "the limit of `/tmp`"),
    ("--disable-userns", "no user namespaces inside, on bwrap alone"),
];

pub(super) fn features(bwrap: &AbsPath) -> impl Iterator<Item = Feature> + use<> {
    let known = bwrap::flags(bwrap).unwrap_or_default();
    FEATURES.into_iter().map(move |(flag, used_for)| Feature {
        flag: flag.to_owned(),
        available: known.contains(flag),
        used_for: used_for.to_owned(),
    })
}

/// The limits that this machine cannot enforce, each with the reason.
type MissingLimits = BTreeMap<LimitKind, String>;

/// Tests which limits this machine cannot enforce. A trial tests the limits of a cgroup.
pub(super) fn missing_limits(host: &Host, session: &Session, bwrap: Option<&AbsPath>, tried: &Tried) -> MissingLimits {
    let has_size = bwrap.is_some_and(|bwrap| bwrap::flags(bwrap).unwrap_or_default().contains(SIZE));
    let no_size = (!has_size).then(|| format!("this bwrap does not have `{SIZE}`"));
    let reason = |kind| match kind {
        LimitKind::Time | LimitKind::FileSize | LimitKind::Output => None,
        LimitKind::Processes => tried.no_process_limit.clone(),
        LimitKind::Tmp => no_size.clone(),
        LimitKind::Memory | LimitKind::Cpus => try_cgroup(host, session, kind).err().map(|why| why.to_string()),
    };
    LimitKind::ALL.into_iter().filter_map(|kind| Some((kind, reason(kind)?))).collect()
}

pub(super) fn limits(missing: &MissingLimits) -> DoctorFinding {
    let held = LimitKind::ALL.iter().filter(|kind| !missing.contains_key(kind)).map(ToString::to_string);
    let held = held.collect::<Vec<_>>().join(", ");
    if missing.is_empty() {
        return DoctorFinding::ok(held);
    }
    let mut reasons: Vec<(&String, Vec<String>)> = Vec::new();
    for (kind, why) in missing {
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, kinds)) => kinds.push(kind.to_string()),
            None => reasons.push((why, vec![kind.to_string()])),
        }
    }
    let reasons = reasons.iter().map(|(why, kinds)| format!("no {}: {why}", kinds.join(", ")));
    let remedies: BTreeSet<&str> = missing.keys().map(|kind| remedy(*kind)).collect();
    DoctorFinding::limited(
        format!("{held}; {}", reasons.collect::<Vec<_>>().join("; ")),
        "a policy that sets one of the missing limits starts nothing",
        remedies.into_iter().collect::<Vec<_>>().join("; "),
    )
}

fn remedy(kind: LimitKind) -> &'static str {
    match kind {
        LimitKind::Memory | LimitKind::Cpus => CGROUP_REMEDY,
        LimitKind::Tmp => "install bubblewrap 0.7 or newer",
        _ => "run as an ordinary user, on Linux 5.14 or later",
    }
}

/// Judges the policy that applies here: a mistake in it, or a limit that is missing on this
/// machine, keeps every run from starting.
pub(super) fn policy(host: &Host, session: &Session, missing: &MissingLimits) -> DoctorFinding {
    let mut said = Diagnostics::default();
    let compiled = compile::compile(host, session, &Request::default(), &mut said);
    if let Some(error) = said.first_error() {
        let help = error.help.clone().filter(|_| error.code == Code::UnsafeRoot);
        let help = help.unwrap_or_else(|| "`agent-sandbox check` names every mistake".to_owned());
        return DoctorFinding::missing(&error.clone().help(help));
    }
    let policy = compiled.iter().flat_map(|compiled| compiled.policy.written_limits());
    let limit = policy.map(|limit| (limit.value.kind(), &limit.origin));
    match limit.filter_map(|(kind, origin)| Some((kind, origin, missing.get(&kind)?))).next() {
        None => DoctorFinding::ok("no errors, and this machine can enforce its limits"),
        Some((kind, origin, why)) => {
            let said = unavailable(kind, why);
            let message = format!("{} ({origin})", said.message);
            DoctorFinding::missing(
                &Diagnostic { message, ..said }.help(format!("{}; or remove the limit", remedy(kind))),
            )
        }
    }
}

/// Reports whether the sandbox shows the target of `/etc/resolv.conf`.
pub(super) fn name_resolution(host: &Host, trial: &Trial) -> DoctorFinding {
    let remedy = "make sure that `/etc/resolv.conf` leads to a file that you can read";
    match host.resolve(Path::new("/etc/resolv.conf")) {
        Ok(found) if found.kind.is_none() => DoctorFinding::limited(
            "there is no `/etc/resolv.conf`, or it leads to nothing",
            "host names may fail to resolve, inside and outside the sandbox",
            remedy,
        ),
        Ok(found) if !trial.compiled.plan.view(&found.path).shows_host() => DoctorFinding::limited(
            format!("`/etc/resolv.conf` leads to {}, which the sandbox does not show", found.path),
            "host names cannot be resolved inside",
            "show it with a `ro` rule",
        ),
        Ok(found) if found.links.is_empty() => DoctorFinding::ok("`/etc/resolv.conf` is a file"),
        Ok(found) => DoctorFinding::ok(format!("`/etc/resolv.conf` leads to {}, which is visible inside", found.path)),
        Err(e) => DoctorFinding::limited(reason(&e), "nothing starts while the network is on", remedy),
    }
}

pub(super) fn state_folder(host: &Host, session: &Session) -> DoctorFinding {
    let folder = match layers::state_folder(host, session) {
        Ok(folder) => folder,
        Err(diagnostic) => return DoctorFinding::missing(&diagnostic),
    };
    if !host.exists(&folder).unwrap_or(false) && host.can_create(&folder) {
        return DoctorFinding::ok(format!("{folder}, made when it is needed"));
    }
    if access(host.real(&folder), Access::WRITE_OK).is_ok() {
        return DoctorFinding::ok(folder.to_string());
    }
    DoctorFinding::limited(
        format!("{folder} cannot be written"),
        "a policy that blocks missing paths does not run without `--no-placeholders`, and consent cannot be recorded",
        "make it writable for you, or name another with XDG_STATE_HOME",
    )
}

pub(super) fn terminal() -> DoctorFinding {
    DoctorFinding::ok(if terminal::open().is_some() {
        "there is one"
    } else {
        "there is none: interactive programs do not work"
    })
}
