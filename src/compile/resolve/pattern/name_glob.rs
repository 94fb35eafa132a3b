//! Matches one name with `globset`, character by character.
//!
//! The `?` and `[…]` of globset match one byte, so pattern and name are recoded before they are
//! compared: each character becomes one byte. Characters that the pattern does not tell apart share
//! a byte: all that it does not mention, and all between the ends of `[à-ö]`.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

use globset::{Glob, GlobMatcher};

use super::class::{Unit, units};
use super::scan::Token;
use super::{MAX_PATTERN_BYTES, PatternError};

/// The code of all characters that the pattern does not mention.
const OTHER: u8 = 1;

/// The bytes that have no meaning to globset.
fn codes() -> impl Iterator<Item = u8> {
    (OTHER + 1..0x80).filter(|byte| !b"!*,-/?[\\]^{}".contains(byte))
}

#[derive(Debug)]
pub(crate) struct NameGlob {
    recoding: Recoding,
    glob: Glob,
    /// Compiled when the first name is compared: this is expensive, and many patterns never meet a
    /// name.
    matcher: OnceLock<GlobMatcher>,
}

impl NameGlob {
    pub(super) fn new(tokens: &[Token]) -> Result<Self, PatternError> {
        let length = |token: &Token| if let Token::Text(text) = token { text.len() } else { 1 };
        // `compile_matcher` panics if the expression needs too much memory. A shorter one does not.
        if tokens.iter().map(length).sum::<usize>() > MAX_PATTERN_BYTES {
            return Err(PatternError::TooLong);
        }
        let recoding = Recoding::new(tokens)?;
        let text: String = tokens.iter().map(|token| recoding.token(token)).collect();
        Ok(Self { recoding, glob: Glob::new(&text)?, matcher: OnceLock::new() })
    }

    pub(super) fn matches(&self, name: &OsStr) -> bool {
        let recoded: Vec<u8> = units(name.as_bytes()).map(|unit| self.recoding.code(unit)).collect();
        self.matcher.get_or_init(|| self.glob.compile_matcher()).is_match(OsStr::from_bytes(&recoded))
    }
}

/// Gives each character its byte.
#[derive(Debug)]
struct Recoding {
    /// The first characters of all intervals but the first.
    starts: Vec<Unit>,
    codes: Vec<u8>,
}

impl Recoding {
    /// Splits the characters into intervals at the ends of every range in the pattern. All
    /// intervals that lie in none of the ranges share one code.
    fn new(tokens: &[Token]) -> Result<Self, PatternError> {
        let ranges: Vec<RangeInclusive<Unit>> = tokens.iter().flat_map(ranges).collect();
        let ends = ranges.iter().flat_map(|range| [*range.start(), *range.end() + 1]);
        let starts = Vec::from_iter(ends.collect::<BTreeSet<Unit>>());
        let mut recoding = Self { codes: vec![OTHER; starts.len() + 1], starts };
        let mut free = codes();
        for interval in ranges.iter().flat_map(|range| recoding.intervals(range)).collect::<BTreeSet<_>>() {
            recoding.codes[interval] = free.next().ok_or(PatternError::TooManyCharacters)?;
        }
        Ok(recoding)
    }

    fn interval(&self, unit: Unit) -> usize {
        self.starts.partition_point(|start| *start <= unit)
    }

    fn intervals(&self, range: &RangeInclusive<Unit>) -> RangeInclusive<usize> {
        self.interval(*range.start())..=self.interval(*range.end())
    }

    fn code(&self, unit: Unit) -> u8 {
        self.codes[self.interval(unit)]
    }

    /// A part of the pattern in the syntax of globset.
    fn token(&self, token: &Token) -> String {
        match token {
            Token::Text(text) => units(text).map(|unit| char::from(self.code(unit))).collect(),
            Token::One => "?".to_owned(),
            Token::Many => "*".to_owned(),
            Token::Class(class) => {
                let intervals = class.members.iter().flat_map(|range| self.intervals(range));
                let codes: String = intervals.map(|at| char::from(self.codes[at])).collect();
                if class.negated { format!("[!{codes}]") } else { format!("[{codes}]") }
            }
        }
    }
}

