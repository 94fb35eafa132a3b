//! `a{b,c}d` → `abd`, `acd`.

use super::PatternError;
use super::scan::{Piece, pieces};

/// The most patterns that the braces of one text may stand for. Braces multiply: `{a,b}{c,d}` are
/// four patterns.
pub(super) const MAX_ALTERNATIVES: usize = 1000;

/// The most groups of braces in one text. This bounds groups such as `{a}`, which multiply nothing.
pub(super) const MAX_GROUPS: usize = 100;

/// The texts that the braces in `text` expand to. Alternatives may hold separators and further
/// braces.
pub(super) fn expand(text: &[u8]) -> Result<Vec<Vec<u8>>, PatternError> {
    let mut alternatives = Vec::new();
    expand_into(text, 0, &mut alternatives)?;
    Ok(alternatives)
}

fn expand_into(text: &[u8], groups: usize, out: &mut Vec<Vec<u8>>) -> Result<(), PatternError> {
    let cuts = first_group(text)?;
    let [open, .., close] = cuts[..] else {
        if out.len() == MAX_ALTERNATIVES {
            return Err(PatternError::TooManyAlternatives);
        }
        out.push(text.to_vec());
        return Ok(());
    };
    if groups == MAX_GROUPS {
        return Err(PatternError::TooManyBraces);
    }
    for cut in cuts.windows(2) {
        let expanded = [&text[..open], &text[cut[0] + 1..cut[1]], &text[close + 1..]].concat();
        expand_into(&expanded, groups + 1, out)?;
    }
    Ok(())
}

/// The places of the first `{`, of its commas and of its `}`, outside of `[…]`. Empty if there is
/// no group.
fn first_group(text: &[u8]) -> Result<Vec<usize>, PatternError> {
    let mut depth = 0_usize;
    let mut cuts = Vec::new();
    for piece in pieces(text) {
        let (at, Piece::Plain(byte)) = piece? else { continue };
        match (byte, depth) {
            (b'{', _) => depth += 1,
            (b'}', 0) => return Err(PatternError::UnopenedBrace),
            (b'}', _) => depth -= 1,
            _ => {}
        }
        match (byte, depth) {
            (b'{' | b',', 1) => cuts.push(at),
            (b'}', 0) => {
                cuts.push(at);
                return Ok(cuts);
            }
            _ => {}
        }
    }
    if cuts.is_empty() { Ok(cuts) } else { Err(PatternError::UnclosedBrace) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Vec<String> {
        expand(text.as_bytes()).unwrap().into_iter().map(|text| String::from_utf8(text).unwrap()).collect()
    }

    #[test]
    fn a_brace_or_comma_in_a_class_or_after_a_backslash_belongs_to_no_group() {
        for (text, texts) in [
            ("x{1,{2,3}}", &["x1", "x2", "x3"][..]),
            ("{a,b/c}/d", &["a/d", "b/c/d"]),
            ("[{]a,b", &["[{]a,b"]),
            ("{[,],a}", &["[,]", "a"]),
            ("{[]},],a}", &["[]},]", "a"]),
            ("{[!]}],a}", &["[!]}]", "a"]),
            (r"{[\]}],a}", &[r"[\]}]", "a"]),
            (r"{a\,b,c\}}", &[r"a\,b", r"c\}"]),
            (r"{a\\,b}", &[r"a\\", "b"]),
            (r"\{a,b\}", &[r"\{a,b\}"]),
        ] {
            assert_eq!(expanded(text), texts, "{text}");
        }
    }

    #[test]
    fn groups_that_multiply_nothing_are_limited_too() {
        assert_eq!(expanded(&"{a}".repeat(100)), ["a".repeat(100)]);
        for text in ["{a}".repeat(10_000), format!("{}a{}", "{".repeat(10_000), "}".repeat(10_000))] {
            assert_eq!(expand(text.as_bytes()), Err(PatternError::TooManyBraces));
        }
    }
}
