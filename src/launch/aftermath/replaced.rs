//! Reports files that the host replaced during the run (SPEC R4, Y4).

use std::collections::BTreeSet;

use rustix::io::Errno;

use super::{RunWatch, name_in, one_or_many};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::host::Host;
use crate::host::identity::FileBirth;
use crate::host::last_parent::LastParent;
use crate::policy::path::AbsPath;

/// The result when the supervisor covers a file again that the host replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gap {
    /// The file is covered as before.
    Covered,
    /// The private file is read-only, and the command has lost its copy.
    ReadOnly,
    /// The new entry is no regular file, and hidden.
    Hidden,
    /// The command can access the file, for this reason.
    Open(String),
}

/// Reports all replaced files: files that the supervisor covered again, and files that it did not
/// watch.
pub(super) fn report(watch: &RunWatch, host: &Host, said: &mut Diagnostics) {
    let (mut open, covered) = split(watch.gaps.iter());
    open.extend(unwatched(watch, host).map(|path| (path, "")));
    said.extend(covered_again(&watch.root, &covered));
    said.extend(left_open(&watch.root, &open));
}

/// All files that were replaced.
pub(super) fn all<'w>(watch: &'w RunWatch, host: &Host) -> BTreeSet<&'w AbsPath> {
    watch.gaps.keys().chain(unwatched(watch, host)).collect()
}

/// The files that were replaced while the supervisor did not watch them.
fn unwatched<'w>(watch: &'w RunWatch, host: &Host) -> impl Iterator<Item = &'w AbsPath> {
    let mut parent = LastParent::default();
    let is_another = move |(path, before): &&(AbsPath, FileBirth)| {
        let found = parent.statx(&host.real(path), FileBirth::WANTED);
        match found {
            Ok(now) => FileBirth::of(&now) != *before,
            Err(Errno::NOENT | Errno::NOTDIR) => false,
            // After another error, such as a symlink on the way, assume that it was replaced.
            Err(_) => true,
        }
    };
    let unwatched = watch.covered.iter().filter(|(path, _)| !watch.gaps.contains_key(path));
    unwatched.filter(is_another).map(|(path, _)| path)
}

/// The notes about files that were replaced a moment ago. The report has the warnings.
pub(in crate::launch) fn during_run<'g>(
    root: &AbsPath,
    gaps: impl Iterator<Item = (&'g AbsPath, &'g Gap)>,
) -> Diagnostics {
    let (open, covered) = split(gaps);
    let said = covered_again(root, &covered).into_iter().chain(left_open(root, &open));
    said.map(|said| Diagnostic { help: None, ..said }.as_note(true)).collect()
}

/// Files, each with an addition to its name in the report.
type NamedGaps<'g> = Vec<(&'g AbsPath, &'g str)>;

/// The files that the command can access, and the files that are covered again.
fn split<'g>(gaps: impl Iterator<Item = (&'g AbsPath, &'g Gap)>) -> (NamedGaps<'g>, NamedGaps<'g>) {
    let (mut open, mut covered) = (Vec::new(), Vec::new());
    for (path, gap) in gaps {
        match gap {
            Gap::Covered => covered.push((path, "")),
            Gap::ReadOnly => covered.push((path, "read-only now, not private")),
            Gap::Hidden => covered.push((path, "hidden now, because it is no regular file")),
            Gap::Open(why) => open.push((path, why.as_str())),
        }
    }
    (open, covered)
}

fn covered_again(root: &AbsPath, files: &NamedGaps) -> Option<Diagnostic> {
    let it = if files.len() == 1 { "it" } else { "each of them" };
    let until = format!("until the supervisor covered {it} again");
    let help = "change such files while no sandbox runs: the command may have read or changed it in between";
    replaced(root, files, &until, help)
}

fn left_open(root: &AbsPath, files: &NamedGaps) -> Option<Diagnostic> {
    let help = "write the rule for the folder around the file, or replace the file while no sandbox runs: a mount \
                covers only the file that existed at the start";
    replaced(root, files, "from then on", help)
}

fn replaced(root: &AbsPath, files: &NamedGaps, when: &str, help: &str) -> Option<Diagnostic> {
    let verb = if files.len() == 1 { "was" } else { "were" };
    let names = files.iter().map(|(path, addition)| match name_in(root, path) {
        name if addition.is_empty() => format!("`{name}`"),
        name => format!("`{name}` ({addition})"),
    });
    let (subject, notes) = one_or_many(names.collect());
    let subject = if notes.is_empty() { subject } else { format!("these {subject}") };
    let message = format!("{subject} {verb} replaced on the host during the run, and open to the command {when}");
    let paths = files.iter().map(|(path, _)| (*path).clone());
    let diagnostic = Diagnostic::new(Code::ReplacedDuringRun, message).notes(notes).paths(paths).help(help);
    (!files.is_empty()).then_some(diagnostic)
}
