//! Moves planted files and folders aside, and reports it.

use std::collections::BTreeSet;
use std::io;

use crate::diagnostic::{Code, Diagnostic, Diagnostics, listed, reason};
use crate::host::{Host, OpenDir};
use crate::policy::path::AbsPath;

/// The remedy if a repository cannot be moved aside.
pub(super) const REMOVE_IT: &str =
    "remove it before you use git in this project: `git status` is enough to run the programs that it names";

/// The number of bytes that stay of a name that is moved aside.
const LONGEST_NAME: usize = 100;

/// Moves paths aside and reports it. `paths` holds each path that was or should have been moved,
/// and its new path.
pub(super) struct Held<'a> {
    pub host: &'a Host,
    pub said: &'a mut Diagnostics,
    pub paths: BTreeSet<AbsPath>,
}

/// The parts of a report.
pub(super) struct HeldReport {
    /// The finding: the first half of a sentence, to which the outcome is added.
    pub finding: String,
    /// The subject of the second half: the path, or `it`.
    pub subject: String,
    pub help_if_moved: &'static str,
    pub help_if_not: &'static str,
}

impl Held<'_> {
    /// Moves `place` aside in its own folder, once.
    pub(super) fn hold(&mut self, place: &AbsPath, report: HeldReport) {
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        self.hold_in(place, &place.parent().unwrap_or_else(AbsPath::root), &name, report);
    }

    /// Moves `place` into `folder`, once, under a name that begins with `name`.
    pub(super) fn hold_in(&mut self, place: &AbsPath, folder: &AbsPath, name: &str, report: HeldReport) {
        if !self.paths.insert(place.clone()) {
            return;
        }
        let HeldReport { finding, subject, help_if_moved, help_if_not } = report;
        let (outcome, help) = match move_aside(self.host, place, folder, name) {
            Ok(held) => {
                let message = format!("moved aside: {subject} is `{held}` now");
                self.paths.insert(held);
                (message, help_if_moved)
            }
            Err(e) => (format!("{subject} cannot be moved aside: {}", reason(&e)), help_if_not),
        };
        self.say(place, format!("{finding}; {outcome}"), help);
    }

    pub(super) fn say(&mut self, place: &AbsPath, message: String, help: &str) {
        self.said.push(Diagnostic::new(Code::PlantedRepository, message).paths([place.clone()]).help(help));
    }
}

/// Renames `place` in its folder and returns the new path.
pub(super) fn move_aside_in_place(host: &Host, place: &AbsPath) -> io::Result<AbsPath> {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    move_aside(host, place, &place.parent().unwrap_or_else(AbsPath::root), &name)
}

/// Renames `place` and returns the new path. It is not deleted, because it may be the user's work.
fn move_aside(host: &Host, place: &AbsPath, folder: &AbsPath, name: &str) -> io::Result<AbsPath> {
    let ((from, old_name), aside) = (OpenDir::parent_of(host, place)?, OpenDir::open(host, folder)?);
    super::make_writable(&from)?;
    super::make_writable(&aside)?;
    // The command chooses the name, which may be as long as the file system allows.
    let end = (0..=name.len().min(LONGEST_NAME)).rev().find(|end| name.is_char_boundary(*end));
    let plain = format!("{}.held", &name[..end.unwrap_or_default()]);
    if from.rename_new(old_name, &aside, &plain).is_ok() {
        return Ok(folder.child(plain));
    }
    // The name is in use, or the file system does not support RENAME_NOREPLACE.
    let free = format!("{plain}-{}", super::unpredictable_suffix());
    from.rename(old_name, &aside, &free)?;
    Ok(folder.child(free))
}

/// The first `most` items and the number of the others, as one list.
pub(super) fn shortened(mut items: Vec<String>, most: usize) -> String {
    let more = items.len().saturating_sub(most);
    items.truncate(most);
    if more > 0 {
        items.push(format!("{more} more"));
    }
    listed(items.into_iter(), "and")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;

    fn hold(host: &Host, place: &AbsPath) -> Diagnostic {
        let mut said = Diagnostics::default();
        let mut held = Held { host, said: &mut said, paths: BTreeSet::new() };
        let finding = "a repository".to_owned();
        let subject = format!("`{place}`");
        held.hold(place, HeldReport { finding, subject, help_if_moved: "look", help_if_not: REMOVE_IT });
        said.iter().next().unwrap().clone()
    }

    /// A command could create the usual names beforehand, to keep its planted files in place. It
    /// could also make the folder read-only, which `tests/escape/nested.rs` tries as an ordinary
    /// user.
    #[test]
    fn a_path_can_always_be_moved_aside() {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::at(folder.path());
        for taken in [".git", ".git.held", ".git.held-2", ".git.held-3"] {
            fs::create_dir(folder.path().join(taken)).unwrap();
            fs::write(folder.path().join(taken).join("x"), taken).unwrap();
        }
        let said = hold(&host, &AbsPath::root().child(".git"));
        let held = said.message.split('`').rev().nth(1).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join(&held[1..]).join("x")).unwrap(), ".git");
        assert!(!folder.path().join(".git").exists());
        assert_eq!(fs::read_to_string(folder.path().join(".git.held/x")).unwrap(), ".git.held");
    }

    #[test]
    fn a_repository_that_cannot_be_moved_aside_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let said = hold(&Host::at(folder.path()), &AbsPath::root().join("gone/.git"));
        let expected = "a repository; `/gone/.git` cannot be moved aside: no such file or directory";
        assert_eq!((said.message.as_str(), said.help.as_deref()), (expected, Some(REMOVE_IT)));
    }
}
