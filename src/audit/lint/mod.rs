//! The answer of `agent-sandbox lint`: rules without effect, protections that a command can avoid,
//! secrets that no rule covers.
//!
//! A finding is a diagnostic like any other. The compile stages' diagnostics about rules are also
//! findings, so one answer holds all that is known about a policy.

mod limits;
mod rule_index;
mod rules;
pub mod sarif;
pub(super) mod secrets;
mod spelling;
pub(super) mod visible;

pub use rules::{idle_rules, report_idle};

use schemars::JsonSchema;
use serde::Serialize;

use crate::compile::presets::builtin;
use crate::compile::{Compiled, plan};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Severity};
use crate::host::{DirEntry, FileKind, Host};
use crate::policy::{AbsPath, Origin};

/// The codes of `lint` itself, without those of the compile stages.
pub const CODES: [Code; 16] = [
    Code::ShadowedRule,
    Code::UnusedRule,
    Code::UnblockedPath,
    Code::RedundantRule,
    Code::GlobAsName,
    Code::UnusedPreset,
    Code::ReplaceableLink,
    Code::PrivateUnavailable,
    Code::HardLink,
    Code::VisibleSecret,
    Code::TrackedSecret,
    Code::HiddenTracked,
    Code::VisibleSocket,
    Code::WritablePath,
    Code::SharedStore,
    Code::TmpBeyondMemory,
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LintFinding {
    pub diagnostic: Diagnostic,
    /// The path that the finding is about. `None` if it is about a rule alone.
    pub path: Option<AbsPath>,
}

impl LintFinding {
    fn of(diagnostic: Diagnostic) -> Self {
        Self { diagnostic, path: None }
    }

    fn on(path: &AbsPath, diagnostic: Diagnostic) -> Self {
        Self { diagnostic, path: Some(path.clone()) }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Lint {
    /// Findings about rules come first, in the order of the files. Findings about paths follow.
    pub findings: Vec<LintFinding>,
    /// The walk of the project reached its limit.
    pub is_partial: bool,
}

impl Lint {
    /// Whether a diagnostic of the stages is a finding. A diagnostic without an origin is about
    /// this machine, and is a finding only if it stops a run.
    pub fn is_finding(said: &Diagnostic) -> bool {
        said.severity() == Severity::Error || said.origin.is_some()
    }

    /// Takes those diagnostics of the compile stages that are findings.
    pub fn of_stages(diagnostics: &Diagnostics) -> Self {
        let counts = |said: &&Diagnostic| Self::is_finding(said);
        let findings = diagnostics.iter().filter(counts).cloned().map(LintFinding::of).collect();
        Self { findings, is_partial: false }
    }

    pub fn look(&mut self, host: &Host, compiled: &Compiled) {
        let found = &mut self.findings;
        rules::findings(host, compiled, found);
        rules::unused_presets(compiled, found);
        limits::findings(compiled, found);
        let links = plan::unsaid_private_links(&compiled.decisions).into_iter();
        found.extend(links.chain(plan::unsaid_links(&compiled.plan, &compiled.decisions)).map(LintFinding::of));
        visible::hard_links(host, compiled, found);
        self.is_partial = !visible::in_project_and_home(host, compiled, found);
        visible::writable_path(host, compiled, found);
        visible::shared_stores(host, compiled, found);
        found.sort_by_cached_key(|found| match &found.diagnostic.origin {
            Some(Origin::File(place)) => (false, place.source.name.clone(), place.span.start),
            _ => (true, String::new(), 0),
        });
    }

    /// Removes the findings with these codes, except errors.
    pub fn allow(&mut self, codes: &[Code]) {
        let is_allowed = |found: &LintFinding| codes.contains(&found.diagnostic.code);
        self.findings.retain(|found| found.diagnostic.severity() == Severity::Error || !is_allowed(found));
    }

    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|found| found.diagnostic.severity() == severity).count()
    }

    /// Whether there are only notes.
    pub fn is_clean(&self) -> bool {
        self.findings.iter().all(|found| found.diagnostic.severity() == Severity::Note)
    }

    pub fn report(&self) -> LintReport {
        let reported = |LintFinding { diagnostic, path }: &LintFinding| {
            let Diagnostic { code, message, origin, details, help, .. } = diagnostic.clone();
            let (code, level) = (code.name().to_owned(), diagnostic.severity());
            ReportedFinding { code, level, message, origin, path: path.clone(), notes: details.notes, help }
        };
        LintReport {
            findings: self.findings.iter().map(reported).collect(),
            errors: self.count(Severity::Error),
            warnings: self.count(Severity::Warning),
            notes: self.count(Severity::Note),
            is_partial: self.is_partial,
        }
    }
}

/// Names of folders with third-party code, which `@secrets` does not enter.
pub(super) fn third_party() -> Vec<String> {
    let skipped = builtin::get("secrets").map_or(&[][..], |preset| preset.skip_directories);
    skipped.iter().map(ToString::to_string).collect()
}

/// The most entries that a walk visits. Entries of third-party code do not count.
const MOST_ENTRIES: usize = 100_000;

/// Calls `see` for every entry below `start` that is no directory, in a fixed order, parents first.
/// The walk follows no symlinks, and enters no directory that is named in `skip` or that `enters`
/// refuses. Returns false if it reached the limit.
pub(super) fn walk(
    host: &Host,
    start: &AbsPath,
    skip: &[String],
    enters: impl Fn(&AbsPath) -> bool,
    mut see: impl FnMut(AbsPath, &DirEntry),
) -> bool {
    let mut left = MOST_ENTRIES;
    let mut folders = vec![start.clone()];
    while let Some(folder) = folders.pop() {
        // The command cannot read a folder that we cannot read.
        let mut entries = host.read_dir(&folder).unwrap_or_default();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let mut below = Vec::new();
        for entry in entries {
            let Some(fewer) = left.checked_sub(1) else { return false };
            left = fewer;
            let path = folder.child(&entry.name);
            if entry.kind != FileKind::Directory {
                see(path, &entry);
            } else if !skip.iter().any(|name| entry.name == name.as_str()) && enters(&path) {
                below.push(path);
            }
        }
        folders.extend(below.into_iter().rev());
    }
    true
}

/// The findings of `agent-sandbox lint`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(title = "agent-sandbox lint")]
pub struct LintReport {
    pub findings: Vec<ReportedFinding>,
    pub errors: usize,
    pub warnings: usize,
    pub notes: usize,
    /// The project was too large to be looked at as a whole.
    pub is_partial: bool,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename = "Reported")]
pub struct ReportedFinding {
    /// A stable name, such as `shadowed-rule`.
    pub code: String,
    pub level: Severity,
    pub message: String,
    /// The origin of the rule that the finding is about.
    #[serde(rename = "whence", skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// The path that the finding is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<AbsPath>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub notes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}
