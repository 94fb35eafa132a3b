//! The plain part of TOML, in which our own data files are written: keys without dots, strings, booleans, arrays and inline tables.
//!
//! Every start reads half of these files, and the parser proper, which is prepared for anything, takes five times as long for
//! that. A test holds that both read the same, places included.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::Value;

/// `None` for whatever needs the parser proper.
pub(crate) fn table(text: &str) -> Option<DeTable<'_>> {
    let mut reader = Reader { text, at: 0 };
    let mut table = DeTable::new();
    while reader.next().is_some() {
        reader.pair(&mut table)?;
    }
    Some(table)
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// How far it is to a byte that `ends`.
    fn until(&self, ends: impl Fn(u8) -> bool) -> Option<usize> {
        self.rest().bytes().position(ends)
    }

    /// The first byte that is neither space nor comment.
    fn next(&mut self) -> Option<u8> {
        loop {
            self.at += self.until(|byte| !byte.is_ascii_whitespace())?;
            match self.rest().as_bytes().first()? {
                b'#' => self.at += self.rest().find('\n')?,
                byte => return Some(*byte),
            }
        }
    }

    /// Takes `byte`, if it is next.
    fn takes(&mut self, byte: u8) -> bool {
        let is_next = self.next() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn pair(&mut self, table: &mut DeTable<'t>) -> Option<()> {
        let start = self.at;
        self.at += self.until(|byte| !byte.is_ascii_lowercase() && byte != b'-').filter(|length| *length > 0)?;
        let key = Spanned::new(start..self.at, Cow::Borrowed(&self.text[start..self.at]));
        let value = if self.takes(b'=') { self.value()? } else { return None };
        table.insert(key, value).is_none().then_some(())
    }

    fn value(&mut self) -> Option<Value<'t>> {
        let first = self.next()?;
        let start = self.at;
        let value = match first {
            b'"' => DeValue::String(self.string()?),
            b'[' => {
                let mut array = DeArray::new();
                self.at += 1;
                while !self.takes(b']') {
                    array.push(self.value()?);
                    self.takes(b',');
                }
                DeValue::Array(array)
            }
            b'{' => {
                let mut table = DeTable::new();
                self.at += 1;
                while !self.takes(b'}') {
                    self.pair(&mut table)?;
                    self.takes(b',');
                }
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

    /// `\n` is the one escape that our files need.
    fn string(&mut self) -> Option<Cow<'t, str>> {
        self.at += 1;
        let start = self.at;
        self.at += self.until(|byte| byte == b'"')? + 1;
        let text = &self.text[start..self.at - 1];
        let is_other_escape = |(at, _): (usize, &str)| !text[at..].starts_with("\\n");
        match text.contains('\\') {
            false => Some(Cow::Borrowed(text)),
            true if text.match_indices('\\').any(is_other_escape) => None,
            true => Some(Cow::Owned(text.replace("\\n", "\n"))),
        }
    }
}
