//! Every diagnostic code, with its severity. `tests/diagnostics.rs` asserts the whole text of each.

use schemars::JsonSchema;
use serde::Serialize;

use crate::policy::rule::display_as_in_json;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Level")]
pub enum Severity {
    /// Good to know; the exit code stays 0.
    Note,
    /// The user should correct the policy; the exit code is 1.
    Warning,
    /// Nothing runs with this policy.
    Error,
}

display_as_in_json!(Severity);

macro_rules! codes {
    ($($variant:ident = $name:literal, $severity:ident, $meaning:literal;)+) => {
        /// A stable name that people can search for and tools can match.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $(#[doc = $meaning] $variant,)+ }

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
                match self { $(Code::$variant => $meaning,)+ }
            }
        }
    };
}

codes! {
    // Text of a configuration file.
    InvalidToml = "invalid-toml", Error, "The file is not TOML.";
    UnknownKey = "unknown-key", Error, "A key that does not exist; its intended effect would silently be missing.";
    WrongType = "wrong-type", Error, "A value of the wrong type.";
    InvalidValue = "invalid-value", Error, "A value outside the allowed set.";
    InvalidPath = "invalid-path", Error, "A path or pattern that cannot mean anything: empty, or with a NUL byte.";
    ReservedVariable = "reserved-variable", Error,
        "A variable that `set` cannot set, or cannot set for the command alone.";

    // Presets.
    UnknownPreset = "unknown-preset", Error, "A preset that neither we nor an earlier layer defines.";
    InvalidPresetName = "invalid-preset-name", Error,
        "A definition under a name that we own, or that cannot be written as `@name`.";
    PresetCycle = "preset-cycle", Error, "A preset that includes itself.";
    ContradictoryPreset = "contradictory-preset", Error, "One list both names and removes a preset.";

    // Files and the project.
    UnreadableConfig = "unreadable-config", Error, "A configuration file that exists and cannot be read.";
    MissingConfig = "missing-config", Error, "The file given with `--config` does not exist.";
    NoHome = "no-home", Error, "`$HOME` is missing or not absolute.";
    InvalidCwd = "invalid-cwd", Error, "The working directory cannot be used.";
    UnsafeRoot = "unsafe-root", Error, "The project root is too broad to be made writable.";
    UnverifiedGitPointer = "unverified-git-pointer", Warning,
        "A `.git` file points to a directory that does not point back.";
    ManyRepositories = "many-repositories", Warning, "More git directories than are protected one by one.";

    // Paths of this host.
    InvalidPattern = "invalid-pattern", Error, "A glob that cannot be parsed.";
    MissingPath = "missing-path", Error, "A path that must exist does not.";
    UnreadablePath = "unreadable-path", Error, "A path or directory whose state cannot be determined.";
    SymlinkLoop = "symlink-loop", Error, "Symlinks that lead back to themselves.";
    BroadSymlink = "broad-symlink", Error, "A protective glob matches a link to something far too broad.";
    ReservedPath = "reserved-path", Error, "A place that the sandbox itself owns.";
    ReadOnlyDevice = "read-only-device", Error, "A device node that a mount cannot make read-only.";
    ProtectedPath = "protected-path", Error, "A rule that would open our own configuration or state.";
    AmbiguousPattern = "ambiguous-pattern", Warning, "A pattern that is also the name of an existing file.";
    LiteralPath = "literal-path", Error,
        "A path with a variable, another user's home, or `~/` in braces, which rules do not expand.";
    WritableLink = "writable-link", Error, "Something would be opened through a symlink that the command can replace.";
    HiddenTarget = "hidden-target", Error, "A symlink leads to something hidden, which the rule would open.";
    ReplaceableLink = "replaceable-link", Warning, "A protection depends on a symlink that the command can replace.";
    OtherNames = "other-names", Error, "A protected file has other names, by which it can be read or changed.";
    NoCopy = "no-copy", Warning, "A file that would be shown without its credentials is hidden instead.";
    UnplacedSocket = "unplaced-socket", Warning, "The command may reach a service by a name that is not known.";
    WritableExecutable = "writable-executable", Warning,
        "The executable of agent-sandbox lies in a folder that the command can write.";
    DanglingLink = "dangling-link", Warning, "A preset blocks a path at which a symlink leads to nothing.";
    PlaceholdersOff = "placeholders-off", Warning,
        "Placeholders of presets cannot be created, because our state folder cannot be written.";
    PlaceholderFailed = "placeholder-failed", Error, "A path that a rule blocks cannot be blocked.";
    InjectionRefused = "injection-refused", Error, "Something cannot be injected, and nothing runs without it.";
    InjectionSkipped = "injection-skipped", Warning,
        "A preset injects nothing at a path, or not all of a folder is injected.";
    ExcludedCwd = "excluded-cwd", Error, "The working directory would be hidden.";

    // The argv.
    TooManyWords = "too-many-words", Error, "More arguments than bwrap accepts.";
    NoDockerSocket = "no-docker-socket", Warning, "`docker = true`, and no socket was found.";
    IncompleteForm = "incomplete-form", Warning, "A printed form that leaves out something that the arguments need.";

    // Trust.
    UntrustedPolicy = "untrusted-policy", Error,
        "The project's file opens something, and the user has not agreed to it.";
    WideningPolicy = "widening-policy", Warning, "The project's file opens something, and nothing is started.";
    TrustFailed = "trust-failed", Error, "Consent could not be recorded.";

    // Comparing.
    NoComparison = "no-comparison", Error, "One of two policies could not be read or compiled.";

    // Starting it.
    AlreadyInside = "already-inside", Error, "Started inside a sandbox.";
    RootRefused = "root-refused", Error, "Started as root without `--allow-root`, neither in a container nor in CI.";
    RootAllowed = "root-allowed", Warning, "Started as root in a container or in CI, without `--allow-root`.";
    ForeignProject = "foreign-project", Error, "Started as root in a project that belongs to another user.";
    OpenDirectory = "open-directory", Error, "A standard stream is an open directory.";
    UnsafeStream = "unsafe-stream", Error,
        "A standard stream gives the command more access than to read or write the stream.";
    BwrapMissing = "bwrap-missing", Error, "No `bwrap` on PATH.";
    BwrapUntrusted = "bwrap-untrusted", Error, "The first `bwrap` on PATH lies where the command could have put it.";
    BwrapTooOld = "bwrap-too-old", Error, "A flag that the policy needs and this `bwrap` does not have.";
    SandboxUnavailable = "sandbox-unavailable", Error, "This machine does not let us make a sandbox.";
    OwnSandbox = "own-sandbox", Warning, "The command brings a sandbox of its own, which cannot work inside.";
    ProtectionMissing = "protection-missing", Warning, "This machine lacks a protection beyond mounts.";
    ProtectionRequired = "protection-required", Error, "The policy requires a protection that this machine lacks.";
    LimitUnavailable = "limit-unavailable", Error, "A limit of the policy cannot be enforced here.";
    GuardUnavailable = "guard-unavailable", Error, "This machine does not let the guard do its work.";
    GuardRefused = "guard-refused", Error, "The mounts differ from the plan.";
    CommandNotFound = "command-not-found", Error, "The command does not exist, or is not visible inside.";
    CommandNotExecutable = "command-not-executable", Error, "The command exists and cannot be executed.";
    CreateFailed = "create-failed", Error, "A directory of an `if-missing = \"create\"` rule could not be made.";
    OutputFailed = "output-failed", Error, "Standard output could not be written.";
    NotCoveredAgain = "not-covered-again", Warning,
        "A protected file stays open to the command once the host replaces it.";
    StartFailed = "start-failed", Error, "The operating system refused a step of the start.";
    SandboxLost = "sandbox-lost", Error, "bwrap was killed, and the command with it.";
    VerifyFailed = "verify-failed", Error, "`verify` started a sandbox, and could not examine it.";

    // After it.
    CreatedDuringRun = "created-during-run", Warning,
        "Something that a rule would have protected was created during the run.";
    CommandsChanged = "commands-changed", Warning,
        "Values that name commands changed in a file that holds other state as well.";
    RepositoryRepaired = "repository-repaired", Warning,
        "The run broke a repository or closed the project's folder, and agent-sandbox repaired it.";
    HiddenNextTime = "hidden-next-time", Warning,
        "A file no longer has the content that git holds, so a preset hides it in the next run.";
    NotCheckedOut = "not-checked-out", Warning,
        "git expects another version of a file that the command could not change.";
    LeftUnfinished = "left-unfinished", Warning, "A merge, a rebase or the like of git is under way since the run.";
    HiddenFromGit = "hidden-from-git", Warning,
        "The command made git hide changes of some files, or show another history.";
    PlantedRepository = "planted-repository", Warning,
        "The run made a repository or a symlink that git would follow. It is only reported, or was moved aside.";
    ReplacedDuringRun = "replaced-during-run", Warning, "A file was replaced while a rule covered it.";
    PrivateKept = "private-kept", Warning, "Changes of a private file stay in the sandbox's copy.";
    PrivateConflict = "private-conflict", Warning,
        "A key of a private file changed on the host and in the sandbox's copy.";
    PrivateSetAside = "private-set-aside", Warning, "The sandbox's copy of a private file cannot be used.";
    PrivateNotWritten = "private-not-written", Warning,
        "The host's file or the sandbox's copy of a private file lacks changes of the other.";
    PrivateFailed = "private-failed", Error, "The copies of private files cannot be read or removed.";
    PrivateUnavailable = "private-unavailable", Warning, "A file that would be private is read-only instead.";
    LimitReached = "limit-reached", Warning, "The command reached a limit of time or output.";
    OutputNotWritten = "output-not-written", Warning, "Counted output could not be passed on to the caller.";
    TmpFull = "tmp-full", Warning, "The private `/tmp` was full when the run ended.";
    PlaceholderLeft = "placeholder-left", Warning,
        "The file at a blocked path is no longer our placeholder, so it was not removed.";
    UnshownReport = "unshown-report", Warning, "The report of an earlier run was never shown.";
    ReportNotKept = "report-not-kept", Warning, "The report of a run cannot be kept for later.";
    ReportUnreadable = "report-unreadable", Error, "The reports that were kept cannot be read.";

    // The findings of `lint`.
    ShadowedRule = "shadowed-rule", Warning, "A rule that loses at every path that it names.";
    UnusedRule = "unused-rule", Warning, "A rule that applies to nothing on this host.";
    UnblockedPath = "unblocked-path", Warning,
        "A protected path is missing, and nothing stops the command from creating it.";
    RedundantRule = "redundant-rule", Note, "A rule whose surroundings give the same access.";
    GlobAsName = "glob-as-name", Warning,
        "A pattern that may be meant as a name, because a file or folder has exactly that name.";
    UnusedPreset = "unused-preset", Warning, "A preset that is defined and that nothing names.";
    HardLink = "hard-link", Warning,
        "A protected file has other names, by which it can be read or changed, and a rule accepts them.";
    VisibleSecret = "visible-secret", Warning, "A file that looks like a secret stays readable.";
    TrackedSecret = "tracked-secret", Note,
        "A file that looks like a secret stays readable, and git holds its content.";
    HiddenTracked = "hidden-tracked", Note, "A hidden file is tracked by git, which stops at it inside.";
    VisibleSocket = "visible-socket", Warning, "A socket that the command can see, and so connect to.";
    WritablePath = "writable-path", Warning, "The command can put programs into a folder that is on PATH.";
    SharedStore = "shared-store", Note,
        "The command can write a store from which a package manager links files into other projects.";

    TmpBeyondMemory = "tmp-beyond-memory", Note, "The private `/tmp` is larger than the memory of the command.";

    // The limits of `init`.
    AlreadyThere = "already-there", Error, "There is a policy file already.";
    InitFailed = "init-failed", Error, "The policy file could not be written.";
}
