//! From a plan to words. OWNS the spelling of bwrap's flags; pure.

mod flags;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use crate::ablate::{self, Mitigation};
use crate::bytes::Word;
pub use crate::descriptors::Data;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::environment::Environment;
use crate::guard_plan::{self, GuardMount, GuardPlan};
use crate::origin::Origin;
use crate::path::AbsPath;
use crate::placeholder::Placeholder;
use crate::places;
use crate::plan::{BindKind, Dropped, IfGone, Mount, Plan, Planned, Purpose, Split};
use crate::resolve::NewFile;
use crate::seccomp;

pub use flags::Features;
use flags::{DISABLE_USERNS, PERMS};

/// bwrap gives up past this many words (`MAX_ARGS`), the wrapped command's own included.
const MAX_WORDS: usize = 9000;

/// The first after standard error.
pub(crate) const FIRST_DESCRIPTOR: i32 = 3;

/// The words of one step, and why they are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    pub words: Vec<OsString>,
    pub purpose: Purpose,
    pub because: Origin,
}

impl Operation {
    /// The reason, for people.
    pub fn why(&self) -> String {
        self.purpose.explained(&self.because)
    }
}

/// The second stage: bwrap starts it, and it starts the command.
#[derive(Clone, Debug)]
pub struct Guard {
    /// Our own executable, which bwrap starts by its path on the host: nothing covers that yet.
    pub program: AbsPath,
    pub plan: GuardPlan,
    /// Why each mount of the plan is there, in their order.
    pub because: Vec<(Purpose, Origin)>,
    /// The descriptor that the plan is read from.
    pub descriptor: i32,
}

impl Guard {
    /// `plan`, as it is read from its descriptor.
    pub(crate) fn data(&self, plan: &GuardPlan) -> Data {
        Data { descriptor: self.descriptor, content: plan.to_text().into_bytes() }
    }
}

/// What starts the second stage; the command follows.
pub(crate) fn guard_words(program: &AbsPath, descriptor: i32) -> [OsString; 4] {
    let program = program.as_os_str().to_owned();
    [program, guard_plan::SUBCOMMAND.into(), descriptor.to_string().into(), "--".into()]
}

/// The whole command: what is printed is what is executed. A run that starts bwrap ahead gives it the same words over a descriptor, and the command in the plan (SPEC
/// S17).
#[derive(Clone, Debug)]
pub struct Argv {
    pub program: AbsPath,
    pub operations: Vec<Operation>,
    pub guard: Option<Guard>,
    pub command: Vec<OsString>,
    /// Where it begins.
    pub cwd: AbsPath,
    /// Directories that must exist before the first word is executed.
    pub create: Vec<AbsPath>,
    /// Files that must exist before it, too.
    pub new_files: Vec<NewFile>,
    /// What the command gets. bwrap is started with this or with nothing, and with nothing else: it shows inside, in `/proc/1/environ`.
    pub environment: Environment,
    /// What must stand on the host before the first word is executed, and is removed after the last.
    pub placeholders: Vec<Placeholder>,
    /// Descriptors that must be open on these contents. One for each, because bwrap closes a descriptor after its
    /// first use.
    pub data: Vec<Data>,
    pub dropped: Vec<Dropped>,
    pub before: Before,
}

/// What is done to the process before it becomes bwrap, and cannot be said in words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Before {
    /// Signals and abstract sockets stay inside. Where there is a second stage, that one does it.
    pub scope: bool,
    /// What is mounted on the host later does not appear inside. Only root can do this here, and a second stage can for everybody.
    pub private_mounts: bool,
}

impl Argv {
    /// All words, bwrap first.
    pub fn words(&self) -> Vec<OsString> {
        std::iter::once(self.program.as_os_str().to_owned())
            .chain(self.own_words().cloned())
            .chain(["--".into()])
            .chain(self.inside())
            .collect()
    }

    /// Those that are for bwrap alone.
    pub(crate) fn own_words(&self) -> impl Iterator<Item = &OsString> {
        self.operations.iter().flat_map(|operation| &operation.words)
    }

    /// What bwrap executes.
    pub fn inside(&self) -> Vec<OsString> {
        let guard = self.guard.iter().flat_map(|guard| guard_words(&guard.program, guard.descriptor));
        // The plan has it where it is too long.
        let in_plan = self.guard.as_ref().is_some_and(|guard| guard.plan.command.is_some());
        guard.chain(self.command.iter().filter(|_| !in_plan).cloned()).collect()
    }

