//! Memory and processor time, which only a cgroup limits: a scope of the systemd user manager, or
//! a cgroup in a folder that an administrator delegated to the user.
//!
//! systemd accepts the properties of a scope even where it does not control memory or processor
//! time. So the supervisor reads the limits back from the cgroup before the command starts.

use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, getpid, test_kill_process};

use crate::compile::Compiled;
use crate::compile::limits::unavailable;
use crate::compile::lower::{CGROUP_PREFIX, CgroupSource};
use crate::diagnostic::{Diagnostic, reason};
use crate::guard::report::Report;
use crate::host::open_dir::OpenDir;
use crate::host::{Host, Resolved, Session};
use crate::launch::bwrap;
use crate::policy::{AbsPath, Limit, LimitKind};
use crate::sys::ablate::{self, Mitigation};

/// The reason for which a cgroup cannot be made, or does not enforce a limit.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CgroupError {
    #[error("there is no `{0}` on PATH")]
    NoProgram(&'static str),
    #[error("`XDG_RUNTIME_DIR` is not set, so no user manager of systemd runs")]
    NoRuntimeDir,
    #[error("no user manager of systemd listens at `{0}`")]
    NoManager(AbsPath),
    #[error("{0}, and no cgroup above this process is delegated to you")]
    NotDelegated(Box<Self>),
    #[error("there are no cgroups of version 2")]
    NoVersion2,
    #[error("the cgroup `{0}` cannot be read")]
    Unreadable(String),
    #[error("`{name}` does not appear in `{folder}`: it has no such controller")]
    NoController { name: &'static str, folder: String },
    #[error("`{name}` in `{folder}`: {}", reason(error))]
    File { name: &'static str, folder: String, error: io::Error },
    #[error("`{name}` in `{folder}` is {value}")]
    Differs { name: &'static str, folder: String, value: String },
    #[error("`{maker}`: {}", reason(error))]
    NotStarted { maker: String, error: io::Error },
    #[error("`{0}` does not answer")]
    NoAnswer(String),
    #[error("`{0}` cannot make a cgroup")]
    NotMade(String),
    #[error("the cgroup has no process")]
    NoProcess,
}

impl CgroupError {
    /// The change of the machine that makes the limit possible.
    pub(crate) fn remedy(&self) -> String {
        match self {
            Self::NoProgram(name) => format!("install `{name}`"),
            Self::NoRuntimeDir => "log in through systemd, which sets `XDG_RUNTIME_DIR`".to_owned(),
            Self::NoManager(_) => "start the user manager with `loginctl enable-linger`".to_owned(),
            Self::NotDelegated(why) => format!("{}, or let root delegate a cgroup to you", why.remedy()),
            Self::NoVersion2 => "start the machine with cgroups of version 2".to_owned(),
            Self::NoController { name, .. } => {
                let controller = name.split('.').next().unwrap_or(name);
                format!("delegate the controller `{controller}` to user managers (`Delegate=` of `user@.service`)")
            }
            Self::Differs { name: "memory.swap.max", .. } => "turn swap off, or let the kernel count it".to_owned(),
            Self::Unreadable(_)
            | Self::File { .. }
            | Self::Differs { .. }
            | Self::NotStarted { .. }
            | Self::NoAnswer(_)
            | Self::NotMade(_)
            | Self::NoProcess => "run `systemd-run --user --scope true`, and mend what it reports".to_owned(),
        }
    }
}

/// A program that makes cgroups, with its name.
type CgroupProgram = (&'static str, Resolved);

/// The way to a cgroup of the run, if the policy has a limit that needs one.
pub(crate) fn cgroup_source(
    host: &Host,
    session: &Session,
    compiled: &Compiled,
) -> Result<Option<CgroupSource>, Diagnostic> {
    let needs = [LimitKind::Memory, LimitKind::Cpus].map(|kind| compiled.policy.limits.get(&kind));
    let kinds: Vec<LimitKind> = needs.iter().flatten().map(|limit| limit.value.kind()).collect();
    let Some(limit) = needs.into_iter().flatten().next().filter(|_| !ablate::is_off(Mitigation::Limits)) else {
        return Ok(None);
    };
    let (source, programs) = find_source(host, session, &kinds).map_err(|why| {
        let help =
            "run in a session of systemd (`loginctl enable-linger` starts its user manager), or remove the limit";
        unavailable(limit.value.kind(), &why.to_string()).help(help).at(&limit.origin)
    })?;
    for (name, program) in &programs {
        bwrap::refuse_planted(compiled, name, program)?;
    }
    Ok(Some(source))
}

/// The way to a cgroup with limits of these kinds, and the programs for it with their names. The
/// error names the missing part.
fn find_source(
    host: &Host,
    session: &Session,
    kinds: &[LimitKind],
) -> Result<(CgroupSource, Vec<CgroupProgram>), CgroupError> {
    let mut programs = Vec::new();
    let mut find = |name: &'static str| {
        let found = bwrap::first_on_path(host, session, name);
        let program = found.ok_or(CgroupError::NoProgram(name))?;
        let path = program.path.clone();
        programs.push((name, program));
        Ok::<AbsPath, CgroupError>(path)
    };
    let source = match (manager(host, session), delegated(host, kinds)) {
        (Ok(runtime), _) => CgroupSource::Systemd { systemd_run: find("systemd-run")?, env: find("env")?, runtime },
        (Err(_), Some(folder)) => {
            CgroupSource::Delegated { folder, sh: find("sh")?, mkdir: find("mkdir")?, env: find("env")? }
        }
        (Err(why), None) => return Err(CgroupError::NotDelegated(Box::new(why))),
    };
    Ok((source, programs))
}

/// The folder in which the user manager listens.
fn manager(host: &Host, session: &Session) -> Result<AbsPath, CgroupError> {
    let runtime = session.path_var("XDG_RUNTIME_DIR").ok_or(CgroupError::NoRuntimeDir)?;
    let manager = runtime.join("systemd/private");
    if !host.exists(&manager).unwrap_or(false) {
        return Err(CgroupError::NoManager(manager));
    }
    Ok(runtime)
}

/// The nearest cgroup, from that of this process upwards, in which this process may make a child
/// with limits of these kinds and enter it.
fn delegated(host: &Host, kinds: &[LimitKind]) -> Option<AbsPath> {
    let own = Cgroup::of(host, getpid()).ok()?;
    let controllers = kinds.iter().map(|kind| if *kind == LimitKind::Memory { "memory" } else { "cpu" });
    own.with_ancestors().find_map(|cgroup| {
        let given = cgroup.read("cgroup.subtree_control").ok()?;
        let is_given = |name| given.split_whitespace().any(|controller| controller == name);
        let folder = AbsPath::normalize(&cgroup.folder)?;
        let may_enter = host.can_write(&folder) && host.can_write(&folder.join("cgroup.procs"));
        (may_enter && controllers.clone().all(is_given)).then_some(folder)
    })
}

/// Removes the cgroups of ended runs from a delegated folder. The kernel refuses to remove one that
/// has a process.
pub(super) fn remove_ended(host: &Host, delegated: &AbsPath) -> io::Result<()> {
    let folder = OpenDir::open(host, delegated)?;
    for name in folder.names()? {
        let process = name.to_str().and_then(|name| name.strip_prefix(CGROUP_PREFIX)?.parse().ok());
        // A live process may be about to enter.
        if process.and_then(Pid::from_raw).is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH)) {
            let _ = folder.remove_dir(&name);
        }
    }
    Ok(())
}

/// Reads the limits back from the cgroup of a process. The error names the first limit that is not
/// enforced.
pub(super) fn check(host: &Host, process: Pid, limits: &[Limit]) -> Result<(), Report> {
    for limit in limits.iter().filter(|_| !ablate::is_off(Mitigation::CgroupCheck)) {
        held(host, process, *limit).map_err(|why| Report::LimitRefused(limit.kind(), why.to_string()))?;
    }
    Ok(())
}

fn held(host: &Host, process: Pid, limit: Limit) -> Result<(), CgroupError> {
    let cgroup = Cgroup::of(host, process)?;
    match limit.kind() {
        LimitKind::Memory => {
            let max: Option<u64> = cgroup.read("memory.max")?.parse().ok();
            // The kernel counts whole pages.
            if max.is_none_or(|max| max > limit.amount()) {
                return Err(cgroup.differs("memory.max"));
            }
            // A kernel without this file does not count swap. In that case the machine must have
            // none.
            match cgroup.read("memory.swap.max") {
                Ok(swap) if swap == "0" => Ok(()),
                Err(_) if !has_swap(host) => Ok(()),
                _ => Err(cgroup.differs("memory.swap.max")),
            }
        }
        LimitKind::Cpus => {
            let text = cgroup.read("cpu.max")?;
            let (quota, period) = text.split_once(' ').unwrap_or_default();
            let numbers = quota.parse::<u64>().ok().zip(period.parse::<u64>().ok());
            // systemd rounds the quota to microseconds.
            let is_held = |(quota, period): (u64, u64)| quota * 100 <= limit.amount() * period + 100;
            if numbers.is_some_and(is_held) { Ok(()) } else { Err(cgroup.differs("cpu.max")) }
        }
        _ => Ok(()),
    }
}

/// Whether the machine may have swap. The first line of the list is its heading. A kernel without
/// swap has no list.
fn has_swap(host: &Host) -> bool {
    match host.kernel_file("proc/swaps") {
        Ok(Some(swaps)) => swaps.split(|byte| *byte == b'\n').skip(1).any(|line| !line.is_empty()),
        Ok(None) => false,
        Err(_) => true,
    }
}

/// A cgroup in the hierarchy of version 2.
struct Cgroup<'h> {
    host: &'h Host,
    root: &'static str,
    folder: String,
}

