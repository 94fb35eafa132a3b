//! Diagnoses this machine: what it can enforce, what follows from the rest, and the remedy.
//!
//! Each probe belongs to the stage that needs it. This room only interprets the answers.

pub mod probe;
mod trial;

use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{Access, access};
use schemars::JsonSchema;
use serde::Serialize;

use crate::compile;
use crate::compile::layers;
use crate::compile::protection::leaves_open;
use crate::compile::request::Request;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::host::Host;
use crate::host::mountinfo;
use crate::host::session::Session;
use crate::launch::apparmor::{self, Confinement};
use crate::launch::{self, availability, bwrap};
use crate::policy::path::AbsPath;
use crate::policy::places;
use crate::policy::rule::Protection;
use crate::sys::landlock;
use crate::sys::terminal;

use probe::Tried;
use trial::{Trial, Went};

/// The answer of `agent-sandbox doctor`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Diagnosis {
    /// `agent-sandbox -- true` works here: it was tried.
    pub works: bool,
    /// The policy here compiles. If not, nothing starts, and `works` is about the default policy.
    pub policy_is_valid: bool,
    pub findings: Vec<Finding>,
    /// Flags of bwrap that make a difference to us.
    pub bwrap_features: Vec<Feature>,
}

/// One part of the machine.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Finding {
    pub name: String,
    pub status: Status,
    pub found: String,
    /// What follows, where something is lacking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    Ok,
    /// It works, with less protection or comfort.
    Limited,
    /// Without it nothing runs.
    Missing,
}

/// A flag that not every bwrap has.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Feature {
    pub flag: String,
    pub available: bool,
    pub used_for: String,
}

impl Finding {
    fn new(name: &str, status: Status, found: impl Into<String>) -> Self {
        Self { name: name.to_owned(), status, found: found.into(), effect: None, remedy: None }
    }

    fn ok(name: &str, found: impl Into<String>) -> Self {
        Self::new(name, Status::Ok, found)
    }

    fn limited(name: &str, found: impl Into<String>, effect: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { effect: Some(effect.into()), remedy: Some(remedy.into()), ..Self::new(name, Status::Limited, found) }
    }

    fn missing(name: &str, diagnostic: &Diagnostic) -> Self {
        let effect = Some("`agent-sandbox -- COMMAND` starts nothing".to_owned());
        Self { effect, remedy: diagnostic.help.clone(), ..Self::new(name, Status::Missing, diagnostic.message.clone()) }
    }
}

pub fn diagnose(host: &Host, session: &Session, allow_root: bool) -> Diagnosis {
    let tried = attempt(session);
    let trial = trial::prepare(host, session);
    let engine = trial.as_ref().ok().map(|trial| trial.engine.as_ref());
    let bwrap = engine.and_then(Result::ok).map(|engine| engine.bwrap.clone());
    let mut findings = vec![caller(host, session, allow_root)];
    findings.push(match (&bwrap, engine) {
        (Some(bwrap), _) => installed(host, bwrap),
        (None, Some(Err(diagnostic))) => Finding::missing("bwrap", diagnostic),
        (None, _) => {
            Finding::limited("bwrap", "not looked for", "without a policy it is not known which counts", CHECK)
        }
    });
    findings.push(user_namespaces(host, session, bwrap.as_ref(), &tried));
    findings.extend(apparmor(host));
    findings.push(container(host, session));
    findings.push(kernel());
    findings.push(landlock(&tried));
    findings.push(seccomp());
    findings.push(overlay(&tried));
    findings.push(manager(host, session));
    findings.extend(trial.as_ref().ok().map(|trial| names(host, trial)));
    findings.push(state(host, session));
    findings.push(terminal_of_caller());
    let works = start(host, &trial, allow_root, &mut findings);
    let mut said = Diagnostics::default();
    compile::compile(host, session, &Request::default(), &mut said);
    let policy_is_valid = !said.has_errors();
    Diagnosis {
        works,
        policy_is_valid,
        findings,
        bwrap_features: bwrap.map_or_else(Vec::new, |bwrap| features(&bwrap)),
    }
}

