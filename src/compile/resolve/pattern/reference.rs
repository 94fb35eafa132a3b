//! Patterns against a matcher that tries everything, on names short enough for that.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use proptest::prelude::*;

use super::{Pattern, parse};

/// `\xc3` and `\xa9` are no characters alone, and `é` together.
const ALPHABET: [&[u8]; 7] = [b"a", b"b", b"-", "é".as_bytes(), b"\xff", b"\xc3", b"\xa9"];

#[derive(Clone, Debug)]
enum Part {
    Text { bytes: &'static [u8], escaped: bool },
    One,
    Many,
    Class { negated: bool, members: Vec<&'static str> },
}

/// A character, or a byte that belongs to none. Decoded by the standard library, not by what is tested.
fn units(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut units = Vec::new();
    for chunk in bytes.utf8_chunks() {
        units.extend(chunk.valid().chars().map(|char| char.to_string().into_bytes()));
        units.extend(chunk.invalid().iter().map(|byte| vec![*byte]));
    }
    units
}

/// The text of a pattern, and its parts with text that is next to text joined.
fn written(parts: &[Part]) -> (Vec<u8>, Vec<Reference>) {
    let mut text = Vec::new();
    let mut reference = Vec::new();
    let mut literal: Vec<u8> = Vec::new();
    for part in parts {
        if !matches!(part, Part::Text { .. }) {
            reference.extend(units(&std::mem::take(&mut literal)).into_iter().map(Reference::Unit));
        }
        match part {
            Part::Text { bytes, escaped } => {
                text.extend(escaped.then_some(b'\\'));
                text.extend_from_slice(bytes);
                literal.extend_from_slice(bytes);
            }
            Part::One => {
                text.push(b'?');
                reference.push(Reference::One);
            }
            Part::Many if matches!(reference.last(), Some(Reference::Many)) => {}
            Part::Many => {
                text.push(b'*');
                reference.push(Reference::Many);
            }
            Part::Class { negated, members } => {
                text.extend_from_slice(if *negated { b"[!" } else { b"[" });
                members.iter().for_each(|member| text.extend_from_slice(member.as_bytes()));
                text.push(b']');
                reference.push(Reference::Class { negated: *negated, members: members.clone() });
            }
        }
    }
    reference.extend(units(&literal).into_iter().map(Reference::Unit));
    (text, reference)
}

#[derive(Debug)]
enum Reference {
    Unit(Vec<u8>),
    One,
    Many,
    Class { negated: bool, members: Vec<&'static str> },
}

fn reference_matches(parts: &[Reference], name: &[Vec<u8>]) -> bool {
    let Some((part, parts)) = parts.split_first() else { return name.is_empty() };
    if matches!(part, Reference::Many) {
        return (0..=name.len()).any(|taken| reference_matches(parts, &name[taken..]));
    }
    let Some((unit, name)) = name.split_first() else { return false };
    let accepted = match part {
        Reference::Unit(own) => own == unit,
        Reference::One | Reference::Many => true,
        Reference::Class { negated, members } => members.iter().any(|member| in_class(member, unit)) != *negated,
    };
    accepted && reference_matches(parts, name)
}

/// Spelled out for the alphabet of the test.
fn in_class(member: &str, unit: &[u8]) -> bool {
    match member {
        "a-b" => unit == b"a" || unit == b"b",
        "b-é" => unit == b"b" || unit == "é".as_bytes(),
        r"\-" => unit == b"-",
        r"\]" => false,
        single => unit == single.as_bytes(),
    }
}

fn part() -> impl Strategy<Value = Part> {
    let members = prop::sample::select(vec!["a", "b", "é", "a-b", "b-é", r"\-", r"\]"]);
    prop_oneof![
        4 => (prop::sample::select(&ALPHABET[..]), any::<bool>())
            .prop_map(|(bytes, escaped)| Part::Text { bytes, escaped }),
        1 => Just(Part::One),
        3 => Just(Part::Many),
        2 => (any::<bool>(), prop::collection::vec(members, 1..3))
            .prop_map(|(negated, members)| Part::Class { negated, members }),
    ]
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(&ALPHABET[..]), 1..7).prop_map(|pieces| pieces.concat())
}

fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match parse(OsStr::from_bytes(pattern)).unwrap() {
        Pattern::Exact(path) => path.as_os_str().as_bytes() == name,
        Pattern::Globs(globs) => globs[0].components[0].matches(OsStr::from_bytes(name)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_component_matches_what_trying_everything_matches(
        parts in prop::collection::vec(part(), 1..7),
        names in prop::collection::vec(name(), 8),
    ) {
        let (text, reference) = written(&parts);
        for name in names {
            let expected = reference_matches(&reference, &units(&name));
            prop_assert_eq!(matches(&text, &name), expected, "{} and {}", text.escape_ascii(), name.escape_ascii());
        }
    }

    #[test]
    fn a_text_matches_itself_also_beside_a_wildcard(name in name(), other in name()) {
        for (before, after) in [("*", ""), ("", "*"), ("", "[b]")] {
            let text = [before.as_bytes(), &name, after.as_bytes()].concat();
            let whole = [&name[..], if after == "[b]" { b"b" } else { b"" }].concat();
            prop_assert!(matches(&text, &whole));
        }
        prop_assert_eq!(matches(&name, &other), name == other);
    }

    #[test]
    fn any_text_is_a_pattern_or_an_error(
        text in prop::collection::vec(prop::sample::select(&b"[]{}!^-\\*?,/.:a\xc3\xa9"[..]), 0..16),
    ) {
        if let Ok(Pattern::Globs(globs)) = parse(&OsString::from_vec(text)) {
            for component in globs.iter().flat_map(|glob| &glob.components) {
                component.matches(OsStr::new("aé"));
            }
            prop_assert!(globs.iter().all(|glob| !glob.components.is_empty()));
        }
    }
}
