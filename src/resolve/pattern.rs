//! What a rule's text means: one path, or globs made of components (SPEC G1).
//!
//! A glob is matched component by component while walking, so a directory that no pattern can match below is never
//! opened, and a literal name never costs a regular expression.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use globset::{GlobBuilder, GlobMatcher};

/// Braces multiply: `{a,b}{c,d}` are four patterns. More than this in one text is a mistake, not a policy.
const MAX_ALTERNATIVES: usize = 1000;

#[derive(Debug)]
pub enum Pattern {
    Exact(PathBuf),
    Globs(Vec<Glob>),
}

#[derive(Debug)]
pub struct Glob {
    /// The components before the first wildcard.
    pub prefix: PathBuf,
    /// The rest: never empty.
    pub components: Vec<Component>,
}

#[derive(Debug)]
pub enum Component {
    /// `**`: any number of directories.
    AnyDepth,
    Literal(OsString),
    /// `*`
    Any,
    /// `.env.*`
    StartsWith(Vec<u8>),
    /// `*.pem`
    EndsWith(Vec<u8>),
    Glob(Box<GlobMatcher>),
}

impl Component {
    pub fn matches(&self, name: &OsStr) -> bool {
        match self {
            Component::AnyDepth | Component::Any => true,
            Component::Literal(literal) => literal == name,
            Component::StartsWith(start) => name.as_bytes().starts_with(start),
            Component::EndsWith(end) => name.as_bytes().ends_with(end),
            Component::Glob(matcher) => matcher.is_match(name),
        }
    }
}

/// Whether `text` holds a character that a glob gives a meaning to.
pub fn has_metacharacter(text: &OsStr) -> bool {
    text.as_bytes().iter().any(|b| b"*?[]{}\\".contains(b))
}

/// The text as a pattern. The error is a sentence for people.
pub fn parse(text: &OsStr) -> Result<Pattern, String> {
    let mut alternatives = Vec::new();
    expand_braces(text.as_bytes(), &mut alternatives)?;
    if let [only] = alternatives.as_slice()
        && !only.split(|b| *b == b'/').any(has_wildcard)
    {
        return Ok(Pattern::Exact(PathBuf::from(OsString::from_vec(unescape(only)))));
    }
    alternatives.iter().map(|alternative| glob(alternative)).collect::<Result<_, _>>().map(Pattern::Globs)
}

fn glob(text: &[u8]) -> Result<Glob, String> {
    let mut prefix = PathBuf::from(if text.starts_with(b"/") { "/" } else { "" });
    let mut components: Vec<Component> = Vec::new();
    for name in text.split(|b| *b == b'/').filter(|name| !name.is_empty() && *name != b".") {
        if components.is_empty() && !has_wildcard(name) {
            prefix.push(OsString::from_vec(unescape(name)));
        } else if name == b".." {
            return Err("`..` after a wildcard has no fixed meaning".to_owned());
        } else if name == b"**" && matches!(components.last(), Some(Component::AnyDepth)) {
            // `**/**` says the same twice.
        } else {
            components.push(component(name)?);
        }
    }
    if components.is_empty() {
        // One alternative of a brace is literal, as in `{a,b*}`: match its last name, so that it has the
        // precedence of the glob that it is a part of.
        let name = prefix.file_name().map(OsStr::to_os_string).ok_or("an alternative names no file")?;
        prefix.pop();
        components.push(Component::Literal(name));
    }
    Ok(Glob { prefix, components })
}

fn component(name: &[u8]) -> Result<Component, String> {
    if name == b"**" {
        return Ok(Component::AnyDepth);
    }
    if name.windows(2).any(|pair| pair == b"**") {
        return Err("`**` must be a whole component: write `a/**/b`".to_owned());
    }
    if !has_wildcard(name) {
        return Ok(Component::Literal(OsString::from_vec(unescape(name))));
    }
    match name {
        b"*" => return Ok(Component::Any),
        [b'*', end @ ..] if !has_metacharacter(OsStr::from_bytes(end)) => return Ok(Component::EndsWith(end.to_vec())),
        [start @ .., b'*'] if !has_metacharacter(OsStr::from_bytes(start)) => {
            return Ok(Component::StartsWith(start.to_vec()));
        }
        _ => {}
    }
    let text = std::str::from_utf8(name).map_err(|_| "a component with a wildcard must be UTF-8".to_owned())?;
    let glob = GlobBuilder::new(text)
        .literal_separator(true)
        .backslash_escape(true)
        .build()
        .map_err(|e| e.kind().to_string().trim_end_matches('.').to_lowercase())?;
    Ok(Component::Glob(Box::new(glob.compile_matcher())))
}

