//! `agent-sandbox doctor`.

use crate::audit::doctor::{self, Diagnosis, DoctorFinding, Feature, FindingStatus, probe};
use crate::host::Host;

use super::answer::Answered;
use super::args::Options;
use super::output::Output;
use super::style::Paint;

/// List the protections that this machine can enforce, and remedies for the others
///
/// Looks at bwrap, the kernel and the surroundings, and starts a real sandbox with the smallest
/// command. Each line is `ok`, `limited` (it works, with less protection or comfort) or `missing`
/// (nothing runs), with the consequence and the remedy. The line `policy` says whether the policy
/// here has errors, or limits that this machine cannot enforce. The trial start does without the
/// project's rules: `agent-sandbox check` and `agent-sandbox verify` examine them.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct DoctorArgs {
    /// Print one JSON object: `agent-sandbox schema doctor` describes it
    #[arg(long)]
    json: bool,
    #[arg(long)]
    allow_root: bool,
}

const AFTER_HELP: &str = "\
Examples:
  agent-sandbox doctor
  agent-sandbox --allow-root doctor                 as root, outside of a container
  agent-sandbox doctor --json | jq '.findings[] | select(.status != \"ok\")'

Exit codes: 0 if this machine can start a sandbox, 1 if it cannot; the policy here does not count.";

pub(super) fn run(host: &Host, options: &Options, arguments: &DoctorArgs, output: &Output) -> Answered {
    let diagnosis = doctor::diagnose(host, &super::session(options.cwd.as_deref())?, options.allow_root);
    output.print_value(&diagnosis, arguments.json, text)?;
    Ok(diagnosis.works)
}

/// The subcommand `__doctor`: see [`probe`].
pub(super) fn answer(output: &Output) -> Answered {
    output.print_json(&probe::attempt())
}

fn text(diagnosis: &Diagnosis, paint: Paint) -> String {
    let mut out = String::new();
    let names = diagnosis.findings.iter().map(|finding| &finding.name);
    let names = names.chain(diagnosis.bwrap_features.iter().map(|feature| &feature.flag));
    let width = names.map(|name| name.chars().count()).max().unwrap_or_default();
    for DoctorFinding { name, status, found, effect, remedy } in &diagnosis.findings {
        let status = match status {
            FindingStatus::Ok => paint.good("ok"),
            FindingStatus::Limited => paint.warning("limited"),
            FindingStatus::Missing => paint.bad("missing"),
        };
        out += &format!("{status:7}  {:width$}  {found}\n", paint.heading(name));
        for (title, text) in [("effect", effect), ("remedy", remedy)] {
            if let Some(text) = text {
                out += &format!("{:7}  {:width$}  {}: {text}\n", "", "", paint.aside(title));
            }
        }
    }
    if !diagnosis.bwrap_features.is_empty() {
        out += &format!("\n{}\n", paint.heading("flags of bwrap"));
        for Feature { flag, available, used_for } in &diagnosis.bwrap_features {
            let is_there = if *available { paint.good("ok") } else { paint.aside("without") };
            out += &format!("{is_there:7}  {flag:width$}  {used_for}\n");
        }
    }
    let (status, summary) = match diagnosis.works {
        true if !diagnosis.policy_is_valid => {
            (paint.warning("limited"), "this machine can start sandboxes, but none with the policy here: see `policy`")
        }
        true => (paint.good("ok"), "`agent-sandbox -- COMMAND` works here"),
        false => (paint.bad("missing"), "`agent-sandbox -- COMMAND` does not work here"),
    };
    out + &format!("\n{status}: {summary}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(name: &str, status: FindingStatus, found: &str, more: Option<(&str, &str)>) -> DoctorFinding {
        let owned = |text: &str| text.to_owned();
        let (effect, remedy) = more.map(|(effect, remedy)| (owned(effect), owned(remedy))).unzip();
        DoctorFinding { name: owned(name), status, found: owned(found), effect, remedy }
    }

    // SPEC H1
    #[test]
    fn a_diagnosis_reads_as_a_list_with_remedies() {
        let flag = |flag: &str, available| Feature { flag: flag.into(), available, used_for: "something".into() };
        let mut diagnosis = Diagnosis {
            works: true,
            policy_is_valid: true,
            findings: vec![
                finding("bwrap", FindingStatus::Ok, "/usr/bin/bwrap, bubblewrap 0.8.0, not setuid", None),
                finding(
                    "Landlock",
                    FindingStatus::Limited,
                    "ABI 5, without scopes",
                    Some(("some are open", "Linux 6.12")),
                ),
            ],
            bwrap_features: vec![flag("--perms", true), flag("--overlay", false)],
        };
        let expected = "\
ok       bwrap      /usr/bin/bwrap, bubblewrap 0.8.0, not setuid
limited  Landlock   ABI 5, without scopes
                    effect: some are open
                    remedy: Linux 6.12

flags of bwrap
ok       --perms    something
without  --overlay  something

ok: `agent-sandbox -- COMMAND` works here
";
        assert_eq!(text(&diagnosis, Paint(false)), expected);
        diagnosis.policy_is_valid = false;
        let last = "limited: this machine can start sandboxes, but none with the policy here: see `policy`\n";
        assert!(text(&diagnosis, Paint(false)).ends_with(last));
        diagnosis.works = false;
        diagnosis.findings =
            vec![finding("trial start", FindingStatus::Missing, "no", Some(("nothing runs", "do this")))];
        diagnosis.bwrap_features.clear();
        let expected = "\
missing  trial start  no
                      effect: nothing runs
                      remedy: do this

missing: `agent-sandbox -- COMMAND` does not work here
";
        assert_eq!(text(&diagnosis, Paint(false)), expected);
        let colours = text(&diagnosis, Paint(true));
        assert!(colours.contains("missing") && colours.contains('\u{1b}'));
    }
}
