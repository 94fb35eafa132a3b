//! Turns a plan into bwrap's arguments. This stage alone spells bwrap's flags. It reads nothing
//! from the machine.

mod cgroup;
mod limit;

use std::ffi::{OsStr, OsString};

use crate::compile::Compiled;
use crate::compile::environment::{Environment, MARK};
use crate::compile::guard_plan::{GuardPlan, LIMIT, REPORT, SUBCOMMAND};
use crate::compile::limits::{is_own_tmp, is_writable_tmpfs};
use crate::compile::placeholder::Placeholder;
use crate::compile::plan::{
    BindKind, Mount, OnMissingSource, PlannedLink, PlannedMount, Purpose, RedundantRule, Split,
};
use crate::compile::readme;
use crate::compile::resolve::NewFile;
use crate::diagnostic::Diagnostics;
use crate::policy::{AbsPath, Limit, LimitKind, Origin, places, sha256};
use crate::sys::ablate::{self, Mitigation};
pub use crate::sys::fd::Data;
use crate::sys::seccomp;

pub use cgroup::{CGROUP_PREFIX, CgroupSource, LoweredCgroup};
pub use limit::MAX_WORDS;

/// The newest flag that every policy needs (bubblewrap 0.5).
pub const PERMS: &str = "--perms";
/// The flag that forbids user namespaces inside (bubblewrap 0.8).
pub const DISABLE_USERNS: &str = "--disable-userns";
/// The flag for the size of a tmpfs (bubblewrap 0.7).
pub const SIZE: &str = "--size";

/// The first file descriptor after those of the run sheet and the supervisor's socket
/// (`guard_plan`).
const FIRST_DESCRIPTOR: i32 = REPORT + 1;

/// The arguments of one step, and why they are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    pub words: Vec<OsString>,
    pub purpose: Purpose,
    pub because: Origin,
}

impl Operation {
    /// The reason as text for the user.
    pub fn why(&self) -> String {
        self.purpose.explained(&self.because)
    }
}

/// The guard: bwrap starts it, and it starts the command.
#[derive(Clone, Debug)]
pub struct Guard {
    pub plan: GuardPlan,
    /// The plan as the guard reads it.
    pub text: String,
    /// The SHA-256 of the text. The guard refuses another plan.
    pub hash: String,
    /// The purpose and the origin of each step of the plan's overflow list, in their order.
    pub because: Vec<(Purpose, Origin)>,
    /// The limits that the guard sets, and where each was written.
    pub limits: Vec<(Limit, Origin)>,
}

/// The whole command line. agent-sandbox executes exactly the form that it prints.
#[derive(Clone, Debug)]
pub struct Argv {
    pub program: AbsPath,
    pub operations: Vec<Operation>,
    pub guard: Option<Guard>,
    pub command: Vec<OsString>,
    /// Directories to create before bwrap starts.
    pub create: Vec<AbsPath>,
    /// Files to create before bwrap starts.
    pub new_files: Vec<NewFile>,
    /// The command's environment. bwrap is started with it and with nothing else, because
    /// `/proc/1/environ` shows bwrap's environment inside.
    pub environment: Environment,
    /// Files and directories that must exist on the host before bwrap starts. They are removed
    /// after bwrap has ended.
    pub placeholders: Vec<Placeholder>,
    /// Files of ours in the state folder that the arguments bind.
    pub files: Vec<MountFile>,
    /// Contents that bwrap reads from open file descriptors: the mounted contents if there is no
    /// state folder, and the filter of `--seccomp`. Each content has a descriptor of its own,
    /// because bwrap closes a descriptor after its first use.
    pub data: Vec<Data>,
    pub dropped: Vec<RedundantRule>,
    pub pre_exec: PreExec,
    /// The limits that the supervisor enforces, and where each was written. A printed command that
    /// a user pastes into a shell has no supervisor.
    pub supervised: Vec<(Limit, Origin)>,
    /// The size of the private `/tmp`, if it has one.
    pub tmp_size: Option<u64>,
    /// The cgroup in which bwrap starts, if a limit needs one.
    pub cgroup: Option<LoweredCgroup>,
}

