//! Private files (SPEC section 22): the command writes a copy, and only listed keys of the copy
//! reach the host's file.

use crate::policy::{AbsPath, places, sha256};

/// The format of a private file, and the keys that may reach the host.
#[derive(Debug, PartialEq, Eq)]
pub struct PrivateFile {
    pub format: FileFormat,
    pub leaving: &'static [LeavingKey],
    /// Keys that a copy gets if neither it nor the host's file has them.
    pub inside: &'static [InsideKey],
    /// Keys that the program uses as counters. A run does not report their changes.
    pub counters: &'static [KeyPattern],
    /// The variable by which the program finds the file. Inside, the variable names the copy. The
    /// program saves by renaming a new file over the path, and at the link this fails with EBUSY.
    pub variable: Option<&'static str>,
}

/// The largest private file, on the host and as a copy.
pub const MAX_BYTES: u64 = 1 << 20;

/// A private file that a user names: none of its keys reach the host.
pub static OF_USER: PrivateFile = PrivateFile::new(FileFormat::ByName, &[]);

impl PrivateFile {
    pub const fn new(format: FileFormat, leaving: &'static [LeavingKey]) -> Self {
        Self { format, leaving, inside: &[], counters: &[], variable: None }
    }
}

/// The parts of a key; `*` stands for the name of a branch, and for any name in a counter.
pub type KeyPattern = &'static [&'static str];

/// The syntax of a private file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// git-config(1).
    Git,
    Toml,
    Json,
    /// The extension of the file name decides.
    ByName,
}

/// A key that may reach the host. Its value is never a command, the path of a command, a URL or the
/// name of a variable. The value may be a remote, but only one that the host's file has.
#[derive(Debug, PartialEq, Eq)]
pub struct LeavingKey {
    pub key: KeyPattern,
    pub value: LeavingValue,
    /// The reason why the key is harmless.
    pub why: &'static str,
}

/// A setting without which the program does not work in a sandbox.
#[derive(Debug, PartialEq, Eq)]
pub struct InsideKey {
    pub key: KeyPattern,
    /// The value in the syntax of the format.
    pub value: &'static str,
    pub why: &'static str,
}

/// The values that may reach the host. Any other value stays in the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeavingValue {
    /// A branch: `refs/heads/NAME`.
    Branch,
    /// A value that `branch.*.rebase` accepts.
    Rebase,
    /// The name of a remote that the host's file has.
    KnownRemote,
    /// Text without control characters other than newlines and tabs.
    Text,
    /// A string of letters, digits, blanks and `_:@+()[]-`, at most 100 bytes.
    Name,
    /// A name that may have `.` and `/` inside it.
    Model,
}

/// The name of the folder that holds the copy of a private file, both inside and on the host. It
/// is a part of the hash of the file's path, so it does not depend on other private files.
pub fn copy_id(path: &AbsPath) -> String {
    let mut id = sha256(path.bytes());
    id.truncate(16);
    id
}

/// The guard makes two symlinks to the copy of `path`: one over `path`, and this one.
pub fn link_of(path: &AbsPath) -> AbsPath {
    places::at(places::MARKER).child(copy_id(path))
}

/// The copy of `path` inside.
pub fn copy_inside(path: &AbsPath) -> AbsPath {
    places::at(places::PRIVATE).child(copy_id(path)).child(path.file_name().unwrap_or_default())
}