    /// What the descriptors hold, the plan of the second stage included.
    pub fn all_data(&self) -> Vec<Data> {
        self.data.iter().cloned().chain(self.guard.iter().map(|guard| guard.data(&guard.plan))).collect()
    }

    /// The plan of a guard that reports to the socket which it inherits under this number, if any, and gives the command this signal mask.
    pub(crate) fn told(&self, socket: Option<i32>, signal_mask: impl ToString) -> Option<GuardPlan> {
        let plan = self.guard.as_ref()?.plan.clone();
        Some(GuardPlan { report: socket, signal_mask: Some(signal_mask.to_string()), ..plan })
    }

    /// The same with the command, its variables and where it begins, for a guard whose bwrap was started before they were known.
    pub(crate) fn told_all(&self, plan: GuardPlan) -> GuardPlan {
        let word = |word: &OsString| Word(word.clone());
        let variables = self.environment.variables.iter().map(|(name, value)| (word(name), word(value)));
        GuardPlan {
            command: Some(self.command.iter().map(word).collect()),
            environment: Some(variables.collect()),
            directory: Some(self.cwd.clone()),
            ..plan
        }
    }

    /// bwrap does not count its own name.
    fn count(&self) -> usize {
        self.own_words().count() + ["--"].len() + self.inside().len()
    }
}

/// What this machine has to carry a policy out with.
#[derive(Clone, Debug)]
pub struct Engine {
    pub bwrap: AbsPath,
    /// The kernel can keep signals and abstract sockets inside.
    pub landlock: bool,
    /// It can keep a command from making names elsewhere than in some folders.
    pub names: bool,
    /// The kernel can filter system calls.
    pub seccomp: bool,
    /// The flags that bwrap has.
    pub features: Features,
    /// The caller may make a mount namespace without a user namespace: root, outside of most containers.
    pub own_mounts: bool,
}

/// What surrounds the mounts.
pub struct Surroundings<'a> {
    pub engine: &'a Engine,
    pub cwd: &'a AbsPath,
    pub network: bool,
    pub as_root: bool,
    /// What runs inside as the second stage.
    pub guard: Option<&'a AbsPath>,
    /// The command may make user namespaces.
    pub nested: bool,
    pub environment: &'a Environment,
    pub create: &'a [AbsPath],
    pub new_files: &'a [NewFile],
    pub command: &'a [OsString],
}

/// The words of bwrap's own where there is a second stage, for who knows no plan yet. Whether they are those of the plan is to be compared.
pub(crate) fn foreseen(network: bool, as_root: bool, cwd: &AbsPath) -> Vec<OsString> {
    let root = Mount::Bind { path: AbsPath::root(), kind: BindKind::ReadOnly, if_gone: IfGone::Fail };
    let proc = Mount::Proc { path: places::at(places::PROC) };
    let mounts = [root, proc].into_iter().flat_map(|mount| words(&mount, &mut Vec::new()));
    let before = before_mounts(network, as_root, true).into_iter().flat_map(|operation| operation.words);
    before.chain(mounts).chain(working_directory(cwd).words).collect()
}

fn before_mounts(network: bool, as_root: bool, guard: bool) -> Vec<Operation> {
    let mut operations = vec![always(["--die-with-parent"], "nothing outlives us")];
    operations.push(always(["--unshare-all", "--unshare-user"], "own namespaces"));
    if network {
        operations.push(always(["--share-net"], "the network is on"));
    }
    if as_root && !ablate::is_off(Mitigation::RootCapabilities) {
        // Without these root inside could unmount what hides a path.
        operations.push(always(["--cap-drop", "ALL"], "root keeps no capability"));
    }
    if guard {
        operations.extend(power_of_guard(as_root));
    }
    operations
}

fn working_directory(cwd: &AbsPath) -> Operation {
    Operation {
        words: vec!["--chdir".into(), cwd.as_os_str().to_owned()],
        purpose: Purpose::Base,
        because: Origin::BuiltIn("working directory"),
    }
}

