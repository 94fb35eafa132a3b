//! The one reading of a pattern's text: what is escaped, and what is inside a class. Braces and components are both
//! found through it, so they cannot disagree.

use super::class::Class;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'t> {
    /// A byte that has its meaning, if it has one.
    Plain(u8),
    /// A byte after `\`. Of a character of several bytes it is the first; the others have no meaning anyway.
    Escaped(u8),
    /// What is between `[` and its `]`.
    Class(&'t [u8]),
}

/// The pieces of a text, each with the index at which it starts.
pub(super) struct Pieces<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> Pieces<'t> {
    pub(super) fn new(text: &'t [u8]) -> Pieces<'t> {
        Pieces { text, at: 0 }
    }
}

impl<'t> Iterator for Pieces<'t> {
    type Item = Result<(usize, Piece<'t>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.at;
        let (piece, length) = match self.text.get(start..)? {
            [] => return None,
            [b'\\', next, ..] => (Piece::Escaped(*next), 2),
            // Nothing is left to escape: the backslash is meant.
            [b'\\'] => (Piece::Escaped(b'\\'), 1),
            [b'[', rest @ ..] => match class_length(rest) {
                Some(inner) => (Piece::Class(&rest[..inner]), inner + 2),
                None => return Some(Err("a `[` without its `]`; write `\\[` for the character".to_owned())),
            },
            [byte, ..] => (Piece::Plain(*byte), 1),
        };
        self.at += length;
        Some(Ok((start, piece)))
    }
}

/// How many bytes after its `[` a class has before its `]`. A `]` directly after `[`, `[!` or `[^` is a member, and so
/// is one after `\`. A class is a part of one name, so a `/` cannot be in it.
fn class_length(text: &[u8]) -> Option<usize> {
    let first = usize::from(matches!(text.first(), Some(b'!' | b'^')));
    let mut at = first;
    loop {
        match text.get(at)? {
            b'/' => return None,
            b']' if at > first => return Some(at),
            b'\\' if text.get(at + 1) != Some(&b'/') => at += 2,
            _ => at += 1,
        }
    }
}

/// A part of one component.
#[derive(Debug)]
pub(super) enum Token {
    Text(Vec<u8>),
    /// `?`
    One,
    /// `*`
    Many,
    Class(Class),
}

/// The components of a text without braces. Between two separators in a row is an empty one. A `\` before a separator
/// changes nothing, because no name can hold one.
pub(super) fn components(text: &[u8]) -> Result<Vec<Vec<Token>>, String> {
    let mut components = Vec::new();
    let mut tokens = Vec::new();
    for piece in Pieces::new(text) {
        match piece?.1 {
            Piece::Plain(b'/') | Piece::Escaped(b'/') => components.push(std::mem::take(&mut tokens)),
            Piece::Plain(b'?') => tokens.push(Token::One),
            Piece::Plain(b'*') => tokens.push(Token::Many),
            Piece::Class(inner) => tokens.push(Token::Class(Class::parse(inner)?)),
            Piece::Plain(byte) | Piece::Escaped(byte) => match tokens.last_mut() {
                Some(Token::Text(text)) => text.push(byte),
                _ => tokens.push(Token::Text(vec![byte])),
            },
        }
    }
    components.push(tokens);
    Ok(components)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(text: &str) -> Option<&str> {
        match Pieces::new(text.as_bytes()).next() {
            Some(Ok((0, Piece::Class(inner)))) => Some(std::str::from_utf8(inner).unwrap()),
            _ => None,
        }
    }

    #[test]
    fn a_class_ends_at_the_first_bracket_that_is_not_a_member() {
        for (text, inner) in [
            ("[a]b]", "a"),
            ("[]a]", "]a"),
            ("[]]", "]"),
            ("[!]]", "!]"),
            ("[^]]x]", "^]"),
            ("[!a]", "!a"),
            ("[[]", "["),
            (r"[\]]", r"\]"),
            (r"[a\]b]", r"a\]b"),
            (r"[\\]]", r"\\"),
            ("[{,}]", "{,}"),
        ] {
            assert_eq!(class(text), Some(inner), "{text}");
        }
    }

    #[test]
    fn a_class_that_is_not_closed_in_its_component_is_an_error() {
        for text in ["[", "[]", "[!", "[!]", "[^]", "[a", r"[a\]", r"[\", "[a/b]", r"[a\/b]", "[/]", "[!/]"] {
            let first = Pieces::new(text.as_bytes()).next();
            assert!(matches!(first, Some(Err(_))), "{text}: {first:?}");
        }
    }
}