impl<'h> Cgroup<'h> {
    fn of(host: &'h Host, process: Pid) -> Result<Self, CgroupError> {
        let list = host.kernel_file(&format!("proc/{}/cgroup", process.as_raw_nonzero())).ok().flatten();
        let list = String::from_utf8(list.unwrap_or_default()).unwrap_or_default();
        let path = list.lines().find_map(|line| line.strip_prefix("0::")).ok_or(CgroupError::NoVersion2)?;
        let places = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(|root| (root, format!("{root}{path}")));
        let is_there = |(_, folder): &(_, String)| {
            host.kernel_file(&format!("{folder}/cgroup.procs")).is_ok_and(|found| found.is_some())
        };
        let (root, folder) =
            places.into_iter().find(is_there).ok_or_else(|| CgroupError::Unreadable(path.to_owned()))?;
        Ok(Self { host, root, folder: folder.trim_end_matches('/').to_owned() })
    }

    fn with_ancestors(&self) -> impl Iterator<Item = Self> {
        let parent = |folder: &String| folder.rfind('/').map(|end| folder[..end].to_owned());
        let folders = std::iter::successors(Some(self.folder.clone()), parent);
        let (host, root) = (self.host, self.root);
        folders.take_while(|folder| folder.len() >= root.len()).map(|folder| Self { host, root, folder })
    }

