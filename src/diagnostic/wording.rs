//! Pieces of sentences, and the order of lists, that several stages need.

use std::collections::BTreeMap;
use std::io;

/// The name that the user probably meant: up to a third of its letters, but at least one, may
/// differ.
pub fn nearest<'n>(wrong: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let wrong = wrong.to_lowercase();
    let allowed = (wrong.chars().count() / 3).max(1);
    names
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&wrong, name), name))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, name)| name)
}

/// `a, b or c`
pub fn listed(items: impl Iterator<Item = String>, conjunction: &str) -> String {
    let items: Vec<String> = items.collect();
    match items.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} {conjunction} {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// The first item of each kind, then the second of each, and so on. So thousands of one kind do not
/// keep another kind from being shown.
pub fn by_turns<T, K: Ord>(items: impl IntoIterator<Item = T>, kind: impl Fn(&T) -> K) -> Vec<T> {
    let mut turns: BTreeMap<K, usize> = BTreeMap::new();
    let with_turn = |item| {
        let turn = turns.entry(kind(&item)).or_default();
        *turn += 1;
        (*turn, item)
    };
    let mut items: Vec<(usize, T)> = items.into_iter().map(with_turn).collect();
    items.sort_by_key(|(turn, _)| *turn);
    items.into_iter().map(|(_, item)| item).collect()
}

/// `a, b`, or `none`
pub fn or_none(items: &[String]) -> String {
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}

/// The text of an I/O error without the number that Rust appends.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].to_lowercase(),
        None => text,
    }
}
