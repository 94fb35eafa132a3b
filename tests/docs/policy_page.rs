//! The tables of `docs/policy.md` are made from the schema of the policy file.

use std::fs;

use agent_sandbox::compile::config;
use serde_json::Value;

use super::{document, top};

const PAGE: &str = "docs/policy.md";
const START: &str = "<!-- generated from the schema: DOCS_UPDATE=1 cargo test --test docs policy_page -->\n";
const END: &str = "<!-- end of the generated part -->\n";

#[test]
fn every_key_is_described_as_in_the_schema() {
    let page = document(PAGE);
    let (before, rest) = page.split_once(START).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let expected = format!("{before}{START}{}{END}{after}", tables(&config::schema()));
    if page != expected && std::env::var_os("DOCS_UPDATE").is_some() {
        fs::write(top().join(PAGE), expected).unwrap();
        return;
    }
    assert!(page == expected, "{PAGE} is stale: DOCS_UPDATE=1 cargo test --test docs policy_page");
}

fn tables(schema: &Value) -> String {
    let definition = |reference: &Value| {
        let name = reference.as_str().and_then(|text| text.strip_prefix("#/definitions/"))?;
        schema["definitions"].get(name)
    };
    let mut text = table("Top level", schema);
    for (key, property) in schema["properties"].as_object().unwrap() {
        let named = property["patternProperties"].as_object().and_then(|patterns| patterns.values().next());
        if let Some(section) = definition(&property["allOf"][0]["$ref"]) {
            text.push_str(&table(&format!("`[{key}]`"), section));
        } else if let Some(section) = named.and_then(|section| definition(&section["$ref"])) {
            text.push_str(&table(&format!("`[{key}.NAME]`"), section));
        } else if let Some(section) = definition(&property["items"]["$ref"]).filter(|it| it["properties"].is_object()) {
            text.push_str(&table(&format!("`[[{key}]]`"), section));
        }
    }
    text.push_str(&table("A path with options: `{ path = \"x\", … }`", &schema["definitions"]["Entry"]["anyOf"][1]));
    text + "\n"
}

fn table(title: &str, section: &Value) -> String {
    let mut text = format!("\n## {title}\n\n| key | value | default | meaning |\n|---|---|---|---|\n");
    for (key, property) in section["properties"].as_object().unwrap() {
        let (meaning, default) = description(property);
        text.push_str(&format!("| `{key}` | {} | {default} | {meaning} |\n", kind(property)));
    }
    text
}

/// The description without its last sentence, which names the default, and the default.
fn description(property: &Value) -> (String, String) {
    let text = property["description"].as_str().unwrap();
    let (meaning, default) = text.split_once(" Default: ").unwrap_or((text, "–"));
    let values: Vec<String> = alternatives(property)
        .map(|(name, text)| format!("{name}: {}{}", text[..1].to_lowercase(), text[1..].trim_end_matches('.')))
        .collect();
    let values = if values.is_empty() { String::new() } else { format!(" {}.", values.join("; ")) };
    (format!("{meaning}{values}").replace('|', "\\|"), default.trim_end_matches('.').to_owned())
}

/// The values of a choice, with their descriptions.
fn alternatives(property: &Value) -> impl Iterator<Item = (String, &str)> {
    let choices = property["oneOf"].as_array().or(property["items"]["oneOf"].as_array()).into_iter().flatten();
    choices.filter_map(|choice| Some((format!("`{}`", choice["const"]), choice["description"].as_str()?)))
}

fn kind(property: &Value) -> String {
    let names: Vec<String> = alternatives(property).map(|(name, _)| name).collect();
    let is_entries = property["items"]["$ref"] == "#/definitions/Entry";
    match property["type"].as_str() {
        Some("boolean") => "`true`, `false`".to_owned(),
        Some("array") if is_entries => "list of paths".to_owned(),
        Some("array") if property["items"]["$ref"].is_string() => "list of tables".to_owned(),
        Some("array") if !names.is_empty() => format!("list of {}", names.join(", ")),
        Some("array") => "list of text".to_owned(),
        Some("string") => "text".to_owned(),
        Some("integer") => "whole number".to_owned(),
        Some("number") => "number".to_owned(),
        Some("object") => "table".to_owned(),
        _ if !names.is_empty() => {
            let choices = property["oneOf"].as_array().into_iter().flatten();
            let has_table = choices.into_iter().any(|choice| choice["properties"].is_object());
            names.join(", ") + if has_table { ", table" } else { "" }
        }
        _ => "table".to_owned(),
    }
}