const CHECK: &str = "`agent-sandbox check` names every mistake";

/// Lets a process of its own try the steps that this process could not undo.
fn attempt(session: &Session) -> Result<Tried, String> {
    let executable = session.executable.as_ref().map(AbsPath::as_path).unwrap_or(Path::new("/proc/self/exe"));
    let output = Command::new(executable).arg(probe::SUBCOMMAND).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let output = output.map_err(|e| crate::diagnostic::reason(&e))?;
    serde_json::from_slice(&output.stdout).map_err(|_| format!("the probe ended with {}", output.status))
}

fn caller(host: &Host, session: &Session, allow_root: bool) -> Finding {
    const NAME: &str = "caller";
    match launch::check_caller(host, session, allow_root) {
        Err(refusal) => Finding::missing(NAME, &refusal),
        Ok(Some(warning)) => Finding::ok(NAME, warning.message),
        Ok(None) if session.is_root() => Finding::ok(NAME, "root, with `--allow-root`"),
        Ok(None) => Finding::ok(NAME, format!("the user with the id {}", session.uid)),
    }
}

/// Reports the bwrap that was found. `find_bwrap` has refused one that a command can write.
fn installed(host: &Host, path: &AbsPath) -> Finding {
    const NAME: &str = "bwrap";
    match bwrap::version(path) {
        Err(diagnostic) => Finding::missing(NAME, &diagnostic),
        Ok(version) if version.is_empty() => Finding::limited(
            NAME,
            format!("{path} does not say its version"),
            "it may be something else than bubblewrap",
            "see that the first `bwrap` on PATH is the one that you installed",
        ),
        Ok(version) => {
            let how = if availability::is_setuid(host, path) { "setuid root" } else { "not setuid" };
            Finding::ok(NAME, format!("{path}, {version}, {how}"))
        }
    }
}

fn user_namespaces(host: &Host, session: &Session, bwrap: Option<&AbsPath>, tried: &Result<Tried, String>) -> Finding {
    const NAME: &str = "user namespaces";
    let nowhere = AbsPath::root();
    if let Err(diagnostic) = availability::check(host, session, bwrap.unwrap_or(&nowhere)) {
        return Finding::missing(NAME, &diagnostic);
    }
    let limit = availability::setting(host, "proc/sys/user/max_user_namespaces");
    let limit = limit.map_or_else(String::new, |limit| format!(", at most {limit}"));
    match tried.as_ref().map_err(Clone::clone).and_then(|tried| tried.user_namespace.clone()) {
        Ok(()) => Finding::ok(NAME, format!("can be made{limit}")),
        Err(why) => Finding::limited(
            NAME,
            format!("cannot be made by this program: {why}"),
            "bwrap may be allowed to, and the guard is not",
            "see `AppArmor` and `container` here; in a sandbox or container, ask who runs it",
        ),
    }
}

/// One of four cases: see [`Confinement`].
fn apparmor(host: &Host) -> Option<Finding> {
    const NAME: &str = "AppArmor";
    let remedy = if apparmor::own_profile_is_installed(host) {
        format!(
            "the file of our profile is there, and this program does not run under it: start it as \
             `/usr/bin/agent-sandbox` or `/usr/local/bin/agent-sandbox`, and load the profile with \
             `{}`",
            apparmor::LOAD_PROFILE
        )
    } else {
        format!("install agent-sandbox in `/usr/local/bin`, and its profile with `{}`", apparmor::INSTALL_PROFILE)
    };
    Some(match apparmor::confinement(host)? {
        Confinement::Unrestricted => Finding::ok(NAME, "unrestricted: user namespaces keep their capabilities"),
        Confinement::OwnProfile => {
            Finding::ok(NAME, "our profile: bwrap and the guard keep their capabilities; nothing is lost")
        }
        Confinement::BwrapProfile => Finding::limited(
            NAME,
            "bwrap's profile (`bwrap-userns-restrict`): bwrap works, and its children have no capabilities",
            format!("the guard cannot work, so {}", leaves_open(Protection::Guard)),
            remedy,
        ),
        Confinement::Restricted => Finding::limited(
            NAME,
            "restricted (`kernel.apparmor_restrict_unprivileged_userns` is 1): a program without a profile has no \
             capabilities in a user namespace",
            "nothing runs, unless the caller is root, bwrap is setuid, or a profile in another file allows it",
            remedy,
        ),
    })
}

