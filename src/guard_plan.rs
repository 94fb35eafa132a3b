//! What the guard, the second stage inside, is told: a value that `lower` makes, `print` shows, a descriptor carries, and the guard obeys.

use std::io;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::ser::Formatter;

use crate::bytes::Word;
use crate::identity::Identity;
use crate::path::AbsPath;

/// The word that asks our binary to be the guard.
pub const SUBCOMMAND: &str = "__guard";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct GuardPlan {
    /// Made on top of bwrap's mounts, in this order; pins come before all others, the deepest first.
    pub mounts: Vec<GuardMount>,
    /// What must be at each mount point in the end.
    pub expect: Vec<Expected>,
    /// Parts of `/proc` that become read-only.
    pub proc_read_only: Vec<AbsPath>,
    /// The command may make user namespaces of its own.
    pub nested: bool,
    /// Abstract sockets and signals stay within the sandbox.
    pub landlock: bool,
    /// Names are made, removed and changed only in what can be written, by whatever mount somebody gets elsewhere.
    pub names: bool,
    /// System calls that reach past the sandbox are refused.
    pub seccomp: bool,
    /// The signals that are blocked for the command, as the caller had it: bits, in hexadecimal. Without it, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal_mask: Option<String>,
    /// The descriptor of the supervisor's socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<i32>,
    /// What the guard itself has to say is for programs to read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub json: bool,
    /// The command, where it is too long to be a part of bwrap's words, or bwrap was started before it was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<Word>>,
    /// Its variables, where bwrap was started before they were known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Vec<(Word, Word)>>,
    /// Where the command begins, where bwrap entered that path before it was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<AbsPath>,
}

impl GuardPlan {
    /// As the guard reads it: one line of JSON for each mount and each expectation, so that people can read it, too.
    pub fn to_text(&self) -> String {
        let mut text = Vec::new();
        // Every type here can be written as JSON.
        let _ = self.serialize(&mut serde_json::Serializer::with_formatter(&mut text, OneEntryALine::default()));
        String::from_utf8(text).unwrap_or_default()
    }
}

/// A mount that the guard makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GuardMount {
    /// A directory onto itself, below what is mounted later and covers it: nobody can rename it any more.
    Pin(AbsPath),
    /// A `/dev` of the sandbox's own: a few harmless nodes, and terminals.
    Dev(AbsPath),
    /// A path of the host onto itself.
    ReadOnly(AbsPath),
    Writable(AbsPath),
    /// Writable, and device nodes work.
    WithDevices(AbsPath),
    /// Each of these three where there may be nothing any more: then nothing is mounted.
    ReadOnlyIfThere(AbsPath),
    WritableIfThere(AbsPath),
    WithDevicesIfThere(AbsPath),
    /// A path of the host in another place, with the access of what is expected there.
    From {
        path: AbsPath,
        source: AbsPath,
    },
    /// A file that cannot be opened.
    Mask(AbsPath),
    /// The same for one that may have gone: then there is nothing to mask.
    MaskIfThere(AbsPath),
    /// A directory that shows nothing.
    Hide(AbsPath),
    /// An empty file system, in which something is put up.
    Tmpfs {
        path: AbsPath,
        #[serde(with = "octal")]
        #[schemars(with = "String")]
        mode: u32,
    },
    /// An empty directory in one of these.
    Directory {
        path: AbsPath,
        #[serde(with = "octal")]
        #[schemars(with = "String")]
        mode: u32,
    },
    Symlink {
        path: AbsPath,
        target: Word,
    },
    /// A file of the sandbox's own, read-only.
    Data {
        path: AbsPath,
        content: Word,
    },
    /// Makes one of these file systems read-only.
    Seal(AbsPath),
}