/// A file of ours that bwrap binds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountFile {
    pub path: AbsPath,
    pub content: MountContent,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountContent {
    /// A file whose name is the SHA-256 of these bytes.
    Bytes(Vec<u8>),
    /// A socket inode of mode 0000, to which no process is bound. Opening it gives EACCES, and
    /// programs that look for regular files pass it by.
    Unreadable,
}

/// The source of the contents that bwrap mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountFiles {
    In(AbsPath),
    /// File descriptors, because the state folder cannot be written. Hidden files then show
    /// `/dev/null`.
    Descriptors,
}

/// The name of the file that masks others.
const MASKED: &str = "masked";

/// Steps in the process that becomes bwrap, for which bwrap has no flag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PreExec {
    /// Landlock keeps signals and abstract sockets inside. With a guard, the guard does this.
    pub scope: bool,
    /// Mounts that the host makes later do not appear inside. In this process only root can
    /// arrange that; the guard can do it for every user.
    pub private_mounts: bool,
}

impl Argv {
    /// All arguments, those that make the cgroup in front of bwrap's.
    pub fn all_args(&self) -> Vec<OsString> {
        let cgroup = self.cgroup.iter().flat_map(|cgroup| cgroup.words.iter().cloned());
        cgroup.chain(self.words()).collect()
    }

    /// bwrap and all its arguments.
    pub fn words(&self) -> Vec<OsString> {
        std::iter::once(self.program.as_os_str().to_owned())
            .chain(self.operations.iter().flat_map(|operation| &operation.words).cloned())
            .chain(["--".into()])
            .chain(self.inside())
            .collect()
    }

    /// The limits that this command or its supervisor enforces.
    pub fn limits(&self) -> impl Iterator<Item = Limit> {
        let by_guard = self.guard.iter().flat_map(|guard| &guard.limits);
        let by_cgroup = self.cgroup.iter().flat_map(|cgroup| &cgroup.limits);
        let by_others = by_guard.chain(&self.supervised).chain(by_cgroup).map(|(limit, _)| *limit);
        by_others.chain(self.tmp_size.map(Limit::tmp))
    }

    /// The arguments of the program that bwrap starts: the guard, or the command itself.
    pub fn inside(&self) -> Vec<OsString> {
        let args = |guard: &Guard| {
            let limits = guard.limits.iter().flat_map(|(limit, _)| [LIMIT.to_owned(), limit.to_string()]);
            let begin = [places::GUARD, SUBCOMMAND, &guard.hash].map(str::to_owned);
            begin.into_iter().chain(limits).chain(["--".to_owned()]).map(OsString::from).collect::<Vec<_>>()
        };
        self.guard.iter().flat_map(args).chain(self.command.iter().cloned()).collect()
    }
}

/// The abilities of this machine to enforce a policy.
#[derive(Clone, Debug)]
pub struct Machine {
    pub bwrap: AbsPath,
    pub kernel: Kernel,
    /// bwrap has `--disable-userns`. Only tested if there is no guard.
    pub disables_userns: bool,
    /// The caller may make a mount namespace without a user namespace: root, outside of most
    /// containers.
    pub own_mounts: bool,
    pub mount_files: MountFiles,
    /// bwrap takes [`SIZE`]. Without it the default size of `/tmp` is left out.
    pub takes_size: bool,
    /// `None` unless the policy has a limit that needs a cgroup.
    pub cgroup: Option<CgroupSource>,
}

/// Protections that a kernel may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Landlock can keep signals and abstract sockets inside (Linux 6.12).
    pub landlock: bool,
    /// Landlock can restrict where a command opens files for writing and changes names (Linux
    /// 5.19).
    pub landlock_changes: bool,
    /// seccomp can filter system calls.
    pub seccomp: bool,
}

