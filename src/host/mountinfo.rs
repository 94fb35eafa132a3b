//! The kernel's list of mounts, `/proc/PID/mountinfo`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use rustix::mount::MountFlags;

use crate::policy::AbsPath;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEntry {
    pub id: u64,
    pub parent: u64,
    /// `major:minor`, equal for all mounts of one file system.
    pub device: Vec<u8>,
    /// The path of the mounted directory or file in its file system. `None` if it was removed, or
    /// is outside of this process's root.
    pub root: Option<AbsPath>,
    pub point: AbsPath,
    /// The options of this mount, not those of its file system.
    pub flags: MountFlags,
    pub is_tmpfs: bool,
}

impl MountEntry {
    pub fn is_read_only(&self) -> bool {
        self.flags.contains(MountFlags::RDONLY)
    }
}

/// A line of the list in an unknown format.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown line `{0}`")]
pub struct UnknownLine(String);

/// All mounts that this process can see, in the kernel's order: a mount that covers another comes
/// later.
pub fn parse(table: &[u8]) -> impl Iterator<Item = Result<MountEntry, UnknownLine>> {
    let lines = table.split(|b| *b == b'\n').filter(|line| !line.is_empty());
    lines.filter_map(|line| {
        entry(line).ok_or_else(|| UnknownLine(String::from_utf8_lossy(line).into_owned())).transpose()
    })
}

/// Reads `36 35 98:0 /root /point rw,noatime shared:1 - ext4 /dev/sda rw`, where any number of
/// fields come before `-`. `None` for another format, `Some(None)` for a mount point that is out
/// of sight.
fn entry(line: &[u8]) -> Option<Option<MountEntry>> {
    let number = |field| str::from_utf8(field).ok()?.parse().ok();
    let mut fields = line.split(|b| *b == b' ');
    let (id, parent, device) = (number(fields.next()?)?, number(fields.next()?)?, fields.next()?.to_vec());
    let (root, point, options) = (fields.next()?, fields.next()?, fields.next()?);
    let is_tmpfs = fields.skip_while(|field| *field != b"-").nth(1)? == b"tmpfs";
    if is_out_of_sight(point) {
        return Some(None);
    }
    let (root, point, flags) = (path(root), path(point)?, flags(options));
    Some(Some(MountEntry { id, parent, device, root, point, flags, is_tmpfs }))
}

/// Whether the path was removed, or lies outside of this process's root.
fn is_out_of_sight(written: &[u8]) -> bool {
    written.ends_with(b"//deleted") || written == b"/.." || written.starts_with(b"/../")
}

/// Reads a path in which blanks, tabs, newlines and backslashes are written as `\040` and so on.
fn path(written: &[u8]) -> Option<AbsPath> {
    if is_out_of_sight(written) {
        return None;
    }
    let mut bytes = Vec::with_capacity(written.len());
    let mut rest = written;
    while let [first, tail @ ..] = rest {
        let (byte, tail) = match rest {
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..] => {
                ((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'), tail)
            }
            _ => (*first, tail),
        };
        bytes.push(byte);
        rest = tail;
    }
    AbsPath::normalize(OsStr::from_bytes(&bytes))
}

/// The flags that a remount must repeat to change nothing.
fn flags(options: &[u8]) -> MountFlags {
    let flag = |option: &[u8]| match option {
        b"ro" => MountFlags::RDONLY,
        b"nosuid" => MountFlags::NOSUID,
        b"nodev" => MountFlags::NODEV,
        b"noexec" => MountFlags::NOEXEC,
        b"noatime" => MountFlags::NOATIME,
        b"nodiratime" => MountFlags::NODIRATIME,
        b"relatime" => MountFlags::RELATIME,
        _ => MountFlags::empty(),
    };
    let set: MountFlags = options.split(|b| *b == b',').map(flag).collect();
    // mountinfo shows no flag for strict access times, and a remount without a flag would set
    // relatime.
    let is_strict = !set.intersects(MountFlags::NOATIME | MountFlags::RELATIME);
    if is_strict { set | MountFlags::STRICTATIME } else { set }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_with_any_number_of_optional_fields() {
        let table = b"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 shared:2 - ext3 /dev/root rw\n\
            37 35 0:5 / /a\\040b ro - tmpfs tmpfs rw\n\
            38 35 0:5 /gone//deleted /c ro - tmpfs tmpfs rw\n\
            39 35 0:5 /../x /d ro - tmpfs tmpfs rw\n\
            nonsense\n";
        let read: Vec<MountEntry> = parse(table).flatten().collect();
        let found: Vec<_> =
            read.iter().map(|e| (e.id, e.root.as_ref().map(AbsPath::to_string), e.point.to_string())).collect();
        assert_eq!(
            found,
            [
                (36, Some("/mnt1".to_owned()), "/mnt2".to_owned()),
                (37, Some("/".to_owned()), "/a b".to_owned()),
                (38, None, "/c".to_owned()),
                (39, None, "/d".to_owned()),
            ]
        );
        assert!(!read[0].is_read_only() && !read[0].is_tmpfs && read[1].is_read_only() && read[1].is_tmpfs);
        assert_eq!(read[0].flags, MountFlags::NOATIME);
        assert_eq!(read[1].flags, MountFlags::RDONLY | MountFlags::STRICTATIME);
    }

    // SPEC C2
    #[test]
    fn an_unknown_line_is_an_error() {
        let good = "36 35 98:0 /mnt1 /mnt2 rw - ext3 /dev/root rw\n37 35 0:5 / /gone//deleted ro - tmpfs tmpfs rw\n";
        assert_eq!(parse(good.as_bytes()).map(|entry| entry.unwrap().id).collect::<Vec<_>>(), [36]);
        for bad in
            ["x 35 98:0 / /a rw - ext3 d rw", "36 35 98:0 / /a", "36 35 98:0 / a rw - ext3 d rw", "36 35 98:0 / /a rw"]
        {
            let table = format!("{good}{bad}\n");
            assert_eq!(parse(table.as_bytes()).nth(1), Some(Err(UnknownLine(bad.to_owned()))));
        }
    }

    #[test]
    fn only_whole_escapes_are_escapes() {
        let read = |written: &[u8]| path(written).map(|path| path.to_string()).unwrap_or_default();
        assert_eq!(read(b"/\\04"), "/\\04");
        assert_eq!(read(b"/\\777x\\101"), "/\\777xA");
    }
}
