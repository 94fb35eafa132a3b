//! TOML, by `toml_edit`, which keeps comments and order.

use toml_edit::{DocumentMut, Item, TableLike, Value};

use super::{Entries, EntryReader, FormatError, Key, Values};

/// All keys whose values are not tables. An array is one value, even an array of tables.
pub(super) fn read(text: &[u8]) -> Result<Entries, FormatError> {
    let mut entries = EntryReader::default();
    add(document(text)?.as_table(), &mut Vec::new(), &mut entries)?;
    Ok(entries.found)
}

fn document(text: &[u8]) -> Result<DocumentMut, FormatError> {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(FormatError::Syntax)
}

fn add<'t>(table: &'t dyn TableLike, above: &mut Vec<&'t [u8]>, entries: &mut EntryReader) -> Result<(), FormatError> {
    for (name, item) in table.iter() {
        above.push(name.as_bytes());
        if let Some(table) = item.as_table_like() {
            add(table, above, entries)?;
        } else if let Some(text) = literal(item) {
            entries.add(above, text.into_bytes())?;
        }
        above.pop();
    }
    Ok(())
}

/// The value without the blanks and comments around it.
fn literal(item: &Item) -> Option<String> {
    let mut value = item.clone().into_value().ok()?;
    value.decor_mut().clear();
    Some(value.to_string())
}

pub(super) fn write(text: &[u8], changes: &[(Key, Values)]) -> Result<Vec<u8>, FormatError> {
    let mut document = document(text)?;
    for (Key(parts), values) in changes {
        let parts: Option<Vec<&str>> = parts.iter().map(|part| std::str::from_utf8(part).ok()).collect();
        let value = values.first().map(|value| parsed(value).ok_or(FormatError::Syntax)).transpose()?;
        change(document.as_table_mut(), &parts.ok_or(FormatError::Syntax)?, value).ok_or(FormatError::Syntax)?;
    }
    Ok(document.to_string().into_bytes())
}

/// `None` where something other than a table is on the way.
fn change(table: &mut dyn TableLike, key: &[&str], value: Option<Value>) -> Option<()> {
    match (key, value) {
        ([], _) => None,
        ([name], None) => Some(_ = table.remove(name)),
        ([name], Some(mut value)) => {
            match table.get_mut(name) {
                // The comments around the key and the value stay.
                Some(item) => {
                    if let Some(old) = item.as_value() {
                        *value.decor_mut() = old.decor().clone();
                    }
                    *item = Item::Value(value);
                }
                None => _ = table.insert(name, Item::Value(value)),
            }
            Some(())
        }
        ([name, ..], None) if table.get(name).is_none() => Some(()),
        ([name, rest @ ..], value) => {
            if table.get(name).is_none() {
                let mut new = toml_edit::Table::new();
                new.set_implicit(true);
                table.insert(name, Item::Table(new));
            }
            change(table.get_mut(name)?.as_table_like_mut()?, rest, value)
        }
    }
}

fn parsed(literal: &[u8]) -> Option<Value> {
    std::str::from_utf8(literal).ok()?.parse().ok()
}

/// The text of a value that is a string, in any quotes.
pub(super) fn string(literal: &[u8]) -> Option<String> {
    parsed(literal)?.as_str().map(str::to_owned)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::Syntax;
    use super::super::tests::{changed, key};
    use super::*;

    const TEXT: &str = "# mine\nmodel = \"a\" # why\n\n[projects.\"/p\"]\ntrust_level = \"trusted\"\n\n[[x]]\ny = 1\n";

    #[test]
    fn tables_of_either_form_are_one_key_for_each_value() {
        let inline = read(b"projects = { \"/p\" = { trust_level = \"trusted\" } }").unwrap();
        let path = Key(vec![b"projects".to_vec(), b"/p".to_vec(), b"trust_level".to_vec()]);
        assert_eq!(inline.get(&path), read(TEXT.as_bytes()).unwrap().get(&path));
        assert!(read(TEXT.as_bytes()).unwrap().contains_key(&key("x")));
    }

    #[test]
    fn a_change_keeps_comments_order_and_tables() {
        let written = changed(Syntax::Toml, TEXT, &[("model", Some("\"b\"")), ("n", Some("1")), ("a.b", Some("[1]"))]);
        assert!(written.starts_with("# mine\nmodel = \"b\" # why\nn = 1\n"), "{written}");
        assert!(written.contains("[projects.\"/p\"]\ntrust_level = \"trusted\"\n\n[[x]]\ny = 1\n"), "{written}");
        assert_eq!(changed(Syntax::Toml, "a = 1\nb = 2\n", &[("a", None), ("c.d", None)]), "b = 2\n");
    }

    #[test]
    fn a_text_that_is_no_toml_has_no_keys_and_takes_no_change() {
        for text in [&b"a = "[..], b"a = 1\na = 2", b"\xff"] {
            assert!(read(text).is_err());
        }
        let change = super::super::tests::change("a.b", Some("1"));
        assert!(write(b"a = 1\n", &[change]).is_err());
    }
}
