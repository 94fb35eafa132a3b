//! Parses the text of a rule: one path, or globs made of components (SPEC G1).
//!
//! A glob is matched component by component while walking, so a directory that no pattern can match
//! below is never opened. The common forms cost one comparison of bytes; `globset` matches the
//! rest.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use thiserror::Error;

mod braces;
mod class;
mod name;
mod name_glob;
mod scan;

pub(crate) use name::NamePattern;
use name_glob::NameGlob;
use scan::{Piece, Token, pieces};

/// `PATH_MAX` of Linux. It also bounds the cost of a pattern.
pub(super) const MAX_PATTERN_BYTES: usize = 4096;

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum PatternError {
    #[error("the braces stand for more than {} patterns", braces::MAX_ALTERNATIVES)]
    TooManyAlternatives,
    #[error("more than {} pairs of braces in one pattern", braces::MAX_GROUPS)]
    TooManyBraces,
    #[error("a `}}` without its `{{`; write `\\}}` for the character")]
    UnopenedBrace,
    #[error("a `{{` without its `}}`; write `\\{{` for the character")]
    UnclosedBrace,
    #[error("a `[` without its `]`; write `\\[` for the character")]
    UnclosedClass,
    #[error("`[:…:]` has no meaning here; write the characters, or a range such as `a-z`")]
    PosixClass,
    #[error("a range in `[…]` has a character at one end and a byte that is no character at the other")]
    RangeOfCharacterAndByte,
    #[error("a range in `[…]` ends before it starts")]
    ReversedRange,
    #[error("`..` after a wildcard has no fixed meaning")]
    ParentAfterWildcard,
    #[error("`**` must be a whole component: write `a/**/b`")]
    PartialAnyDepth,
    #[error("an alternative names no file")]
    EmptyAlternative,
    #[error("one name in it has too many different characters")]
    TooManyCharacters,
    #[error("it is longer than {MAX_PATTERN_BYTES} bytes")]
    TooLong,
    #[error(transparent)]
    Globset(#[from] globset::Error),
}

#[derive(Debug)]
pub(super) enum Pattern<'t> {
    /// The path that the text names. Borrows the text if it has no metacharacter.
    Exact(Cow<'t, Path>),
    Globs(Vec<Glob>),
}

#[derive(Debug)]
pub(super) struct Glob {
    /// The components before the first wildcard.
    pub prefix: PathBuf,
    /// The rest, which is never empty.
    pub components: Vec<Component>,
}

#[derive(Debug)]
pub(super) enum Component {
    /// `**`: any number of directories.
    AnyDepth,
    Literal(OsString),
    /// `*`
    Any,
    /// `.env.*`
    StartsWith(String),
    /// `*.pem`
    EndsWith(String),
    Glob(Box<NameGlob>),
}

impl Component {
    fn parse(tokens: Vec<Token>) -> Result<Self, PatternError> {
        match tokens.as_slice() {
            [Token::Text(text)] => return Ok(Component::Literal(OsString::from_vec(text.clone()))),
            [Token::Many] => return Ok(Component::Any),
            [Token::Many, Token::Many] => return Ok(Component::AnyDepth),
            // Comparing bytes compares characters only if the text is UTF-8: the suffix `\xa9`, a
            // byte that is no character, must not match the last byte of `é`.
            [Token::Many, Token::Text(end)] => {
                if let Ok(end) = str::from_utf8(end) {
                    return Ok(Component::EndsWith(end.to_owned()));
                }
            }
            [Token::Text(start), Token::Many] => {
                if let Ok(start) = str::from_utf8(start) {
                    return Ok(Component::StartsWith(start.to_owned()));
                }
            }
            _ => {}
        }
        Ok(Component::Glob(Box::new(NameGlob::new(&tokens)?)))
    }

    pub(super) fn matches(&self, name: &OsStr) -> bool {
        match self {
            Component::AnyDepth | Component::Any => true,
            Component::Literal(literal) => literal == name,
            Component::StartsWith(start) => name.as_bytes().starts_with(start.as_bytes()),
            Component::EndsWith(end) => name.as_bytes().ends_with(end.as_bytes()),
            Component::Glob(glob) => glob.matches(name),
        }
    }
}

/// The indexes of the components that may match the next name, after `components[at]` was compared
/// with `name`. The index `components.len()` means that the glob has matched.
pub(super) fn advance(components: &[Component], at: usize, name: &OsStr) -> impl Iterator<Item = usize> {
    let is_deep = matches!(components[at], Component::AnyDepth);
    let taker = taker(components, at);
    is_deep.then_some(at).into_iter().chain(components[taker].matches(name).then_some(taker + 1))
}

/// The component that the next name must match. `**` also matches no directory at all; as the last
/// component it matches every name.
fn taker(components: &[Component], at: usize) -> usize {
    let is_deep = matches!(components[at], Component::AnyDepth);
    if is_deep { (at + 1).min(components.len() - 1) } else { at }
}

/// The first or last byte of all names that a component matches, if that byte is known.
pub(super) enum KnownByte {
    First(u8),
    Last(u8),
    None,
}

/// The known byte of each name that advances the match beyond `components[at]`.
pub(super) fn known_byte(components: &[Component], at: usize) -> KnownByte {
    let (first, last) = (|text: &[u8]| text.first().copied(), |text: &[u8]| text.last().copied());
    let known = match &components[taker(components, at)] {
        Component::Literal(name) => first(name.as_bytes()).map(KnownByte::First),
        Component::StartsWith(start) => first(start.as_bytes()).map(KnownByte::First),
        Component::EndsWith(end) => last(end.as_bytes()).map(KnownByte::Last),
        Component::AnyDepth | Component::Any | Component::Glob(_) => None,
    };
    known.unwrap_or(KnownByte::None)
}

/// Whether the components of a glob match `path`, which is relative to its prefix. Tracks all
/// states at once, so the time is bounded for every pattern.
pub(super) fn matches_path(components: &[Component], path: &Path) -> bool {
    let end = components.len();
    let mut states = BTreeSet::from([0]);
    for name in path {
        states = states.into_iter().filter(|at| *at < end).flat_map(|at| advance(components, at, name)).collect();
    }
    states.contains(&end)
}

/// Whether `text` contains a character with a meaning in globs.
pub(crate) fn has_metacharacter(text: &OsStr) -> bool {
    text.as_bytes().iter().any(|byte| b"*?[]{}\\".contains(byte))
}

pub(super) fn parse(text: &OsStr) -> Result<Pattern<'_>, PatternError> {
    if !has_metacharacter(text) {
        return Ok(Pattern::Exact(Cow::Borrowed(Path::new(text))));
    }
    let alternatives = braces::expand(text.as_bytes())?;
    if let [only] = alternatives.as_slice()
        && let Some(path) = unescape(only)?
    {
        return Ok(Pattern::Exact(Cow::Owned(OsString::from_vec(path).into())));
    }
    alternatives.iter().map(|alternative| glob(alternative)).collect::<Result<_, _>>().map(Pattern::Globs)
}

