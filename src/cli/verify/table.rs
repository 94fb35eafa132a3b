//! The text of `agent-sandbox verify`.

use crate::audit::verify::probe::ProbeOperation;
use crate::audit::verify::{Check, CheckResult, Effect, Verification};

use super::super::style::Paint;

/// `only_failures` leaves out the checks that passed or were not possible.
pub(super) fn verification(verification: &Verification, only_failures: bool, paint: Paint) -> String {
    let mut out = String::new();
    let is_told = |result: CheckResult| !only_failures || result == CheckResult::Mismatch;
    let checks: Vec<&Check> = verification.checks.iter().filter(|check| is_told(check.result)).collect();
    // The model has a column only if it disagrees with the policy somewhere.
    let has_model = checks.iter().any(|check| check.model != check.expected);
    let model: &[&str] = if has_model { &["model"] } else { &[] };
    let head = [&["path", "rule", "test", "expected", "kernel"], model].concat();
    let rows: Vec<Vec<String>> = checks.iter().map(|check| row(check, has_model)).collect();
    let results: Vec<_> = checks.iter().map(|check| (check.result, check.note.as_deref())).collect();
    lines(&mut out, &head, &rows, &results, paint);
    let facts: Vec<_> = verification.facts.iter().filter(|fact| is_told(fact.result)).collect();
    let rows: Vec<Vec<String>> =
        facts.iter().map(|fact| vec![fact.name.clone(), fact.expected.clone(), fact.kernel.clone()]).collect();
    let results: Vec<_> = facts.iter().map(|fact| (fact.result, fact.note.as_deref())).collect();
    lines(&mut out, &["process", "expected", "kernel"], &rows, &results, paint);
    let summary = &verification.summary;
    let counts = format!("{} ok, {} MISMATCH, {} not testable", summary.ok, summary.mismatch, summary.not_testable);
    let stage = if verification.second_stage { "with the guard" } else { "on bwrap alone" };
    let answer = match verification.holds {
        true => paint.good("policy = argv = kernel"),
        false => paint.bad("the kernel does not behave as the policy says"),
    };
    out + &format!("{answer}: {counts}, {stage}\n")
}

fn row(check: &Check, has_model: bool) -> Vec<String> {
    let rule = match &check.access {
        Some(access) if access == "ro" && check.expected == Effect::Private => {
            format!("{access}, a generated copy: {}", check.because)
        }
        Some(access) => format!("{access}: {}", check.because),
        None if check.operation == ProbeOperation::Move => format!("pin: {}", check.because),
        None => check.because.to_string(),
    };
    let kernel = check.errno.clone().filter(|_| check.kernel == Effect::Refused);
    let kernel = kernel.unwrap_or_else(|| check.kernel.to_string());
    let model = has_model.then(|| check.model.to_string());
    let cells = [check.path.to_string(), rule, check.operation.to_string(), check.expected.to_string(), kernel];
    cells.into_iter().chain(model).collect()
}

/// Writes a table and an empty line, or nothing if there are no rows.
fn lines(out: &mut String, head: &[&str], rows: &[Vec<String>], results: &[(CheckResult, Option<&str>)], paint: Paint) {
    if rows.is_empty() {
        return;
    }
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].as_str()).chain([head[column]]);
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let aligned =
        |row: &[&str]| -> String { row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}  ")).collect() };
    *out += &format!("{}\n", paint.heading(format!("{}result", aligned(head))));
    for (row, (result, note)) in rows.iter().zip(results) {
        let result = match result {
            CheckResult::Ok => paint.good("ok".to_owned()),
            CheckResult::Mismatch => paint.bad("MISMATCH".to_owned()),
            CheckResult::NotTestable => paint.aside(format!("not testable: {}", note.unwrap_or_default())),
        };
        *out += &format!("{}{result}\n", aligned(&row.iter().map(String::as_str).collect::<Vec<_>>()));
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::verify::{Fact, Summary};
    use crate::policy::origin::Origin;
    use crate::policy::path::AbsPath;

    fn check(path: &str, operation: ProbeOperation, access: Option<&str>, kernel: (Effect, Option<&str>)) -> Check {
        Check {
            path: AbsPath::root().join(path),
            operation,
            access: access.map(str::to_owned),
            because: Origin::BuiltIn("@git"),
            expected: Effect::Refused,
            kernel: kernel.0,
            errno: kernel.1.map(str::to_owned),
            model: Effect::Refused,
            result: CheckResult::Ok,
            note: None,
        }
    }

    #[test]
    fn a_verification_reads_as_two_tables_and_a_sentence() {
        let refused = (Effect::Refused, Some("EBUSY"));
        let mismatch = Check {
            result: CheckResult::Mismatch,
            ..check("p/.git/hooks", ProbeOperation::Write, Some("ro"), (Effect::Allowed, None))
        };
        let untested = Check {
            result: CheckResult::NotTestable,
            note: Some("it is empty".into()),
            ..check("p/x", ProbeOperation::Move, Some("ro"), refused)
        };
        let fact = Fact {
            name: "capabilities".into(),
            expected: "none".into(),
            kernel: "none".into(),
            result: CheckResult::Ok,
            note: None,
        };
        let mut value = Verification {
            holds: false,
            second_stage: true,
            summary: Summary { ok: 2, mismatch: 1, not_testable: 1 },
            checks: vec![check("p/.git", ProbeOperation::Move, None, refused), mismatch, untested],
            facts: vec![fact],
        };
        let expected = "\
path           rule       test   expected  kernel   result
/p/.git        pin: @git  move   refused   EBUSY    ok
/p/.git/hooks  ro: @git   write  refused   allowed  MISMATCH
/p/x           ro: @git   move   refused   EBUSY    not testable: it is empty

process       expected  kernel  result
capabilities  none      none    ok

the kernel does not behave as the policy says: 2 ok, 1 MISMATCH, 1 not testable, with the guard
";
        assert_eq!(verification(&value, false, Paint(false)), expected);
        let expected = "\
path           rule      test   expected  kernel   result
/p/.git/hooks  ro: @git  write  refused   allowed  MISMATCH

the kernel does not behave as the policy says: 2 ok, 1 MISMATCH, 1 not testable, with the guard
";
        assert_eq!(verification(&value, true, Paint(false)), expected, "only failures are told");
        value.checks[1].model = Effect::Allowed;
        assert!(verification(&value, false, Paint(false)).contains("kernel   model    result\n"));
        (value.holds, value.second_stage) = (true, false);
        let text = verification(&value, false, Paint(true));
        assert!(text.contains("policy = argv = kernel") && text.contains("on bwrap alone"), "{text}");
    }
}
