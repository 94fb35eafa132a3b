//! Checks of the caller, of bwrap, of the limits, and of the files and folders that a run needs.

use std::path::Path;

use rustix::fs::{Access, access};

use crate::compile::layers;
use crate::compile::lower::{Machine, SIZE};
use crate::diagnostic::{Diagnostic, reason};
use crate::host::{Host, Session};
use crate::launch::limits::try_cgroup;
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
            "it may be something else than bubblewrap",
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

/// Reports the limits that this machine can enforce. A trial tests the limits of a cgroup.
pub(super) fn limits(host: &Host, session: &Session, bwrap: Option<&AbsPath>, tried: &Tried) -> DoctorFinding {
    let has_size = bwrap.is_some_and(|bwrap| bwrap::flags(bwrap).unwrap_or_default().contains(SIZE));
    let no_size = (!has_size)
        .then(|| (format!("this bwrap does not have `{SIZE}`"), "install bubblewrap 0.7 or newer".to_owned()));
    let no_processes = tried.no_process_limit.clone().map(|why| {
        let remedy = match (&tried.no_user_namespace, session.uid) {
            (Some(_), _) => "allow user namespaces",
            (None, 0) => "run as an ordinary user",
            (None, _) => "use Linux 5.14 or newer, and raise `ulimit -u`",
        };
        (why, remedy.to_owned())
    });
    let kinds = LimitKind::ALL.map(|kind| match kind {
        LimitKind::Time | LimitKind::FileSize | LimitKind::Output => (kind, None),
        LimitKind::Processes => (kind, no_processes.clone()),
        LimitKind::Tmp => (kind, no_size.clone()),
        LimitKind::Memory | LimitKind::Cpus => {
            (kind, try_cgroup(host, session, kind).err().map(|why| (why.to_string(), why.remedy())))
        }
    });
    let held = kinds.iter().filter(|(_, why)| why.is_none()).map(|(kind, _)| kind.to_string());
    let held = held.collect::<Vec<_>>().join(", ");
    let lacking: Vec<_> = kinds.iter().filter_map(|(kind, why)| Some((kind, why.as_ref()?))).collect();
    let mut remedies: Vec<&str> = lacking.iter().map(|(_, (_, remedy))| remedy.as_str()).collect();
    remedies.dedup();
    let remedies = remedies.join("; ");
    if lacking.is_empty() {
        return DoctorFinding::ok(held);
    }
    let mut reasons: Vec<(&String, Vec<String>)> = Vec::new();
    for (kind, (why, _)) in lacking {
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, kinds)) => kinds.push(kind.to_string()),
            None => reasons.push((why, vec![kind.to_string()])),
        }
    }
    let reasons = reasons.iter().map(|(why, kinds)| format!("no {}: {why}", kinds.join(", ")));
    DoctorFinding::limited(
        format!("{held}; {}", reasons.collect::<Vec<_>>().join("; ")),
        "a policy that sets one of the missing limits starts nothing",
        remedies,
    )
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
