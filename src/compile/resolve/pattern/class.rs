//! Characters, and sets of them: `[a-z_]`, `[!.]`.

use std::ops::RangeInclusive;

use super::PatternError;

/// A character, or `STRAY` plus a byte that belongs to no character, because a name need not be
/// UTF-8.
pub(super) type Unit = u32;
const STRAY: Unit = 0x11_0000;

pub(super) fn units(bytes: &[u8]) -> impl Iterator<Item = Unit> {
    bytes.utf8_chunks().flat_map(|chunk| {
        let strays = chunk.invalid().iter().map(|byte| STRAY + Unit::from(*byte));
        chunk.valid().chars().map(Unit::from).chain(strays)
    })
}

#[derive(Clone, Debug)]
pub(super) struct Class {
    pub negated: bool,
    pub members: Vec<RangeInclusive<Unit>>,
}

#[derive(Clone, Copy)]
struct Written {
    unit: Unit,
    escaped: bool,
}

impl Written {
    fn is(self, char: char) -> bool {
        !self.escaped && self.unit == Unit::from(char)
    }
}

impl Class {
    /// Parses the text between the brackets. It is not empty, and does not end with an unescaped
    /// `\`.
    pub(super) fn parse(inner: &[u8]) -> Result<Self, PatternError> {
        let mut units = units(inner);
        let mut written = Vec::new();
        while let Some(unit) = units.next() {
            let next = if unit == Unit::from('\\') { units.next() } else { None };
            written.push(Written { unit: next.unwrap_or(unit), escaped: next.is_some() });
        }
        let (negated, mut rest) = match written.as_slice() {
            [first, rest @ ..] if first.is('!') || first.is('^') => (true, rest),
            all => (false, all),
        };
        let mut members = Vec::new();
        while let [start, after @ ..] = rest {
            if is_posix_class(rest) {
                return Err(PatternError::PosixClass);
            }
            let end;
            // A `-` that is the last character is a member.
            (end, rest) = match after {
                [dash, end, after @ ..] if dash.is('-') => (end, after),
                _ => (start, after),
            };
            let (start, end) = (start.unit, end.unit);
            if (start < STRAY) != (end < STRAY) {
                return Err(PatternError::RangeOfCharacterAndByte);
            }
            if end < start {
                return Err(PatternError::ReversedRange);
            }
            members.push(start..=end);
        }
        Ok(Self { negated, members })
    }
}

/// Whether `rest` is the `[:alpha:` of `[[:alpha:]]`. Other tools know such classes. Here the text
/// would be a set of these letters, followed by a `]`.
fn is_posix_class(rest: &[Written]) -> bool {
    let is_letter = |member: &Written| ('a'..='z').chain('A'..='Z').any(|letter| member.is(letter));
    match rest {
        [open, first, name @ .., last] if open.is('[') && first.is(':') && last.is(':') => {
            !name.is_empty() && name.iter().all(is_letter)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_that_cannot_be_meant_is_an_error() {
        for (inner, error) in [
            (&b"z-a"[..], PatternError::ReversedRange),
            ("é-a".as_bytes(), PatternError::ReversedRange),
            (b"\xff-\xfe", PatternError::ReversedRange),
            (b"a-\xff", PatternError::RangeOfCharacterAndByte),
            (b"\xff-a", PatternError::RangeOfCharacterAndByte),
            (b"[:alpha:", PatternError::PosixClass),
            (b"!x[:digit:", PatternError::PosixClass),
        ] {
            assert_eq!(Class::parse(inner).map(|_| ()), Err(error), "{}", inner.escape_ascii());
        }
    }

    #[test]
    fn bytes_between_characters_are_units_of_their_own() {
        let stray = |byte: u8| STRAY + Unit::from(byte);
        let char = |char: char| Unit::from(char);
        let found: Vec<Unit> = units(b"a\xc3\xa9\xa9\xe2\x82b\xf0\x9f\x98\x80\xed\xa0\x80\xc3").collect();
        let expected = [char('a'), char('é'), stray(0xa9), stray(0xe2), stray(0x82), char('b'), char('😀')];
        assert_eq!(found, [&expected[..], &[0xed, 0xa0, 0x80, 0xc3].map(stray)].concat());
    }
}
