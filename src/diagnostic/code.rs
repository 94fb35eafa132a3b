//! Every diagnostic code, with its severity. `tests/diagnostics.rs` asserts the whole text of each.

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Good to know; nothing is wrong.
    Note,
    Warning,
    Error,
}

impl Severity {
    pub fn name(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $severity:ident;)+) => {
        /// A stable name that people can search for and tools can match.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $($(#[doc = $doc])+ $variant,)+ }

        impl Code {
            pub const ALL: &[Code] = &[$(Code::$variant,)+];

            pub fn name(self) -> &'static str {
                match self { $(Code::$variant => $name,)+ }
            }

            pub fn severity(self) -> Severity {
                match self { $(Code::$variant => Severity::$severity,)+ }
            }

            /// The meaning in a sentence.
            pub fn description(self) -> &'static str {
                match self { $(Code::$variant => concat!($($doc),+).trim_ascii(),)+ }
            }
        }
    };
}

codes! {
    // Text of a configuration file.
    /// The file is not TOML.
    InvalidToml = "invalid-toml", Error;
    /// A key that does not exist; its intended effect would silently be missing.
    UnknownKey = "unknown-key", Error;
    /// A value of the wrong type.
    WrongType = "wrong-type", Error;
    /// A value outside the allowed set.
    InvalidValue = "invalid-value", Error;
    /// A path or pattern that cannot mean anything: empty, or with a NUL byte.
    InvalidPath = "invalid-path", Error;

    /// A variable that `set` cannot give the command alone, or not at all.
    ReservedVariable = "reserved-variable", Error;

    // Presets.
    /// A preset that neither we nor an earlier layer defines.
    UnknownPreset = "unknown-preset", Error;
    /// A definition under a name that we own, or that cannot be written as `@name`.
    InvalidPresetName = "invalid-preset-name", Error;
    /// A preset that includes itself.
    PresetCycle = "preset-cycle", Error;
    /// One list both names and removes a preset.
    ContradictoryPreset = "contradictory-preset", Error;

    // Files and the project.
    /// A configuration file that exists and cannot be read.
    UnreadableConfig = "unreadable-config", Error;
    /// The file given with `--config` does not exist.
    MissingConfig = "missing-config", Error;
    /// `$HOME` is missing or not absolute.
    NoHome = "no-home", Error;
    /// The working directory cannot be used.
    InvalidCwd = "invalid-cwd", Error;
    /// The project root is too broad to be made writable.
    UnsafeRoot = "unsafe-root", Error;
    /// A `.git` file points to a directory that does not point back.
    UnverifiedGitPointer = "unverified-git-pointer", Warning;

    // Paths of this host.
    /// A glob that cannot be parsed.
    InvalidPattern = "invalid-pattern", Error;
    /// A path that must exist does not.
    MissingPath = "missing-path", Error;
    /// A path or directory whose state cannot be determined.
    UnreadablePath = "unreadable-path", Error;
    /// Symlinks that lead back to themselves.
    SymlinkLoop = "symlink-loop", Error;
    /// A protective glob matches a link to something far too broad.
    BroadSymlink = "broad-symlink", Error;
    /// A place that the sandbox itself owns.
    ReservedPath = "reserved-path", Error;
    /// A device node that a mount cannot make read-only.
    ReadOnlyDevice = "read-only-device", Error;
    /// A rule that would open our own configuration or state.
    ProtectedPath = "protected-path", Error;
    /// A pattern that is also the name of an existing file.
    AmbiguousPattern = "ambiguous-pattern", Warning;
    /// A path with a variable or a name of a home in it, which stand for nothing.
    LiteralPath = "literal-path", Warning;
    /// Something would be opened through a symlink that the command can replace.
    WritableLink = "writable-link", Error;
    /// A symlink leads to something hidden, which the rule would open.
    HiddenTarget = "hidden-target", Error;
    /// A protection hangs on a symlink that the command can replace.
    ReplaceableLink = "replaceable-link", Warning;
    /// A protected file has other names, by which it can be read or changed.
    OtherNames = "other-names", Error;
    /// A service listens on a name that only its own process can place.
    UnplacedSocket = "unplaced-socket", Warning;
    /// We ourselves lie where the command can write.
    WritableExecutable = "writable-executable", Warning;
    /// A preset blocks a path at which a symlink leads to nothing.
    DanglingLink = "dangling-link", Warning;
    /// Placeholders of presets cannot be put up, because our state folder cannot be written.
    PlaceholdersOff = "placeholders-off", Warning;
    /// A path that a rule blocks cannot be blocked.
    PlaceholderFailed = "placeholder-failed", Error;
    /// The working directory would be hidden.
    ExcludedCwd = "excluded-cwd", Error;

    // The argv.
    /// More words than bwrap accepts.
    TooManyWords = "too-many-words", Error;
    /// `docker = true`, and no socket was found.
    NoDockerSocket = "no-docker-socket", Warning;
    /// A printed form that leaves out what the words need.
    IncompleteForm = "incomplete-form", Warning;

    // Trust.
    /// The project's file opens something, and the user has not agreed to it.
    UntrustedPolicy = "untrusted-policy", Error;
    /// The same, where nothing is started.
    WideningPolicy = "widening-policy", Warning;
    /// Consent could not be recorded.
    TrustFailed = "trust-failed", Error;

    // Comparing.
    /// One of two policies could not be had, or not be compiled.
    NoComparison = "no-comparison", Error;

    // Starting it.
    /// Started inside a sandbox.
    AlreadyInside = "already-inside", Error;
    /// Started as root without `--allow-root`, neither in a container nor in CI.
    RootRefused = "root-refused", Error;
    /// Started as root in a container or in CI, without `--allow-root`.
    RootAllowed = "root-allowed", Warning;
    /// Started as root in a project that belongs to somebody else.
    ForeignProject = "foreign-project", Error;
    /// A standard stream is an open directory.
    OpenDirectory = "open-directory", Error;
    /// A standard stream gives the command more than a stream.
    UnsafeStream = "unsafe-stream", Error;
    /// No `bwrap` on PATH.
    BwrapMissing = "bwrap-missing", Error;
    /// The first `bwrap` on PATH lies where the command could have put it.
    BwrapUntrusted = "bwrap-untrusted", Error;
    /// A flag that the policy needs and this `bwrap` does not have.
    BwrapTooOld = "bwrap-too-old", Error;
    /// This machine does not let us make a sandbox.
    SandboxUnavailable = "sandbox-unavailable", Error;
    /// The command brings a sandbox of its own, which cannot work inside.
    OwnSandbox = "own-sandbox", Warning;
    /// Something that protects beyond mounts is not to be had here.
    ProtectionMissing = "protection-missing", Warning;
    /// The same, and the policy insists on it.
    ProtectionRequired = "protection-required", Error;
    /// This machine does not let the guard do its work.
    GuardUnavailable = "guard-unavailable", Error;
    /// What is mounted is not what was planned.
    GuardRefused = "guard-refused", Error;
    /// The command does not exist, or not inside.
    CommandNotFound = "command-not-found", Error;
    /// The command exists and cannot be executed.
    CommandNotExecutable = "command-not-executable", Error;
    /// A directory of an `if-missing = "create"` rule could not be made.
    CreateFailed = "create-failed", Error;
    /// Standard output could not be written.
    OutputFailed = "output-failed", Error;
    /// The operating system refused a step of the start.
    StartFailed = "start-failed", Error;
    /// bwrap was killed, and the command with it.
    SandboxLost = "sandbox-lost", Error;
    /// A sandbox was started to be examined, and could not be.
    VerifyFailed = "verify-failed", Error;

    // After it.
    /// Something that a rule would have protected came to exist during the run.
    CreatedDuringRun = "created-during-run", Warning;
    /// Values that name commands changed in a file that holds other state as well.
    CommandsChanged = "commands-changed", Warning;
    /// The repository would not have been one for git any more, and was repaired.
    RepositoryRepaired = "repository-repaired", Warning;
    /// A repository that git would enter and obey is new, and was moved aside.
    PlantedRepository = "planted-repository", Warning;
    /// A file was replaced while a rule covered it.
    ReplacedDuringRun = "replaced-during-run", Warning;
    /// What stood at a blocked path is no longer ours to remove.
    PlaceholderLeft = "placeholder-left", Warning;

    // What `lint` finds.
    /// A rule that loses at every path that it names.
    ShadowedRule = "shadowed-rule", Warning;
    /// A rule that applies to nothing on this host.
    UnusedRule = "unused-rule", Warning;
    /// A protected path is missing, and nothing stops the command from creating it.
    UnblockedPath = "unblocked-path", Warning;
    /// A rule whose surroundings give the same access.
    RedundantRule = "redundant-rule", Note;
    /// A pattern that somebody may have meant as a name, because something has that very name.
    GlobAsName = "glob-as-name", Warning;
    /// A preset that is defined and that nothing names.
    UnusedPreset = "unused-preset", Warning;
    /// A protected file has other names, by which it can be read or changed, and no rule minds.
    HardLink = "hard-link", Warning;
    /// A file that looks like a secret stays readable.
    VisibleSecret = "visible-secret", Warning;
    /// The same, and git holds its content.
    TrackedSecret = "tracked-secret", Note;
    /// A file is hidden that git tracks, and at which it stops inside.
    HiddenTracked = "hidden-tracked", Note;
    /// A socket that the command can see, and so connect to.
    VisibleSocket = "visible-socket", Warning;
    /// The command can put programs into a folder that is on PATH.
    WritablePath = "writable-path", Warning;

    // What `init` cannot do.
    /// There is a policy file already.
    AlreadyThere = "already-there", Error;
    /// The policy file could not be written.
    InitFailed = "init-failed", Error;
}
