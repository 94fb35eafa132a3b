//! What stands at blocked paths, as far as a script can do it: without the journal by which a killed run is swept.
//!
//! A shell that a signal ends would leave them. So it only notes the signals that come: Ctrl-C reaches the command by itself, and the
//! rest waits, as POSIX has it, until the command has ended. A trap with a command in it is not inherited, so the command has
//! the dispositions of the caller. There is no subshell around it all: who kills the shell would not reach the command in it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::compile::placeholder::PlaceholderItem;

use super::Quote;

/// Each with the exit status that stands for it.
const SIGNALS: [(&str, u8); 4] = [("HUP", 129), ("INT", 130), ("QUIT", 131), ("TERM", 143)];

/// Ends the list of commands that began with what is put up.
pub(super) const NOTE_STATUS: &[u8] = b" && sandbox_status=0 || sandbox_status=$?\n";

/// Comes first. `sandbox_made` counts what this script has made itself: nothing else is removed.
pub(super) fn wait_for_signals() -> Vec<u8> {
    let mut out = "sandbox_made=0 sandbox_signal=0\n".to_owned();
    for (name, status) in SIGNALS {
        out.push_str(&format!("trap sandbox_signal={status} {name}\n"));
    }
    out.into_bytes()
}

/// Makes one after the other, and starts nothing if one is there already, or if a signal has come.
pub(super) fn put_up(items: &[PlaceholderItem], quote: Quote) -> Vec<u8> {
    let mut out = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let path = quote(item.path.as_os_str());
        // What has been made must be counted, so nothing may end the one who makes it.
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

/// Takes away what is as it was, and ends as the command did.
pub(super) fn take_away(items: &[PlaceholderItem], quote: Quote) -> Vec<u8> {
    let mut out = format!("trap '' {}\n", names()).into_bytes();
    for (at, item) in items.iter().enumerate().rev() {
        let path = quote(item.path.as_os_str());
        out.extend(format!("test $sandbox_made -le {at} || ").bytes());
        match item.content {
            None => out.extend([&b"rmdir -- "[..], &path, b" 2>/dev/null || :\n"].concat()),
            // Not by its content: one that cannot be read would seem empty.
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
