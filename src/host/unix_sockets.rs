//! `/proc/net/unix`: the sockets of this network namespace, one on a line.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// `__SO_ACCEPTCON` of the kernel: a process called `listen`.
const LISTENS: u32 = 0x10000;
/// `SOCK_DGRAM`: any process can send to a named socket.
const DATAGRAM: u32 = 2;

/// The names, as passed to `bind`, of the sockets in the file system that a process can reach.
pub(crate) fn reachable(table: &[u8]) -> Vec<PathBuf> {
    let mut names: Vec<Vec<u8>> = Vec::new();
    // Whether the following lines may be part of the last name.
    let mut taken = false;
    for line in table.strip_suffix(b"\n").unwrap_or(table).split(|byte| *byte == b'\n') {
        if let Some((is_reachable, name)) = entry(line) {
            taken = is_reachable;
            names.extend(taken.then(|| name.to_vec()));
        } else if let Some(name) = names.last_mut().filter(|_| taken) {
            // The kernel does not escape a newline in a name.
            name.push(b'\n');
            name.extend(line);
        }
    }
    names.into_iter().map(|name| PathBuf::from(OsStr::from_bytes(&name))).collect()
}

/// Reads `Num: RefCount Protocol Flags Type St Inode Path`: whether the socket can be reached, and
/// its name. The inode is padded; the path, if any, is the rest of the line after one blank. An
/// abstract name begins with a NUL, which the table shows as `@`, so it looks like a relative name.
fn entry(line: &[u8]) -> Option<(bool, &[u8])> {
    let mut rest = line;
    let mut field = || {
        let start = rest.iter().position(|byte| *byte != b' ')?;
        let end = rest[start..].iter().position(|byte| *byte == b' ').map_or(rest.len(), |length| start + length);
        let field = &rest[start..end];
        rest = &rest[end..];
        std::str::from_utf8(field).ok()
    };
    let hexadecimal = |text: &str| u32::from_str_radix(text, 16).ok();
    let number = field()?.strip_suffix(':')?;
    let (_count, _protocol) = (field()?, field()?);
    let (flags, kind, _state) = (hexadecimal(field()?)?, hexadecimal(field()?)?, field()?);
    let inode = field()?;
    let is_entry = u64::from_str_radix(number, 16).is_ok() && inode.parse::<u64>().is_ok();
    let name = rest.strip_prefix(b" ").unwrap_or_default();
    is_entry.then_some((!name.is_empty() && (flags & LISTENS != 0 || kind == DATAGRAM), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "Num       RefCount Protocol Flags    Type St Inode Path\n";

    fn names(lines: &str) -> Vec<String> {
        let table = format!("{HEADER}{lines}");
        reachable(table.as_bytes()).into_iter().map(|name| name.to_string_lossy().into_owned()).collect()
    }

    // SPEC W1
    #[test]
    fn sockets_that_listen_or_receive_datagrams_can_be_reached() {
        let table = "\
0000000000000000: 00000002 00000000 00010000 0001 01 33785 /run/listens
0000000000000000: 00000003 00000000 00000000 0001 03 33786 /run/accepted
0000000000000000: 00000002 00000000 00000000 0002 01   578 /run/datagrams
0000000000000000: 00000002 00000000 00010000 0005 01 1234567 /run/packets
0000000000000000: 00000003 00000000 00000000 0001 03 33861
0000000000000000: 00000002 00000000 00000000 0002 01 33862
0000000000000000: 00000002 00000000 00010000 0001 01 33863 @/abstract
";
        assert_eq!(names(table), ["/run/listens", "/run/datagrams", "/run/packets", "@/abstract"]);
        assert_eq!(names(""), [""; 0]);
        assert!(reachable(b"").is_empty());
    }

    #[test]
    fn a_socket_name_goes_on_to_the_next_entry_of_the_table() {
        let start = "0000000000000000: 00000002 00000000 00010000 0001 01     7 ";
        for name in ["/home/u/my sockets/a  b ", "relative", " blank", "/a\nb", "/a\n\nb: c", "/a/b\n"] {
            assert_eq!(names(&format!("{start}{name}\n")), [name]);
            assert_eq!(names(&format!("{start}{name}\n{start}/next\n")), [name, "/next"]);
        }
    }

    #[test]
    fn bytes_that_are_no_text_stay_as_they_are() {
        let line = b"0000000000000000: 00000002 00000000 00010000 0001 01 33785 /a\xff\n";
        assert_eq!(reachable(line), [PathBuf::from(OsStr::from_bytes(b"/a\xff"))]);
    }
}