fn container(host: &Host, session: &Session) -> Finding {
    const NAME: &str = "container";
    let is_one = if availability::in_container(host, session) { "this is one" } else { "this is none that says so" };
    match covered_in_proc(host) {
        0 => Finding::ok(NAME, is_one),
        count => {
            let parts =
                if count == 1 { "1 part of `/proc` is".to_owned() } else { format!("{count} parts of `/proc` are") };
            let refusal = launch::explain_refusal("proc", false);
            Finding {
                effect: Some(
                    "the kernel may refuse a user namespace its own `/proc`, and with it every sandbox".to_owned(),
                ),
                remedy: refusal.help,
                ..Finding::new(NAME, Status::Limited, format!("{is_one}, and {parts} covered"))
            }
        }
    }
}

/// Counts the mounts that hide parts of `/proc`. The kernel lets no process mount a `/proc` that
/// shows more than its own. A mount on a folder that is always empty hides nothing.
fn covered_in_proc(host: &Host) -> usize {
    let table = host.mount_table().ok().flatten().unwrap_or_default();
    let proc = places::at(places::PROC);
    let empty = proc.join("sys/fs/binfmt_misc");
    mountinfo::parse(&table).iter().filter(|entry| entry.point.is_below(&proc) && entry.point != empty).count()
}

/// The limits that follow from the age of the kernel alone.
fn kernel() -> Finding {
    const NAME: &str = "kernel";
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let known = version(&release);
    match known {
        Some(version) if version < (5, 3) => Finding::limited(
            NAME,
            format!("{release}, before 5.3"),
            "a process cannot be held by a descriptor, so runs are not supervised",
            "a newer kernel, or `--exec`",
        ),
        Some(version) if version < (6, 15) => Finding::limited(
            NAME,
            format!("{release}, before 6.15"),
            "whether a command was killed, or only said so by its exit code, cannot be told apart",
            "nothing needs to be done; a newer kernel tells",
        ),
        _ => Finding::ok(NAME, release),
    }
}

/// The first two numbers of a release: `6.18.3-arch1`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn landlock(tried: &Result<Tried, String>) -> Finding {
    const NAME: &str = "Landlock";
    let abi = tried.as_ref().ok().and_then(|tried| tried.landlock);
    let found = abi.map_or_else(|| "none".to_owned(), |abi| format!("ABI {abi}"));
    if landlock::is_available() {
        return Finding::ok(NAME, format!("{found}, can keep signals and abstract sockets inside"));
    }
    let effect = format!("open: {}", leaves_open(Protection::Landlock));
    Finding::limited(NAME, format!("{found}, without scopes"), effect, "Linux 6.12 or later, with `landlock` in `lsm=`")
}

fn seccomp() -> Finding {
    const NAME: &str = "seccomp";
    if launch::has_seccomp() {
        return Finding::ok(NAME, "filters of system calls");
    }
    let effect = format!("open: {}", leaves_open(Protection::Seccomp));
    Finding::limited(NAME, "no filters for this architecture and kernel", effect, "a kernel with CONFIG_SECCOMP_FILTER")
}

fn overlay(tried: &Result<Tried, String>) -> Finding {
    const NAME: &str = "overlay";
    match tried.as_ref().map_err(Clone::clone).and_then(|tried| tried.overlay.clone()) {
        Ok(()) => Finding::ok(NAME, "can be mounted in a user namespace"),
        Err(why) => Finding::ok(NAME, format!("not in a user namespace ({why}), and nothing here needs it")),
    }
}

