//! The report of a run, kept in the state folder until its user has seen all of it (SPEC R6). A
//! terminal may be gone or blocked when the run ends, and the supervisor may be killed.
//!
//! `HASH-TIME-PID.json` is a report that was not shown yet. `HASH.json` is the last report that
//! was shown. HASH is the SHA-256 of the project's root.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compile::layers::{Layers, Project};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, reason};
use crate::host::state_dir::{StateFiles, must_be_elsewhere, unfit};
use crate::host::{Host, if_there};
use crate::policy::{AbsPath, sha256};
use crate::sys::ablate::{self, Mitigation};

use super::FrontEnd;

const KIND: StateFiles = StateFiles { folder: Layers::REPORTS, max_bytes: 4 * LARGEST as u64 };
/// The largest size of a kept report.
const LARGEST: usize = 1 << 20;
/// The most reports that wait to be shown. More would exist only if standard error never works.
const MOST_WAITING: usize = 16;

/// The largest number of findings of one kind that are reported one by one.
const MOST_ALIKE: usize = 100;

/// The answer of `agent-sandbox report`: the reports that are kept for one project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(title = "agent-sandbox report", description = "The reports that are kept for one project.")]
pub struct ReportList {
    /// The oldest first.
    pub reports: Vec<KeptReport>,
}

/// The report of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct KeptReport {
    /// The root of the project.
    pub project: AbsPath,
    /// The end of the run, in seconds since 1970.
    pub ended: u64,
    /// The user has seen it.
    #[serde(skip_deserializing)]
    pub shown: bool,
    pub findings: Vec<KeptFinding>,
    /// Findings that had no room.
    pub left_out: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct KeptFinding {
    /// A stable name, such as `created-during-run`.
    pub code: String,
    pub message: String,
    /// Details for people.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub notes: Vec<String>,
    /// The files and folders that it is about.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub paths: Vec<AbsPath>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// Notes or paths that had no room.
    pub left_out: usize,
}

impl KeptReport {
    /// A command can cause any number of findings, and of paths in one finding. So the findings are
    /// kept first, and their details share the remaining room: no finding can push another one out.
    /// The findings with the least details get their share first, and leave the rest to the others.
    fn new(project: &AbsPath, said: &Diagnostics) -> Self {
        let of_all = said.iter().map(KeptFinding::without_details);
        let mut findings = fitting(of_all, LARGEST / 2);
        // The names of the lists of details, and of the report, take room as well.
        let taken: usize = findings.iter().map(|finding| bytes_of(finding) + 40).sum();
        let mut room = (LARGEST - project.as_os_str().len() * 6).saturating_sub(taken + 1000);
        let mut waiting: Vec<_> = findings.iter_mut().zip(said.iter()).collect();
        waiting.sort_by_key(|(_, diagnostic)| diagnostic.details.notes.len().max(diagnostic.details.paths.len()));
        let mut left = waiting.len();
        for (finding, diagnostic) in waiting {
            let (details, share) = (&diagnostic.details, room / left);
            finding.paths = fitting(details.paths.iter().cloned(), share / 2);
            let of_paths = finding.paths.iter().map(bytes_of).sum::<usize>();
            finding.notes = fitting(details.notes.iter().cloned(), share - of_paths);
            room -= of_paths + finding.notes.iter().map(bytes_of).sum::<usize>();
            left -= 1;
            let more_notes = details.notes.len() - finding.notes.len();
            finding.left_out = more_notes.max(details.paths.len() - finding.paths.len());
        }
        let left_out = said.iter().count() - findings.len();
        Self { project: project.clone(), ended: now().as_secs(), shown: false, findings, left_out }
    }

    /// The report as it was when the run ended.
    pub fn diagnostics(&self) -> Diagnostics {
        let mut said = Diagnostics::default();
        said.extend(self.findings.iter().filter_map(KeptFinding::diagnostic));
        said
    }

    /// The time since the end of the run, as text.
    pub fn age(&self) -> String {
        let seconds = now().as_secs().saturating_sub(self.ended);
        let (number, unit) = match seconds {
            0..120 => (seconds, "second"),
            120..7200 => (seconds / 60, "minute"),
            7200..172_800 => (seconds / 3600, "hour"),
            _ => (seconds / 86_400, "day"),
        };
        format!("{number} {unit}{} ago", if number == 1 { "" } else { "s" })
    }
}

