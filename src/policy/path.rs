//! An absolute path in normal form, the only kind of path that later stages handle.

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, LazyLock};

pub use super::path_map::PathMap;

/// An absolute path without `.`, `..` or repeated separators.
///
/// The order is by components, so a parent sorts directly before its subtree: `/a`, `/a/b`,
/// `/a-b`. Comparing bytes would put `/a-b` between the two. A copy shares the text.
///
/// Equality and order compare bytes. For paths in normal form this gives the right result, and it
/// is several times faster than `Path`, which parses components for each comparison.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct AbsPath(Arc<OsStr>);

impl PartialOrd for AbsPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for AbsPath {
    fn cmp(&self, other: &Self) -> Ordering {
        let (ours, theirs) = (self.bytes(), other.bytes());
        // Paths of one host share a long beginning, so eight bytes are compared at a time.
        let mut same = 0;
        while let (Some(a), Some(b)) = (ours[same..].first_chunk::<8>(), theirs[same..].first_chunk::<8>()) {
            if a != b {
                break;
            }
            same += 8;
        }
        while same < ours.len().min(theirs.len()) && ours[same] == theirs[same] {
            same += 1;
        }
        // The end of a path comes before a separator, and a separator before every byte of a name.
        let rank = |path: &[u8]| path.get(same).map(|byte| (*byte != b'/').then_some(*byte));
        rank(ours).cmp(&rank(theirs))
    }
}

impl AbsPath {
    pub fn root() -> Self {
        static ROOT: LazyLock<AbsPath> = LazyLock::new(|| AbsPath::from_normal("/"));
        ROOT.clone()
    }

    /// Normalises by spelling alone. `None` when `path` is relative.
    ///
    /// `..` removes the component before it, which is wrong across a symlink. `Host::resolve`
    /// resolves the paths that people wrote.
    pub fn normalize(path: impl AsRef<Path>) -> Option<Self> {
        let path = path.as_ref();
        if !path.is_absolute() {
            return None;
        }
        let names = path.as_os_str().as_bytes()[1..].split(|byte| *byte == b'/');
        // Most paths have normal form already.
        if names.clone().all(|name| !matches!(name, b"" | b"." | b"..")) {
            return Some(Self::from_normal(path));
        }
        let mut normal = PathBuf::from("/");
        for component in path.components() {
            match component {
                Component::Normal(name) => normal.push(name),
                Component::ParentDir => {
                    normal.pop();
                }
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
        Some(Self::from_normal(normal))
    }

    /// A path that is known to have normal form.
    pub(crate) fn from_normal(path: impl AsRef<Path>) -> Self {
        Self(Arc::from(path.as_ref().as_os_str()))
    }

    /// This path with one more component, `name`, which holds no separator.
    #[must_use]
    pub fn child(&self, name: impl AsRef<OsStr>) -> Self {
        Self::from_normal(self.as_path().join(name.as_ref()))
    }

    /// This path followed by `relative`, normalised by spelling. An absolute `relative` replaces
    /// this path.
    #[must_use]
    pub fn join(&self, relative: impl AsRef<Path>) -> Self {
        Self::normalize(self.as_path().join(relative)).unwrap_or_else(Self::root)
    }

    pub fn parent(&self) -> Option<Self> {
        self.folders().next().map(Self::from_normal)
    }

    pub fn file_name(&self) -> Option<&OsStr> {
        self.as_path().file_name()
    }

    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }

    pub fn as_os_str(&self) -> &OsStr {
        &self.0
    }

    pub fn is_root(&self) -> bool {
        self.bytes() == b"/"
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Equal to `other` or below it.
    pub fn is_within(&self, other: &AbsPath) -> bool {
        self.lies_in(other.as_path())
    }

    /// Whether this path is `folder`, which has normal form, or lies below it.
    pub(crate) fn lies_in(&self, folder: &Path) -> bool {
        let folder = folder.as_os_str().as_bytes();
        folder == b"/" || matches!(self.bytes().strip_prefix(folder), Some([] | [b'/', ..]))
    }

    /// Strictly below `other`.
    pub fn is_below(&self, other: &AbsPath) -> bool {
        self != other && self.is_within(other)
    }

    /// This path, its parent, and so on to `/`.
    pub fn ancestors(&self) -> impl Iterator<Item = AbsPath> + '_ {
        [self.as_path()].into_iter().chain(self.folders()).map(Self::from_normal)
    }

    /// Its parent, and so on to `/`.
    pub(crate) fn folders(&self) -> impl Iterator<Item = &Path> + Clone {
        fn above(path: &[u8]) -> Option<&[u8]> {
            let end = path.iter().rposition(|byte| *byte == b'/').filter(|_| path.len() > 1)?;
            Some(&path[..end.max(1)])
        }
        std::iter::successors(above(self.bytes()), |path| above(path)).map(|path| Path::new(OsStr::from_bytes(path)))
    }

    /// The rest of this path below `base`; `None` if it is not within `base`.
    pub fn relative_to(&self, base: &AbsPath) -> Option<&Path> {
        let below = if base.is_root() { Some(self.bytes()) } else { self.bytes().strip_prefix(base.bytes()) };
        match below? {
            [] => Some(Path::new("")),
            [b'/', below @ ..] => Some(Path::new(OsStr::from_bytes(below))),
            _ => None,
        }
    }
}

impl AsRef<Path> for AbsPath {
    fn as_ref(&self) -> &Path {
        self.as_path()
    }
}

impl fmt::Debug for AbsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// The path as people see it. [`escape_for_display`] escapes the name, so that it cannot forge a
/// line or drive the terminal.
impl fmt::Display for AbsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escape_for_display(&self.0))
    }
}

