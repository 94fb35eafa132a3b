//! Switching one mitigation off, so that a test can show that it is this one that stops an attack.
//!
//! Only a build with the feature `ablate` reads the variable; in every other build [`is_off`] is the constant `false`, and
//! nothing of this is in the binary. `tests/escape` uses it, nothing else should.

macro_rules! mitigations {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal;)+) => {
        /// What stands between a command and the host, piece by piece.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[cfg_attr(not(feature = "ablate"), allow(dead_code))]
        pub(crate) enum Mitigation { $($(#[doc = $doc])+ $variant,)+ }

        #[cfg(feature = "ablate")]
        impl Mitigation {
            const ALL: &[(&str, Mitigation)] = &[$(($name, Mitigation::$variant),)+];
        }
    };
}

mitigations! {
    /// Directories above a protected path cannot be moved.
    Pins = "pins";
    /// Something of ours stands where a protected path is missing.
    Placeholders = "placeholders";
    /// Our own configuration and state are read-only.
    OwnFiles = "own-files";
    /// What a project's file opens needs consent.
    Trust = "trust";
    /// Nothing is opened through a symlink that the command can replace.
    LinkChecks = "link-checks";
    /// Excluding a symlink hides what it leads to.
    ExcludeThroughLink = "exclude-through-link";
    /// No descriptor of the caller passes.
    Descriptors = "descriptors";
    /// A file on a standard stream can only be read, if that is what it was opened for.
    Streams = "streams";
    /// The command cannot make user namespaces.
    NoUserNamespaces = "no-user-namespaces";
    /// Mounts stay connected, whatever becomes of their namespace.
    MountLock = "mount-lock";
    /// Beside another sandbox, what one shows is closed before its placeholders go.
    ClosedMounts = "closed-mounts";
    /// What was mounted is compared with the plan before the command starts.
    GuardCheck = "guard-check";
    /// Beside another sandbox, what rules find is looked for once more when all is mounted.
    LookAgain = "look-again";
    /// Root keeps no capability.
    RootCapabilities = "root-capabilities";
    /// The kernel's settings are read-only.
    ProcSys = "proc-sys";
    /// What the host mounts later does not show.
    PrivatePropagation = "private-propagation";
    /// Own `/tmp`.
    PrivateTmp = "private-tmp";
    /// Own `/run`.
    PrivateRun = "private-run";
    /// Listening sockets that would show are masked.
    SocketMasks = "socket-masks";
    /// No abstract socket, and no signal, leaves the sandbox.
    LandlockScope = "landlock-scope";
    /// Names are made, removed and changed only in what can be written, also by descriptors of another sandbox.
    OwnNames = "own-names";
    /// Variables that open something do not pass.
    EnvFilter = "env-filter";
    /// System calls that reach the terminal, the keyring, or past other checks are refused.
    Seccomp = "seccomp";
    /// What cannot be read, and may name what has to be protected, stops the start.
    UnreadableStops = "unreadable-stops";
    /// The rules of `@git`.
    GitPreset = "git-preset";
    /// The rules of `@autorun`.
    AutorunPreset = "autorun-preset";
    /// What is masked refuses to be opened, instead of being empty.
    MaskDenied = "mask-denied";
    /// What is masked takes no writes.
    MaskSealed = "mask-sealed";
    /// A protected file with another name is refused.
    HardLinks = "hard-links";
    /// What is excluded does not show through another mount.
    BindAliases = "bind-aliases";
    /// `bwrap` does not come from a place that the command can write.
    BwrapPath = "bwrap-path";
    /// The command cannot change this program.
    OwnExecutable = "own-executable";
    /// A removed `.git/HEAD` is put back.
    HeadRestore = "head-restore";
    /// A repository that was planted where git enters by itself is moved aside.
    NestedRepositories = "nested-repositories";
    /// What changed and matters is said at the end.
    Reports = "reports";
}

/// The names of what is off, with commas between them.
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

/// Reads the variable now: a name that does not exist ends the process, so that a typo in a test cannot pass for a
/// mitigation that holds.
#[cfg(feature = "ablate")]
pub(crate) fn check_names() {
    let _ = switched_off();
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