impl KeptFinding {
    fn without_details(diagnostic: &Diagnostic) -> Self {
        let Diagnostic { code, message, help, .. } = diagnostic.clone();
        Self { code: code.name().to_owned(), message, notes: Vec::new(), paths: Vec::new(), help, left_out: 0 }
    }

    /// `None` for a code that this version does not know.
    fn diagnostic(&self) -> Option<Diagnostic> {
        let code = Code::ALL.iter().find(|code| code.name() == self.code)?;
        let more = (self.left_out > 0).then(|| format!("… and {} more, for which there was no room", self.left_out));
        let mut diagnostic = Diagnostic::new(*code, &self.message).notes(self.notes.iter().cloned().chain(more));
        diagnostic.help.clone_from(&self.help);
        Some(diagnostic.paths(self.paths.iter().cloned()))
    }
}

/// Puts the first finding of each kind before all others, and folds findings of one kind if there
/// are too many, so that no other kind is lost for lack of room. Findings of one kind have one code
/// and one remedy.
fn folded(said: Diagnostics) -> Diagnostics {
    let mut kinds: Vec<Vec<Diagnostic>> = Vec::new();
    let mut kind_of: HashMap<(Code, Option<String>), usize> = HashMap::new();
    for diagnostic in said.iter() {
        let kind = *kind_of.entry((diagnostic.code, diagnostic.help.clone())).or_insert(kinds.len());
        if kind == kinds.len() {
            kinds.push(Vec::new());
        }
        kinds[kind].push(diagnostic.clone());
    }
    if kinds.iter().map(Vec::len).sum::<usize>() <= MOST_ALIKE {
        return said;
    }
    let mut first = Diagnostics::default();
    let mut others = Diagnostics::default();
    for mut alike in kinds {
        let rest = alike.split_off(alike.len().min(MOST_ALIKE));
        let mut alike = alike.into_iter();
        first.extend(alike.next());
        first.extend(fold(&rest));
        others.extend(alike);
    }
    first.extend(others.iter().cloned());
    first
}

/// Puts one finding in the place of several of one kind, with the number in each folder.
fn fold(alike: &[Diagnostic]) -> Option<Diagnostic> {
    let Diagnostic { code, help, .. } = alike.first()?;
    let mut folders: BTreeMap<Option<AbsPath>, usize> = BTreeMap::new();
    for diagnostic in alike {
        *folders.entry(diagnostic.details.paths.first().and_then(AbsPath::parent)).or_default() += 1;
    }
    let note = |(folder, count): (&Option<AbsPath>, &usize)| match folder {
        Some(folder) => format!("{count} in `{folder}`"),
        None => format!("{count} elsewhere"),
    };
    let paths = alike.iter().flat_map(|diagnostic| diagnostic.details.paths.iter().cloned());
    let mut folded = Diagnostic::new(*code, format!("{} more findings like the one above", alike.len()));
    folded.help.clone_from(help);
    Some(folded.notes(folders.iter().map(note)).paths(paths))
}

/// The first of `items` that together take no more than `room` bytes in JSON.
fn fitting<T: Serialize>(items: impl Iterator<Item = T>, mut room: usize) -> Vec<T> {
    let fits = |item: &T| {
        room.checked_sub(bytes_of(item)).is_some_and(|left| {
            room = left;
            true
        })
    };
    items.take_while(fits).collect()
}

/// The size of an item of a list in JSON, with the comma.
fn bytes_of<T: Serialize>(item: &T) -> usize {
    serde_json::to_string(item).map_or(LARGEST, |text| text.len() + 1)
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

pub(crate) struct Reports<'a> {
    host: &'a Host,
    state: &'a AbsPath,
    project: &'a Project,
}

impl<'a> Reports<'a> {
    pub(crate) fn of(host: &'a Host, state: &'a AbsPath, project: &'a Project) -> Self {
        Self { host, state, project }
    }

