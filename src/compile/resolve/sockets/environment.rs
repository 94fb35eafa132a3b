//! Sockets that the environment names. They may belong to another network namespace, and then
//! `/proc/net/unix` does not list them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::host::Session;

pub(super) fn sockets(session: &Session) -> Vec<PathBuf> {
    let agent = session.var("SSH_AUTH_SOCK").map(PathBuf::from);
    // `PATH:PID:VERSION`
    let gpg = session.var("GPG_AGENT_INFO").and_then(|value| value.as_bytes().split(|byte| *byte == b':').next());
    let gpg = gpg.map(|path| PathBuf::from(OsStr::from_bytes(path)));
    let bus = session.var("DBUS_SESSION_BUS_ADDRESS").map(|value| bus_paths(value.as_bytes())).unwrap_or_default();
    let all = agent.into_iter().chain(gpg).chain(bus);
    // No program relies on a relative path here.
    all.filter(|path| Path::is_absolute(path)).collect()
}

/// The paths in `unix:path=/run/user/1000/bus,guid=…;unix:…`, with `%20` for a blank.
fn bus_paths(addresses: &[u8]) -> Vec<PathBuf> {
    let settings = addresses
        .split(|byte| *byte == b';')
        .filter_map(|address| address.strip_prefix(b"unix:"))
        .flat_map(|settings| settings.split(|byte| *byte == b','));
    let paths = settings.filter_map(|setting| setting.strip_prefix(b"path="));
    paths.map(|path| PathBuf::from(OsString::from_vec(unescaped(path)))).collect()
}

fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        let code = match rest {
            [b'%', high, low, ..] => {
                std::str::from_utf8(&[*high, *low]).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok())
            }
            _ => None,
        };
        out.push(code.unwrap_or(*first));
        rest = if code.is_some() { &rest[3..] } else { tail };
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::policy::path::AbsPath;

    fn named(name: &str, value: &str) -> Vec<PathBuf> {
        let env = BTreeMap::from([(name.into(), value.into())]);
        sockets(&Session { cwd: AbsPath::root(), uid: 1000, env, executable: None, memory: u64::MAX })
    }

    #[test]
    fn each_variable_has_its_own_way_to_name_a_socket() {
        for (name, value, expected) in [
            ("SSH_AUTH_SOCK", "/home/u/a:b", &["/home/u/a:b"][..]),
            ("SSH_AUTH_SOCK", "agent", &[]),
            ("GPG_AGENT_INFO", "/home/u/S.gpg-agent:17:1", &["/home/u/S.gpg-agent"]),
            ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/b/us,guid=1f", &["/b/us"]),
            ("DBUS_SESSION_BUS_ADDRESS", "unix:guid=1f,path=/b%20us;tcp:host=h;unix:path=/c%2", &["/b us", "/c%2"]),
            ("DBUS_SESSION_BUS_ADDRESS", "unix:abstract=/tmp/x;autolaunch:", &[]),
        ] {
            let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(named(name, value), expected, "{name}={value}");
        }
    }
}
