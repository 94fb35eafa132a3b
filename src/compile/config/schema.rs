//! The JSON schema of a configuration file, made from the types that the parser fills.
//!
//! Draft 7, because TOML language servers read that and ignore newer drafts. TOML has no null, so
//! an optional key may be absent and is never nullable.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use super::{ConfigFile, PresetDefinition};

/// The regular expression of [`super::is_preset_name`], without anchors.
const PRESET_NAME: &str = "[a-z0-9][a-z0-9_/-]*";

pub fn schema() -> Value {
    SchemaSettings::draft07()
        .with_transform(RecursiveTransform(unwrap_description))
        .into_generator()
        .into_root_schema_for::<ConfigFile>()
        .to_value()
}

/// Joins the lines of a doc comment.
fn unwrap_description(schema: &mut Schema) {
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace('\n', " ");
    }
}

/// A path: not empty, no NUL.
pub(super) fn path(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "minLength": 1, "pattern": "^[^\\u0000]*$" })
}

pub(super) fn paths(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": path(generator) })
}

/// An entry may also be its path alone. `table` is the derived schema of the table form.
pub(super) fn string_or_table(table: &mut Schema) {
    let description = table.remove("description");
    let path = table.pointer("/properties/path").cloned();
    let mut either = json_schema!({ "anyOf": [path, table.clone().to_value()] });
    if let Some(description) = description {
        either.insert("description".to_owned(), description);
    }
    *table = either;
}

/// An injection has one of `from` and `text`.
pub(super) fn from_or_text(table: &mut Schema) {
    for key in ["from", "text"] {
        if let Some(property) = table.pointer_mut(&format!("/properties/{key}")).and_then(Value::as_object_mut) {
            property.remove("default");
        }
    }
    let one = serde_json::json!([{ "required": ["from"] }, { "required": ["text"] }]);
    table.insert("oneOf".to_owned(), one);
}

/// `@name` and `!@name`.
pub(super) fn preset_switches(_: &mut SchemaGenerator) -> Schema {
    strings_like(&format!("^!?@{PRESET_NAME}$"))
}

/// `@name`.
pub(super) fn preset_names(_: &mut SchemaGenerator) -> Schema {
    strings_like(&format!("^@{PRESET_NAME}$"))
}

/// The regular expression of a variable's name or a pattern: not empty, no `=`, no NUL.
const VARIABLE_NAME: &str = "^[^=\\u0000]+$";

pub(super) fn variable_names(_: &mut SchemaGenerator) -> Schema {
    strings_like(VARIABLE_NAME)
}

pub(super) fn variables(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "patternProperties": { VARIABLE_NAME: { "type": "string", "pattern": "^[^\\u0000]*$" } },
        "additionalProperties": false,
    })
}

/// `"host"`, `false`, or a name and an address.
pub(super) fn identity(_: &mut SchemaGenerator) -> Schema {
    let text = |meaning: &str| json_schema!({ "type": "string", "pattern": IDENTITY_TEXT, "description": meaning });
    json_schema!({ "oneOf": [
        { "const": "host", "description": "Your own identity." },
        { "const": false, "description": "The identity of the visible settings, if there is one." },
        {
            "type": "object",
            "properties": {
                "name": text("The name of the author and the committer. Default: none."),
                "email": text("The address of the author and the committer. Default: none."),
            },
            "required": ["name", "email"],
            "additionalProperties": false,
        },
    ] })
}

/// The regular expression of a text that has no control characters and is not blank.
const IDENTITY_TEXT: &str = "^[^\\u0000-\\u001f\\u007f]*[^\\u0000-\\u0020\\u007f][^\\u0000-\\u001f\\u007f]*$";

fn strings_like(pattern: &str) -> Schema {
    json_schema!({ "type": "array", "items": { "type": "string", "pattern": pattern } })
}

/// The parser checks the bounds of amounts; the schema does not.
pub(super) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": "^0*[1-9][0-9]*(ms|s|m|h|d)$" })
}

pub(super) fn size(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": "^0*[1-9][0-9]*[BKMGT]$" })
}

pub(super) fn processes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "minimum": 1 })
}

pub(super) fn cpus(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "number", "exclusiveMinimum": 0 })
}