pub fn lower(plan: &Plan, around: &Surroundings, diagnostics: &mut Diagnostics) -> Argv {
    let plain = around.guard.is_none();
    let mut operations = before_mounts(around.network, around.as_root, !plain);
    let features = &around.engine.features;
    let disable_userns = features.has(DISABLE_USERNS);
    if plain && !around.nested && disable_userns {
        operations.push(always([DISABLE_USERNS], "no user namespaces inside"));
    }
    let split = plan.split(!plain);
    let (mounts, mut data) = mounts(&split);
    operations.extend(mounts);
    if plain && around.engine.seccomp {
        let program = seccomp::program(around.nested || disable_userns).unwrap_or_default();
        let descriptor = next_descriptor(&data);
        data.push(Data { descriptor, content: seccomp::as_bytes(&program) });
        operations.push(Operation {
            words: spelled(["--seccomp".as_ref(), descriptor.to_string().as_ref()]),
            purpose: Purpose::Base,
            because: Origin::BuiltIn("what reaches past mounts is refused"),
        });
    }
    if plain && around.as_root {
        operations.push(always(["--ro-bind", "/proc/sys", "/proc/sys"], "root cannot change the kernel's settings"));
    }
    operations.push(working_directory(around.cwd));
    let (mounts, because): (Vec<GuardMount>, Vec<_>) = split
        .guard
        .into_iter()
        .map(|(mount, planned)| (mount, (planned.purpose.clone(), planned.because.clone())))
        .unzip();
    let guard = around.guard.map(|program| Guard {
        program: program.clone(),
        plan: GuardPlan {
            mounts,
            expect: plan.expected(),
            proc_read_only: read_only_in_proc(around.as_root),
            nested: around.nested,
            landlock: around.engine.landlock,
            // Who may make mounts of his own cannot have this.
            names: around.engine.names && !around.nested,
            seccomp: around.engine.seccomp,
            report: None,
            signal_mask: None,
            json: false,
            command: None,
            environment: None,
            directory: None,
        },
        because,
        descriptor: next_descriptor(&data),
    });
    let mut argv = Argv {
        program: around.engine.bwrap.clone(),
        operations,
        guard,
        command: around.command.to_vec(),
        cwd: around.cwd.clone(),
        create: around.create.to_vec(),
        new_files: around.new_files.to_vec(),
        environment: around.environment.clone(),
        placeholders: plan.placeholders.clone(),
        data,
        dropped: plan.dropped.clone(),
        before: Before { scope: plain && around.engine.landlock, private_mounts: plain && around.engine.own_mounts },
    };
    if let count = argv.count()
        && count > MAX_WORDS
        && let Some(guard) = &mut argv.guard
    {
        guard.plan.command = Some(argv.command.iter().cloned().map(Word).collect());
    }
    refuse_too_many_words(&argv, diagnostics);
    flags::refuse_unknown(&argv, features, diagnostics);
    argv
}

/// What lets the second stage mount, set the limit of user namespaces, and be the caller again in the namespace that it goes on to. It gives all
/// of it up before the command starts.
fn power_of_guard(as_root: bool) -> Vec<Operation> {
    const WHY: &str = "lets the second stage mount, and nobody else";
    let root = (!as_root).then(|| always(["--uid", "0", "--gid", "0"], WHY));
    let capabilities =
        ["CAP_SYS_ADMIN", "CAP_SETFCAP", "CAP_SYS_RESOURCE"].map(|name| always(["--cap-add", name], WHY));
    root.into_iter().chain(capabilities).collect()
}

/// What bwrap mounts, one operation for each in the order of the plan, and what is read from descriptors for that.
pub fn mounts(split: &Split) -> (Vec<Operation>, Vec<Data>) {
    let mut data = Vec::new();
    let operation = |planned: &&Planned| Operation {
        words: words(&planned.mount, &mut data),
        purpose: planned.purpose.clone(),
        because: planned.because.clone(),
    };
    let operations = split.bwrap.iter().map(operation).collect();
    (operations, data)
}

/// Where root, even without capabilities, could change the kernel's settings. For a user only the limit of namespaces matters.
fn read_only_in_proc(as_root: bool) -> Vec<AbsPath> {
    let root_too = ["bus", "fs", "irq", "sysrq-trigger"];
    let names = root_too.into_iter().filter(|_| as_root).chain(["sys"]);
    names.map(|name| places::at(places::PROC).child(name)).collect()
}

