//! The findings of `lint` in SARIF and JSON.

use agent_sandbox::audit::lint::sarif;
use agent_sandbox::audit::{lint, schema};
use agent_sandbox::diagnostic::Code;
use serde_json::{Value, json};

use crate::support::{Tree, session};
use crate::{FILE, look, tree};

/// A host with a finding in each kind of place: a file, a preset, a path in the project, a path
/// outside, names that need escapes.
fn many() -> Tree {
    let tree = tree([
        "home/u/proj/sub folder/ä%.p12",
        "home/u/store.p12",
        "home/u/dotfiles/settings.json",
        "home/u/.claude/settings.json -> ../dotfiles/settings.json",
    ]);
    tree.add(&format!("{FILE} = [filesystem]\n# é\nro = ['é', 'gone']\nrw = ['~/dotfiles']\n"));
    tree
}

/// A JSON schema of the SARIF 2.1.0 objects (OASIS, section 3) that `lint` writes. It allows only
/// the properties that `lint` uses.
fn required_by_sarif() -> Value {
    let object = |required: &[&str], properties: Value| json!({ "type": "object", "required": required, "properties": properties, "additionalProperties": false });
    let count = json!({ "type": "integer", "minimum": 1 });
    let text = object(&["text"], json!({ "text": { "type": "string" } }));
    let level = json!({ "enum": ["none", "note", "warning", "error"] });
    let region = object(&[], json!({ "startLine": count, "startColumn": count, "endLine": count, "endColumn": count }));
    let uri = json!({ "type": "string", "pattern": "^(file:///)?[A-Za-z0-9._~%/-]*$" });
    let artifact = object(&[], json!({ "uri": uri, "uriBaseId": { "type": "string" } }));
    let physical = object(&["artifactLocation"], json!({ "artifactLocation": artifact, "region": region }));
    let logical = object(&[], json!({ "fullyQualifiedName": { "type": "string" } }));
    let location = object(
        &[],
        json!({ "physicalLocation": physical, "logicalLocations": { "type": "array", "items": logical, "uniqueItems": true } }),
    );
    let result = object(
        &["message"],
        json!({
            "ruleId": { "type": "string" },
            "ruleIndex": { "type": "integer", "minimum": -1 },
            "level": level,
            "message": text,
            "locations": { "type": "array", "items": location },
        }),
    );
    let rule = object(
        &["id"],
        json!({
            "id": { "type": "string" },
            "shortDescription": text,
            "defaultConfiguration": object(&[], json!({ "level": level })),
        }),
    );
    let driver = object(
        &["name"],
        json!({
            "name": { "type": "string" },
            "version": { "type": "string" },
            "rules": { "type": "array", "items": rule, "uniqueItems": true },
        }),
    );
    let run = object(
        &["tool"],
        json!({
            "tool": object(&["driver"], json!({ "driver": driver })),
            "columnKind": { "enum": ["utf16CodeUnits", "unicodeCodePoints"] },
            "results": { "type": "array", "items": result },
        }),
    );
    object(
        &["version", "runs"],
        json!({ "$schema": { "type": "string", "format": "uri" }, "version": { "const": "2.1.0" }, "runs": { "type": "array", "items": run } }),
    )
}

#[track_caller]
fn assert_fits(schema: &Value, value: &Value) {
    let validator = jsonschema::validator_for(schema).unwrap();
    let mistakes: Vec<String> = validator.iter_errors(value).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(mistakes.is_empty(), "{mistakes:?}\n{value:#}");
}

// SPEC N8
#[test]
fn sarif_has_what_the_standard_demands() {
    let (lint, compiled) = look(&many(), &session("/home/u/proj"));
    let value = sarif::sarif(&lint, Some(&compiled.layers));
    assert_fits(&required_by_sarif(), &value);
    let run = &value["runs"][0];
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), lint.findings.len());
    for result in results {
        let index = result["ruleIndex"].as_u64().unwrap() as usize;
        assert_eq!(run["tool"]["driver"]["rules"][index]["id"], result["ruleId"], "{result}");
        assert!(result["locations"][0].is_object(), "{result}");
    }
    let uris: Vec<&str> = results
        .iter()
        .map(|result| result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].as_str().unwrap())
        .collect();
    assert!(uris.contains(&"sub%20folder/%C3%A4%25.p12") && uris.contains(&"file:///home/u/store.p12"), "{uris:?}");
    let of_preset = results.iter().find(|result| result["ruleId"] == "replaceable-link").unwrap();
    assert_eq!(of_preset["locations"][0]["logicalLocations"][0]["fullyQualifiedName"], "@agents");
    // Columns count characters.
    let region = &results.iter().find(|result| result["ruleId"] == "unblocked-path").unwrap()["locations"][0];
    let expected = json!({ "startLine": 3, "startColumn": 7, "endLine": 3, "endColumn": 10 });
    assert_eq!(region["physicalLocation"]["region"], expected);
}

#[test]
fn json_is_as_its_schema_says() {
    let (lint, _) = look(&many(), &session("/home/u/proj"));
    let value = serde_json::to_value(lint.report()).unwrap();
    assert_fits(&schema::<lint::LintReport>(), &value);
    assert_eq!(
        value["findings"].as_array().unwrap().len() as u64,
        value["warnings"].as_u64().unwrap() + value["notes"].as_u64().unwrap()
    );
}

// SPEC N1
#[test]
fn allowed_codes_are_removed_from_the_findings() {
    let (mut lint, _) = look(&many(), &session("/home/u/proj"));
    assert!(!lint.is_clean());
    lint.allow(&[Code::UnblockedPath, Code::VisibleSecret, Code::ReplaceableLink, Code::PrivateUnavailable]);
    assert!(lint.is_clean() && lint.findings.iter().all(|found| found.diagnostic.code != Code::VisibleSecret));
}

#[test]
fn every_lint_code_has_a_description() {
    for code in lint::CODES {
        let said = code.description();
        assert!(said.ends_with('.') && said.len() > 20 && !said.starts_with(' '), "{said}");
    }
}
