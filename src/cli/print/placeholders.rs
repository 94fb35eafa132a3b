//! Placeholders in a script, which has no journal by which a later run could sweep them.
//!
//! A signal that ended the shell would leave the placeholders, so the shell only notes signals.
//! Ctrl-C reaches the command by itself; POSIX shells run other traps when the command has ended. A
//! command does not inherit a trap, so it has the dispositions of the caller. The script has no
//! subshell around all of it, because a signal sent to the shell would not reach the command.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::compile::placeholder::PlaceholderItem;
use crate::diagnostic::quoting::quote;

/// Signals, and the exit status that a shell has for each.
const SIGNALS: [(&str, u8); 4] = [("HUP", 129), ("INT", 130), ("QUIT", 131), ("TERM", 143)];

/// Ends the list of commands that `put_up` begins.
pub(super) const NOTE_STATUS: &[u8] = b" && sandbox_status=0 || sandbox_status=$?\n";

/// The beginning of the script. `sandbox_made` counts the placeholders of this script, which alone
/// are removed.
pub(super) fn wait_for_signals() -> Vec<u8> {
    let mut out = "sandbox_made=0 sandbox_signal=0\n".to_owned();
    for (name, status) in SIGNALS {
        out.push_str(&format!("trap sandbox_signal={status} {name}\n"));
    }
    out.into_bytes()
}

/// Makes the placeholders in order. The script goes on only if all were made and no signal came.
pub(super) fn put_up(items: &[PlaceholderItem]) -> Vec<u8> {
    let mut out = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let path = quote(item.path.as_os_str());
        // A signal between `mkdir` and the count would leave a placeholder.
        out.extend(format!("(trap '' {} && ", names()).bytes());
        match item.content {
            None => out.extend([&b"mkdir -- "[..], &path].concat()),
            Some(content) => {
                let content = quote(OsStr::from_bytes(content));
                out.extend([&b"set -C && printf %s "[..], &content, b" >", &path].concat());
            }
        }
        out.extend(format!(") && sandbox_made={} &&\n", at + 1).bytes());
    }
    out.extend(b"(exit $sandbox_signal) &&\n");
    out
}

/// Removes unchanged placeholders, and exits with the status of the command.
pub(super) fn take_away(items: &[PlaceholderItem]) -> Vec<u8> {
    let mut out = format!("trap '' {}\n", names()).into_bytes();
    for (at, item) in items.iter().enumerate().rev() {
        let path = quote(item.path.as_os_str());
        out.extend(format!("test $sandbox_made -le {at} || ").bytes());
        match item.content {
            None => out.extend([&b"rmdir -- "[..], &path, b" 2>/dev/null || :\n"].concat()),
            // By its size: the content of an unreadable file would seem empty.
            Some(b"") => out.extend([&b"test -s "[..], &path, b" || rm -f ", &path, b" || :\n"].concat()),
            Some(content) => {
                let content = quote(OsStr::from_bytes(content.trim_ascii_end()));
                let is_same = [&b"test \"$(cat "[..], &path, b" 2>/dev/null)\" != ", &content].concat();
                out.extend([&is_same[..], b" || rm -f ", &path, b" || :\n"].concat());
            }
        }
    }
    out.extend(format!("trap - {}\n(exit $sandbox_status)\n", names()).bytes());
    out
}

fn names() -> String {
    SIGNALS.map(|(name, _)| name).join(" ")
}