fn glob(text: &[u8]) -> Result<Glob, PatternError> {
    let names = scan::components(text)?;
    let is_absolute = names.len() > 1 && names[0].is_empty();
    let mut prefix = PathBuf::from(if is_absolute { "/" } else { "" });
    let mut components: Vec<Component> = Vec::new();
    for tokens in names.into_iter().filter(|tokens| !tokens.is_empty()) {
        let stars = tokens.windows(2).any(|pair| matches!(pair, [Token::Many, Token::Many]));
        if stars && tokens.len() > 2 {
            return Err(PatternError::PartialAnyDepth);
        }
        match Component::parse(tokens)? {
            Component::Literal(name) if name == "." => {}
            Component::Literal(name) if components.is_empty() => prefix.push(name),
            Component::Literal(name) if name == ".." => return Err(PatternError::ParentAfterWildcard),
            // `**/**` means `**`.
            Component::AnyDepth if matches!(components.last(), Some(Component::AnyDepth)) => {}
            component => components.push(component),
        }
    }
    if components.is_empty() {
        // One alternative of a brace is literal, as in `{a,b*}`: match its last name, so that it
        // has the precedence of the glob that it is a part of.
        let name = prefix.file_name().ok_or(PatternError::EmptyAlternative)?.to_os_string();
        prefix.pop();
        components.push(Component::Literal(name));
    }
    Ok(Glob { prefix, components })
}

