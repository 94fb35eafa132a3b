//! The change of the policy that gives a command more access to a path.

use crate::audit::effective_access::EffectiveAccess;
use crate::audit::entry::{creating, entry};
use crate::audit::rule_json::is_winner;
use crate::compile::decide::Decision;
use crate::policy::{AbsPath, Exactness, LayerKind, Origin, places};

use super::{AskedPath, Explainer};

const CONSENT: &str = "in a project's file this needs consent";

impl Explainer<'_> {
    /// Returns advice for people. `None` if the command already has full access, or if no rule can
    /// open the path.
    pub(super) fn open(&self, about: &AskedPath) -> Option<String> {
        let project = &self.compiled.layers.project;
        let name = entry(about.path, project)?;
        if about.won.is_none() && about.path.is_within(&places::at(places::TMP)) {
            return (about.access == EffectiveAccess::Private)
                .then(|| format!("`tmp = \"host\"` in `[filesystem]`; {CONSENT}"));
        }
        // No rule opens the mounts that every sandbox has, except `/`.
        if about.won.is_none() && about.mount.is_some_and(|planned| !planned.path.is_root()) {
            return None;
        }
        let rule = match about.access {
            EffectiveAccess::Ro if about.kind.is_some() => format!("`rw = [{name}]` in `[filesystem]`"),
            EffectiveAccess::Ro => creating(self.host, about.path, |path| entry(path, project))?,
            EffectiveAccess::Exclude if self.host.is_socket(about.path).unwrap_or(false) => {
                format!("`sockets = [{name}]`")
            }
            EffectiveAccess::Exclude | EffectiveAccess::Redacted => format!("`ro = [{name}]` in `[filesystem]`"),
            EffectiveAccess::Private if about.won.is_some() => format!("`ro = [{name}]` in `[filesystem]`"),
            EffectiveAccess::PrivateFile => {
                format!("`rw = [{name}]` in `[filesystem]`: the command then changes the host's file")
            }
            EffectiveAccess::Injected => return Some("remove the injection: no rule is stronger".to_owned()),
            EffectiveAccess::Rw
            | EffectiveAccess::Private
            | EffectiveAccess::PrivateRo
            | EffectiveAccess::Dev
            | EffectiveAccess::Proc => return None,
        };
        let obstacle = about.won.and_then(|(at, decision)| self.obstacle(about.path, at, decision));
        Some(obstacle.unwrap_or_else(|| format!("{rule}; {CONSENT}")))
    }

    /// The reason why a new rule at `path` would not open `path`. `decision`, at `at`, governs
    /// `path`.
    fn obstacle(&self, path: &AbsPath, at: &AbsPath, decision: &Decision) -> Option<String> {
        let is_ours = self.compiled.layers.own_files.iter().any(|own| path.is_within(&own.path));
        // Rules of the base layer make `/` read-only and a private home empty. Every other rule is
        // stronger.
        if is_ours || matches!(decision.origin, Origin::BuiltIn(_)) && decision.layer > LayerKind::Base {
            return Some("no rule opens this path: it belongs to agent-sandbox".to_owned());
        }
        let mut matches = self.compiled.resolution.matches.iter();
        if matches.any(|found| found.path == *at && is_winner(found, decision) && found.only_tightens()) {
            return Some(format!(
                "no rule opens this path, because a link or a setting led here ({}): change the link or the setting",
                decision.origin
            ));
        }
        // Of two exact rules of one layer the stricter one wins.
        let is_written = decision.layer > LayerKind::Preset && decision.exactness == Exactness::Exact;
        (at == path && is_written).then(|| format!("change or remove this rule: {}", decision.origin))
    }
}