/// The characters that a part of a pattern mentions.
fn ranges(token: &Token) -> Vec<RangeInclusive<Unit>> {
    match token {
        Token::Text(text) => units(text).map(|unit| unit..=unit).collect(),
        Token::Class(class) => class.members.clone(),
        Token::One | Token::Many => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::scan::components;
    use super::*;

    fn glob(pattern: &[u8]) -> Result<NameGlob, PatternError> {
        NameGlob::new(&components(pattern)?.pop().unwrap())
    }

    fn matches(pattern: &[u8], name: &[u8]) -> bool {
        glob(pattern).unwrap().matches(OsStr::from_bytes(name))
    }

    #[test]
    fn a_class_holds_what_is_written_in_it() {
        for (class, yes, no) in [
            ("[abc]", "abc", "d-"),
            ("[a-c]", "abc", "d-"),
            ("[!a-c]", "dé-", "abc"),
            ("[^a]", "^b", "a"),
            ("[a^!]", "a^!", "b"),
            ("[-a]", "-a", "b"),
            ("[a-]", "-a", "b"),
            ("[!-a]", "b", "-a"),
            ("[a-c-e]", "abc-e", "d"),
            ("[--0]", "-./0", "1,"),
            ("[]a]", "]a", "b"),
            ("[!]]", "a", "]"),
            ("[]-a]", "]^_`a", "b\\"),
            (r"[\]]", "]", "\\"),
            (r"[\\]", "\\", "a"),
            (r"[\!a]", "!a", "b\\"),
            (r"[a\-c]", "a-c", "b\\"),
            (r"[\a-\c]", "abc", "d\\"),
            ("[é]", "é", "eè"),
            ("[à-ö]", "éà", "ea"),
            (r"[\é]", "é", "\\"),
            ("[a-\u{10ffff}]", "aé漢😀", "A"),
            ("[[:]", "[:", "a"),
            ("[[::]", "[:", "a"),
            ("[[:1:]", "[:1", "a"),
            (r"[\[:a:]", "[:a", "\\"),
            ("[\u{1}-\u{1f}]", "\u{1}\n\u{1f}", " a"),
            ("[{,*?}]", "{,*?}", "/a"),
        ] {
            let matches = |char: char| matches(class.as_bytes(), char.to_string().as_bytes());
            assert!(yes.chars().all(matches), "{class} holds {yes}");
            assert!(!no.chars().any(matches), "{class} holds none of {no}");
        }
    }

    #[test]
    fn a_byte_that_is_no_character_is_in_a_class_that_names_it_or_is_negated() {
        let holds = |class: &[u8]| matches(class, b"\xe9");
        assert!(holds(b"[\xe9]") && holds(b"[\xe0-\xff]") && holds(b"[!a]") && holds("[!é]".as_bytes()));
        assert!(!holds("[é]".as_bytes()) && !holds(b"[!\xe9]") && !holds("[a-\u{10ffff}]".as_bytes()));
        assert!(!matches(b"[\xe9]", "é".as_bytes()));
    }

    #[test]
    fn every_character_code_matches_only_its_own_character() {
        let text: String = (0..codes().count() as u32).filter_map(|n| char::from_u32(0x4e00 + n)).collect();
        let classes: String = text.chars().map(|char| format!("[{char}]")).collect();
        for pattern in [format!("?{text}"), format!("?{classes}")] {
            assert!(matches(pattern.as_bytes(), format!("x{text}").as_bytes()));
            for char in text.chars() {
                assert!(!matches(pattern.as_bytes(), format!("x{}", text.replace(char, "x")).as_bytes()));
            }
        }
    }

    #[test]
    fn a_pattern_that_globset_cannot_take_is_an_error() {
        let text: String = (0..200).filter_map(|n| char::from_u32(0x4e00 + n)).collect();
        let error = |pattern: String| glob(pattern.as_bytes()).map(|_| ());
        assert_eq!(error(format!("?{text}")), Err(PatternError::TooManyCharacters));
        assert_eq!(error("?".repeat(MAX_PATTERN_BYTES + 1)), Err(PatternError::TooLong));
    }
}
