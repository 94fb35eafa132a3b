//! The model's answer for a path, in the terms of `explain` and `show`.

use agent_sandbox::audit::effective_access::EffectiveAccess as Effective;
use agent_sandbox::model::{Model, ModelView as View};
use agent_sandbox::policy::path::AbsPath;

/// The answers that agree with the model. There may be several, because the model does not know
/// whether a rule hides a path or the private `/run` does.
pub fn agreeing(model: &Model, path: &AbsPath) -> Vec<Effective> {
    match model.view(path) {
        View::Host { writable: true, .. } => vec![Effective::Rw],
        View::Symlink { target, .. } if super::leads_to_copy(&target) => {
            vec![Effective::PrivateFile]
        }
        // agent-sandbox's own executable is mounted at another path in `/run`, and is no injection.
        View::Host { writable: false, source, .. } if source != *path && !path.as_path().starts_with("/run") => {
            vec![Effective::Injected]
        }
        View::Host { writable: false, .. } | View::Symlink { .. } => vec![Effective::Ro],
        View::MaskedFile | View::Unreachable { .. } => vec![Effective::Exclude],
        // git's `info/exclude`, or a file in `/run` such as the guard's plan.
        View::Data if path.as_path().ends_with("info/exclude") || path.as_path().starts_with("/run") => {
            vec![Effective::Ro]
        }
        // A file that hides the host's content is empty or ends with an empty object or list.
        View::Data => {
            let content = model.content(path).unwrap_or_default();
            let is_empty = content.is_empty() || content.ends_with(b"}\n") || content.ends_with(b"]\n");
            // An injected text is also such a file.
            vec![if is_empty { Effective::Exclude } else { Effective::Redacted }, Effective::Injected]
        }
        View::Fresh { writable: true, .. } | View::Absent { creatable: true } => vec![Effective::Private],
        // `/run` is a private place, and so is all of `/` in a minimal base.
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
