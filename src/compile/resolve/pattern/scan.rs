//! Reads a pattern's text: which bytes are escaped, and which lie inside a class. The braces and
//! the components are both found through this one reader, so they cannot disagree.

use super::PatternError;
use super::class::Class;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'t> {
    /// An unescaped byte outside of a class.
    Plain(u8),
    /// The byte after a `\`. If the character has several bytes, this is the first byte; the others
    /// have no special meaning anyway.
    Escaped(u8),
    /// The text between `[` and its `]`. It is not empty, and does not end with an unescaped `\`.
    Class(&'t [u8]),
}

/// Splits a text into pieces, each with the index at which it starts.
pub(super) fn pieces(text: &[u8]) -> impl Iterator<Item = Result<(usize, Piece<'_>), PatternError>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at;
        let (piece, length) = match text.get(start..)? {
            [] => return None,
            [b'\\', next, ..] => (Piece::Escaped(*next), 2),
            // A backslash at the end has nothing to escape, so it is an ordinary character.
            [b'\\'] => (Piece::Escaped(b'\\'), 1),
            [b'[', rest @ ..] => match class_length(rest) {
                Some(inner) => (Piece::Class(&rest[..inner]), inner + 2),
                None => return Some(Err(PatternError::UnclosedClass)),
            },
            [byte, ..] => (Piece::Plain(*byte), 1),
        };
        at += length;
        Some(Ok((start, piece)))
    })
}

/// The number of bytes between a `[` and its `]`. A `]` directly after `[`, `[!` or `[^` is a
/// member, and so is one after `\`. A class is a part of one name, so it cannot hold a `/`.
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
#[derive(Clone, Debug)]
pub(super) enum Token {
    Text(Vec<u8>),
    /// `?`
    One,
    /// `*`
    Many,
    Class(Class),
}

/// The components of a text without braces, an empty one between two separators in a row. A `\`
/// before a separator changes nothing, because no name can hold a separator.
pub(super) fn components(text: &[u8]) -> Result<Vec<Vec<Token>>, PatternError> {
    let mut components = Vec::new();
    let mut tokens = Vec::new();
    for piece in pieces(text) {
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
            let first = pieces(text.as_bytes()).next();
            assert_eq!(first, Some(Ok((0, Piece::Class(inner.as_bytes())))), "{text}");
        }
    }

    #[test]
    fn a_class_that_is_not_closed_in_its_component_is_an_error() {
        for text in ["[", "[]", "[!", "[!]", "[^]", "[a", r"[a\]", r"[\", "[a/b]", r"[a\/b]", "[/]", "[!/]"] {
            let first = pieces(text.as_bytes()).next();
            assert_eq!(first, Some(Err(PatternError::UnclosedClass)), "{text}");
        }
    }
}
