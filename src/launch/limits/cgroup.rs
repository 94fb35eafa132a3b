//! The limits of memory and processor time. They need a cgroup: a scope of the systemd user
//! manager.
//!
//! systemd accepts the properties of a scope even where it does not control memory or processor
//! time. So the supervisor reads the limits back from the scope's cgroup before the command starts.

use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::Pid;

use crate::compile::Compiled;
use crate::compile::limits::unavailable;
use crate::compile::lower::{Scope, scope_args};
use crate::diagnostic::{Diagnostic, reason};
use crate::guard::report::Report;
use crate::host::{Host, Resolved, Session};
use crate::launch::bwrap;
use crate::policy::{AbsPath, Limit, LimitKind};
use crate::sys::ablate::{self, Mitigation};

/// The programs that make a scope, if the policy has a limit that needs one.
pub(crate) fn scope(host: &Host, session: &Session, compiled: &Compiled) -> Result<Option<Scope>, Diagnostic> {
    let needs = [LimitKind::Memory, LimitKind::Cpus].into_iter().find_map(|kind| compiled.policy.limits.get(&kind));
    let Some(limit) = needs else { return Ok(None) };
    let refused = |why: String| {
        let help =
            "run in a session of systemd (`loginctl enable-linger` starts its user manager), or remove the limit";
        unavailable(limit.value.kind(), &why).help(help).at(&limit.origin)
    };
    let (runtime, programs) = manager(host, session).map_err(refused)?;
    for (name, program) in PROGRAMS.iter().zip(&programs) {
        bwrap::refuse_planted(compiled, name, program)?;
    }
    let [systemd_run, env] = programs.map(|program| program.path);
    Ok(Some(Scope { systemd_run, env, runtime }))
}

const PROGRAMS: [&str; 2] = ["systemd-run", "env"];

/// The folder in which the user manager listens, and the programs in `PROGRAMS`.
fn manager(host: &Host, session: &Session) -> Result<(AbsPath, [Resolved; 2]), String> {
    let find =
        |name: &str| bwrap::first_on_path(host, session, name).ok_or_else(|| format!("there is no `{name}` on PATH"));
    let runtime = session
        .path_var("XDG_RUNTIME_DIR")
        .ok_or("`XDG_RUNTIME_DIR` is not set, so no user manager of systemd runs")?;
    let manager = runtime.join("systemd/private");
    if !host.exists(&manager).unwrap_or(false) {
        return Err(format!("no user manager of systemd listens at `{manager}`"));
    }
    let [systemd_run, env] = PROGRAMS.map(find);
    Ok((runtime, [systemd_run?, env?]))
}

/// Reads the limits back from the cgroup of a process. The error names the first limit that is not
/// enforced.
pub(super) fn check(host: &Host, process: Pid, limits: &[Limit]) -> Result<(), Report> {
    for limit in limits.iter().filter(|_| !ablate::is_off(Mitigation::CgroupCheck)) {
        held(host, process, *limit).map_err(|why| Report::LimitRefused(limit.kind(), why))?;
    }
    Ok(())
}

fn held(host: &Host, process: Pid, limit: Limit) -> Result<(), String> {
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

/// The cgroup of a process in the hierarchy of version 2.
struct Cgroup<'h> {
    host: &'h Host,
    path: String,
}

impl<'h> Cgroup<'h> {
    fn of(host: &'h Host, process: Pid) -> Result<Self, String> {
        let list = host.kernel_file(&format!("proc/{}/cgroup", process.as_raw_nonzero())).ok().flatten();
        let list = String::from_utf8(list.unwrap_or_default()).unwrap_or_default();
        let path =
            list.lines().find_map(|line| line.strip_prefix("0::/")).ok_or("there are no cgroups of version 2")?;
        let places = ["sys/fs/cgroup", "sys/fs/cgroup/unified"].map(|root| format!("{root}/{path}"));
        let is_there =
            |place: &String| host.kernel_file(&format!("{place}/cgroup.procs")).is_ok_and(|found| found.is_some());
        let path = places.into_iter().find(is_there).ok_or_else(|| format!("the cgroup `/{path}` cannot be read"))?;
        Ok(Self { host, path })
    }

    fn read(&self, name: &str) -> Result<String, String> {
        match self.host.kernel_file(&format!("{}/{name}", self.path)) {
            Ok(Some(text)) => Ok(String::from_utf8_lossy(&text).trim().to_owned()),
            Ok(None) => Err(format!("`{name}` does not appear in `/{}`: systemd does not control it there", self.path)),
            Err(e) => Err(format!("`{name}` in `/{}`: {}", self.path, reason(&e))),
        }
    }

    fn differs(&self, name: &str) -> String {
        format!("`{name}` in `/{}` is {}", self.path, self.read(name).unwrap_or_else(|_| "missing".to_owned()))
    }
}

/// Makes a scope and reads its limits back, for `doctor`. The error names the missing part.
pub(crate) fn try_scope(host: &Host, session: &Session) -> Result<(), String> {
    let (runtime, [systemd_run, _]) = manager(host, session)?;
    let limits = [Limit::memory(64 << 20), Limit::cpus(100)];
    let mut command = Command::new(systemd_run.path.as_path());
    command.args(scope_args(&limits)).arg("cat").env("XDG_RUNTIME_DIR", runtime.as_path());
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = child.map_err(|e| format!("`{}`: {}", systemd_run.path, reason(&e)))?;
    // `cat` echoes a byte. When the answer comes, the process is in its scope.
    let answered = echo(&mut child, bwrap::PATIENCE).map_err(|e| match e.kind() {
        io::ErrorKind::TimedOut => "`systemd-run` does not answer".to_owned(),
        _ => "`systemd-run` cannot make a scope".to_owned(),
    });
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let checked = answered.and_then(|()| {
        let pid = pid.ok_or("the scope has no process")?;
        limits.iter().try_for_each(|limit| held(host, pid, *limit))
    });
    let _ = child.kill();
    let _ = child.wait();
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
}