    /// Shows the reports that no earlier run could show.
    pub(super) fn repeat(&self, front: &mut dyn FrontEnd) {
        if !front.shows_reports() {
            return;
        }
        // Other code reports a state folder that cannot be read.
        for (name, read) in self.waiting().unwrap_or_default() {
            let mut said = Diagnostics::default();
            said.push(repeated(&KIND.path(self.state, &name), &read));
            if let Ok(report) = &read {
                said.extend(report.diagnostics().iter().cloned());
            }
            if front.report(&said, true) && read.is_ok() {
                self.note_shown(&name);
            }
        }
    }

    /// All reports that are kept, the oldest first. An error means that the folder cannot be
    /// trusted.
    pub(crate) fn all(&self) -> io::Result<Vec<(String, io::Result<KeptReport>)>> {
        let shown = format!("{}.json", self.hash());
        let last = if_there(self.read(&shown)).transpose();
        let last = last.map(|last| (shown, last.map(|last| KeptReport { shown: true, ..last })));
        Ok(last.into_iter().chain(self.waiting()?).collect())
    }

    /// The diagnostic for a report that cannot be shown.
    pub(crate) fn lost(&self, name: &str, error: &io::Error) -> Diagnostic {
        let at = KIND.path(self.state, name);
        let message = format!("the report of an earlier run here cannot be shown: {}", reason(error));
        Diagnostic::new(Code::UnshownReport, message)
            .paths([at.clone()])
            .help(format!("look for the changes of the run yourself, and remove `{at}`"))
    }

    /// Records that the user has seen a report, by its new name `HASH.json`. If that fails, the
    /// report is shown again.
    pub(crate) fn note_shown(&self, name: &str) {
        let _ = KIND.rename(self.host, self.state, name, &format!("{}.json", self.hash()));
    }

    /// A name for a report that has not been shown.
    fn new_name(&self) -> String {
        format!("{}-{:032x}-{}.json", self.hash(), now().as_nanos(), std::process::id())
    }

    fn keep(&self, said: &Diagnostics, name: &str) -> io::Result<()> {
        if ablate::is_off(Mitigation::KeptReports) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        must_be_elsewhere(self.state, &self.project.outermost)?;
        let text = serde_json::to_vec(&KeptReport::new(&self.project.root, said))?;
        KIND.write(self.host, self.state, name, &text)?;
        let waiting = self.waiting_names()?;
        for old in waiting.iter().take(waiting.len().saturating_sub(MOST_WAITING)) {
            KIND.remove(self.host, self.state, old)?;
        }
        Ok(())
    }

    fn waiting(&self) -> io::Result<Vec<(String, io::Result<KeptReport>)>> {
        let names = self.waiting_names()?;
        let with_report = |name: String| {
            let read = self.read(&name);
            (name, read)
        };
        Ok(names.into_iter().map(with_report).collect())
    }

    /// The names of the reports that have not been shown, the oldest first.
    fn waiting_names(&self) -> io::Result<Vec<String>> {
        let prefix = format!("{}-", self.hash());
        let names = KIND.names(self.host, self.state)?.into_iter().filter_map(|name| name.into_string().ok());
        Ok(names.filter(|name| name.starts_with(&prefix)).collect())
    }

    fn read(&self, name: &str) -> io::Result<KeptReport> {
        let content = KIND.read(self.host, self.state, name)?;
        must_be_elsewhere(self.state, &self.project.outermost)?;
        let report = serde_json::from_slice::<KeptReport>(&content).ok();
        report.filter(|report| report.project == self.project.root).ok_or_else(|| unfit("it is damaged"))
    }

    fn hash(&self) -> String {
        sha256(self.project.root.as_os_str().as_bytes())
    }
}

/// The report of this run.
pub(super) struct RunReport<'a> {
    /// The reports of the project, and the file name of this one; `None` if it is not kept.
    kept: Option<(Reports<'a>, String)>,
}

impl<'a> RunReport<'a> {
    pub(super) fn kept(reports: Reports<'a>) -> Self {
        let name = reports.new_name();
        Self { kept: Some((reports, name)) }
    }

    /// The report of a run that leaves nothing on the host.
    pub(super) fn shown_only() -> Self {
        Self { kept: None }
    }