fn manager(host: &Host, session: &Session) -> Finding {
    const NAME: &str = "systemd user manager";
    let runtime = session.path_var("XDG_RUNTIME_DIR");
    let sockets = runtime.iter().flat_map(|runtime| [runtime.join("systemd/private"), runtime.join("bus")]);
    match sockets.into_iter().find(|socket| host.exists(socket).unwrap_or(false)) {
        Some(socket) => Finding::ok(NAME, format!("at {socket}")),
        None => Finding::ok(NAME, "not found below `XDG_RUNTIME_DIR`, and nothing here needs it"),
    }
}

/// Whether what `/etc/resolv.conf` leads to shows inside.
fn names(host: &Host, trial: &Trial) -> Finding {
    const NAME: &str = "name resolution";
    let resolver = Path::new("/etc/resolv.conf");
    let remedy = "see that `/etc/resolv.conf` leads to a file that you can read";
    match host.resolve(resolver) {
        Ok(found) if found.kind.is_none() => Finding::limited(
            NAME,
            "there is no `/etc/resolv.conf`, or it leads to nothing",
            "names of machines may not be resolved, inside as outside",
            remedy,
        ),
        Ok(found) if !trial.compiled.plan.view(&found.path).shows_host() => Finding::limited(
            NAME,
            format!("`/etc/resolv.conf` leads to {}, which the sandbox does not show", found.path),
            "names of machines cannot be resolved inside",
            "show it with a `ro` rule",
        ),
        Ok(found) if found.links.is_empty() => Finding::ok(NAME, "`/etc/resolv.conf` is a file"),
        Ok(found) => Finding::ok(NAME, format!("`/etc/resolv.conf` leads to {}, which shows inside", found.path)),
        Err(e) => Finding::limited(NAME, crate::diagnostic::reason(&e), "with the network on nothing starts", remedy),
    }
}

fn state(host: &Host, session: &Session) -> Finding {
    const NAME: &str = "state folder";
    let effect = "presets block no missing paths, consent cannot be recorded, and a rule with `if-missing = \"block\"` stops the run";
    match layers::state_folder(host, session) {
        Err(diagnostic) => Finding::missing(NAME, &diagnostic),
        Ok(folder) => {
            let exists = host.exists(&folder).unwrap_or(false);
            let usable =
                if exists { access(host.real(&folder), Access::WRITE_OK).is_ok() } else { host.can_create(&folder) };
            match (usable, exists) {
                (true, true) => Finding::ok(NAME, format!("{folder}")),
                (true, false) => Finding::ok(NAME, format!("{folder}, made when it is needed")),
                (false, _) => {
                    let remedy = "make it writable for you, or name another with XDG_STATE_HOME";
                    Finding::limited(NAME, format!("{folder} cannot be written"), effect, remedy)
                }
            }
        }
    }
}

fn terminal_of_caller() -> Finding {
    let found = if terminal::open().is_some() { "there is one" } else { "there is none: nothing interactive" };
    Finding::ok("terminal", found)
}

/// Whether it works as a whole.
fn start(host: &Host, trial: &Result<Trial, Diagnostic>, allow_root: bool, findings: &mut Vec<Finding>) -> bool {
    const STAGE: &str = "guard";
    const START: &str = "trial start";
    let went = match trial {
        Ok(trial) => trial.start(host, allow_root),
        Err(diagnostic) => Went::Badly(diagnostic.clone()),
    };
    match went {
        Went::Well => {
            findings.push(Finding::ok(STAGE, "compares and locks the mounts"));
            findings.push(Finding::ok(START, "a sandbox was started"));
            true
        }
        Went::WithoutGuard(why) => {
            let effect = format!("open: {}", leaves_open(Protection::Guard));
            findings.push(Finding::limited(
                STAGE,
                format!("cannot work here: {why}"),
                effect,
                "see `user namespaces` and `AppArmor`",
            ));
            findings.push(Finding::ok(START, "a sandbox was started, on bwrap alone"));
            true
        }
        Went::Badly(diagnostic) => {
            findings.push(Finding::missing(START, &diagnostic));
            false
        }
    }
}

