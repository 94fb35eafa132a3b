//! Two aids for `tests/escape`. A test can switch one mitigation off, to show that this mitigation
//! stops an attack. A test can pause agent-sandbox at a point of a run, so that it does not have
//! to win a race.
//!
//! Only a build with the feature `ablate` reads the two variables. In every other build [`is_off`]
//! is the constant `false`, [`pause`] does nothing, and the binary has neither variable's name.

use crate::policy::AbsPath;

macro_rules! mitigations {
    ($($variant:ident = $name:literal, $effect:literal;)+) => {
        /// The mitigations between a command and the host.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[cfg_attr(not(feature = "ablate"), allow(dead_code))]
        pub(crate) enum Mitigation { $(#[doc = $effect] $variant,)+ }

        #[cfg(feature = "ablate")]
        impl Mitigation {
            const ALL: &[(&str, Mitigation)] = &[$(($name, Mitigation::$variant),)+];
        }
    };
}

mitigations! {
    Pins = "pins", "Directories above a protected path cannot be moved.";
    Placeholders = "placeholders", "A placeholder covers a protected path that is missing.";
    OwnFiles = "own-files", "Our own configuration and state are read-only.";
    Trust = "trust", "A project's file needs consent before it gives access to anything.";
    ConsentEnds = "consent-ends", "Consent ends when the file that it was given to is removed or replaced.";
    LinkChecks = "link-checks", "No rule gives access through a symlink that the command can replace.";
    LinksInFolders = "links-in-folders", "The targets of symlinks in a folder of programs are read-only as well.";
    ExcludeThroughLink = "exclude-through-link", "Excluding a symlink hides its target.";
    Descriptors = "descriptors", "The command gets no descriptor of the caller except the standard streams.";
    Streams = "streams", "A file on a standard stream that was opened for reading can only be read.";
    NoUserNamespaces = "no-user-namespaces", "The command cannot make user namespaces.";
    MountLock = "mount-lock",
        "The mounts are locked: each stays on its mount point, even for a descriptor that outlives the namespace.";
    ClosedMounts = "closed-mounts",
        "If another run is alive, the mounts are made read-only before the placeholders are removed.";
    GuardCheck = "guard-check", "The guard compares the mounts with the plan before the command starts.";
    LookAgain = "look-again",
        "The supervisor compares the host again after mounting. If another run is alive, it compiles the policy again.";
    RootCapabilities = "root-capabilities", "Root keeps no capability.";
    ProcSys = "proc-sys", "The kernel's settings are read-only.";
    PrivatePropagation = "private-propagation", "Mounts that the host makes later do not appear in the sandbox.";
    PrivateTmp = "private-tmp", "The sandbox has its own `/tmp`.";
    PrivateHome = "private-home", "The sandbox has its own home if the policy asks for it.";
    MinimalBase = "minimal-base", "The sandbox has its own root if the policy asks for it.";
    PrivateRun = "private-run", "The sandbox has its own `/run`.";
    SocketMasks = "socket-masks", "Listening sockets that would be visible are masked.";
    LandlockScope = "landlock-scope", "Signals and connections to abstract sockets stay within the sandbox.";
    OwnNames = "own-names",
        "Names change only in writable folders, even through the file descriptors of another sandbox.";
    OwnWrites = "own-writes", "Files, including FIFOs, can be opened for writing only in writable folders.";
    EnvFilter = "env-filter", "The command does not get variables that give access to something.";
    Seccomp = "seccomp", "System calls that reach the terminal, the keyring, or past other checks are refused.";
    UnreadableStops = "unreadable-stops", "An unreadable file that may name a path to protect stops the start.";
    GitPreset = "git-preset", "The rules of `@git`.";
    PasswordHome = "password-home",
        "Secrets in the home of the password file are hidden, even if `$HOME` is another folder.";
    AutorunPreset = "autorun-preset", "The rules of `@autorun`.";
    SecretsPreset = "secrets-preset", "The rules and variables of `@secrets`.";
    AgentsPreset = "agents-preset", "The `ro` rules of `@agents`.";
    CachesPreset = "caches-preset", "The `ro` rules of `@caches`.";
    CachesApartPreset = "caches-apart-preset", "The rules of `@caches-apart`.";
    CrowdedFolders = "crowded-folders", "A folder with too many git directories is protected as a whole.";
    MaskDenied = "mask-denied", "A masked file cannot be opened, instead of being empty.";
    MaskSealed = "mask-sealed", "A mask cannot be written.";
    InjectedReadOnly = "injected-read-only", "The command cannot write through an injected file.";
    InjectedSources = "injected-sources", "A hidden file cannot be injected at another path.";
    InjectedUntracked = "injected-untracked", "Nothing is injected at a path that git tracks.";
    ProjectMarkers = "project-markers", "No placeholder makes the folder around it a project.";
    InjectedIgnored = "injected-ignored", "git in the sandbox ignores injected files.";
    HardLinks = "hard-links", "A protected file with another name is refused.";
    BindAliases = "bind-aliases", "An excluded path does not show through another mount.";
    BwrapPath = "bwrap-path", "`bwrap` does not come from a path that the command can write.";
    GitPath = "git-path", "The `git` that is started outside does not come from a path that a command can write.";
    OwnExecutable = "own-executable", "The command cannot change this program.";
    HeadRestore = "head-restore", "A removed `.git/HEAD` is put back.";
    NestedRepositories = "nested-repositories",
        "A repository that was planted where git enters by itself is moved aside.";
    GitLinks = "git-links", "A new symlink in a git directory is moved aside.";
    ByteBudget = "byte-budget", "The total size of git's files that a run reads is limited.";
    GitState = "git-state", "A file whose content git does not check is moved aside if the command forged it.";
    PrivateKeys = "private-keys", "Only listed keys of a private file reach the host.";
    PrivateCopyChecks = "private-copy-checks",
        "A copy is read only if it is a regular file with one name and not too large.";
    PrivateHeld = "private-held", "No run replaces the host's file while another one has a mount over it.";
    Limits = "limits", "The limits of the policy are enforced.";
    CgroupCheck = "cgroup-check", "The limits of the cgroup are read back before the command starts.";
    Restore = "restore", "A file that the host replaces is covered again.";
    Overlap = "overlap", "A run forgets each fact of its start that a run which has ended since did not know.";
    Reports = "reports", "Changes that matter are reported at the end.";
    KeptReports = "kept-reports", "A report is kept until the user has seen it.";
    BoundedReports = "bounded-reports", "The number and length of the lines of a report are limited.";
    TerminalReset = "terminal-reset", "The settings of the terminal are restored before the report is shown.";
    NoFollow = "no-follow", "Code outside follows no symlink on the way to a file that it changes.";
    Foreground = "foreground", "A sandbox in the background cannot take the foreground of the terminal.";
}

/// The names of the mitigations that are off, with commas between them.
#[cfg(feature = "ablate")]
pub(crate) const VARIABLE: &str = "AGENT_SANDBOX_ABLATE";

/// Whether a test switched `mitigation` off.
#[cfg(feature = "ablate")]
pub(crate) fn is_off(mitigation: Mitigation) -> bool {
    switched_off().contains(&mitigation)
}

#[cfg(not(feature = "ablate"))]
pub(crate) const fn is_off(_: Mitigation) -> bool {
    false
}

/// Reads both variables now. An unknown name ends the process, so that a typo in a test does not
/// leave the mitigation on.
#[cfg(feature = "ablate")]
pub(crate) fn check_names() {
    let _ = switched_off();
    let _ = pauses();
}

/// A point at which a test can pause agent-sandbox.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "ablate"), allow(dead_code))]
pub(crate) enum Point<'a> {
    /// This folder of the host is about to be listed.
    ReadFolder(&'a AbsPath),
    /// This step of making or removing placeholders is done.
    Placeholders(&'static str),
    /// The policy is compiled, the placeholders exist, and the identities of files are recorded.
    /// Nothing that a rule names is mounted.
    BeforeBwrap,
    /// The guard has made and checked all mounts and waits. The supervisor has not compared the
    /// host yet.
    BeforeGo,
    /// A protected file was replaced on the host, and is about to be covered again.
    CoverAgain,
    /// The run has ended, and nothing of its private files has reached the host.
    BeforePrivate,
    /// The run has ended, and its report is kept and not yet shown.
    ReportKept,
    /// The directories that rules ask for are about to be made.
    BeforeCreate,
    /// git does not accept this directory of the project's repository, which is about to be put
    /// back.
    PutBack(&'a str),
}

/// The pauses that a test asks for: on each line a point, a space, and a file. The points are
/// `read-folder:PATH`, `placeholders:STEP`, `put-back:NAME`, `before-create`, `before-bwrap`,
/// `before-go`, `cover-again`, `before-private` and `report-kept`.
#[cfg(feature = "ablate")]
const PAUSE: &str = "AGENT_SANDBOX_PAUSE";

/// Pauses this process at `point` if a test asks for it: creates the file, and continues when the
/// test has removed it. A process pauses only once at each point, so that a second attempt to
/// start does not pause.
#[cfg(feature = "ablate")]
pub(crate) fn pause(point: Point<'_>) {
    use std::sync::atomic::Ordering;
    if pauses().is_empty() {
        return;
    }
    let name = match point {
        Point::ReadFolder(path) => format!("{READ_FOLDER}{path}"),
        Point::Placeholders(step) => format!("{PLACEHOLDERS}{step}"),
        Point::BeforeBwrap => BEFORE_BWRAP.to_owned(),
        Point::BeforeGo => BEFORE_GO.to_owned(),
        Point::CoverAgain => COVER_AGAIN.to_owned(),
        Point::BeforePrivate => BEFORE_PRIVATE.to_owned(),
        Point::ReportKept => REPORT_KEPT.to_owned(),
        Point::BeforeCreate => BEFORE_CREATE.to_owned(),
        Point::PutBack(name) => format!("{PUT_BACK}{name}"),
    };
    let Some(pause) = pauses().iter().find(|pause| pause.point == name) else { return };
    if pause.is_over.swap(true, Ordering::Relaxed) {
        return;
    }
    if let Err(e) = std::fs::File::create_new(&pause.file) {
        eprintln!("{PAUSE}: cannot create `{}`: {e}", pause.file.display());
        std::process::abort();
    }
    while pause.file.exists() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[cfg(not(feature = "ablate"))]
pub(crate) const fn pause(_: Point<'_>) {}

#[cfg(feature = "ablate")]
const READ_FOLDER: &str = "read-folder:";
#[cfg(feature = "ablate")]
const PLACEHOLDERS: &str = "placeholders:";
#[cfg(feature = "ablate")]
const BEFORE_BWRAP: &str = "before-bwrap";
#[cfg(feature = "ablate")]
const BEFORE_GO: &str = "before-go";
#[cfg(feature = "ablate")]
const COVER_AGAIN: &str = "cover-again";
#[cfg(feature = "ablate")]
const BEFORE_PRIVATE: &str = "before-private";
#[cfg(feature = "ablate")]
const REPORT_KEPT: &str = "report-kept";
#[cfg(feature = "ablate")]
const BEFORE_CREATE: &str = "before-create";
#[cfg(feature = "ablate")]
const PUT_BACK: &str = "put-back:";

#[cfg(feature = "ablate")]
struct Pause {
    point: String,
    file: std::path::PathBuf,
    is_over: std::sync::atomic::AtomicBool,
}

#[cfg(feature = "ablate")]
fn pauses() -> &'static [Pause] {
    use std::sync::OnceLock;
    static PAUSES: OnceLock<Vec<Pause>> = OnceLock::new();
    PAUSES.get_or_init(|| {
        let text = std::env::var(PAUSE).unwrap_or_default();
        let has_prefix =
            |point: &str| [READ_FOLDER, PLACEHOLDERS, PUT_BACK].iter().any(|prefix| point.starts_with(prefix));
        let whole = [BEFORE_BWRAP, BEFORE_GO, COVER_AGAIN, BEFORE_PRIVATE, REPORT_KEPT, BEFORE_CREATE];
        let is_known = |point: &str| has_prefix(point) || whole.contains(&point);
        let read = |line: &str| {
            let Some((point, file)) = line.split_once(' ').filter(|(point, _)| is_known(point)) else {
                eprintln!("{PAUSE}: no pause is written like `{line}`");
                std::process::abort();
            };
            Pause { point: point.to_owned(), file: file.into(), is_over: false.into() }
        };
        text.lines().map(read).collect()
    })
}

#[cfg(feature = "ablate")]
fn switched_off() -> &'static [Mitigation] {
    use std::sync::OnceLock;
    static OFF: OnceLock<Vec<Mitigation>> = OnceLock::new();
    OFF.get_or_init(|| {
        let names = std::env::var(VARIABLE).unwrap_or_default();
        let known = |name: &str| Mitigation::ALL.iter().find(|(known, _)| *known == name).map(|(_, found)| *found);
        let mut off = Vec::new();
        for name in names.split(',').filter(|name| !name.is_empty()) {
            let Some(mitigation) = known(name) else {
                eprintln!("{VARIABLE}: there is no mitigation called `{name}`");
                std::process::abort();
            };
            off.push(mitigation);
        }
        off
    })
}
