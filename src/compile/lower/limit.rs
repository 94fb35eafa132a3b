//! The number of arguments that bwrap takes.

use std::collections::BTreeMap;

use crate::compile::plan::Purpose;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::policy::Origin;

use super::{Argv, Operation};

/// The most arguments that bwrap accepts (`MAX_ARGS`). bwrap does not count its own name.
pub const MAX_WORDS: usize = 9000;

impl Argv {
    /// Whether bwrap has no room for the command after its own arguments. A run then hands the
    /// command to the guard over a file descriptor.
    pub fn is_command_too_long(&self) -> bool {
        self.words().len() - 1 > MAX_WORDS
    }

    pub fn args_without_command(&self) -> Vec<std::ffi::OsString> {
        let mut words = self.words();
        words.truncate(words.len() - self.command.len());
        words
    }
}

/// Refuses a policy with more arguments than bwrap accepts, and names the most expensive rules.
pub(super) fn refuse_too_many(argv: &Argv, diagnostics: &mut Diagnostics) {
    // The guard can read a long command from the run sheet instead.
    let words = if argv.guard.is_some() { argv.args_without_command() } else { argv.words() };
    let count = words.len() - 1;
    if count <= MAX_WORDS {
        return;
    }
    let most = most_expensive(&argv.operations).join(", ");
    let way_out = if argv.guard.is_none() { "leave out `--no-guard`, or " } else { "" };
    let message = format!("the policy needs {count} arguments, and bwrap takes at most {MAX_WORDS}");
    let help = format!("{way_out}name whole directories instead of their files; the most expensive: {most}");
    diagnostics.push(Diagnostic::new(Code::TooManyWords, message).help(help));
}

/// The three rules with the most arguments. If every rule needs only few, the three files whose
/// rules have the most.
fn most_expensive(operations: &[Operation]) -> Vec<String> {
    let of_rules =
        || operations.iter().filter(|operation| matches!(operation.purpose, Purpose::Rule(_) | Purpose::Injection));
    let largest = of_rules().map(|operation| operation.words.len()).max().unwrap_or(0);
    let sum = |name: fn(&Origin) -> String| {
        let mut cost: BTreeMap<String, usize> = BTreeMap::new();
        for operation in of_rules() {
            *cost.entry(name(&operation.because)).or_default() += operation.words.len();
        }
        let mut cost: Vec<(String, usize)> = cost.into_iter().collect();
        cost.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        cost.truncate(3);
        cost
    };
    let by_rule = sum(Origin::to_string);
    let many_small = by_rule.first().is_some_and(|(_, cost)| *cost <= 2 * largest);
    let cost = if many_small { sum(file_of) } else { by_rule };
    cost.into_iter().map(|(name, cost)| format!("{name} ({cost} arguments)")).collect()
}

fn file_of(origin: &Origin) -> String {
    match origin {
        Origin::File(place) => place.source.name.clone(),
        other => other.to_string(),
    }
}
