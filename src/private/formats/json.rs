//! JSON. A change replaces the text of one value, so that order, blanks and everything else stay.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::Value;
use serde_json::value::RawValue;

use super::{Entries, EntryReader, FormatError, Key, Values};

/// All keys whose values are not objects. An array is one value.
pub(super) fn read(text: &[u8]) -> Result<Entries, FormatError> {
    let value: Value = serde_json::from_slice(text).map_err(|_| FormatError::Syntax)?;
    let members = value.as_object().ok_or(FormatError::Syntax)?;
    let mut entries = EntryReader::default();
    add(members, &mut Vec::new(), &mut entries)?;
    Ok(entries.found)
}

fn add<'v>(
    members: &'v serde_json::Map<String, Value>,
    above: &mut Vec<&'v [u8]>,
    entries: &mut EntryReader,
) -> Result<(), FormatError> {
    for (name, value) in members {
        above.push(name.as_bytes());
        match value.as_object() {
            Some(members) => add(members, above, entries)?,
            None => entries.add(above, value.to_string().into_bytes())?,
        }
        above.pop();
    }
    Ok(())
}

pub(super) fn write(text: &[u8], changes: &[(Key, Values)]) -> Result<Vec<u8>, FormatError> {
    // What follows the object must be valid, too.
    read(text)?;
    let mut text = String::from_utf8(text.to_vec()).map_err(|_| FormatError::Syntax)?;
    for (Key(parts), values) in changes {
        let parts: Option<Vec<&str>> = parts.iter().map(|part| std::str::from_utf8(part).ok()).collect();
        let value = values.first().map(|value| std::str::from_utf8(value)).transpose();
        let (parts, value) = parts.zip(value.ok()).ok_or(FormatError::Syntax)?;
        let start = text.find('{').ok_or(FormatError::Syntax)?;
        text = changed(&text, start, &parts, value, 1).ok_or(FormatError::Syntax)?;
    }
    Ok(text.into_bytes())
}

/// One `"name": value` of an object, as ranges of the text.
struct Member {
    name: String,
    whole: Range<usize>,
    value: Range<usize>,
}

/// `text` with another value for `key` in the object that begins at `start`. `None` where something
/// other than an object is on the way.
fn changed(text: &str, start: usize, key: &[&str], value: Option<&str>, depth: usize) -> Option<String> {
    let (name, rest) = key.split_first()?;
    let (members, end) = members(text, start)?;
    let replace = |range: Range<usize>, with: &str| [&text[..range.start], with, &text[range.end..]].concat();
    let found = members.iter().position(|member| member.name == *name);
    match (found, value) {
        (Some(at), _) if !rest.is_empty() => {
            let inner = members[at].value.start;
            text[inner..].starts_with('{').then(|| changed(text, inner, rest, value, depth + 1))?
        }
        (Some(at), Some(value)) => Some(replace(members[at].value.clone(), value)),
        (None, None) => Some(text.to_owned()),
        (Some(at), None) => {
            // Remove the member with the comma before it, or else with the comma after it.
            let whole = match (at.checked_sub(1).map(|before| &members[before]), members.get(at + 1)) {
                (Some(before), _) => before.whole.end..members[at].whole.end,
                (None, Some(after)) => members[at].whole.start..after.whole.start,
                (None, None) => start + 1..end,
            };
            Some(replace(whole, ""))
        }
        (None, Some(value)) => {
            let open: String = rest.iter().map(|name| format!("{{{}: ", quoted(name))).collect();
            let member = format!("{}: {open}{value}{}", quoted(name), "}".repeat(rest.len()));
            Some(match members.last() {
                Some(last) => {
                    let before = members.len().checked_sub(2).map_or(start + 1, |at| members[at].whole.end);
                    // The blanks before the last member, without its comma.
                    let blanks = text[before..last.whole.start].trim_start_matches([',', ' ']);
                    let blanks = if blanks.is_empty() { " " } else { blanks };
                    replace(last.whole.end..last.whole.end, &format!(",{blanks}{member}"))
                }
                None => {
                    let indent = |depth: usize| format!("\n{}", "  ".repeat(depth));
                    replace(start + 1..end, &format!("{}{member}{}", indent(depth), indent(depth - 1)))
                }
            })
        }
    }
}

fn quoted(name: &str) -> String {
    Value::from(name).to_string()
}

/// The members of the object that begins at `start`, and the place of its `}`. Of two members with
/// one name, the last counts.
fn members(text: &str, start: usize) -> Option<(Vec<Member>, usize)> {
    let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<BTreeMap<String, &RawValue>>();
    let found = values.next()?.ok()?;
    let end = start + values.byte_offset() - 1;
    let member = |(name, value): (String, &RawValue)| {
        let at = value.get().as_ptr().addr() - text.as_ptr().addr();
        let value = at..at + value.get().len();
        Member { name, whole: value.clone(), value }
    };
    let mut members: Vec<Member> = found.into_iter().map(member).collect();
    members.sort_by_key(|member| member.value.start);
    let mut from = start + 1;
    for member in &mut members {
        member.whole.start = from + text[from..].find('"')?;
        from = member.value.end;
    }
    Some((members, end))
}

#[cfg(test)]
mod tests {
    use super::super::Syntax;
    use super::super::tests::changed;

    fn json(text: &str, changes: &[(&str, Option<&str>)]) -> String {
        changed(Syntax::Json, text, changes)
    }

    #[test]
    fn a_change_touches_one_value() {
        let text = "{\n    \"b\": 1,\n    \"a\" : {\"x\":\"},{\\\"\", \"y\": [1, {\"z\": 2}]},\n    \"c\": null\n}\n";
        assert_eq!(json(text, &[("b", Some("\"q\""))]), text.replace('1', "\"q\"").replacen("[\"q\"", "[1", 1));
        assert_eq!(json(text, &[("a.x", Some("7"))]), text.replace("\"},{\\\"\"", "7"));
        assert_eq!(json(text, &[("a.y", None)]), text.replace(", \"y\": [1, {\"z\": 2}]", ""));
        assert_eq!(json(text, &[("b", None)]), text.replace("\"b\": 1,\n    ", ""));
        assert_eq!(json(text, &[("c", None)]), text.replace(",\n    \"c\": null", ""));
        assert_eq!(json(text, &[("d", Some("[]"))]), text.replace("null", "null,\n    \"d\": []"));
        assert_eq!(json(text, &[("nothing", None), ("a.nothing", None)]), text);
    }

    #[test]
    fn a_missing_object_is_made() {
        assert_eq!(json("{}", &[("a.b.c", Some("1"))]), "{\n  \"a\": {\"b\": {\"c\": 1}}\n}");
        assert_eq!(json("{\"a\":{}}", &[("a.b", Some("1"))]), "{\"a\":{\n    \"b\": 1\n  }}");
        assert_eq!(json("{\"a\":1}", &[("b", Some("2"))]), "{\"a\":1, \"b\": 2}");
        assert_eq!(json("{ \"a\": 1 }", &[("a", None)]), "{}");
    }

    #[test]
    fn a_text_that_is_no_object_has_no_keys_and_takes_no_change() {
        for text in [&b""[..], b"[1]", b"{\"a\": 1} x", b"// c\n{}", b"{\"a\": 01}"] {
            assert!(super::read(text).is_err());
        }
        let change = super::super::tests::change("a.b", Some("1"));
        assert!(super::write(b"{\"a\": 1}", &[change]).is_err());
    }
}
