//! The matches of a pattern (SPEC G1), found by trying all possibilities.

/// The characters of a name. A byte that is not UTF-8 counts as a character of its own.
fn units(bytes: &[u8]) -> Vec<u32> {
    let mut units = Vec::new();
    for chunk in bytes.utf8_chunks() {
        units.extend(chunk.valid().chars().map(u32::from));
        units.extend(chunk.invalid().iter().map(|byte| 0x11_0000 + u32::from(*byte)));
    }
    units
}

const BACKSLASH: u32 = b'\\' as u32;
const OPEN: u32 = b'[' as u32;
const CLOSE: u32 = b']' as u32;
const DASH: u32 = b'-' as u32;

/// Whether the components of the pattern match the last components of a path, `names`.
pub fn matches_path(pattern: &[&[u8]], names: &[&[u8]]) -> bool {
    match (pattern, names) {
        ([], []) => true,
        // As the last component, `**` matches one name or more.
        ([b"**"], _) => !names.is_empty(),
        ([b"**", rest @ ..], _) => (0..=names.len()).any(|skip| matches_path(rest, &names[skip..])),
        ([first, pattern @ ..], [name, names @ ..]) => {
            matches_name(&units(first), &units(name)) && matches_path(pattern, names)
        }
        _ => false,
    }
}

fn matches_name(pattern: &[u32], name: &[u32]) -> bool {
    let Some((first, rest)) = pattern.split_first() else { return name.is_empty() };
    match char::from_u32(*first) {
        Some('*') => (0..=name.len()).any(|skip| matches_name(rest, &name[skip..])),
        Some('?') => !name.is_empty() && matches_name(rest, &name[1..]),
        Some('[') => {
            let Some((members, after)) = class(rest) else { return false };
            name.first().is_some_and(|c| is_member(members, *c)) && matches_name(after, &name[1..])
        }
        Some('\\') if !rest.is_empty() => name.first() == Some(&rest[0]) && matches_name(&rest[1..], &name[1..]),
        _ => name.first() == Some(first) && matches_name(rest, &name[1..]),
    }
}

/// The members between `[` and its `]`, and the rest after it.
fn class(rest: &[u32]) -> Option<(&[u32], &[u32])> {
    let first = usize::from(rest.first().is_some_and(is_negation));
    let mut end = first;
    while *rest.get(end)? != CLOSE || end == first {
        end += if rest[end] == BACKSLASH { 2 } else { 1 };
    }
    Some((&rest[..end], &rest[end + 1..]))
}

fn is_negation(c: &u32) -> bool {
    [u32::from(b'!'), u32::from(b'^')].contains(c)
}

fn is_member(members: &[u32], c: u32) -> bool {
    match members.split_first() {
        Some((first, rest)) if is_negation(first) => !is_listed(rest, c),
        _ => is_listed(members, c),
    }
}

fn is_listed(members: &[u32], c: u32) -> bool {
    let Some((first, rest)) = member(members) else { return false };
    match rest.split_first() {
        Some((&DASH, after)) if !after.is_empty() => {
            member(after).is_some_and(|(last, rest)| (first..=last).contains(&c) || is_listed(rest, c))
        }
        _ => first == c || is_listed(rest, c),
    }
}

fn member(members: &[u32]) -> Option<(u32, &[u32])> {
    match members {
        [] => None,
        [BACKSLASH, first, rest @ ..] | [first, rest @ ..] => Some((*first, rest)),
    }
}

/// Whether the component has special characters.
pub fn is_wild(component: &[u8]) -> bool {
    let mut escaped = false;
    component.iter().any(|byte| {
        let wild = !escaped && b"*?[".contains(byte);
        escaped = !escaped && *byte == b'\\';
        wild
    })
}

/// Whether the component has `[` without `]`, or `**` as a part of a name.
pub fn is_malformed(component: &[u8]) -> bool {
    let all = units(component);
    let mut at = 0;
    let mut stars = 0;
    while at < all.len() {
        stars = if all[at] == u32::from(b'*') { stars + 1 } else { 0 };
        if stars > 1 && component != b"**" {
            return true;
        }
        match all[at] {
            BACKSLASH => at += 2,
            OPEN => match class(&all[at + 1..]) {
                Some((members, _)) => at += members.len() + 2,
                None => return true,
            },
            _ => at += 1,
        }
    }
    false
}

pub fn unescaped(component: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = component;
    while let [first, tail @ ..] = rest {
        match (first, tail) {
            (b'\\', [next, tail @ ..]) => {
                out.push(*next);
                rest = tail;
            }
            _ => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    out
}

/// One pattern for each choice among `{…,…}`. `None` if the braces are not balanced.
pub fn alternatives(text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let marks = marks(text);
    let Some(open) = marks.iter().find(|mark| b"{}".contains(&text[**mark])).copied() else {
        return Some(vec![text.to_vec()]);
    };
    let mut depth = 0_usize;
    let mut cuts = vec![open];
    for mark in marks.into_iter().filter(|mark| *mark >= open) {
        match text[mark] {
            b'{' => depth += 1,
            b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    cuts.push(mark);
                    break;
                }
            }
            _ if depth == 1 => cuts.push(mark),
            _ => {}
        }
    }
    if depth != 0 {
        return None;
    }
    let after = &text[cuts.last()? + 1..];
    let mut all = Vec::new();
    for cut in cuts.windows(2) {
        all.extend(alternatives(&[&text[..open], &text[cut[0] + 1..cut[1]], after].concat())?);
    }
    Some(all)
}

/// The offsets of the braces and commas that are neither escaped nor in a class.
fn marks(text: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 1,
            b'[' => {
                let component: Vec<u32> =
                    text[at + 1..].iter().take_while(|b| **b != b'/').map(|b| u32::from(*b)).collect();
                at += class(&component).map_or(0, |(members, _)| members.len() + 1);
            }
            b'{' | b'}' | b',' => found.push(at),
            _ => {}
        }
        at += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_naive_matcher_knows_what_a_pattern_means() {
        let path = |text: &'static str| text.split('/').map(str::as_bytes).collect::<Vec<_>>();
        for (pattern, yes, no) in [
            ("**/a", "x/y/a", "x/y/ab"),
            ("a/**/b", "a/b", "b"),
            ("a/**", "a/x/y", "a"),
            ("?[!x]*", "ab.c", "axb"),
            (r"\*", "*", "a"),
            ("[z\u{e9}]?", "\u{e9}\u{e9}", "\u{e9}"),
            ("[a-c\u{e0}-\u{f6}]", "\u{e9}", "d"),
            (r"[\]\-x-z]", "-", "a"),
            (r"[!\]]", "a", "]"),
        ] {
            assert!(matches_path(&path(pattern), &path(yes)), "{pattern} matches {yes}");
            assert!(!matches_path(&path(pattern), &path(no)), "{pattern} does not match {no}");
        }
        let choices = |text: &str| alternatives(text.as_bytes()).map(|all| all.join(&b' '));
        assert_eq!(choices("x{a,{b,c}/d}"), Some(b"xa xb/d xc/d".to_vec()));
        assert_eq!(choices(r"\{a,b}"), None);
        assert_eq!(choices("[{]a"), Some(b"[{]a".to_vec()));
    }
}
