//! Characters, and sets of them: `[a-z_]`, `[!.]`.

use std::ops::RangeInclusive;

/// What `?` stands for: a character, or a byte that belongs to none, because a name need not be UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unit {
    Char(char),
    Stray(u8),
}

impl Unit {
    /// The first unit and how many bytes it has.
    pub(super) fn first(bytes: &[u8]) -> Option<(Unit, usize)> {
        let lead = *bytes.first()?;
        let length = match lead {
            ..0xc0 => 1,
            0xc0..0xe0 => 2,
            0xe0..0xf0 => 3,
            0xf0.. => 4,
        };
        let char = bytes.get(..length).and_then(|sequence| std::str::from_utf8(sequence).ok()?.chars().next());
        Some(char.map_or((Unit::Stray(lead), 1), |char| (Unit::Char(char), length)))
    }

    pub(super) fn all(mut bytes: &[u8]) -> impl Iterator<Item = Unit> {
        std::iter::from_fn(move || {
            let (unit, length) = Unit::first(bytes)?;
            bytes = &bytes[length..];
            Some(unit)
        })
    }
}

#[derive(Debug)]
pub(super) struct Class {
    negated: bool,
    members: Vec<RangeInclusive<Unit>>,
}

impl Class {
    pub(super) fn contains(&self, unit: Unit) -> bool {
        self.members.iter().any(|range| range.contains(&unit)) != self.negated
    }

    /// `inner` is what the scanner found between the brackets: not empty, and no `\` is its last byte.
    pub(super) fn parse(inner: &[u8]) -> Result<Class, String> {
        let (negated, mut rest) = match inner {
            [b'!' | b'^', rest @ ..] => (true, rest),
            _ => (false, inner),
        };
        let mut members = Vec::new();
        while !rest.is_empty() {
            // `[[:alpha:]]`, which other tools know: here it would be a set of these letters, and a `]` after it.
            if matches!(rest, [b'[', b':', name @ .., b':'] if !name.is_empty() && name.iter().all(u8::is_ascii_alphabetic))
            {
                return Err("`[:…:]` has no meaning here; write the characters, or a range such as `a-z`".to_owned());
            }
            let Some(start) = take(&mut rest) else { break };
            let end = match rest {
                // A `-` that is the last character is a member.
                [b'-', after @ ..] if !after.is_empty() => {
                    rest = after;
                    take(&mut rest).unwrap_or(start)
                }
                _ => start,
            };
            if matches!((start, end), (Unit::Char(_), Unit::Stray(_)) | (Unit::Stray(_), Unit::Char(_))) {
                return Err("a range in `[…]` goes from a character to a byte that is none".to_owned());
            }
            if end < start {
                return Err("a range in `[…]` ends before it starts".to_owned());
            }
            members.push(start..=end);
        }
        Ok(Class { negated, members })
    }
}

/// The next character of a class, without the `\` before it.
fn take(rest: &mut &[u8]) -> Option<Unit> {
    if let [b'\\', escaped @ ..] = *rest {
        *rest = escaped;
    }
    let (unit, length) = Unit::first(rest)?;
    *rest = &rest[length..];
    Some(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_holds_what_is_written_in_it() {
        for (inner, yes, no) in [
            ("abc", "abc", "d-"),
            ("a-c", "abc", "d-"),
            ("!a-c", "dé-", "abc"),
            ("^a", "^b", "a"),
            ("a^!", "a^!", "b"),
            ("-a", "-a", "b"),
            ("a-", "-a", "b"),
            ("!-a", "b", "-a"),
            ("a-c-e", "abc-e", "d"),
            ("--0", "-./0", "1,"),
            ("]a", "]a", "b"),
            ("!]", "a", "]"),
            ("]-a", "]^_`a", "b\\"),
            (r"\]", "]", "\\"),
            (r"\\", "\\", "a"),
            (r"\!a", "!a", "b\\"),
            (r"a\-c", "a-c", "b\\"),
            (r"\a-\c", "abc", "d\\"),
            ("é", "é", "eè"),
            ("à-ö", "éà", "ea"),
            (r"\é", "é", "\\"),
            ("a-\u{10ffff}", "aé漢😀", "A"),
            ("[:", "[:", "a"),
            ("[::", "[:", "a"),
            ("[:1:", "[:1", "a"),
            (r"\[:a:", "[:a", "\\"),
        ] {
            let class = Class::parse(inner.as_bytes()).unwrap();
            assert!(yes.chars().all(|char| class.contains(Unit::Char(char))), "[{inner}] holds {yes}");
            assert!(!no.chars().any(|char| class.contains(Unit::Char(char))), "[{inner}] holds none of {no}");
        }
    }

    #[test]
    fn a_byte_that_is_no_character_is_in_a_class_that_names_it_or_is_negated() {
        let holds = |inner: &[u8]| Class::parse(inner).unwrap().contains(Unit::Stray(0xe9));
        assert!(holds(b"\xe9") && holds(b"\xe0-\xff") && holds(b"!a") && holds("!é".as_bytes()));
        assert!(!holds("é".as_bytes()) && !holds(b"!\xe9") && !holds("a-\u{10ffff}".as_bytes()));
        assert!(!Class::parse(b"\xe9").unwrap().contains(Unit::Char('é')));
    }

    #[test]
    fn a_class_that_cannot_be_meant_is_an_error() {
        for (inner, said) in [
            (&b"z-a"[..], "ends before it starts"),
            ("é-a".as_bytes(), "ends before it starts"),
            (b"\xff-\xfe", "ends before it starts"),
            (b"a-\xff", "a byte that is none"),
            (b"\xff-a", "a byte that is none"),
            (b"[:alpha:", "no meaning here"),
            (b"!x[:digit:", "no meaning here"),
        ] {
            let error = Class::parse(inner).unwrap_err();
            assert!(error.contains(said), "{}: {error}", inner.escape_ascii());
        }
    }

    #[test]
    fn units_are_characters_and_the_bytes_between_them() {
        let units: Vec<Unit> = Unit::all(b"a\xc3\xa9\xa9\xe2\x82b\xf0\x9f\x98\x80\xed\xa0\x80\xc3").collect();
        let strays = |bytes: &[u8]| bytes.iter().map(|byte| Unit::Stray(*byte)).collect::<Vec<_>>();
        let mut expected = vec![Unit::Char('a'), Unit::Char('é')];
        expected.extend(strays(b"\xa9\xe2\x82"));
        expected.extend([Unit::Char('b'), Unit::Char('😀')]);
        expected.extend(strays(b"\xed\xa0\x80\xc3"));
        assert_eq!(units, expected);
    }
}