    fn read(&self, name: &'static str) -> Result<String, CgroupError> {
        let folder = || self.folder.clone();
        match self.host.kernel_file(&format!("{}/{name}", self.folder)) {
            Ok(Some(text)) => Ok(String::from_utf8_lossy(&text).trim().to_owned()),
            Ok(None) => Err(CgroupError::NoController { name, folder: folder() }),
            Err(error) => Err(CgroupError::File { name, folder: folder(), error }),
        }
    }

    fn differs(&self, name: &'static str) -> CgroupError {
        let value = self.read(name).unwrap_or_else(|_| "missing".to_owned());
        CgroupError::Differs { name, folder: self.folder.clone(), value }
    }
}

/// Makes a cgroup with a limit of this kind and reads the limit back, for `doctor`. The error names
/// the missing part.
pub(crate) fn try_cgroup(host: &Host, session: &Session, kind: LimitKind) -> Result<(), CgroupError> {
    let (source, _) = find_source(host, session, &[kind])?;
    let limit = if kind == LimitKind::Memory { Limit::memory(64 << 20) } else { Limit::cpus(100) };
    let words = source.words(&[limit]);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).arg("cat");
    if let CgroupSource::Systemd { runtime, .. } = &source {
        command.env("XDG_RUNTIME_DIR", runtime.as_path());
    }
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let maker = || words[0].display().to_string();
    let mut child = child.map_err(|error| CgroupError::NotStarted { maker: maker(), error })?;
    // `cat` echoes a byte. When the answer comes, the process is in its cgroup.
    let answered = echo(&mut child, bwrap::PATIENCE).map_err(|e| match e.kind() {
        io::ErrorKind::TimedOut => CgroupError::NoAnswer(maker()),
        _ => CgroupError::NotMade(maker()),
    });
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let checked = answered.and_then(|()| held(host, pid.ok_or(CgroupError::NoProcess)?, limit));
    let _ = child.kill();
    let _ = child.wait();
    if let CgroupSource::Delegated { folder, .. } = &source {
        let _ = remove_ended(host, folder);
    }
    checked
}