pub fn lower(compiled: &Compiled, machine: &Machine, command: &[OsString], diagnostics: &mut Diagnostics) -> Argv {
    let plan = &compiled.plan;
    let split = plan.split(compiled.guard);
    let guard = guard(compiled, &split, machine.kernel);
    let tmp_size = compiled.policy.limit(LimitKind::Tmp).filter(|_| !ablate::is_off(Mitigation::Limits));
    let tmp_size = tmp_size.filter(|_| machine.takes_size && plan.mounts.iter().any(is_own_tmp));
    let own_size = Some(compiled.policy.own_size).filter(|_| machine.takes_size && !ablate::is_off(Mitigation::Limits));
    let mut spelling = Spelling::new(compiled, &machine.mount_files, guard.as_ref(), own_size);
    let mut operations = namespaces(compiled);
    operations.extend(spelling.operations(&split.bwrap).into_iter().map(|(_, operation)| operation));
    let Spelling { files, mut data, .. } = spelling;
    if !compiled.guard {
        operations.extend(instead_of_guard(compiled, machine, &mut data));
    }
    let cwd = compiled.layers.project.cwd.as_os_str();
    operations.push(always(["--setenv", MARK, "1"], "tells programs that they are inside"));
    operations.push(always([OsStr::new("--chdir"), cwd], "working directory"));
    let plain = guard.is_none();
    let argv = Argv {
        program: machine.bwrap.clone(),
        operations,
        guard,
        command: command.to_vec(),
        create: compiled.created(),
        new_files: compiled.resolution.new_files.clone(),
        environment: compiled.environment.clone(),
        placeholders: plan.placeholders.clone(),
        files,
        data,
        dropped: plan.redundant.clone(),
        pre_exec: PreExec { scope: plain && machine.kernel.landlock, private_mounts: plain && machine.own_mounts },
        tmp_size,
        cgroup: cgroup::lower(compiled, machine.cgroup.as_ref()),
        supervised: limits(compiled, |kind| matches!(kind, LimitKind::Time | LimitKind::Output)),
    };
    limit::refuse_too_many(&argv, diagnostics);
    argv
}

/// The limits of some kinds, and where each was written.
fn limits(compiled: &Compiled, is_meant: impl Fn(LimitKind) -> bool) -> Vec<(Limit, Origin)> {
    let meant = compiled.policy.limits.iter().filter(|(kind, _)| is_meant(**kind));
    meant.map(|(_, limit)| (limit.value, limit.origin.clone())).collect()
}

/// The guard with its plan, if the policy has one.
pub fn guard(compiled: &Compiled, split: &Split, kernel: Kernel) -> Option<Guard> {
    if !compiled.guard {
        return None;
    }
    let nested = compiled.policy.nested.value;
    let pins = split.bwrap.iter().filter(|planned| matches!(planned.purpose, Purpose::Pin { .. }));
    let plan = GuardPlan {
        overflow: split.guard.iter().map(|(step, _)| step.clone()).collect(),
        links: compiled.plan.links.iter().map(PlannedLink::step).collect(),
        expect: split.expect.clone(),
        pins: pins.map(|planned| planned.path.clone()).collect(),
        proc_read_only: read_only_in_proc(compiled.as_root),
        nested,
        landlock: kernel.landlock,
        // A process with this Landlock ruleset can no longer mount.
        changes: kernel.landlock_changes && !nested,
        seccomp: kernel.seccomp,
    };
    let because = split.guard.iter().map(|(_, planned)| (planned.purpose.clone(), planned.because.clone())).collect();
    let text = plan.to_text();
    let limits = limits(compiled, |kind| matches!(kind, LimitKind::Processes | LimitKind::FileSize));
    Some(Guard { hash: sha256(&text), text, plan, because, limits })
}

/// bwrap's mounts in the order of the plan, each with its arguments.
pub fn mounts<'p>(
    compiled: &Compiled,
    split: &Split<'p>,
    guard: Option<&Guard>,
    files: &MountFiles,
) -> Vec<(&'p PlannedMount, Operation)> {
    Spelling::new(compiled, files, guard, Some(compiled.policy.own_size)).operations(&split.bwrap)
}

/// The operations before the first mount.
fn namespaces(compiled: &Compiled) -> Vec<Operation> {
    let as_root = compiled.as_root;
    let mut operations = vec![always(["--die-with-parent"], "nothing outlives us")];
    operations.push(always(["--unshare-all"], "own namespaces"));
    if compiled.policy.network.value {
        operations.push(always(["--share-net"], "the network is on"));
    }
    if as_root {
        operations.push(always(["--unshare-user"], "also for root, own user namespace"));
    }
    if as_root && !ablate::is_off(Mitigation::RootCapabilities) {
        // With capabilities, root inside could unmount a mask.
        operations.push(always(["--cap-drop", "ALL"], "root keeps no capability"));
    }
    if as_root && compiled.guard {
        operations.push(always(
            ["--cap-add", "CAP_SETFCAP"],
            "lets the guard map root; the guard then gives up this capability",
        ));
    }
    operations
}

