//! Patterns for names that are no paths, such as those of variables (SPEC E2).

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::scan::{self, Token};
use super::{Component, PatternError, braces, has_metacharacter};

#[derive(Debug)]
pub(crate) struct NamePattern(Kind);

#[derive(Debug)]
enum Kind {
    Name(Cow<'static, OsStr>),
    AnyOf(Vec<Component>),
}

impl NamePattern {
    /// Parses one of the hundreds of built-in names. Most of them are plain or have one `*` at an
    /// end, and need no matcher.
    pub(crate) fn built_in(text: &'static str) -> Result<Self, PatternError> {
        let is_plain = |text: &&str| !has_metacharacter(OsStr::new(text));
        let kind = match (text.strip_prefix('*').filter(is_plain), text.strip_suffix('*').filter(is_plain)) {
            _ if is_plain(&text) => Kind::Name(Cow::Borrowed(OsStr::new(text))),
            (Some(end), _) => Kind::AnyOf(vec![Component::EndsWith(end.to_owned())]),
            (_, Some(start)) => Kind::AnyOf(vec![Component::StartsWith(start.to_owned())]),
            _ => return Self::parse(OsStr::new(text)),
        };
        Ok(Self(kind))
    }

    pub(crate) fn parse(text: &OsStr) -> Result<Self, PatternError> {
        if !has_metacharacter(text) {
            return Ok(Self(Kind::Name(Cow::Owned(text.to_owned()))));
        }
        // In a name, `/` is an ordinary character, and `**` means `*`.
        let separator = Token::Text(b"/".to_vec());
        let component = |text: &Vec<u8>| Component::parse(scan::components(text)?.join(&separator));
        braces::expand(text.as_bytes())?
            .iter()
            .map(component)
            .collect::<Result<_, _>>()
            .map(|any| Self(Kind::AnyOf(any)))
    }

    pub(crate) fn matches(&self, name: &OsStr) -> bool {
        match &self.0 {
            Kind::Name(own) => own == name,
            Kind::AnyOf(components) => components.iter().any(|component| component.matches(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // SPEC E2
    #[test]
    fn a_name_is_matched_as_a_whole() {
        for (pattern, yes, no) in [
            ("CI", "CI", "CIRCLE"),
            ("NODE_*", "NODE_ENV", "MY_NODE_ENV"),
            ("*_TOKEN", "GH_TOKEN", "GH_TOKENS"),
            ("*_KEY*", "A_KEY_ID", "A_KE"),
            ("A?", "AB", "ABC"),
            ("LC_[A-M]*", "LC_ALL", "LC_NUMERIC"),
            ("[!A]*", "B", "A"),
            ("{CI,GH_*}", "GH_X", "GL_X"),
            ("*", "anything/at all", ""),
            ("A**", "AB", "B"),
            ("**", "x", ""),
            ("npm_config_//host/:*", "npm_config_//host/:_authToken", "npm_config_/host/:_authToken"),
            ("*/x", "a/b/x", "a/b/y"),
            ("a//", "a//", "a/"),
            (r"\*", "*", "x"),
            ("caf?", "café", "caf"),
        ] {
            for parsed in [NamePattern::parse(OsStr::new(pattern)), NamePattern::built_in(pattern)] {
                let parsed = parsed.unwrap();
                assert!(parsed.matches(OsStr::new(yes)), "{pattern} matches {yes}");
                assert!(no.is_empty() || !parsed.matches(OsStr::new(no)), "{pattern} does not match {no}");
            }
        }
    }

    #[test]
    fn a_pattern_that_cannot_be_parsed_gives_the_reason() {
        for (pattern, said) in [("A[", "without its `]`"), ("{A", "without its `}`"), ("[z-a]", "range")] {
            let said_of_it = NamePattern::parse(OsStr::new(pattern)).unwrap_err().to_string();
            assert!(said_of_it.contains(said), "{pattern}: {said_of_it}");
        }
    }
}
