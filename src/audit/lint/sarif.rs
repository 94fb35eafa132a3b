//! Findings as SARIF 2.1.0 (OASIS), which code hosts and editors show beside the lines.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::compile::layers::Layers;
use crate::diagnostic::Code;
use crate::policy::{AbsPath, Origin, Place};

use super::{CODES, Lint, LintFinding};

const SCHEMA: &str = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// The base of relative paths: the root of the project.
const PROJECT: &str = "%SRCROOT%";

pub fn sarif(lint: &Lint, layers: Option<&Layers>) -> Value {
    let mut codes: Vec<Code> =
        CODES.into_iter().chain(lint.findings.iter().map(|found| found.diagnostic.code)).collect();
    codes.sort();
    codes.dedup();
    let rule = |code: &Code| {
        json!({
            "id": code.name(),
            "shortDescription": { "text": code.description() },
            "defaultConfiguration": { "level": code.severity() },
        })
    };
    let rules: Vec<Value> = codes.iter().map(rule).collect();
    let results = lint.findings.iter().map(|found| {
        let index = codes.iter().position(|code| *code == found.diagnostic.code).unwrap_or_default();
        result(found, index, layers)
    });
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION"), "rules": rules } },
            "columnKind": "unicodeCodePoints",
            "results": results.collect::<Vec<_>>(),
        }],
    })
}

fn result(found: &LintFinding, index: usize, layers: Option<&Layers>) -> Value {
    let said = &found.diagnostic;
    let more = said.details.notes.iter().map(|note| format!("\nnote: {note}"));
    let help = said.help.iter().map(|help| format!("\nhelp: {help}"));
    let text: String = [said.message.clone()].into_iter().chain(more).chain(help).collect();
    let mut result = json!({
        "ruleId": said.code.name(),
        "ruleIndex": index,
        "level": said.severity(),
        "message": { "text": text },
    });
    if let Some(location) = location(found, layers) {
        result["locations"] = json!([location]);
    }
    result
}

/// The place in a file, if the finding has one. A finding about a preset or a flag has its origin
/// as the name, and is shown at the finding's path or at the project's file.
fn location(found: &LintFinding, layers: Option<&Layers>) -> Option<Value> {
    let layers = layers?;
    let root = &layers.project.root;
    let origin = found.diagnostic.origin.as_ref();
    if let Some((file, place)) = origin.and_then(|origin| written(origin, layers)) {
        let ((line, column), (end_line, end_column)) = (place.line_column(), place.end().line_column());
        let region = json!({ "startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column });
        return Some(json!({ "physicalLocation": { "artifactLocation": artifact(file, root), "region": region } }));
    }
    let project_file = || layers.layers.iter().find(|layer| layer.needs_trust).and_then(|layer| layer.file.as_ref());
    let shown_at = found.path.as_ref().or_else(project_file);
    let mut location = json!({});
    if let Some(path) = shown_at {
        location["physicalLocation"] = json!({ "artifactLocation": artifact(path, root) });
    }
    if let Some(origin) = origin {
        location["logicalLocations"] = json!([{ "fullyQualifiedName": origin.to_string() }]);
    }
    (shown_at.is_some() || origin.is_some()).then_some(location)
}

fn written<'o>(origin: &'o Origin, layers: &'o Layers) -> Option<(&'o AbsPath, &'o Place)> {
    let place = match origin {
        Origin::File(place) => place,
        Origin::Alias { origin, .. } => return written(origin, layers),
        Origin::Preset { .. } | Origin::Flag { .. } | Origin::BuiltIn(_) => return None,
    };
    let is_source = |source: &Arc<_>| Arc::ptr_eq(source, &place.source);
    let layer = layers.layers.iter().find(|layer| layer.source.as_ref().is_some_and(is_source))?;
    Some((layer.file.as_ref()?, place))
}

fn artifact(path: &AbsPath, root: &AbsPath) -> Value {
    match path.relative_to(root) {
        Some(relative) => json!({ "uri": encoded(relative), "uriBaseId": PROJECT }),
        None => json!({ "uri": format!("file://{}", encoded(path.as_path())) }),
    }
}

/// Percent-encodes every byte that a URI path cannot hold as it is.
fn encoded(path: &Path) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let bytes = path.as_os_str().as_bytes().iter();
    bytes.map(|byte| if is_plain(*byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
