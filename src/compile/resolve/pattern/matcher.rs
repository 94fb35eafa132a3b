//! One name against one component that is more than a name, a prefix or a suffix.

use super::class::{Class, Unit};
use super::scan::Token;

#[derive(Debug)]
pub(crate) struct Matcher(Vec<Step>);

#[derive(Debug)]
enum Step {
    Unit(Unit),
    One,
    Many,
    Class(Class),
}

impl Step {
    fn accepts(&self, unit: Unit) -> bool {
        match self {
            Step::Unit(own) => *own == unit,
            Step::One => true,
            Step::Many => false,
            Step::Class(class) => class.contains(unit),
        }
    }
}

impl Matcher {
    pub(super) fn new(tokens: Vec<Token>) -> Matcher {
        let mut steps = Vec::new();
        for token in tokens {
            match token {
                Token::Text(text) => steps.extend(Unit::all(&text).map(Step::Unit)),
                Token::One => steps.push(Step::One),
                Token::Many => steps.push(Step::Many),
                Token::Class(class) => steps.push(Step::Class(class)),
            }
        }
        Matcher(steps)
    }

    pub(super) fn matches(&self, name: &[u8]) -> bool {
        self.run(name, || ())
    }

    /// Only the last `*` met is ever tried with more of the name: what an earlier one could gain, that one can, too. So
    /// the comparisons are at most the length of the pattern times the length of the name.
    fn run(&self, name: &[u8], mut count: impl FnMut()) -> bool {
        let (mut step, mut at) = (0, 0);
        // The step after the last `*`, and where in the name it was tried.
        let mut retry = None;
        loop {
            count();
            match (self.0.get(step), Unit::first(&name[at..])) {
                (Some(Step::Many), _) => {
                    step += 1;
                    retry = Some((step, at));
                }
                (Some(wanted), Some((unit, length))) if wanted.accepts(unit) => {
                    step += 1;
                    at += length;
                }
                (None, None) => return true,
                // Every step that is left needs some of the name, and with a longer `*` there is only less of it.
                (Some(_), None) => return false,
                (_, Some(_)) => {
                    let Some((after, tried)) = retry else { return false };
                    let Some((_, length)) = Unit::first(&name[tried..]) else { return false };
                    step = after;
                    at = tried + length;
                    retry = Some((step, at));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::scan::components;
    use super::*;

    fn steps(pattern: &str, name: &[u8]) -> (bool, usize) {
        let tokens = components(pattern.as_bytes()).unwrap().pop().unwrap();
        let mut steps = 0;
        (Matcher::new(tokens).run(name, || steps += 1), steps)
    }

    #[test]
    fn many_stars_cost_no_more_than_pattern_times_name() {
        let stars = "*a".repeat(50);
        for (pattern, name, expected) in [
            (format!("{stars}b"), "a".repeat(255), false),
            (format!("{stars}*"), "a".repeat(255), true),
            (format!("{stars}*b"), "a".repeat(255), false),
            (format!("{}b", "*?".repeat(50)), "a".repeat(255), false),
            (format!("{}b", "*[!b]".repeat(50)), "é".repeat(127), false),
            (format!("*{}b", "a".repeat(100)), "a".repeat(255), false),
            (format!("*{}b*", "a".repeat(100)), format!("{}b", "a".repeat(254)), true),
        ] {
            let (matched, steps) = steps(&pattern, name.as_bytes());
            assert_eq!(matched, expected, "{pattern}");
            let bound = (pattern.chars().count() + 1) * (name.chars().count() + 1);
            assert!(steps <= bound, "{pattern}: {steps} steps, and {bound} are the bound");
        }
    }
}
