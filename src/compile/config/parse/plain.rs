//! The plain part of TOML, in which our own data files are written, and most others: tables and keys without dots, strings, booleans, arrays
//! and inline tables.
//!
//! Every start reads half of our files, and some people write thousands of rules; the parser proper, which is prepared for anything, takes
//! five times as long for that. Tests hold that what this one reads the other reads alike, places included.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::Value;

/// Nothing of ours is nested deeper. The parser proper has a limit, too, and words for it.
const DEEPEST: usize = 8;

/// `None` for whatever needs the parser proper, every mistake included.
pub(crate) fn table(text: &str) -> Option<DeTable<'_>> {
    // Of control characters TOML has tab and line feed; a carriage return before that is left to the parser proper.
    let is_foreign = |byte: u8| (byte < b' ' && byte != b'\n' && byte != b'\t') || byte == 0x7f;
    if text.bytes().fold(false, |found, byte| found | is_foreign(byte)) {
        return None;
    }
    let mut reader = Reader { text, at: 0 };
    let mut root = DeTable::new();
    while let Some(first) = reader.next() {
        if first == b'[' {
            let start = reader.at;
            let name = reader.header()?;
            let span = start..reader.at;
            let mut table = DeTable::new();
            reader.ends_line()?;
            while reader.next().is_some_and(|next| next != b'[') {
                reader.line(&mut table)?;
            }
            root.insert(name, Spanned::new(span, DeValue::Table(table))).is_none().then_some(())?;
        } else {
            reader.line(&mut root)?;
        }
    }
    Some(root)
}