/// In the order of their age.
const FEATURES: [(&str, &str); 4] = [
    ("--perms", "masks that cannot be opened, on bwrap alone"),
    ("--cap-drop", "root without capabilities"),
    ("--seccomp", "the filter of system calls, on bwrap alone"),
    ("--disable-userns", "no user namespaces inside, on bwrap alone"),
];

fn features(bwrap: &AbsPath) -> Vec<Feature> {
    let known = bwrap::flags(bwrap).unwrap_or_default();
    let feature = |(flag, used_for): (&str, &str)| Feature {
        flag: flag.to_owned(),
        available: known.contains(flag),
        used_for: used_for.to_owned(),
    };
    FEATURES.into_iter().map(feature).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const SWITCH: &str = "proc/sys/kernel/apparmor_restrict_unprivileged_userns";

    /// Paths below the root of the host, and their content.
    type Files<'a> = &'a [(&'a str, &'a str)];

    fn apparmor_with(files: Files) -> Result<Option<Finding>, std::io::Error> {
        let root = tempfile::tempdir()?;
        for (path, text) in files {
            let path = root.path().join(path);
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(path, text)?;
        }
        Ok(apparmor(&Host::at(root.path())))
    }

    #[test]
    fn each_of_the_four_cases_of_apparmor_says_what_it_loses() -> Result<(), std::io::Error> {
        let restrict = ("etc/apparmor.d/bwrap-userns-restrict", "");
        let own = ("proc/self/attr/apparmor/current", "agent-sandbox (enforce)\n");
        let lost = Some("the guard cannot work, so mounts are neither compared with the plan nor locked");
        let nothing_runs =
            Some("nothing runs, unless the caller is root, bwrap is setuid, or a profile in another file allows it");
        let cases: [(Files, &str, Status, Option<&str>); 4] = [
            (&[(SWITCH, "0\n")], "unrestricted: ", Status::Ok, None),
            (&[(SWITCH, "1\n")], "restricted (", Status::Limited, nothing_runs),
            (&[(SWITCH, "1\n"), restrict], "bwrap's profile (", Status::Limited, lost),
            (&[(SWITCH, "1\n"), restrict, own], "our profile: ", Status::Ok, None),
        ];
        for (files, begins, status, effect) in cases {
            let finding = apparmor_with(files)?.ok_or(std::io::ErrorKind::NotFound)?;
            assert!(finding.found.starts_with(begins), "{finding:?}");
            assert_eq!((finding.status, finding.effect.as_deref()), (status, effect), "{finding:?}");
            let installs = finding.remedy.is_some_and(|remedy| remedy.contains(apparmor::INSTALL_PROFILE));
            assert_eq!(installs, status == Status::Limited);
        }
        assert!(apparmor_with(&[])?.is_none(), "a kernel without the setting has nothing to say");
        Ok(())
    }

    #[test]
    fn a_profile_that_does_not_apply_here_is_to_be_loaded() -> Result<(), std::io::Error> {
        let finding = apparmor_with(&[(SWITCH, "1\n"), ("etc/apparmor.d/agent-sandbox", "")])?;
        let remedy = finding.and_then(|finding| finding.remedy).unwrap_or_default();
        assert!(remedy.contains(apparmor::LOAD_PROFILE) && !remedy.contains("sudo install"), "{remedy}");
        Ok(())
    }

    #[test]
    fn a_release_begins_with_its_version() {
        assert_eq!(version("6.18.3-arch1-1"), Some((6, 18)));
        assert_eq!(version("5.10"), Some((5, 10)));
        assert_eq!(version("unknown"), None);
    }
}
