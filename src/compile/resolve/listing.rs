//! Folders that are listed before rules are asked for, where rules are many.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::host::Host;
use crate::policy::path::AbsPath;
use crate::policy::rule::Rule;

use super::written::anchored;

/// Below this many rules there is little to gain.
const RULES_BEFORE_LISTING: usize = 500;

/// To ask for so many names costs as much as to list the folder that they are in.
const RULES_WORTH_A_LIST: usize = 4;

/// The same host, which knows what is in folders that several rules in a row name something in. `None` where that is not worth it.
pub(super) fn ahead(host: &Host, rules: &[Arc<Rule>], home: &AbsPath) -> Option<Host> {
    (rules.len() >= RULES_BEFORE_LISTING).then(|| host.listing(&shared_folders(rules, home)))
}

/// The folders in which several rules in a row name something, as written.
fn shared_folders(rules: &[Arc<Rule>], home: &AbsPath) -> Vec<PathBuf> {
    let groups = rules.chunk_by(|a, b| folder_of(a, home) == folder_of(b, home));
    let groups = groups.filter(|group| group.len() >= RULES_WORTH_A_LIST);
    let mut folders: Vec<PathBuf> = groups
        .map(|group| match folder_of(&group[0], home) {
            (anchor, b"") => anchor.as_path().to_path_buf(),
            (anchor, folder) => anchor.as_path().join(OsStr::from_bytes(folder)),
        })
        .collect();
    folders.sort_unstable_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
    folders.dedup_by(|a, b| a.as_os_str() == b.as_os_str());
    folders
}

/// Where a rule starts from, and the text up to its last component.
fn folder_of<'t>(rule: &'t Rule, home: &'t AbsPath) -> (&'t AbsPath, &'t [u8]) {
    let (anchor, text) = anchored(rule, home);
    let text = text.as_bytes();
    let end = text.iter().rposition(|byte| *byte == b'/');
    // What lies in the root begins with it.
    (anchor, end.map_or(b"", |end| &text[..end.max(1)]))
}