/// Writes a byte to `child`, and waits up to `time` for a byte from it.
fn echo(child: &mut Child, time: Duration) -> io::Result<()> {
    let streams = child.stdin.as_mut().zip(child.stdout.as_mut());
    let (stdin, stdout) = streams.ok_or(io::ErrorKind::BrokenPipe)?;
    stdin.write_all(b"x")?;
    let time = Timespec::try_from(time).ok();
    if retry_on_intr(|| poll(&mut [PollFd::new(stdout, PollFlags::IN)], time.as_ref()))? == 0 {
        return Err(io::ErrorKind::TimedOut.into());
    }
    stdout.read_exact(&mut [0])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;

    // SPEC Z9
    #[test]
    fn a_program_that_makes_no_scope_is_not_waited_for_without_end() {
        let answer = |script: &str, time| {
            let mut command = Command::new("sh");
            let mut child = command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let answer = echo(&mut child, time).map_err(|e| e.kind());
            child.kill().unwrap();
            child.wait().unwrap();
            answer
        };
        assert_eq!(answer("exec cat", Duration::from_secs(60)), Ok(()));
        assert_eq!(answer("exec sleep 1000", Duration::from_millis(50)), Err(io::ErrorKind::TimedOut));
        assert_eq!(answer("head -c 1 >/dev/null", Duration::from_secs(60)), Err(io::ErrorKind::UnexpectedEof));
    }

    // SPEC Z7
    #[test]
    fn a_list_of_swap_that_cannot_be_read_may_have_some() {
        let root = tempfile::tempdir().unwrap();
        let host = Host::at(root.path());
        let swaps = root.path().join("proc/swaps");
        assert!(!has_swap(&host));
        fs::create_dir_all(swaps.parent().unwrap()).unwrap();
        for (text, expected) in [("Filename Type Size\n", false), ("Filename Type Size\n/dev/sda2 partition 9\n", true)]
        {
            fs::write(&swaps, text).unwrap();
            assert_eq!(has_swap(&host), expected);
        }
        fs::remove_file(&swaps).unwrap();
        fs::create_dir(&swaps).unwrap();
        assert!(has_swap(&host));
    }

    // SPEC Z7
    #[test]
    fn the_nearest_cgroup_that_is_delegated_with_its_controllers_is_found() {
        let root = tempfile::tempdir().unwrap();
        let host = Host::at(root.path());
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let found = |kinds: &[LimitKind]| delegated(&host, kinds).map(|folder| folder.to_string());
        assert_eq!(found(&[LimitKind::Cpus]), None);
        write(&format!("proc/{}/cgroup", getpid()), "4:memory:/x\n0::/a/b/c\n");
        for (folder, given) in [("", "cpu memory"), ("/a", "cpu"), ("/a/b", ""), ("/a/b/c", "")] {
            write(&format!("sys/fs/cgroup{folder}/cgroup.procs"), "");
            write(&format!("sys/fs/cgroup{folder}/cgroup.subtree_control"), given);
        }
        assert_eq!(found(&[LimitKind::Cpus]).as_deref(), Some("/sys/fs/cgroup/a"));
        assert_eq!(found(&[LimitKind::Memory, LimitKind::Cpus]).as_deref(), Some("/sys/fs/cgroup"));
        fs::remove_file(root.path().join("sys/fs/cgroup/a/cgroup.procs")).unwrap();
        assert_eq!(found(&[LimitKind::Cpus]).as_deref(), Some("/sys/fs/cgroup"));
    }

    // SPEC Z7
    #[test]
    fn only_the_cgroups_of_ended_runs_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let mut ended = Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let names =
            [format!("agent-sandbox-{}", ended.id()), format!("agent-sandbox-{}", getpid()), "shell".to_owned()];
        for name in names.iter().map(String::as_str).chain(["agent-sandbox-x"]) {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        let folder = AbsPath::normalize(root.path()).unwrap();
        remove_ended(&Host::at("/"), &folder).unwrap();
        let left = names.map(|name| root.path().join(name).exists());
        assert_eq!((left, root.path().join("agent-sandbox-x").exists()), ([false, true, true], true));
    }
}