    /// Keeps the findings so far, in case that the supervisor is killed. `finish` tries again, and
    /// reports a failure.
    pub(super) fn keep(&self, said: &Diagnostics) {
        if let Some((reports, name)) = self.kept.as_ref().filter(|_| !said.is_empty()) {
            let _ = reports.keep(&folded(said.clone()), name);
        }
    }

    /// Keeps all findings, shows them, and records whether they were shown.
    pub(super) fn finish(self, said: Diagnostics, front: &mut dyn FrontEnd) {
        let Some((reports, name)) = self.kept else {
            front.report(&said, false);
            return;
        };
        if said.is_empty() {
            front.report(&said, false);
            return;
        }
        let mut said = folded(said);
        let kept = reports.keep(&said, &name);
        ablate::pause("report-kept");
        if let Err(e) = &kept {
            let folder = reports.state.child(KIND.folder);
            let message = format!("this report cannot be kept in `{folder}`: {}", reason(e));
            let help = "make the folder writable, or name another with XDG_STATE_HOME";
            said.push(Diagnostic::new(Code::ReportNotKept, message).help(help));
        }
        if front.report(&said, kept.is_ok()) && kept.is_ok() {
            reports.note_shown(&name);
        }
    }
}

fn repeated(at: &AbsPath, read: &io::Result<KeptReport>) -> Diagnostic {
    match read {
        Ok(report) => {
            let message = format!("the report of the run here that ended {} was never shown: see below", report.age());
            Diagnostic::new(Code::UnshownReport, message).help("show it again with `agent-sandbox report --last`")
        }
        Err(e) => {
            let message = format!("the report of an earlier run here was never shown, and is lost: {}", reason(e));
            Diagnostic::new(Code::UnshownReport, message)
                .help(format!("look for the changes of the run yourself, and remove `{at}`"))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    // SPEC R7
    #[test]
    fn the_whole_room_is_used_for_details() {
        let mut said = Diagnostics::default();
        for number in 0..100 {
            said.push(
                Diagnostic::new(Code::PlantedRepository, format!("{number}")).notes(["one".into(), "two".into()]),
            );
        }
        let names = |count| (0..count).map(|number| format!("`mise.{number:05}.toml` (@autorun)"));
        said.push(Diagnostic::new(Code::CreatedDuringRun, "many").notes(names(6_000)));
        said.push(Diagnostic::new(Code::CommandsChanged, "too many").notes(names(50_000)));
        let kept = KeptReport::new(&AbsPath::root(), &said);
        let left_out: Vec<usize> = kept.findings.iter().map(|finding| finding.left_out).collect();
        assert!(left_out[..101].iter().all(|left_out| *left_out == 0), "{left_out:?}");
        let bytes = serde_json::to_vec(&kept).unwrap().len();
        assert!(left_out[101] > 0 && (LARGEST * 9 / 10..=LARGEST).contains(&bytes), "{bytes}: {left_out:?}");
    }

    /// A command can cause any number of findings of one kind.
    // SPEC R7
    #[test]
    fn thousands_of_findings_push_no_other_kind_out() {
        let mut said = Diagnostics::default();
        for number in 0..20_000 {
            let path = AbsPath::root().join(format!("p/{}/x{number}", number % 3));
            let message = format!("`{path}` {}", "long ".repeat(20));
            said.push(Diagnostic::new(Code::PlantedRepository, message).paths([path]).help("look"));
        }
        said.push(Diagnostic::new(Code::PlantedRepository, "another kind").help("look elsewhere"));
        said.push(Diagnostic::new(Code::CommandsChanged, "the one that matters").help("look"));
        let said = folded(said);
        let kept = KeptReport::new(&AbsPath::root(), &said);
        assert_eq!(kept.left_out, 0);
        let messages: Vec<&str> = kept.findings.iter().map(|finding| finding.message.as_str()).collect();
        assert!(messages[0].starts_with("`/p/0/x0` "));
        assert_eq!(messages[1..4], ["19900 more findings like the one above", "another kind", "the one that matters"]);
        assert_eq!(kept.findings[1].notes, ["6633 in `/p/0`", "6634 in `/p/1`", "6633 in `/p/2`"]);
        assert_eq!(messages.len(), 103);
    }
}