/// `text` as people can read it on one line: control characters and stray bytes are escaped.
pub fn escape_for_display(text: &OsStr) -> String {
    let mut out = String::with_capacity(text.len());
    for chunk in text.as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() || misleads(c) {
                out.extend(c.escape_default());
            } else {
                out.push(c);
            }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

/// Escapes every character of a JSON text that could control a terminal or mislead a reader. The
/// meaning does not change, because such characters occur only inside strings. The newlines of a
/// pretty form stay.
pub fn escape_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c != '\n' && c.is_control() || misleads(c) {
            out.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            out.push(c);
        }
    }
    out
}

/// Whether a character is invisible, breaks a line or changes the reading direction. With such
/// characters two different names could look alike.
fn misleads(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0e}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn abs(path: &str) -> AbsPath {
        AbsPath::normalize(path).unwrap_or_else(AbsPath::root)
    }

    #[test]
    fn normal_form_has_one_spelling() {
        assert_eq!(abs("/a/./b//c/../d/"), abs("/a/b/d"));
        assert_eq!(abs("/../.."), AbsPath::root());
        assert_eq!(AbsPath::normalize("a/b"), None);
    }

    #[test]
    fn json_is_escaped_and_means_what_it_meant() {
        let text = "plain ü 🦀 \n \u{7f}\u{9b}31m \u{202e}\u{200b}\u{e0041}";
        let pretty = serde_json::to_string_pretty(&[text]).unwrap();
        let escaped = escape_json(&pretty);
        assert_eq!(escaped, "[\n  \"plain ü 🦀 \\n \\u007f\\u009b31m \\u202e\\u200b\\udb40\\udc41\"\n]");
        assert_eq!(serde_json::from_str::<[String; 1]>(&escaped).unwrap(), [text]);
    }

    #[test]
    fn parents_sort_directly_before_their_subtree() {
        let mut paths = [abs("/a-b"), abs("/a/b"), abs("/a")];
        paths.sort();
        assert_eq!(paths, [abs("/a"), abs("/a/b"), abs("/a-b")]);
    }

    #[test]
    fn paths_compare_as_those_of_the_standard_library() {
        let names = ["/", "/a", "/a/b", "/a/b/c", "/a-b", "/a!", "/a.b/c", "/ab", "/b", "/a\u{1}", "/\u{ff}/a"];
        for (a, b) in names.iter().flat_map(|a| names.iter().map(move |b| (abs(a), abs(b)))) {
            assert_eq!(a.cmp(&b), a.as_path().cmp(b.as_path()), "{a} {b}");
            assert_eq!(a == b, a.as_path() == b.as_path());
            assert!(a.ancestors().eq(a.as_path().ancestors().map(AbsPath::from_normal)), "{a}");
            assert_eq!(a.child("x"), a.join("x"));
            assert_eq!(a.relative_to(&b), a.as_path().strip_prefix(b.as_path()).ok(), "{a} {b}");
            assert_eq!(a.is_within(&b), a.as_path().starts_with(b.as_path()), "{a} {b}");
        }
    }

    #[test]
    fn shown_paths_stay_on_one_line_and_cannot_drive_a_terminal() {
        assert_eq!(escape_for_display(OsStr::from_bytes(b"a\n\x1b[2J\xff")), "a\\n\\u{1b}[2J\\xff");
        assert_eq!(escape_for_display(OsStr::new(".env\u{200b}\u{2028}\u{e0041}")), ".env\\u{200b}\\u{2028}\\u{e0041}");
        assert_eq!(escape_for_display(OsStr::new("naïve 名前 ❤\u{fe0f}")), "naïve 名前 ❤\u{fe0f}");
    }
}