/// The path that a text without braces names, unless it has a wildcard. A lone `]` is an ordinary
/// character.
fn unescape(text: &[u8]) -> Result<Option<Vec<u8>>, PatternError> {
    let mut path = Vec::with_capacity(text.len());
    for piece in pieces(text) {
        match piece?.1 {
            Piece::Plain(b'*' | b'?') | Piece::Class(_) => return Ok(None),
            Piece::Plain(byte) | Piece::Escaped(byte) => path.push(byte),
        }
    }
    Ok(Some(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        match parse(OsStr::new(pattern)) {
            Ok(Pattern::Exact(path)) => path.as_os_str() == name,
            Ok(Pattern::Globs(globs)) => {
                globs.iter().any(|g| g.components.len() == 1 && g.components[0].matches(OsStr::new(name)))
            }
            Err(_) => false,
        }
    }

    fn error(pattern: &str) -> String {
        match parse(OsStr::new(pattern)) {
            Ok(parsed) => format!("accepted: {parsed:?}"),
            Err(e) => e.to_string(),
        }
    }

    // SPEC G1
    #[test]
    fn each_form_of_a_component_matches_what_it_says() {
        for (pattern, yes, no) in [
            ("*", ".hidden", ""),
            ("*.pem", "a.pem", "a.pem2"),
            (".env.*", ".env.local", ".envrc"),
            ("a?c", "abc", "ac"),
            ("[ab]c", "bc", "cc"),
            ("[!a]c", "bc", "ac"),
            ("{a,b*}", "bx", "x"),
            ("{a,b}", "a", "c"),
            ("x{1,{2,3}}", "x3", "x4"),
            ("[{]x", "{x", "x"),
            ("a*b*c", "a-b-c", "a-c-b"),
            ("a*", "a", "b"),
            ("*a", "a", "b"),
            ("a*a", "aa", "a"),
            ("[]a]x", "]x", "bx"),
            ("[!]]x", "ax", "]x"),
            (r"[\]]x", "]x", r"\]x"),
            (r"\**", "*x", "x"),
            (r"*\*", "x*", "x"),
            ("[**]x", "*x", "x"),
            (r"?\", r"a\", "a"),
            (r"*\.pem", "a.pem", "apem"),
        ] {
            assert!(matches(pattern, yes), "{pattern} matches {yes}");
            assert!(no.is_empty() || !matches(pattern, no), "{pattern} does not match {no}");
        }
    }

    #[test]
    fn an_escaped_metacharacter_is_an_ordinary_name() {
        for (pattern, name) in [(r"\[id\]", "[id]"), (r"a\*", "a*"), (r"\{x\}", "{x}"), ("a]", "a]"), (r"a\", r"a\")] {
            assert!(matches!(parse(OsStr::new(pattern)), Ok(Pattern::Exact(p)) if p.as_os_str() == name), "{pattern}");
        }
    }

    #[test]
    fn a_character_of_several_bytes_is_one() {
        for (pattern, yes, no) in [
            ("caf?", "café", "caf"),
            ("?", "漢", "漢字"),
            ("a??", "a漢😀", "a漢"),
            ("secret[é].txt", "secreté.txt", "secrete.txt"),
            ("secret[!é].txt", "secretè.txt", "secreté.txt"),
            ("[à-ö]*x", "éx", "ex"),
            ("é*", "éa", "è"),
            ("*é", "aé", "è"),
            (r"\é?", "éa", "é"),
        ] {
            assert!(matches(pattern, yes), "{pattern} matches {yes}");
            assert!(!matches(pattern, no), "{pattern} does not match {no}");
        }
    }

    #[test]
    fn a_byte_that_is_no_character_counts_as_one() {
        let matches = |pattern: &[u8], name: &[u8]| match parse(OsStr::from_bytes(pattern)) {
            Ok(Pattern::Globs(globs)) => globs[0].components[0].matches(OsStr::from_bytes(name)),
            parsed => panic!("{parsed:?}"),
        };
        for (pattern, yes, no) in [
            (&b"caf?"[..], &b"caf\xe9"[..], &b"caf\xe9\xe9"[..]),
            (b"caf[!e]", b"caf\xe9", b"cafe"),
            ("caf[!é]".as_bytes(), b"caf\xe9", "café".as_bytes()),
            ("?[é]".as_bytes(), "aé".as_bytes(), b"a\xe9"),
            (b"*\xa9", b"\xa9", "é".as_bytes()),
            (b"\xc3*", b"\xc3", "é".as_bytes()),
            (b"\xc3?", b"\xc3a", "é".as_bytes()),
            (b"\xc3\\\xa9?", "éa".as_bytes(), b"\xc3\xffa"),
            (b"?[\xe0-\xff]", b"a\xe9", b"a\xc3"),
            (b"*.\xff", b"a.\xff", b"a.\xfe"),
        ] {
            assert!(matches(pattern, yes), "{} matches", pattern.escape_ascii());
            assert!(!matches(pattern, no), "{} does not match", pattern.escape_ascii());
        }
    }

    #[test]
    fn a_backslash_before_a_separator_changes_nothing() {
        assert!(matches!(parse(OsStr::new(r"\/a\/b")), Ok(Pattern::Exact(p)) if p.as_os_str() == "/a/b"));
        let Ok(Pattern::Globs(globs)) = parse(OsStr::new(r"\/a\/*\/b")) else { panic!("a glob") };
        assert_eq!(globs[0].prefix, PathBuf::from("/a"));
        assert_eq!(globs[0].components.len(), 2);
    }

    #[test]
    fn the_fixed_prefix_ends_before_the_first_wildcard() {
        let Ok(Pattern::Globs(globs)) = parse(OsStr::new("/a/./b/**/**/c*/d")) else { panic!("a glob") };
        assert_eq!(globs[0].prefix, PathBuf::from("/a/b"));
        assert_eq!(globs[0].components.len(), 3);
    }

    #[test]
    fn a_name_that_a_component_takes_has_the_known_byte() {
        let patterns = ["*", "**", "**/ab", "**/a*", "**/*b", "**/*", "[ab]c*", "?b", "a*b*", "*/ab", "**/é*", "**/*é"];
        let names = ["a", "b", "ab", "ba", "bb", "aab", "ac", "é", "éa", "aé"];
        for pattern in patterns {
            let Ok(Pattern::Globs(globs)) = parse(OsStr::new(pattern)) else { panic!("{pattern} is a glob") };
            let components = &globs[0].components;
            for (at, name) in (0..components.len()).flat_map(|at| names.map(|name| (at, OsStr::new(name)))) {
                let is_taken = advance(components, at, name).any(|next| next > at);
                let (first, last) = (name.as_bytes().first(), name.as_bytes().last());
                let has_byte = match known_byte(components, at) {
                    KnownByte::First(byte) => first == Some(&byte),
                    KnownByte::Last(byte) => last == Some(&byte),
                    KnownByte::None => true,
                };
                assert!(has_byte || !is_taken, "{pattern} takes {name:?}");
            }
        }
    }

    // SPEC G7
    #[test]
    fn a_pattern_that_cannot_be_parsed_gives_the_reason() {
        for (pattern, said) in [
            ("a**", "whole component"),
            ("*/../x", "after a wildcard"),
            ("{a", "without its `}`"),
            ("a}", "without its `{`"),
            ("[a", "a `[` without its `]`; write `\\[` for the character"),
            ("[a/b]", "a `[` without its `]`"),
            (r"*/\.\./x", "after a wildcard"),
            ("a***", "whole component"),
            ("[z-a]", "range"),
            ("{,}{,}{,}{,}{,}{,}{,}{,}{,}{,}x", "more than 1000"),
        ] {
            assert!(error(pattern).contains(said), "{pattern}: {}", error(pattern));
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_are_ordinary_names() {
        let text = OsStr::from_bytes(b"\xff/x");
        assert!(matches!(parse(text), Ok(Pattern::Exact(p)) if p.as_os_str() == text));
        assert!(matches!(parse(OsStr::from_bytes(b"*.\xff")), Ok(Pattern::Globs(_))));
    }
}
