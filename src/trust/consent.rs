//! Whether the user has agreed to everything that the project's file opens.

use std::ffi::OsStr;

use crate::compile::layers::Layers;
use crate::diagnostic::{Code, Diagnostic, reason, shell_quote};
use crate::host::Host;

use super::{Granted, Widening, record};

pub(super) fn missing_consent(code: Code, host: &Host, layers: &Layers, widening: &Widening) -> Option<Diagnostic> {
    let (why, grants) = missing(host, layers, widening)?;
    let Widening { name, command, .. } = widening;
    let help = format!(
        "`{command}` records that you agree; `--config {}` uses the file this once, `--no-project-config` does without it",
        shell_quote(OsStr::new(name))
    );
    let grants = grants.into_iter().map(ToString::to_string);
    Some(Diagnostic::new(code, format!("`{name}` {why}")).notes(grants).help(help))
}

fn missing<'w>(host: &Host, layers: &Layers, widening: &'w Widening) -> Option<(String, Vec<&'w Granted>)> {
    let all: Vec<&Granted> = widening.grants.iter().collect();
    if all.is_empty() {
        return None;
    }
    const OPENS: &str = "opens more than your own settings do";
    let (why, grants) = match record::read(host, layers, &widening.file) {
        Err(e) => {
            let at = record::place(&layers.state, &widening.file);
            (format!("{OPENS}, and the record of your consent, `{at}`, cannot be used: {}", reason(&e)), all)
        }
        Ok(None) => (format!("{OPENS}, and you have not agreed to it"), all),
        Ok(Some(record)) if record.sha256 != widening.sha256 => {
            (format!("{OPENS}, and has changed since you agreed to it"), all)
        }
        Ok(Some(record)) => {
            let covered = |granted: &&Granted| record.grants.iter().any(|agreed| agreed.covers(&granted.grant));
            let beyond: Vec<&Granted> = all.into_iter().filter(|granted| !covered(granted)).collect();
            if beyond.is_empty() {
                return None;
            }
            ("opens more here than what you agreed to, although it has not changed".to_owned(), beyond)
        }
    };
    Some((why, grants))
}
