//! The user database.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::Host;
use crate::policy::AbsPath;

const FILE: &str = "/etc/passwd";
/// The largest password file that is read.
const LARGEST: u64 = 16 << 20;
/// The number of the field that names the home.
const HOME: usize = 5;

/// The home of the first user for whom `is_user` returns true. It gets the fields: name, password,
/// uid, gid, comment, home, shell.
pub(crate) fn home_of(host: &Host, is_user: impl Fn(&[&[u8]]) -> bool) -> Option<AbsPath> {
    let users = host.read_regular(&AbsPath::root().join(FILE), LARGEST).ok().flatten()?;
    let home = users.split(|byte| *byte == b'\n').find_map(|line| {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b':').collect();
        fields.get(HOME).copied().filter(|_| is_user(&fields))
    })?;
    AbsPath::normalize(OsStr::from_bytes(home))
}