/// The operations that a guard would make unnecessary.
fn instead_of_guard(compiled: &Compiled, machine: &Machine, data: &mut Vec<Data>) -> Vec<Operation> {
    let mut operations = Vec::new();
    let (nested, disables) = (compiled.policy.nested.value, machine.disables_userns);
    if !nested && disables {
        operations.push(always(["--unshare-user", DISABLE_USERNS], "no user namespaces inside"));
    }
    if machine.kernel.seccomp {
        let program = seccomp::program(nested || disables).unwrap_or_default();
        let descriptor = next_descriptor(data);
        data.push(Data { descriptor, content: seccomp::as_bytes(&program) });
        let words = ["--seccomp", &descriptor.to_string()];
        operations.push(always(words, "system calls that reach past mounts are refused"));
    }
    if compiled.as_root {
        operations.push(always(["--ro-bind", "/proc/sys", "/proc/sys"], "root cannot change the kernel's settings"));
    }
    operations
}

/// The parts of `/proc` that must be read-only. Root, even without capabilities, could change the
/// kernel's settings in all of them. An ordinary user could only change the limit of namespaces,
/// below `/proc/sys`.
fn read_only_in_proc(as_root: bool) -> Vec<AbsPath> {
    let root_too = ["bus", "fs", "irq", "sysrq-trigger"];
    let names = root_too.into_iter().filter(|_| as_root).chain(["sys"]);
    names.map(|name| places::at(places::PROC).child(name)).collect()
}

fn next_descriptor(data: &[Data]) -> i32 {
    data.last().map_or(FIRST_DESCRIPTOR, |last| last.descriptor + 1)
}

fn always<const N: usize>(words: [&(impl AsRef<OsStr> + ?Sized); N], why: &'static str) -> Operation {
    Operation { words: args(words.map(AsRef::as_ref)), purpose: Purpose::Base, because: Origin::BuiltIn(why) }
}

/// Writes mounts as arguments, and collects the contents that they need.
struct Spelling<'a> {
    compiled: &'a Compiled,
    from: &'a MountFiles,
    guard: Option<&'a Guard>,
    /// The size of each writable tmpfs.
    own_size: Option<u64>,
    files: Vec<MountFile>,
    data: Vec<Data>,
}

impl<'a> Spelling<'a> {
    fn new(compiled: &'a Compiled, from: &'a MountFiles, guard: Option<&'a Guard>, own_size: Option<u64>) -> Self {
        Self { compiled, from, guard, own_size, files: Vec::new(), data: Vec::new() }
    }

