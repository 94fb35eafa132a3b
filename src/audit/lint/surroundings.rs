//! LintFindings about folders on PATH and about defined presets.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::audit::entry::{entry, folder_entry};
use crate::compile::Compiled;
use crate::compile::plan::View;
use crate::diagnostic::{Code, Diagnostic};
use crate::host::{FileKind, Host};
use crate::policy::path::AbsPath;
use crate::policy::rule::LayerKind;

use super::LintFinding;

/// Writable folders on PATH: the command can plant a program that later runs outside of the sandbox.
pub(super) fn path(host: &Host, compiled: &Compiled, findings: &mut Vec<LintFinding>) {
    let project = &compiled.layers.project;
    let mut seen = BTreeSet::new();
    let path = compiled.environment.var("PATH").map(OsStr::as_bytes).unwrap_or_default();
    for written in path.split(|byte| *byte == b':').filter(|_| !path.is_empty()) {
        // An empty entry is the working directory.
        let Ok(found) = host.resolve_from(&project.cwd, OsStr::from_bytes(written).as_ref()) else { continue };
        let is_folder = found.kind.is_none_or(|kind| kind == FileKind::Directory);
        let is_writable = compiled.plan.view(&found.path) == View::HostRw;
        if !is_folder || !is_writable || !seen.insert(found.path.clone()) {
            continue;
        }
        findings.push(LintFinding::on(&found.path, planted(compiled, &found.path, found.kind.is_some())));
    }
}

fn planted(compiled: &Compiled, path: &AbsPath, exists: bool) -> Diagnostic {
    let message = if exists {
        format!("`{path}` is on PATH, and the command can put programs there")
    } else {
        format!("`{path}` is on PATH and missing, and the command can create it with programs in it")
    };
    let project = &compiled.layers.project;
    let written = if exists { entry(path, project) } else { folder_entry(path, project) };
    let help = match written {
        Some(entry) if exists => format!("make it read-only with `ro = [{entry}]`, or take it out of PATH"),
        Some(entry) => {
            format!("block it with `ro = [{{ path = {entry}, if-missing = \"block\" }}]`, or take it out of PATH")
        }
        None => "make it read-only, or take it out of PATH".to_owned(),
    };
    Diagnostic::new(Code::WritablePath, message).help(help)
}

/// Defined presets that neither a layer nor another preset names. `!@name` counts as a name.
pub(super) fn presets(compiled: &Compiled, findings: &mut Vec<LintFinding>) {
    let layers = &compiled.layers.layers;
    let definitions = || layers.iter().flat_map(|layer| layer.config.presets.iter().map(move |found| (layer, found)));
    let by_layers = layers.iter().flat_map(|layer| &layer.config.filesystem.presets);
    let by_presets = definitions().flat_map(|(_, (_, definition))| &definition.include);
    let named: BTreeSet<&str> =
        by_layers.chain(by_presets).map(|reference| reference.value.trim_start_matches(['!', '@'])).collect();
    for (layer, (name, definition)) in definitions().filter(|(_, (name, _))| !named.contains(name.as_str())) {
        // A file for all projects may define presets that this project does not use.
        let is_for_many = matches!(layer.kind, LayerKind::System | LayerKind::User);
        findings.push(LintFinding::of(
            Diagnostic::new(Code::UnusedPreset, format!("the preset `@{name}` is defined, and nothing names it"))
                .at(&definition.origin)
                .help(format!("turn it on with `presets = [\"@{name}\"]` in `[filesystem]`, or remove it"))
                .as_note(is_for_many),
        ));
    }
}
