//! The kernel's list of mounts, `/proc/PID/mountinfo`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use crate::policy::path::AbsPath;

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEntry {
    pub id: u64,
    pub parent: u64,
    /// `major:minor`: the same for all mounts of one file system.
    pub device: String,
    /// Which directory or file of that file system is mounted; `None` where it has no path any more.
    pub root: Option<AbsPath>,
    pub point: AbsPath,
    /// Of this mount, not of its file system.
    options: String,
    /// The type of the file system.
    pub kind: String,
}

impl MountEntry {
    pub fn has(&self, option: &str) -> bool {
        self.options.split(',').any(|has| has == option)
    }
}

/// All mounts, in the kernel's order: one that covers another comes later. A line that is not understood is left out, as is what
/// is mounted where this process does not see it.
pub fn parse(table: &[u8]) -> Vec<MountEntry> {
    lines(table).filter_map(|line| entry(line)?).collect()
}

/// The same for who must know of each mount: a line that is not understood is an error.
pub fn parse_all(table: &[u8]) -> Result<Vec<MountEntry>, String> {
    let entries = lines(table).map(|line| entry(line).ok_or_else(|| String::from_utf8_lossy(line).into_owned()));
    entries.filter_map(Result::transpose).collect()
}

fn lines(table: &[u8]) -> impl Iterator<Item = &[u8]> {
    table.split(|b| *b == b'\n').filter(|line| !line.is_empty())
}

/// `36 35 98:0 /root /point rw,noatime shared:1 - ext4 /dev/sda rw`, where the fields before `-` vary in number. `None` if it is
/// something else, `Some(None)` for a mount that cannot be seen.
fn entry(line: &[u8]) -> Option<Option<MountEntry>> {
    let mut fields = line.split(|b| *b == b' ');
    let mut text = || fields.next().map(|field| String::from_utf8_lossy(field).into_owned());
    let id = text()?.parse().ok()?;
    let parent = text()?.parse().ok()?;
    let device = text()?;
    let (root, written) = (path(fields.next()?), fields.next()?);
    let options = String::from_utf8_lossy(fields.next()?).into_owned();
    let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
    let kind = String::from_utf8_lossy(kind).into_owned();
    if is_out_of_sight(written) {
        return Some(None);
    }
    let point = path(written)?;
    Some(Some(MountEntry { id, parent, device, root, point, options, kind }))
}

/// Removed, or outside of what this process has as its root.
fn is_out_of_sight(written: &[u8]) -> bool {
    written.ends_with(b"//deleted") || written == b"/.." || written.starts_with(b"/../")
}

/// Blanks, tabs, newlines and backslashes are written as `\040` and so on.
fn path(written: &[u8]) -> Option<AbsPath> {
    if is_out_of_sight(written) {
        return None;
    }
    let mut bytes = Vec::with_capacity(written.len());
    let mut rest = written;
    while let Some((first, tail)) = rest.split_first() {
        match (first, tail) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..]) => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = tail;
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    AbsPath::normalize(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_with_any_number_of_optional_fields() {
        let table = b"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 shared:2 - ext3 /dev/root rw\n\
            37 35 0:5 / /a\\040b ro - tmpfs tmpfs rw\n\
            38 35 0:5 /gone//deleted /c ro - tmpfs tmpfs rw\n\
            39 35 0:5 /../x /d ro - tmpfs tmpfs rw\n\
            nonsense\n";
        let read = parse(table);
        let shown: Vec<_> = read
            .iter()
            .map(|e| {
                (
                    e.id,
                    e.root.as_ref().map(AbsPath::to_string).unwrap_or_default(),
                    e.point.to_string(),
                    e.kind.as_str(),
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                (36, "/mnt1".to_owned(), "/mnt2".to_owned(), "ext3"),
                (37, "/".to_owned(), "/a b".to_owned(), "tmpfs"),
                (38, String::new(), "/c".to_owned(), "tmpfs"),
                (39, String::new(), "/d".to_owned(), "tmpfs"),
            ]
        );
        assert!(read[0].has("noatime") && !read[0].has("ro") && read[1].has("ro"));
    }

    #[test]
    fn who_must_know_each_mount_is_told_of_a_line_that_is_not_understood() {
        let good = "36 35 98:0 /mnt1 /mnt2 rw - ext3 /dev/root rw\n37 35 0:5 / /gone//deleted ro - tmpfs tmpfs rw\n";
        assert_eq!(parse_all(good.as_bytes()).map(|all| all.len()), Ok(1));
        for bad in
            ["x 35 98:0 / /a rw - ext3 d rw", "36 35 98:0 / /a", "36 35 98:0 / a rw - ext3 d rw", "36 35 98:0 / /a rw"]
        {
            assert_eq!(parse_all(format!("{good}{bad}\n").as_bytes()), Err(bad.to_owned()));
            assert_eq!(parse(format!("{good}{bad}\n").as_bytes()).len(), 1);
        }
    }

    #[test]
    fn only_whole_escapes_are_escapes() {
        let shown = |written: &[u8]| path(written).map(|path| path.to_string()).unwrap_or_default();
        assert_eq!(shown(b"/\\04"), "/\\04");
        assert_eq!(shown(b"/\\777x\\101"), "/\\777xA");
    }
}