    /// Makes one operation for each mount of bwrap. A mask and the read-only remount that directly
    /// follows it are one operation.
    fn operations<'p>(&mut self, mounts: &[&'p PlannedMount]) -> Vec<(&'p PlannedMount, Operation)> {
        let mut operations: Vec<(&PlannedMount, Operation)> = Vec::new();
        for planned in mounts.iter().filter(|planned| planned.mount != Mount::OwnRoot) {
            let words = self.words(planned);
            match (operations.last_mut(), &planned.mount) {
                (Some((mask, operation)), Mount::RemountReadOnly) if mask.path == planned.path => {
                    operation.words.extend(words);
                }
                _ => {
                    let (purpose, because) = (planned.purpose.clone(), planned.because.clone());
                    operations.push((planned, Operation { words, purpose, because }));
                }
            }
        }
        operations
    }

    fn words(&mut self, planned: &PlannedMount) -> Vec<OsString> {
        let PlannedMount { path, mount, .. } = planned;
        match mount {
            Mount::Bind { kind, on_missing } => {
                let flag = match kind {
                    BindKind::ReadOnly => "--ro-bind",
                    BindKind::Writable => "--bind",
                    BindKind::WithDevices => "--dev-bind",
                };
                self.bind(flag, path, path, *on_missing)
            }
            Mount::OwnBinary { executable } => self.bind("--ro-bind", executable, path, OnMissingSource::Refuse),
            Mount::SecondMount { source } => self.bind("--bind", source, path, OnMissingSource::Notice),
            Mount::Injected { source } => {
                let flag = if ablate::is_off(Mitigation::InjectedReadOnly) { "--bind" } else { "--ro-bind" };
                self.bind(flag, source, path, OnMissingSource::Refuse)
            }
            Mount::PrivateCopies { source } => self.bind("--bind", source, path, OnMissingSource::Refuse),
            Mount::OwnRoot => Vec::new(),
            Mount::Tmpfs { mode } => {
                let size = self.own_size.filter(|_| is_writable_tmpfs(planned));
                let size = size.map(|size| [SIZE.into(), size.to_string().into()]);
                let mut words: Vec<OsString> = size.into_iter().flatten().collect();
                words.extend(with_mode(*mode, "--tmpfs", path));
                words
            }
            Mount::Directory { mode } => with_mode(*mode, "--dir", path),
            Mount::Symlink { target } => args(["--symlink".as_ref(), target.as_os_str(), path.as_os_str()]),
            Mount::MaskFile { .. } | Mount::MaskSource => self.mask(path),
            Mount::DataFile { content } => self.content(path, content, &sha256(content)),
            Mount::Readme => {
                let text = readme::text(self.compiled);
                self.content(path, text.as_bytes(), &sha256(&text))
            }
            Mount::GuardPlan => {
                let guard = self.guard.map(|guard| (guard.text.as_bytes(), guard.hash.as_str()));
                let (text, hash) = guard.unwrap_or_default();
                self.content(path, text, hash)
            }
            Mount::RemountReadOnly => args(["--remount-ro".as_ref(), path.as_os_str()]),
            Mount::Dev => args(["--dev".as_ref(), path.as_os_str()]),
            Mount::Proc => args(["--proc".as_ref(), path.as_os_str()]),
        }
    }

    /// The arguments of a bind. bwrap fails if the source of a strict bind is missing. `Refuse` is
    /// always strict. `Notice` is strict only without a guard, because a guard notices the missing
    /// mount.
    fn bind(&self, flag: &str, source: &AbsPath, path: &AbsPath, on_missing: OnMissingSource) -> Vec<OsString> {
        let is_strict = match on_missing {
            OnMissingSource::Refuse => true,
            OnMissingSource::Notice => self.guard.is_none(),
            OnMissingSource::Skip => false,
        };
        let flag = if is_strict { flag.to_owned() } else { format!("{flag}-try") };
        args([flag.as_ref(), source.as_os_str(), path.as_os_str()])
    }

    fn mask(&mut self, path: &AbsPath) -> Vec<OsString> {
        let source = match self.from {
            MountFiles::In(folder) => self.file(folder.child(MASKED), MountContent::Unreadable),
            MountFiles::Descriptors => places::at(places::DEV).child("null"),
        };
        args(["--ro-bind".as_ref(), source.as_os_str(), path.as_os_str()])
    }

    fn content(&mut self, path: &AbsPath, content: &[u8], name: &str) -> Vec<OsString> {
        match self.from {
            MountFiles::In(folder) => {
                let source = self.file(folder.child(name), MountContent::Bytes(content.to_vec()));
                args(["--ro-bind".as_ref(), source.as_os_str(), path.as_os_str()])
            }
            MountFiles::Descriptors => {
                let descriptor = next_descriptor(&self.data);
                self.data.push(Data { descriptor, content: content.to_vec() });
                args(["--ro-bind-data".as_ref(), descriptor.to_string().as_ref(), path.as_os_str()])
            }
        }
    }

    fn file(&mut self, path: AbsPath, content: MountContent) -> AbsPath {
        if !self.files.iter().any(|file| file.path == path) {
            self.files.push(MountFile { path: path.clone(), content });
        }
        path
    }
}

/// The mode that bwrap uses without `--perms`.
const DEFAULT_MODE: u32 = 0o755;

fn with_mode(mode: u32, flag: &str, path: &AbsPath) -> Vec<OsString> {
    let mut words = Vec::new();
    if mode != DEFAULT_MODE {
        words = args([PERMS.as_ref(), format!("{mode:04o}").as_ref()]);
    }
    words.extend(args([flag.as_ref(), path.as_os_str()]));
    words
}

fn args<const N: usize>(words: [&OsStr; N]) -> Vec<OsString> {
    words.map(OsStr::to_owned).to_vec()
}
