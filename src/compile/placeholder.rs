//! Placeholders: files and directories at missing paths, which keep the command from creating them
//! (SPEC M4–M6).

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::host::FileKind;
use crate::policy::{AbsPath, LayerKind, Origin};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placeholder {
    pub path: AbsPath,
    pub kind: FileKind,
    /// Missing directories on the way, outermost first.
    pub parents: Vec<AbsPath>,
    pub layer: LayerKind,
    pub origin: Origin,
}

/// A file or directory to make, and to remove again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceholderItem {
    pub path: AbsPath,
    /// The content of a file; `None` for a directory.
    pub content: Option<&'static [u8]>,
    /// A directory on the way to a placeholder, which the command may fill.
    pub is_parent: bool,
}

impl Placeholder {
    /// A content that tools treat like a missing file; `None` for a directory.
    ///
    /// An empty `commondir` breaks git, one that says `.` breaks libgit2, and an empty file is
    /// neither JSON nor XML.
    pub fn content(&self) -> Option<&'static [u8]> {
        (self.kind != FileKind::Directory).then(|| content_of_missing(&self.path))
    }
}

/// A content of the file at `path` that tools treat like a missing file.
pub fn content_of_missing(path: &AbsPath) -> &'static [u8] {
    let name = path.file_name().map_or(&b""[..], OsStrExt::as_bytes);
    let around = path.parent().and_then(|parent| parent.file_name().map(|name| name.as_bytes().to_owned()));
    let lies_in = |folder: &[u8]| around.as_deref() == Some(folder);
    match name {
        b"commondir" => b"./\n",
        // The files of Maven, each with its root element.
        b"settings.xml" => b"<settings/>\n",
        b"toolchains.xml" => b"<toolchains/>\n",
        b"extensions.xml" => b"<extensions/>\n",
        // Cursor calls a hooks file without a version broken. pi calls a models file without
        // providers broken.
        b"hooks.json" if lies_in(b".cursor") => b"{\"version\":1,\"hooks\":{}}\n",
        b"models.json" if lies_in(b"agent") => b"{\"providers\":{}}\n",
        b"mcp.json" => b"{\"mcpServers\":{}}\n",
        _ if name.ends_with(b".json") || name.ends_with(b".jsonc") => b"{}\n",
        _ => b"",
    }
}

/// Everything to make for `placeholders`, each path once, parents first.
pub fn items(placeholders: &[Placeholder]) -> Vec<PlaceholderItem> {
    let mut items = Vec::new();
    for placeholder in placeholders {
        let parent = |path: &AbsPath| PlaceholderItem { path: path.clone(), content: None, is_parent: true };
        items.extend(placeholder.parents.iter().map(parent));
        let (path, content) = (placeholder.path.clone(), placeholder.content());
        items.push(PlaceholderItem { path, content, is_parent: false });
    }
    items.sort_by(|a, b| a.path.cmp(&b.path));
    items.dedup_by(|next, known| {
        let is_same = next.path == known.path;
        known.is_parent &= next.is_parent || !is_same;
        is_same
    });
    items
}

/// The line of `.git/info/exclude` that matches this path alone. `relative` is the path in the work
/// tree.
pub fn ignore_line(relative: &Path, kind: FileKind) -> Vec<u8> {
    let bytes = relative.as_os_str().as_bytes();
    let mut line = Vec::with_capacity(bytes.len() + 3);
    line.push(b'/');
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            // A pattern cannot contain a newline, so `?` matches it.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Maven 3.8 stops at an empty `settings.xml`, and reads no settings from these contents.
    // SPEC M4
    #[test]
    fn files_that_a_tool_parses_are_valid() {
        let content = |path: &str| {
            let (path, origin) = (AbsPath::root().join(path), Origin::BuiltIn("a test"));
            Placeholder { path, kind: FileKind::File, parents: Vec::new(), layer: LayerKind::Preset, origin }.content()
        };
        for (path, expected) in [
            ("m2/settings.xml", "<settings/>\n"),
            ("m2/toolchains.xml", "<toolchains/>\n"),
            ("m2/extensions.xml", "<extensions/>\n"),
            ("claude/settings.json", "{}\n"),
            (".codex/hooks.json", "{}\n"),
            (".cursor/hooks.json", "{\"version\":1,\"hooks\":{}}\n"),
            (".cursor/mcp.json", "{\"mcpServers\":{}}\n"),
            (".pi/agent/models.json", "{\"providers\":{}}\n"),
            ("cargo/config.toml", ""),
        ] {
            assert_eq!(content(path), Some(expected.as_bytes()), "{path}");
        }
    }
}