/// An unescaped `*`, `?` or `[`. A lone `]` is an ordinary character.
fn has_wildcard(name: &[u8]) -> bool {
    let mut bytes = name.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => {
                bytes.next();
            }
            b'*' | b'?' | b'[' => return true,
            _ => {}
        }
    }
    false
}

fn unescape(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    let mut bytes = name.iter().copied();
    while let Some(byte) = bytes.next() {
        out.push(if byte == b'\\' { bytes.next().unwrap_or(b'\\') } else { byte });
    }
    out
}

/// `a{b,c}d` → `abd`, `acd`. Alternatives may hold separators and further braces.
fn expand_braces(text: &[u8], out: &mut Vec<Vec<u8>>) -> Result<(), String> {
    let Some(group) = find_group(text)? else {
        if out.len() == MAX_ALTERNATIVES {
            return Err(format!("the braces stand for more than {MAX_ALTERNATIVES} patterns"));
        }
        out.push(text.to_vec());
        return Ok(());
    };
    for alternative in group.alternatives {
        let mut expanded = text[..group.open].to_vec();
        expanded.extend_from_slice(alternative);
        expanded.extend_from_slice(&text[group.close + 1..]);
        expand_braces(&expanded, out)?;
    }
    Ok(())
}

struct Group<'t> {
    open: usize,
    close: usize,
    alternatives: Vec<&'t [u8]>,
}

/// The first `{…}` outside `[…]`.
fn find_group(text: &[u8]) -> Result<Option<Group<'_>>, String> {
    let mut open = None;
    let mut depth = 0_usize;
    let mut start = 0;
    let mut alternatives = Vec::new();
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'\\' => at += 1,
            b'[' => at = class_end(text, at).unwrap_or(at),
            b'{' => {
                depth += 1;
                if depth == 1 {
                    open = Some(at);
                    start = at + 1;
                }
            }
            b',' if depth == 1 => {
                alternatives.push(&text[start..at]);
                start = at + 1;
            }
            b'}' if depth == 0 => return Err("a `}` without its `{`; write `\\}` for the character".to_owned()),
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    alternatives.push(&text[start..at]);
                    return Ok(open.map(|open| Group { open, close: at, alternatives }));
                }
            }
            _ => {}
        }
        at += 1;
    }
    match open {
        Some(_) => Err("a `{` without its `}`; write `\\{` for the character".to_owned()),
        None => Ok(None),
    }
}

/// The index of the `]` that ends the class opened at `open`. A `]` directly after `[`, `[!` or `[^` is a member.
fn class_end(text: &[u8], open: usize) -> Option<usize> {
    let mut at = open + 1;
    if matches!(text.get(at), Some(b'!' | b'^')) {
        at += 1;
    }
    at += 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b']' => return Some(at),
            b'/' => return None,
            _ => at += 1,
        }
    }
    None
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
            Err(e) => e,
        }
    }

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
        ] {
            assert!(matches(pattern, yes), "{pattern} matches {yes}");
            assert!(no.is_empty() || !matches(pattern, no), "{pattern} does not match {no}");
        }
    }

    #[test]
    fn an_escaped_metacharacter_is_an_ordinary_name() {
        for (pattern, name) in [(r"\[id\]", "[id]"), (r"a\*", "a*"), (r"\{x\}", "{x}"), ("a]", "a]")] {
            assert!(matches!(parse(OsStr::new(pattern)), Ok(Pattern::Exact(p)) if p.as_os_str() == name), "{pattern}");
        }
    }

    #[test]
    fn the_fixed_prefix_ends_before_the_first_wildcard() {
        let Ok(Pattern::Globs(globs)) = parse(OsStr::new("/a/./b/**/**/c*/d")) else { panic!("a glob") };
        assert_eq!(globs[0].prefix, PathBuf::from("/a/b"));
        assert_eq!(globs[0].components.len(), 3);
    }

    #[test]
    fn what_cannot_be_parsed_says_why() {
        for (pattern, said) in [
            ("a**", "whole component"),
            ("*/../x", "after a wildcard"),
            ("{a", "without its `}`"),
            ("a}", "without its `{`"),
            ("[a", "unclosed"),
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
