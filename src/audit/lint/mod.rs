//! `agent-sandbox lint`: rules that do nothing, protections that can be got around, secrets that no rule covers.
//!
//! A finding is a diagnostic like any other, with a code of the same list and shown by the same renderer. What the stages said about
//! rules counts, too, so that one answer holds all that is to be said about a policy.

mod rules;
pub mod sarif;
pub(super) mod secrets;
mod surroundings;
mod visible;
pub(super) mod walk;

use schemars::JsonSchema;
use serde::Serialize;

use crate::audit::origin_json::Whence;
use crate::compile::Compiled;
use crate::compile::plan;
use crate::compile::presets::Library;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Severity};
use crate::host::Host;
use crate::policy::origin::Origin;
use crate::policy::path::AbsPath;

/// The codes that `lint` itself gives, besides what the stages say.
pub const CODES: [Code; 13] = [
    Code::ShadowedRule,
    Code::UnusedRule,
    Code::UnblockedPath,
    Code::RedundantRule,
    Code::GlobAsName,
    Code::UnusedPreset,
    Code::ReplaceableLink,
    Code::HardLink,
    Code::VisibleSecret,
    Code::TrackedSecret,
    Code::HiddenTracked,
    Code::VisibleSocket,
    Code::WritablePath,
];

/// Something that somebody should look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub diagnostic: Diagnostic,
    /// What it is about, where that is more than the rule.
    pub path: Option<AbsPath>,
}

impl Finding {
    fn of(diagnostic: Diagnostic) -> Self {
        Self { diagnostic, path: None }
    }

    fn on(path: &AbsPath, diagnostic: Diagnostic) -> Self {
        Self { diagnostic, path: Some(path.clone()) }
    }
}

/// All findings about a policy.
#[derive(Clone, Debug, Default)]
pub struct Lint {
    /// In the order in which they stand in the files, then those about paths.
    pub findings: Vec<Finding>,
    /// The project was too large to be looked at as a whole.
    pub is_partial: bool,
}

impl Lint {
    /// What the stages said. What has no place in a policy is about this machine, and not a finding, unless it stops a run.
    pub fn of_stages(diagnostics: &Diagnostics) -> Self {
        let counts = |said: &&Diagnostic| said.severity() == Severity::Error || said.origin.is_some();
        let findings = diagnostics.iter().filter(counts).cloned().map(Finding::of).collect();
        Self { findings, is_partial: false }
    }

    /// Looks at a policy that compiled.
    pub fn look(&mut self, host: &Host, compiled: &Compiled) {
        let found = &mut self.findings;
        rules::findings(host, compiled, found);
        surroundings::presets(compiled, found);
        found.extend(plan::unsaid_links(&compiled.plan, &compiled.decisions).into_iter().map(Finding::of));
        visible::hard_links(host, compiled, found);
        self.is_partial = !visible::in_project_and_home(host, compiled, found);
        surroundings::path(host, compiled, found);
        // As one reads the files; what was written in none comes after.
        found.sort_by_cached_key(|found| match &found.diagnostic.origin {
            Some(Origin::File(place)) => (false, place.source.name.clone(), place.span.start),
            _ => (true, String::new(), 0),
        });
    }

    /// Leaves out what somebody does not want to hear of. What stops a run is said all the same.
    pub fn allow(&mut self, codes: &[Code]) {
        let is_allowed = |found: &Finding| codes.contains(&found.diagnostic.code);
        self.findings.retain(|found| found.diagnostic.severity() == Severity::Error || !is_allowed(found));
    }

    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|found| found.diagnostic.severity() == severity).count()
    }

    /// Whether nothing has to be mended.
    pub fn is_clean(&self) -> bool {
        self.findings.iter().all(|found| found.diagnostic.severity() == Severity::Note)
    }

    pub fn report(&self) -> Report {
        Report {
            findings: self.findings.iter().map(Reported::from).collect(),
            errors: self.count(Severity::Error),
            warnings: self.count(Severity::Warning),
            notes: self.count(Severity::Note),
            is_partial: self.is_partial,
        }
    }
}

/// How many rules of people apply to nothing here.
pub fn idle_rules(compiled: &Compiled) -> usize {
    rules::written(compiled).filter(|rule| rules::is_idle(compiled, rule)).count()
}

/// What is to be said of flags that protect or open nothing: who types one counts on it now.
pub fn idle_flags(host: &Host, compiled: &Compiled, said: &mut Diagnostics) {
    for rule in rules::written(compiled) {
        let is_flag = matches!(rule.origin, Origin::Flag { .. });
        let is_said = || said.iter().any(|said| said.origin.as_ref() == Some(&rule.origin));
        if is_flag
            && rules::is_idle(compiled, rule)
            && !is_said()
            && let Some(found) = rules::idle_flag(host, compiled, rule)
        {
            said.push(found);
        }
    }
}

/// Folders of code that is not the project's own: those that `@secrets` does not enter.
pub(super) fn third_party() -> Vec<String> {
    let library = Library::default();
    library.get("secrets").map(|preset| preset.refinements.skip_directories.clone()).unwrap_or_default()
}

/// The findings of `agent-sandbox lint`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(title = "agent-sandbox lint")]
pub struct Report {
    pub findings: Vec<Reported>,
    pub errors: usize,
    pub warnings: usize,
    pub notes: usize,
    /// The project was too large to be looked at as a whole.
    pub is_partial: bool,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Reported {
    /// A stable name, such as `shadowed-rule`.
    pub code: String,
    pub level: Level,
    pub message: String,
    /// Where the rule was written that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whence: Option<Whence>,
    /// The path that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<AbsPath>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub notes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Good to know; the exit code stays 0.
    Note,
    /// Somebody should mend it; the exit code is 1.
    Warning,
    /// Nothing runs with this policy.
    Error,
}

impl From<Severity> for Level {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Note => Level::Note,
            Severity::Warning => Level::Warning,
            Severity::Error => Level::Error,
        }
    }
}

impl From<&Finding> for Reported {
    fn from(found: &Finding) -> Self {
        let Diagnostic { code, message, origin, notes, help, .. } = &found.diagnostic;
        Self {
            code: code.name().to_owned(),
            level: found.diagnostic.severity().into(),
            message: message.clone(),
            whence: origin.as_ref().map(Whence::from),
            path: found.path.clone(),
            notes: notes.to_vec(),
            help: help.clone(),
        }
    }
}
