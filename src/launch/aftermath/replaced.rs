//! Reports files that the host replaced during the run (SPEC R4, K4).

use rustix::io::Errno;

use super::{RunWatch, name_in, one_or_many};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::host::Host;
use crate::host::identity::FileBirth;
use crate::host::last_parent::LastParent;
use crate::policy::path::AbsPath;

/// The result of covering a file again that the host replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gap {
    /// The file is covered as before.
    Covered,
    /// The private file is read-only, and the command has lost its copy.
    ReadOnly,
    /// The new entry is no regular file, and hidden.
    Hidden,
    /// The file is open to the command, for this reason.
    Open(String),
}

pub(super) fn report(watch: &RunWatch, host: &Host, said: &mut Diagnostics) {
    let (open, covered): (Vec<_>, Vec<_>) = watch.gaps.iter().partition(|(_, gap)| matches!(gap, Gap::Open(_)));
    if !covered.is_empty() {
        said.push(covered_again(&watch.root, covered.into_iter()));
    }
    let mut parent = LastParent::default();
    let mut is_another = |(path, before): &&(AbsPath, FileBirth)| {
        let found = parent.statx(&host.real(path), FileBirth::WANTED);
        match found {
            Ok(now) => FileBirth::of(&now) != *before,
            Err(Errno::NOENT | Errno::NOTDIR) => false,
            // A symlink on the way, or a directory that is closed: nobody can tell.
            Err(_) => true,
        }
    };
    let unwatched = watch.covered.iter().filter(|(path, _)| !watch.gaps.contains_key(path));
    let unwatched = unwatched.filter(|covered| is_another(covered)).map(|(path, _)| path);
    let replaced: Vec<AbsPath> = open.into_iter().map(|(path, _)| path).chain(unwatched).cloned().collect();
    if !replaced.is_empty() {
        let verb = if replaced.len() == 1 { "was" } else { "were" };
        let names = replaced.iter().map(|path| match watch.gaps.get(path) {
            Some(Gap::Open(why)) => format!("`{}` ({why})", name_in(&watch.root, path)),
            _ => format!("`{}`", name_in(&watch.root, path)),
        });
        let (subject, notes) = one_or_many(names.collect());
        let message =
            format!("{subject} {verb} replaced on the host during the run, and open to the command from then on");
        let help = "a rule covers what is there at the start; in a folder that stays everything can be replaced, and the rule holds";
        said.push(Diagnostic::new(Code::ReplacedDuringRun, message).notes(notes).paths(replaced).help(help));
    }
}

/// The warning about files that are covered again.
pub(in crate::launch) fn covered_again<'g>(
    root: &AbsPath,
    gaps: impl Iterator<Item = (&'g AbsPath, &'g Gap)>,
) -> Diagnostic {
    let (mut names, mut paths) = (Vec::new(), Vec::new());
    for (path, gap) in gaps {
        let name = name_in(root, path);
        names.push(match gap {
            Gap::Covered => format!("`{name}`"),
            Gap::ReadOnly => format!("`{name}` (read-only now, not private)"),
            Gap::Hidden => format!("`{name}` (hidden now, because it is no regular file)"),
            Gap::Open(why) => format!("`{name}` (not covered: {why})"),
        });
        paths.push(path.clone());
    }
    let verb = if names.len() == 1 { "was" } else { "were" };
    let (subject, notes) = one_or_many(names);
    let message = format!(
        "{subject} {verb} replaced on the host during the run, and open to the command until the supervisor covered it again"
    );
    let help = "if the content matters, take it for read; change such files while no sandbox runs";
    Diagnostic::new(Code::ReplacedDuringRun, message).notes(notes).paths(paths).help(help)
}