impl GuardMount {
    /// For people.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Pin(_) => "pin",
            Self::Dev(_) => "dev",
            Self::ReadOnly(_) => "read-only",
            Self::Writable(_) => "writable",
            Self::WithDevices(_) => "with devices",
            Self::ReadOnlyIfThere(_) => "read-only if there",
            Self::WritableIfThere(_) => "writable if there",
            Self::WithDevicesIfThere(_) => "with devices if there",
            Self::From { .. } => "from",
            Self::Mask(_) => "mask",
            Self::MaskIfThere(_) => "mask if there",
            Self::Hide(_) => "hide",
            Self::Tmpfs { .. } => "tmpfs",
            Self::Directory { .. } => "directory",
            Self::Symlink { .. } => "symlink",
            Self::Data { .. } => "data",
            Self::Seal(_) => "seal",
        }
    }

    /// Shows a path of the host in its own place.
    pub(crate) fn is_bind(&self) -> bool {
        use GuardMount::{ReadOnly, ReadOnlyIfThere, WithDevices, WithDevicesIfThere, Writable, WritableIfThere};
        matches!(
            self,
            ReadOnly(_)
                | Writable(_)
                | WithDevices(_)
                | ReadOnlyIfThere(_)
                | WritableIfThere(_)
                | WithDevicesIfThere(_)
        )
    }

    /// Where there is nothing any more, nothing is mounted.
    pub(crate) fn may_be_gone(&self) -> bool {
        use GuardMount::{MaskIfThere, ReadOnlyIfThere, WithDevicesIfThere, WritableIfThere};
        matches!(self, MaskIfThere(_) | ReadOnlyIfThere(_) | WritableIfThere(_) | WithDevicesIfThere(_))
    }

    /// The mount point.
    pub fn path(&self) -> &AbsPath {
        match self {
            Self::Pin(path)
            | Self::Dev(path)
            | Self::ReadOnly(path)
            | Self::Writable(path)
            | Self::WithDevices(path)
            | Self::ReadOnlyIfThere(path)
            | Self::WritableIfThere(path)
            | Self::WithDevicesIfThere(path)
            | Self::From { path, .. }
            | Self::Mask(path)
            | Self::MaskIfThere(path)
            | Self::Hide(path)
            | Self::Tmpfs { path, .. }
            | Self::Directory { path, .. }
            | Self::Symlink { path, .. }
            | Self::Data { path, .. }
            | Self::Seal(path) => path,
        }
    }
}

/// Modes as people write them.
mod octal {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(mode: &u32, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{mode:04o}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
        u32::from_str_radix(&String::deserialize(deserializer)?, 8).map_err(D::Error::custom)
    }
}

/// JSON whose first two levels have a line for each entry, and whose deeper ones share that line.
#[derive(Default)]
struct OneEntryALine {
    depth: usize,
}

impl OneEntryALine {
    const LINES: usize = 2;

    fn begin<W: io::Write + ?Sized>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        writer.write_all(bracket)
    }

    fn end<W: io::Write + ?Sized>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if self.depth < Self::LINES {
            self.line(writer)?;
        }
        writer.write_all(bracket)
    }

    fn entry<W: io::Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if !first {
            writer.write_all(b",")?;
        }
        if self.depth <= Self::LINES {
            self.line(writer)
        } else if first {
            Ok(())
        } else {
            writer.write_all(b" ")
        }
    }

    fn line<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| writer.write_all(b"  "))
    }
}

impl Formatter for OneEntryALine {
    fn begin_array<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.begin(writer, b"[")
    }

    fn end_array<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.end(writer, b"]")
    }

    fn begin_array_value<W: io::Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.entry(writer, first)
    }

    fn begin_object<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.begin(writer, b"{")
    }

    fn end_object<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.end(writer, b"}")
    }

    fn begin_object_key<W: io::Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.entry(writer, first)
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Expected {
    pub path: AbsPath,
    pub access: Expectation,
    /// Nothing may start if there is no mount here: it would leave open what is meant to be closed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// Which file or directory was meant, as it was just before the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// What it is on the host, where that has another path. The guard cannot look there: it is for who notes the identity.
    #[serde(skip)]
    pub source: Option<AbsPath>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expectation {
    Rw,
    Ro,
    /// Shows nothing of the host and takes nothing.
    Hidden,
    /// A place of the sandbox's own: `/tmp`, `/dev`, `/proc`.
    Own,
}