fn next_descriptor(data: &[Data]) -> i32 {
    data.last().map_or(FIRST_DESCRIPTOR, |last| last.descriptor + 1)
}

fn always<const N: usize>(words: [&str; N], why: &'static str) -> Operation {
    Operation { words: words.map(OsString::from).to_vec(), purpose: Purpose::Base, because: Origin::BuiltIn(why) }
}

fn words(mount: &Mount, data: &mut Vec<Data>) -> Vec<OsString> {
    match mount {
        Mount::Bind { path, kind, if_gone } => {
            let flag = match (kind, if_gone) {
                (BindKind::ReadOnly, IfGone::Fail) => "--ro-bind",
                (BindKind::ReadOnly, IfGone::Skip) => "--ro-bind-try",
                (BindKind::Writable, IfGone::Fail) => "--bind",
                (BindKind::Writable, IfGone::Skip) => "--bind-try",
                (BindKind::WithDevices, IfGone::Fail) => "--dev-bind",
                (BindKind::WithDevices, IfGone::Skip) => "--dev-bind-try",
            };
            spelled([flag.as_ref(), path.as_os_str(), path.as_os_str()])
        }
        Mount::OwnBinary { path, executable } => {
            spelled(["--ro-bind".as_ref(), executable.as_os_str(), path.as_os_str()])
        }
        Mount::Elsewhere { path, source } => spelled(["--bind".as_ref(), source.as_os_str(), path.as_os_str()]),
        Mount::Tmpfs { path, mode } => with_mode(*mode, "--tmpfs", path),
        Mount::Directory { path, mode } => with_mode(*mode, "--dir", path),
        Mount::Symlink { path, target } => spelled(["--symlink".as_ref(), target.as_os_str(), path.as_os_str()]),
        Mount::MaskFile { path, .. } => spelled(["--ro-bind".as_ref(), "/dev/null".as_ref(), path.as_os_str()]),
        Mount::DataFile { path, content } => {
            let descriptor = next_descriptor(data);
            data.push(Data { descriptor, content: content.clone() });
            spelled(["--ro-bind-data".as_ref(), descriptor.to_string().as_ref(), path.as_os_str()])
        }
        Mount::Seal { path } => spelled(["--remount-ro".as_ref(), path.as_os_str()]),
        Mount::Dev { path } => spelled(["--dev".as_ref(), path.as_os_str()]),
        Mount::Proc { path } => spelled(["--proc".as_ref(), path.as_os_str()]),
    }
}

/// What bwrap uses when nothing is said.
const DEFAULT_MODE: u32 = 0o755;

fn with_mode(mode: u32, flag: &str, path: &AbsPath) -> Vec<OsString> {
    let mut words = Vec::new();
    if mode != DEFAULT_MODE {
        words = spelled([PERMS.as_ref(), format!("{mode:04o}").as_ref()]);
    }
    words.extend(spelled([flag.as_ref(), path.as_os_str()]));
    words
}

fn spelled<const N: usize>(words: [&OsStr; N]) -> Vec<OsString> {
    words.map(OsStr::to_owned).to_vec()
}

fn refuse_too_many_words(argv: &Argv, diagnostics: &mut Diagnostics) {
    let count = argv.count();
    if count <= MAX_WORDS {
        return;
    }
    // Of rules in a file it is the file that counts: each of thousands costs little.
    let by = |origin: &Origin| match origin {
        Origin::File(place) => place.source.name.clone(),
        other => other.to_string(),
    };
    let mut cost: BTreeMap<String, usize> = BTreeMap::new();
    for operation in argv.operations.iter().filter(|operation| operation.purpose != Purpose::Base) {
        *cost.entry(by(&operation.because)).or_default() += operation.words.len();
    }
    let mut cost: Vec<(String, usize)> = cost.into_iter().collect();
    cost.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let most: Vec<String> = cost.iter().take(3).map(|(rule, words)| format!("{rule} ({words} words)")).collect();
    let way_out =
        if argv.guard.is_none() { "leave `--no-guard` out: the second stage has no such limit; or " } else { "" };
    diagnostics.push(
        Diagnostic::new(
            Code::TooManyWords,
            format!("the policy comes to {count} words, and bwrap takes at most {MAX_WORDS}"),
        )
        .help(format!(
            "{way_out}cover whole directories instead of their files; most words come from {}",
            most.join(", ")
        )),
    );
}
