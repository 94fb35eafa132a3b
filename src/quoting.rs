//! Words as a shell reads them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::path::shown;

/// A word as `quote` writes it, or as `$'…'` where it holds what a terminal obeys or cannot show. Shells that know this
/// form read the same bytes back.
pub(crate) fn quote_for_people(word: &OsStr) -> Vec<u8> {
    let bytes = word.as_bytes();
    if shown(word).as_bytes() == bytes {
        return quote(word);
    }
    let mut out = b"$'".to_vec();
    for byte in bytes {
        match byte {
            b'\n' => out.extend(b"\\n"),
            b'\t' => out.extend(b"\\t"),
            b'\'' | b'\\' => out.extend([b'\\', *byte]),
            b' '..=b'~' => out.push(*byte),
            byte => out.extend(format!("\\x{byte:02x}").bytes()),
        }
    }
    out.push(b'\'');
    out
}

/// A word as a POSIX shell reads it back, byte for byte. `shell-words` takes text only, and paths are bytes; the
/// tests read our output back with it.
pub(crate) fn quote(word: &OsStr) -> Vec<u8> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+:@%,=".contains(byte);
    let bytes = word.as_bytes();
    if !bytes.is_empty() && bytes.iter().all(plain) {
        return bytes.to_vec();
    }
    let mut out = vec![b'\''];
    for byte in bytes {
        match byte {
            b'\'' => out.extend(b"'\\''"),
            byte => out.push(*byte),
        }
    }
    out.push(b'\'');
    out
}