type Key<'t> = Spanned<Cow<'t, str>>;

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn first(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// How far it is to a byte that `ends`.
    fn until(&self, ends: impl Fn(u8) -> bool) -> Option<usize> {
        self.rest().bytes().position(ends)
    }

    /// The first byte in this line that is no space.
    fn next_in_line(&mut self) -> Option<u8> {
        self.at += self.until(|byte| byte != b' ' && byte != b'\t')?;
        self.first()
    }

    /// The first byte that is neither space nor comment.
    fn next(&mut self) -> Option<u8> {
        loop {
            self.at += self.until(|byte| !byte.is_ascii_whitespace())?;
            match self.first()? {
                b'#' => self.at += self.rest().find('\n')?,
                byte => return Some(byte),
            }
        }
    }

    /// Takes `byte`, if it is what comes `next`.
    fn takes(&mut self, next: Option<u8>, byte: u8) -> bool {
        let is_next = next == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn header(&mut self) -> Option<Key<'t>> {
        self.at += 1;
        let name = self.key()?;
        let next = self.first();
        self.takes(next, b']').then_some(name)
    }

    /// One pair, and nothing else in its last line.
    fn line(&mut self, table: &mut DeTable<'t>) -> Option<()> {
        self.pair(table, 0)?;
        self.ends_line()
    }

    fn ends_line(&mut self) -> Option<()> {
        matches!(self.next_in_line(), None | Some(b'#' | b'\n')).then_some(())
    }

    fn key(&mut self) -> Option<Key<'t>> {
        let start = self.at;
        self.at += self.until(|byte| !byte.is_ascii_lowercase() && byte != b'-').filter(|length| *length > 0)?;
        Some(Spanned::new(start..self.at, Cow::Borrowed(&self.text[start..self.at])))
    }

    fn pair(&mut self, table: &mut DeTable<'t>, depth: usize) -> Option<()> {
        let key = self.key()?;
        let next = self.next_in_line();
        if !self.takes(next, b'=') {
            return None;
        }
        self.next_in_line()?;
        let value = self.value(depth)?;
        table.insert(key, value).is_none().then_some(())
    }

    fn value(&mut self, depth: usize) -> Option<Value<'t>> {
        let start = self.at;
        let value = match self.first()? {
            b'"' => DeValue::String(self.string()?),
            b'[' => {
                let mut array = DeArray::new();
                self.elements(b']', depth, |reader, depth| {
                    array.push(reader.value(depth)?);
                    Some(())
                })?;
                DeValue::Array(array)
            }
            b'{' => {
                let mut table = DeTable::new();
                self.elements(b'}', depth, |reader, depth| reader.pair(&mut table, depth))?;
                DeValue::Table(table)
            }
            _ => {
                let (word, given) =
                    [("true", true), ("false", false)].into_iter().find(|(word, _)| self.rest().starts_with(word))?;
                self.at += word.len();
                DeValue::Boolean(given)
            }
        };
        Some(Spanned::new(start..self.at, value))
    }

    /// What stands between brackets, with commas between.
    fn elements(
        &mut self,
        end: u8,
        depth: usize,
        mut element: impl FnMut(&mut Self, usize) -> Option<()>,
    ) -> Option<()> {
        self.at += 1;
        let mut next = self.next()?;
        while next != end {
            if depth == DEEPEST {
                return None;
            }
            element(self, depth + 1)?;
            next = self.next()?;
            if self.takes(Some(next), b',') {
                next = self.next()?;
            } else if next != end {
                return None;
            }
        }
        self.at += 1;
        Some(())
    }

    /// `\n` is the one escape that our files need.
    fn string(&mut self) -> Option<Cow<'t, str>> {
        self.at += 1;
        let start = self.at;
        self.at += self.until(|byte| matches!(byte, b'"' | b'\n'))? + 1;
        let text = &self.text[start..self.at - 1];
        let is_other_escape = |(at, _): (usize, &str)| !text[at..].starts_with("\\n");
        match text.contains('\\') {
            _ if self.text.as_bytes()[self.at - 1] == b'\n' => None,
            false => Some(Cow::Borrowed(text)),
            true if text.match_indices('\\').any(is_other_escape) => None,
            true => Some(Cow::Owned(text.replace("\\n", "\n"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a text can be put together from, right and wrong.
    const PIECES: [&str; 41] = [
        "a",
        "ro",
        "if-missing",
        "filesystem",
        "a_b",
        "A",
        "é",
        "1",
        "true",
        "false",
        "=",
        " = ",
        "[",
        "]",
        "{",
        "}",
        ",",
        ", ",
        ".",
        " ",
        "\t",
        "\n",
        "\n\n",
        "\r\n",
        "\r",
        "#",
        "# rw = [\n",
        "\"",
        "\"a\"",
        "\"~/é\"",
        "\"\\n\"",
        "\"\\\\n\"",
        "\"\\\"\"",
        "\"\"",
        "'a'",
        "\u{7f}",
        "\u{c}",
        "[filesystem]\n",
        "ro = [\"a\", \"b\"]\n",
        "[\"a\", { path = \"b\", if-missing = \"skip\" }]",
        "\\",
    ];

    fn assert_read_alike(text: &str) -> bool {
        let Some(plain) = table(text) else { return false };
        let parsed = DeTable::parse(text).unwrap_or_else(|e| panic!("{text:?} is no TOML: {e}"));
        assert_eq!(format!("{plain:?}"), format!("{:?}", parsed.get_ref()), "{text:?}");
        true
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn what_is_read_is_the_toml_that_it_is(pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..12)) {
            assert_read_alike(&pieces.concat());
        }

        /// Mistakes are rare in what people write.
        #[test]
        fn one_mistake_is_no_other_policy(at in 0..GOOD.len(), piece in prop::sample::select(&PIECES[..]), taken in 0..3_usize) {
            let end = (at + taken).min(GOOD.len());
            if let (Some(before), Some(after)) = (GOOD.get(..at), GOOD.get(end..)) {
                assert_read_alike(&[before, piece, after].concat());
            }
        }
    }

    const GOOD: &str = "# é\ndocker = false # no\n\n[filesystem]\nro = [\"a\", \"b\", ]\nrw = [ # some\n\t\"c\",\n  { path = \"~/d\", if-missing = \"create\" }\n]\n[network]\nenabled = true";

    #[test]
    fn what_people_write_is_read() {
        assert!(assert_read_alike(GOOD));
        for text in
            ["", "\n", "# only a comment\n", "[filesystem]", "[a]\n[b]\nc = {}\n", "a = {b = [], c = {d = true}}\n"]
        {
            assert!(assert_read_alike(text), "{text}");
        }
    }

    #[test]
    fn what_is_nested_too_deep_is_left_to_the_parser_proper() {
        let nested = |depth: usize| format!("a = {}{}\n", "[".repeat(depth), "]".repeat(depth));
        assert!(assert_read_alike(&nested(DEEPEST)));
        assert!(table(&nested(100_000)).is_none());
    }
}
