//! The model's answer for a path, in the terms of `explain` and `show`.

use agent_sandbox::audit::effective_access::EffectiveAccess as Effective;
use agent_sandbox::model::{Model, ModelView as View};
use agent_sandbox::policy::path::AbsPath;

/// The answers that agree with the model. The model does not know who hides something: a rule, or
/// the sandbox in its own `/run`.
pub fn agreeing(model: &Model, path: &AbsPath) -> Vec<Effective> {
    match model.view(path) {
        View::Host { writable: true, .. } => vec![Effective::Rw],
        View::Symlink { target, .. } if super::leads_to_copy(&target) => {
            vec![Effective::PrivateFile]
        }
        // Our own executable is mounted elsewhere, too.
        View::Host { writable: false, source, .. } if source != *path && !path.as_path().starts_with("/run") => {
            vec![Effective::Injected]
        }
        View::Host { writable: false, .. } | View::Symlink { .. } => vec![Effective::Ro],
        View::MaskedFile | View::Unreachable { .. } => vec![Effective::Exclude],
        // An excluded file that reads as empty, git's list, or the guard's plan.
        View::Data if path.as_path().ends_with("info/exclude") || path.as_path().starts_with("/run") => {
            vec![Effective::Ro]
        }
        // A file that reads as empty has no line, or one line with brackets.
        View::Data => {
            let content = model.content(path).unwrap_or_default();
            let is_empty = content.is_empty() || content.ends_with(b"}\n") || content.ends_with(b"]\n");
            // An injected text is a file of ours as well.
            vec![if is_empty { Effective::Exclude } else { Effective::Redacted }, Effective::Injected]
        }
        View::Fresh { writable: true, .. } | View::Absent { creatable: true } => vec![Effective::Private],
        // `/run` is the sandbox's own, and so is all of `/` in a minimal base.
        View::Fresh { .. } | View::Absent { .. } if path.as_path().starts_with("/run") || !shows_root(model) => {
            vec![Effective::PrivateRo, Effective::Exclude]
        }
        View::Fresh { .. } | View::Absent { .. } => vec![Effective::Exclude],
        View::Dev => vec![Effective::Dev],
        View::Proc => vec![Effective::Proc],
    }
}

fn shows_root(model: &Model) -> bool {
    matches!(model.view(&AbsPath::root()), View::Host { .. })
}
