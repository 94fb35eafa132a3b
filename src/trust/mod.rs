//! Whether the project's own file may be obeyed (SPEC section 13).
//!
//! A repository brings its `.agent-sandbox.toml` along, and a command inside can plant one. Such a
//! file may always tighten. To find the paths and settings that it opens, the policy is compiled
//! again without it (`baseline`) and the two are compared at every path (`openings`). Each opening
//! needs the user's consent, which is recorded where no command inside can write (`record`).

mod baseline;
mod grant;
mod grants;
pub mod openings;
mod record;
mod typed;

use std::ffi::OsStr;

use crate::compile::config::ConfigFile;
use crate::compile::layers::Layers;
use crate::compile::{self, Compiled, Request};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, reason, shell_quote};
use crate::host::{Host, Session};
use crate::policy::{AbsPath, sha256};

use grant::Agreed;
pub use grant::{Grant, Granted, lines};
pub use openings::Openness;
pub use record::{ConsentRecord, end_consent, record, records, revoke};

/// A compiled policy, and the openings of the project's own file in it.
#[must_use]
#[derive(Clone, Debug)]
pub struct Judged {
    pub compiled: Compiled,
    /// `None` without a project's file, or with errors in the policy.
    pub widening: Option<Widening>,
}

impl Judged {
    /// The reason why a run of this policy must not start. `None` if the user agreed to everything.
    pub fn refusal(&self, host: &Host) -> Option<Diagnostic> {
        missing_consent(Code::UntrustedPolicy, host, &self.compiled.layers, self.widening.as_ref()?)
    }

    /// The warning for callers that start nothing.
    pub fn warning(&self, host: &Host) -> Option<Diagnostic> {
        missing_consent(Code::WideningPolicy, host, &self.compiled.layers, self.widening.as_ref()?)
    }
}

/// Compiles the policy and judges the project's own file. `None` if there is no project to compile
/// for. The result must not run while `diagnostics` holds an error.
pub fn compile(host: &Host, session: &Session, request: &Request, diagnostics: &mut Diagnostics) -> Option<Judged> {
    let host = &host.with_cache();
    let compiled = compile::compile(host, session, request, diagnostics)?;
    let judge = || widening(host, session, &compiled, request);
    let widening = if diagnostics.has_errors() { None } else { judge() };
    Some(Judged { compiled, widening })
}

/// The grants of the project's file.
#[derive(Clone, Debug)]
pub struct Widening {
    /// The file, after symlinks.
    pub file: AbsPath,
    /// The name that people see, relative to their working directory.
    pub name: String,
    /// The SHA-256 of the text that was compiled.
    pub sha256: String,
    /// Empty if the file only tightens.
    pub grants: Vec<Granted>,
    /// The command with which the user agrees to exactly these grants.
    pub command: String,
}

/// Compares the policy with the one without the project's file. `None` if there is no such file, or
/// if it is empty. `request` is the one that `full` was compiled for.
pub fn widening(host: &Host, session: &Session, full: &Compiled, request: &Request) -> Option<Widening> {
    let layer = full.layers.layers.iter().find(|layer| layer.needs_trust)?;
    let (file, source) = (layer.file.as_ref()?, layer.source.as_ref()?);
    if layer.config == ConfigFile::default() {
        return None;
    }
    let base = baseline::compile(host, session, full, layer, request);
    // A file that was read can be resolved.
    let file = host.resolve(file.as_path()).map_or_else(|_| file.clone(), |resolved| resolved.path);
    Some(Widening {
        file,
        name: source.name.clone(),
        sha256: sha256(&source.text),
        grants: grants::grants(&base, full, layer),
        command: typed::command(request),
    })
}

/// Says why a run needs the user's consent, and lists the grants that the user has not agreed to.
/// `None` if the user has agreed to everything that the project's file opens.
fn missing_consent(code: Code, host: &Host, layers: &Layers, widening: &Widening) -> Option<Diagnostic> {
    let (why, grants) = missing(host, layers, widening)?;
    let Widening { name, command, .. } = widening;
    let help = format!(
        "record your consent with `{command}`, use the file this once with `--config {}`, or leave it out with \
         `--no-project-config`",
        shell_quote(OsStr::new(name))
    );
    let grants = lines(grants.into_iter().map(Granted::parts));
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
            let agreed = Agreed::to(&record.grants);
            let beyond: Vec<&Granted> = all.into_iter().filter(|granted| !agreed.covers(&granted.grant)).collect();
            if beyond.is_empty() {
                return None;
            }
            ("opens more here than you agreed to, although it has not changed".to_owned(), beyond)
        }
    };
    Some((why, grants))
}
