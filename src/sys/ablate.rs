//! Two aids for `tests/escape`. A test can switch one mitigation off, to show that this mitigation
//! stops an attack. A test can pause agent-sandbox at a point of a run, so that it does not have
//! to win a race.
//!
//! Only a build with the feature `ablate` reads the two variables. In every other build [`is_off`]
//! is the constant `false`, [`pause`] does nothing, and the binary has neither variable's name.

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

#[cfg(feature = "ablate")]
pub(crate) use asked::{VARIABLE, check_names, is_off, pause};

#[cfg(not(feature = "ablate"))]
pub(crate) const fn is_off(_: Mitigation) -> bool {
    false
}

#[cfg(not(feature = "ablate"))]
pub(crate) fn pause(_: impl std::fmt::Display) {}

/// What a test asks for.
#[cfg(feature = "ablate")]
mod asked {
    use std::fmt::Display;
    use std::path::PathBuf;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;
    use std::{env, fs, process, thread};

    use super::Mitigation;

    /// The names of the mitigations that are off, with commas between them.
    pub(crate) const VARIABLE: &str = "AGENT_SANDBOX_ABLATE";

    /// The pauses: on each line a point, a space, and a file.
    const PAUSE: &str = "AGENT_SANDBOX_PAUSE";

    /// The points at which a test can pause agent-sandbox. After `:` a point has a name of its own.
    const POINTS: [&str; 9] = [
        // This folder of the host is about to be listed.
        "read-folder:",
        // This step of making or removing placeholders is done.
        "placeholders:",
        // The directories that rules ask for are about to be made.
        "before-create",
        // The policy is compiled, the placeholders exist, and the identities of files are recorded.
        // Nothing that a rule names is mounted.
        "before-bwrap",
        // The guard has made and checked all mounts and waits. The supervisor has not compared the
        // host yet.
        "before-go",
        // A protected file was replaced on the host, and is about to be covered again.
        "cover-again",
        // git does not accept this directory of the project's repository, which is about to be put
        // back.
        "put-back:",
        // The run has ended, and nothing of its private files has reached the host.
        "before-private",
        // The run has ended, and its report is kept and not yet shown.
        "report-kept",
    ];

    /// Whether a test switched `mitigation` off.
    pub(crate) fn is_off(mitigation: Mitigation) -> bool {
        switched_off().contains(&mitigation)
    }

    /// Reads both variables now. An unknown name ends the process, so that a typo in a test does
    /// not leave the mitigation on.
    pub(crate) fn check_names() {
        let _ = switched_off();
        let _ = pauses();
    }

    /// Pauses this process at `point` if a test asks for it: creates the file, and continues when
    /// the test has removed it. A process pauses only once at each point, so that a second attempt
    /// to start does not pause.
    pub(crate) fn pause(point: impl Display) {
        if pauses().is_empty() {
            return;
        }
        let point = point.to_string();
        if !is_known(&point) {
            end(&format!("{PAUSE}: `{point}` is not in the list of points"));
        }
        let Some(pause) = pauses().iter().find(|pause| pause.point == point) else { return };
        if pause.is_over.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Err(e) = fs::File::create_new(&pause.file) {
            end(&format!("{PAUSE}: cannot create `{}`: {e}", pause.file.display()));
        }
        while pause.file.exists() {
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn is_known(point: &str) -> bool {
        POINTS.iter().any(|known| point == *known || known.ends_with(':') && point.starts_with(known))
    }

    struct Pause {
        point: String,
        file: PathBuf,
        is_over: AtomicBool,
    }

    fn pauses() -> &'static [Pause] {
        static PAUSES: OnceLock<Vec<Pause>> = OnceLock::new();
        PAUSES.get_or_init(|| {
            let read = |line: &str| match line.split_once(' ').filter(|(point, _)| is_known(point)) {
                Some((point, file)) => Pause { point: point.to_owned(), file: file.into(), is_over: false.into() },
                None => end(&format!("{PAUSE}: no pause is written like `{line}`")),
            };
            env::var(PAUSE).unwrap_or_default().lines().map(read).collect()
        })
    }

    fn switched_off() -> &'static [Mitigation] {
        static OFF: OnceLock<Vec<Mitigation>> = OnceLock::new();
        OFF.get_or_init(|| {
            let names = env::var(VARIABLE).unwrap_or_default();
            let known = |name: &str| match Mitigation::ALL.iter().find(|(known, _)| *known == name) {
                Some((_, mitigation)) => *mitigation,
                None => end(&format!("{VARIABLE}: there is no mitigation called `{name}`")),
            };
            names.split(',').filter(|name| !name.is_empty()).map(known).collect()
        })
    }

    fn end(why: &str) -> ! {
        eprintln!("{why}");
        process::abort()
    }
}
