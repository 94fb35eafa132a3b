//! The matches of a pattern, compared with a matcher that tries everything (SPEC G1).

use std::cell::Cell;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;

use agent_sandbox::compile::resolve::FutureGlobs;
use agent_sandbox::policy::origin::Origin;
use agent_sandbox::policy::rule::{Access, LayerKind, Rule};
use proptest::prelude::*;
use proptest::sample::select;

use crate::for_all;
use crate::naive::glob;
use crate::support::{Tree, abs};

const BASE: &str = "/home/u/proj";

/// `\xc3` and `\xa9` are not UTF-8 alone, but together they are `é`.
const ALPHABET: [&[u8]; 8] = [b"a", b"b", b"-", "é".as_bytes(), "漢".as_bytes(), b"\xff", b"\xc3", b"\xa9"];

fn text() -> impl Strategy<Value = Vec<u8>> {
    let escaped = |(text, escaped): (&[u8], bool)| if escaped { [b"\\", text].concat() } else { text.to_vec() };
    // `\xa9` is never escaped: a backslash would separate the two bytes of `é`.
    (select(&ALPHABET[..7]), any::<bool>()).prop_map(escaped).boxed().prop_union(Just(b"\xa9".to_vec()).boxed())
}

fn class() -> impl Strategy<Value = Vec<u8>> {
    let members: [&[u8]; 10] = [
        b"a",
        b"b",
        "é".as_bytes(),
        b"\xff",
        b"a-b",
        "b-é".as_bytes(),
        "à-\u{10ffff}".as_bytes(),
        b"\xc0-\xc4",
        br"\-",
        br"\]",
    ];
    let members = prop::collection::vec(select(members.to_vec()), 1..4);
    (select(vec!["", "!", "^"]), members)
        .prop_map(|(negation, members)| [b"[", negation.as_bytes(), &members.concat(), b"]"].concat())
}

/// A component without `**` in it.
fn component() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![4 => text(), 1 => Just(b"?".to_vec()), 2 => Just(b"*".to_vec()), 2 => class()];
    prop::collection::vec(part, 1..6).prop_map(|mut parts| {
        parts.dedup_by(|next, last| next == b"*" && last == b"*");
        parts.concat()
    })
}

/// A pattern that starts with a wildcard, so that it has no fixed part.
fn pattern() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let deep = || Just(b"**".to_vec());
    let wild = component().prop_map(|component| [b"*", component.strip_prefix(b"*").unwrap_or(&component)].concat());
    let start = prop_oneof![2 => wild, 1 => deep()];
    let rest = prop::collection::vec(prop_oneof![3 => component(), 1 => deep()], 0..3);
    (start, rest).prop_map(|(start, rest)| [vec![start], rest].concat())
}

fn path() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let name = prop::collection::vec(select(&ALPHABET[..]), 1..6).prop_map(|pieces| pieces.concat());
    prop::collection::vec(name, 1..4)
}

// SPEC G1
#[test]
fn patterns_match_the_same_names_as_the_naive_matcher() {
    let tree = Tree::new(["home/u/proj/"]);
    let host = tree.host();
    let project = tree.compile(BASE, &Default::default()).0.unwrap().layers.project;
    let matched = Cell::new(0);
    for_all(&(pattern(), prop::collection::vec(path(), 16)), |(pattern, paths)| {
        let text = OsString::from_vec(pattern.join(&b'/'));
        let rule = Rule::written(Access::Ro, text, abs(BASE), LayerKind::Project, Origin::BuiltIn("a test"));
        let rules = [Arc::new(rule)];
        let globs = FutureGlobs::of(&host, &project, &rules);
        let components: Vec<&[u8]> = pattern.iter().map(Vec::as_slice).collect();
        for names in paths {
            let path = abs(BASE).join(OsString::from_vec(names.join(&b'/')));
            let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
            // The outermost match covers the others (SPEC G2).
            let depth = (1..=names.len()).find(|depth| glob::matches_path(&components, &names[..*depth]));
            let expected = depth.and_then(|depth| path.ancestors().nth(names.len() - depth));
            matched.set(matched.get() + usize::from(expected.is_some()));
            let found = globs.matching(&path).into_iter().next().map(|found| found.at);
            prop_assert_eq!(found, expected, "{} and {}", pattern.join(&b'/').escape_ascii(), path);
        }
        Ok(true)
    });
    assert!(matched.get() > 100, "only {} matches", matched.get());
}
