//! What stands at a missing path during a run, so that the command cannot create it (SPEC M4–M6).

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::host::FileKind;
use crate::policy::origin::Origin;
use crate::policy::path::AbsPath;
use crate::policy::rule::LayerKind;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placeholder {
    pub path: AbsPath,
    /// A directory or a file.
    pub kind: FileKind,
    /// Directories on the way that are missing as well, outermost first.
    pub parents: Vec<AbsPath>,
    pub layer: LayerKind,
    pub origin: Origin,
}

/// One thing to make, and to remove again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub path: AbsPath,
    /// Of a file; `None` for a directory.
    pub content: Option<&'static [u8]>,
    /// Made only for the sake of something in it: the command may fill it.
    pub is_parent: bool,
}

impl Placeholder {
    /// What a tool that reads the file takes for nothing at all; `None` for a directory.
    ///
    /// An empty `commondir` breaks git, one that says `.` breaks libgit2, and empty JSON breaks everybody who reads it.
    pub fn content(&self) -> Option<&'static [u8]> {
        let name = self.path.file_name().map_or(&b""[..], OsStrExt::as_bytes);
        match self.kind {
            FileKind::Directory => None,
            _ if name == b"commondir" => Some(b"./\n"),
            _ if name.ends_with(b".json") || name.ends_with(b".jsonc") => Some(b"{}\n"),
            _ => Some(b""),
        }
    }
}

/// All that has to be made for `placeholders`, each once, parents first.
pub fn items(placeholders: &[Placeholder]) -> Vec<Item> {
    let items = placeholders.iter().flat_map(|placeholder| {
        let parents =
            placeholder.parents.iter().map(|path| Item { path: path.clone(), content: None, is_parent: true });
        let own = Item { path: placeholder.path.clone(), content: placeholder.content(), is_parent: false };
        parents.chain([own])
    });
    let mut items: Vec<Item> = items.collect();
    items.sort_by(|a, b| a.path.cmp(&b.path));
    items.dedup_by(|next, known| {
        let is_same = next.path == known.path;
        known.is_parent &= next.is_parent || !is_same;
        is_same
    });
    items
}

/// A line of `.git/info/exclude` that means this path and no other. `relative` is the path in the work tree.
pub fn ignore_line(relative: &Path, kind: FileKind) -> Vec<u8> {
    let bytes = relative.as_os_str().as_bytes();
    let mut line = Vec::with_capacity(bytes.len() + 3);
    line.push(b'/');
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            // No line can hold it: any one character stands for it.
            b'\n' => line.push(b'?'),
            b'\\' | b'*' | b'?' | b'[' | b']' => line.extend([b'\\', *byte]),
            b' ' | b'\t' | b'\r' if at + 1 == bytes.len() => line.extend([b'\\', *byte]),
            byte => line.push(*byte),
        }
    }
    if kind == FileKind::Directory {
        line.push(b'/');
    }
    line.push(b'\n');
    line
}