pub(super) fn preset_definitions(generator: &mut SchemaGenerator) -> Schema {
    let definition = generator.subschema_for::<PresetDefinition>();
    json_schema!({
        "type": "object",
        "patternProperties": { format!("^{PRESET_NAME}$"): definition },
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use super::super::keys::{ENTRY, ENV, FILESYSTEM, GIT, IDENTITY, INJECT, LIMITS, PRESET, TOP_LEVEL, names};
    use super::*;
    use crate::diagnostic::Diagnostics;
    use crate::policy::origin::Source;

    fn properties(schema: &Value, table: &str) -> BTreeSet<String> {
        let table = schema.pointer(table).and_then(Value::as_object);
        table.map(|properties| properties.keys().cloned().collect()).unwrap_or_default()
    }

    fn set(names: Vec<&str>) -> BTreeSet<String> {
        names.into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn the_parser_reads_the_keys_of_the_schema_and_no_others() {
        let schema = schema();
        assert_eq!(set(names(TOP_LEVEL)), properties(&schema, "/properties"));
        assert_eq!(set(names(FILESYSTEM)), properties(&schema, "/definitions/Filesystem/properties"));
        assert_eq!(set(names(ENV)), properties(&schema, "/definitions/Env/properties"));
        assert_eq!(set(names(LIMITS)), properties(&schema, "/definitions/Limits/properties"));
        assert_eq!(set(names(GIT)), properties(&schema, "/definitions/Git/properties"));
        let identity = "/definitions/Git/properties/identity/oneOf/2/properties";
        assert_eq!(set(names(IDENTITY)), properties(&schema, identity));
        assert_eq!(set(names(INJECT)), properties(&schema, "/definitions/InjectEntry/properties"));
        assert_eq!(set(names(PRESET)), properties(&schema, "/definitions/PresetDefinition/properties"));
        assert_eq!(set(names(ENTRY)), properties(&schema, "/definitions/Entry/anyOf/1/properties"));
    }

    #[test]
    fn every_key_is_documented_with_its_default() {
        let schema = schema();
        let tables = ["Filesystem", "Env", "Limits", "Git", "PresetDefinition", "Entry/anyOf/1", "InjectEntry"]
            .map(|name| format!("/definitions/{name}"));
        for table in [String::new()].iter().chain(&tables) {
            let keys = schema.pointer(&format!("{table}/properties")).and_then(Value::as_object);
            for (key, about) in keys.into_iter().flatten() {
                let description = about["description"].as_str().unwrap_or_default();
                let bare = ["path", "filesystem", "env", "limits", "git", "from", "text", "to"];
                let needs_no_default = bare.contains(&key.as_str());
                assert!(description.contains("Default: ") || needs_no_default, "{table} {key}: {description}");
                assert!(description.ends_with('.') && !description.contains('\n'), "{table} {key}: {description}");
            }
        }
    }

    #[test]
    fn the_schema_never_allows_null() {
        fn assert_without_null(value: &Value) {
            match value {
                Value::Null => panic!("null"),
                Value::String(text) => assert_ne!(text, "null"),
                Value::Array(items) => items.iter().for_each(assert_without_null),
                Value::Object(members) => members.values().for_each(assert_without_null),
                Value::Bool(_) | Value::Number(_) => {}
            }
        }
        assert_without_null(&schema());
    }

    const VALUES: &[&str] = &[
        "true",
        "1",
        "1.5",
        "1979-05-27",
        r#""""#,
        r#""x""#,
        r#""a\u0000b""#,
        r#""a\nb""#,
        r#""private""#,
        r#""host""#,
        r#""skip""#,
        r#""error""#,
        r#""create""#,
        r#""block""#,
        r#""allow""#,
        r#""Host""#,
        "[]",
        r#"[""]"#,
        r#"["x", "~/y"]"#,
        r#"["a\u0000b"]"#,
        r#"["a\nb"]"#,
        r#"["@a"]"#,
        r#"["@lint/a_b-1", "@9"]"#,
        r#"["!@a"]"#,
        r#"["!!@a"]"#,
        r#"["@A"]"#,
        r#"["@a\n"]"#,
        r#"["@é"]"#,
        r#"["@"]"#,
        r#"["@-a"]"#,
        r#"["@_a"]"#,
        r#"["@/a"]"#,
        "[1]",
        "[true]",
        r#"[["x"]]"#,
        "[{}]",
        r#"[{ path = "x" }]"#,
        r#"[{ path = "" }]"#,
        r#"[{ path = "a\u0000" }]"#,
        "[{ path = 1 }]",
        r#"[{ path = "x", if-missing = "error" }, "y"]"#,
        r#"[{ path = "x", if-missing = "block" }]"#,
        r#"[{ path = "x", if-missing = 1 }]"#,
        r#"[{ path = "x", except = [] }]"#,
        r#"[{ path = "x", hard-links = "allow" }]"#,
        r#"[{ path = "x", hard-links = "skip" }]"#,
        r#"[{ if-missing = "skip" }]"#,
        "{}",
        r#"{ ro = ["x"] }"#,
        r#"{ rw = "x" }"#,
        r#"{ tmp = "host" }"#,
        r#"{ presets = ["@a"] }"#,
        r#"{ include = ["@a"] }"#,
        "{ a = {} }",
        "{ a = 1 }",
        "{ A = {} }",
        r#"{ "" = {} }"#,
        r#"{ "a/b" = {} }"#,
        r#"{ "a\n" = {} }"#,
        r#"{ a = { ro = ["x"], include = ["@b"] } }"#,
        r#"{ a = { include = ["!@b"] } }"#,
        r#"{ a = { tmp = "host" } }"#,
        r#"["A=b"]"#,
        r#"["A_*", "[a", "a b"]"#,
        r#"{ A = "" }"#,
        r#"{ A = "a\u0000" }"#,
        r#"{ "A=b" = "x" }"#,
        r#"{ "" = "x" }"#,
        r#"{ "a\u0000" = "x" }"#,
        "0",
        "512",
        "-1",
        "0x200",
        r#""30m""#,
        r#""030s""#,
        r#""0G""#,
        r#""2G""#,
        r#""2 G""#,
        r#""32M""#,
        r#""-2G""#,
        r#""2g""#,
        r#""30""#,
        "0.0",
        "-0.5",
        r#"{ time = "30m", processes = 9, file-size = "1G", output = "1K", tmp = "1G", memory = "1G", cpus = 0.5 }"#,
        r#"{ time = "30" }"#,
        r#""private""#,
        r#""minimal""#,
        "{ identity = false }",
        r#"{ name = "A", email = "a@x" }"#,
        r#"{ name = "A" }"#,
        r#"{ name = "", email = "a@x" }"#,
        r#"{ name = " ", email = "a@x" }"#,
        r#"{ name = "A\nB", email = "a@x" }"#,
        r#"{ name = "A", email = 1 }"#,
        r#"{ name = "A", email = "a@x", key = "b" }"#,
        r#"[{ from = "x", to = "y" }]"#,
        r#"[{ text = "", to = "y" }, { text = "a\u0000", to = "~/y" }]"#,
        r#"[{ from = "x", text = "x", to = "y" }]"#,
        r#"[{ from = "x" }]"#,
        r#"[{ to = "y" }]"#,
        r#"[{ from = "", to = "y" }]"#,
        r#"[{ from = "x", to = "a\u0000" }]"#,
        r#"[{ from = "x", to = 1 }]"#,
        r#"[{ from = "x", to = "y", mode = 1 }]"#,
        r#"{ inherit = false, pass = ["A"], unset = ["B"], set = { C = "d" } }"#,
    ];

    const KEYS: &[&str] = &[
        "filesystem",
        "network",
        "docker",
        "env",
        "inherit",
        "pass",
        "unset",
        "set",
        "'A=b'",
        "limits",
        "time",
        "processes",
        "file-size",
        "output",
        "memory",
        "cpus",
        "git",
        "identity",
        "name",
        "email",
        "home",
        "base",
        "sockets",
        "inject",
        "from",
        "text",
        "to",
        "presets",
        "ro",
        "rw",
        "exclude",
        "tmp",
        "include",
        "path",
        "if-missing",
        "hard-links",
        "except",
        "description",
        "skip-directories",
        "leave-tracked",
        "relative-to",
        "Ro",
        "if_missing",
        "colour",
        "a",
        "'a/b'",
        "'/a'",
        "_a",
        "-a",
        "''",
        "\"a\\n\"",
    ];

    /// Each key with each value in each table, including every wrong table.
    fn documents() -> impl Iterator<Item = String> {
        KEYS.iter().flat_map(|key| VALUES.iter().map(move |value| format!("{key} = {value}"))).flat_map(|pair| {
            [
                format!("{pair}\n"),
                format!("[filesystem]\n{pair}\n"),
                format!("[env]\n{pair}\n"),
                format!("[limits]\n{pair}\n"),
                format!("[env.set]\n{pair}\n"),
                format!("[git]\n{pair}\n"),
                format!("[git.identity]\nname = 'A'\n{pair}\n"),
                format!("[presets]\n{pair}\n"),
                format!("[presets.a]\n{pair}\n"),
                format!("[[filesystem.ro]]\n{pair}\n"),
                format!("[[inject]]\nto = 'y'\n{pair}\n"),
                format!("[[inject]]\nfrom = 'x'\n{pair}\n"),
                format!("[[presets.a.exclude]]\npath = 'x'\n{pair}\n"),
            ]
        })
    }

    /// The `toml` crate turns a date into a table whose key starts with `$__toml`. No key of a
    /// configuration file accepts a date.
    fn take_dates_out(value: &mut Value) {
        match value {
            Value::Object(members) if members.keys().any(|key| key.starts_with("$__toml")) => *value = Value::Null,
            Value::Object(members) => members.values_mut().for_each(take_dates_out),
            Value::Array(items) => items.iter_mut().for_each(take_dates_out),
            _ => {}
        }
    }

    #[test]
    fn the_parser_accepts_what_the_schema_accepts() {
        let validator = jsonschema::draft7::new(&schema()).expect("the schema is a schema");
        let mut accepted = 0;
        for text in documents() {
            // An entry with `path` twice is not TOML, so the schema has no value to judge.
            let Ok(mut value) = toml::from_str::<Value>(&text) else { continue };
            take_dates_out(&mut value);
            let by_schema = validator.is_valid(&value);
            let mut diagnostics = Diagnostics::default();
            super::super::parse(&Arc::new(Source::new(String::new(), text.clone())), &mut diagnostics);
            assert_eq!(diagnostics.is_empty(), by_schema, "{text}\nthe parser says {diagnostics:#?}");
            accepted += usize::from(by_schema);
        }
        assert!(accepted > 100, "only {accepted} documents were right");
    }
}
