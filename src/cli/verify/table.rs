//! The text of `agent-sandbox verify`.

use std::fmt::Write;

use crate::audit::verify::probe::Operation;
use crate::audit::verify::{Check, Effect, Outcome, Verification};

use super::super::style::Paint;

/// Writing to a `String` cannot fail, so the results of `writeln!` are not looked at.
pub(super) fn verification(verification: &Verification, paint: Paint) -> String {
    let mut out = String::new();
    let head = ["path", "rule", "test", "expected", "kernel", "model"].map(str::to_owned);
    let rows: Vec<[String; 6]> = verification.checks.iter().map(row).collect();
    let results: Vec<_> = verification.checks.iter().map(|check| (check.result, check.note.as_deref())).collect();
    lines(&mut out, &head, &rows, &results, paint);
    out.push('\n');
    let head = ["process", "expected", "kernel"].map(str::to_owned);
    let rows: Vec<[String; 3]> =
        verification.facts.iter().map(|fact| [fact.name.clone(), fact.expected.clone(), fact.kernel.clone()]).collect();
    let results: Vec<_> = verification.facts.iter().map(|fact| (fact.result, fact.note.as_deref())).collect();
    lines(&mut out, &head, &rows, &results, paint);
    let summary = &verification.summary;
    let counts = format!("{} ok, {} MISMATCH, {} not testable", summary.ok, summary.mismatch, summary.not_testable);
    let stage = if verification.second_stage { "with the second stage" } else { "on bwrap alone" };
    let _ = match verification.holds {
        true => writeln!(out, "\n{}: {counts}, {stage}", paint.good("policy = argv = kernel")),
        false => writeln!(out, "\n{}: {counts}, {stage}", paint.bad("the kernel does not do what the policy says")),
    };
    out
}

fn row(check: &Check) -> [String; 6] {
    let rule = match &check.access {
        Some(access) => format!("{access}: {}", check.reason),
        None if check.operation == Operation::Move => format!("pin: {}", check.reason),
        None => check.reason.clone(),
    };
    let test = match check.operation {
        Operation::Read => "read",
        Operation::Write => "write",
        Operation::Move => "move",
    };
    let kernel = check.errno.clone().filter(|_| check.kernel == Effect::Refused);
    let kernel = kernel.unwrap_or_else(|| effect(check.kernel).to_owned());
    [
        check.path.to_string(),
        rule,
        test.to_owned(),
        effect(check.expected).to_owned(),
        kernel,
        effect(check.model).to_owned(),
    ]
}

fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::Allowed => "allowed",
        Effect::Private => "private",
        Effect::Refused => "refused",
    }
}

fn lines<const N: usize>(
    out: &mut String,
    head: &[String; N],
    rows: &[[String; N]],
    results: &[(Outcome, Option<&str>)],
    paint: Paint,
) {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| &row[column]).chain([&head[column]]);
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let aligned = |row: &[String; N]| -> String {
        row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}  ")).collect()
    };
    let _ = writeln!(out, "{}", paint.heading(format!("{}result", aligned(head))));
    for (row, (result, note)) in rows.iter().zip(results) {
        let note = note.unwrap_or_default();
        let _ = match result {
            Outcome::Ok => writeln!(out, "{}{}", aligned(row), paint.good("ok")),
            Outcome::Mismatch => writeln!(out, "{}{}", aligned(row), paint.bad("MISMATCH")),
            Outcome::NotTestable => writeln!(out, "{}{}", aligned(row), paint.aside(format!("not testable: {note}"))),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::verify::{Fact, Summary};
    use crate::audit::whence::Whence;
    use crate::path::AbsPath;

    fn check(path: &str, operation: Operation, access: Option<&str>, kernel: (Effect, Option<&str>)) -> Check {
        Check {
            path: AbsPath::root().join(path),
            operation,
            access: access.map(str::to_owned),
            because: Whence::Preset { preset: "git".into() },
            reason: "@git".into(),
            expected: Effect::Refused,
            kernel: kernel.0,
            errno: kernel.1.map(str::to_owned),
            model: Effect::Refused,
            result: Outcome::Ok,
            note: None,
        }
    }

    #[test]
    fn a_verification_reads_as_two_tables_and_a_sentence() {
        let refused = (Effect::Refused, Some("EBUSY"));
        let mismatch = Check {
            result: Outcome::Mismatch,
            ..check("p/.git/hooks", Operation::Write, Some("ro"), (Effect::Allowed, None))
        };
        let untested = Check {
            result: Outcome::NotTestable,
            note: Some("it is empty".into()),
            ..check("p/x", Operation::Move, Some("ro"), refused)
        };
        let fact = Fact {
            name: "capabilities".into(),
            expected: "none".into(),
            kernel: "none".into(),
            result: Outcome::Ok,
            note: None,
        };
        let mut value = Verification {
            holds: false,
            second_stage: true,
            summary: Summary { ok: 2, mismatch: 1, not_testable: 1 },
            checks: vec![check("p/.git", Operation::Move, None, refused), mismatch, untested],
            facts: vec![fact],
        };
        let expected = "\
path           rule       test   expected  kernel   model    result
/p/.git        pin: @git  move   refused   EBUSY    refused  ok
/p/.git/hooks  ro: @git   write  refused   allowed  refused  MISMATCH
/p/x           ro: @git   move   refused   EBUSY    refused  not testable: it is empty

process       expected  kernel  result
capabilities  none      none    ok

the kernel does not do what the policy says: 2 ok, 1 MISMATCH, 1 not testable, with the second stage
";
        assert_eq!(verification(&value, Paint(false)), expected);
        (value.holds, value.second_stage) = (true, false);
        let text = verification(&value, Paint(true));
        assert!(text.contains("policy = argv = kernel") && text.contains("on bwrap alone"), "{text}");
    }
}
