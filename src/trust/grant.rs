//! The grants of a project's file, as they are recorded, and the consent that each one covers.

use std::collections::{HashMap, HashSet};
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::policy::{AbsPath, Limit, Origin, Word, escape_for_display};
use crate::trust::openings::Openness;

/// One thing that a project's file opens. The record of a user's consent lists these (ADR 19).
// A record with an unknown variant is no consent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Grant {
    /// The network: off → on.
    Network,
    /// The container engine's socket, which is as good as root.
    Docker,
    /// User namespaces inside.
    Nested,
    /// A limit is higher than the user's.
    Limit { limit: Limit },
    /// A variable that the command would otherwise not have, or have with another value.
    Variable { name: Word },
    /// A protected file that has other names, by which it is not protected.
    OtherNames { path: AbsPath },
    /// The file turns off a preset that would protect something here. Each such path is a grant of
    /// its own.
    Preset { name: String },
    /// A directory is made outside of the folders that are writable anyway.
    Create { path: AbsPath },
    /// The command reads another content at this path outside of the project.
    Inject { path: AbsPath },
    /// Device nodes at this path work.
    Device { path: AbsPath },
    /// A socket of the host can be used. Consent to a folder is no consent to the services that
    /// listen in it.
    Socket { path: AbsPath },
    /// Because of the project's file, the files at this path and below it change from the openness
    /// `from` to the openness `to`.
    Path { path: AbsPath, from: Openness, to: Openness },
}

impl Grant {
    /// The path that the grant is about.
    fn path(&self) -> Option<&AbsPath> {
        match self {
            Grant::OtherNames { path }
            | Grant::Create { path }
            | Grant::Inject { path }
            | Grant::Device { path }
            | Grant::Socket { path }
            | Grant::Path { path, .. } => Some(path),
            Grant::Network
            | Grant::Docker
            | Grant::Nested
            | Grant::Limit { .. }
            | Grant::Variable { .. }
            | Grant::Preset { .. } => None,
        }
    }

    /// Whether consent to this grant is consent to `other`.
    pub fn covers(&self, other: &Grant) -> bool {
        match (self, other) {
            (Grant::Path { path, from, to }, Grant::Path { path: other, from: other_from, to: other_to }) => {
                other.is_within(path) && from <= other_from && other_to <= to
            }
            (Grant::Device { path }, Grant::Device { path: other }) => other.is_within(path),
            (Grant::Limit { limit }, Grant::Limit { limit: other }) => limit.kind() == other.kind() && other <= limit,
            _ => self == other,
        }
    }
}

/// The grants that the user agreed to, by their paths. There can be tens of thousands.
pub(super) struct Agreed<'g>(HashMap<Option<&'g AbsPath>, Vec<&'g Grant>>);

impl<'g> Agreed<'g> {
    pub(super) fn to(grants: &'g [Grant]) -> Self {
        let mut by_path: HashMap<_, Vec<_>> = HashMap::new();
        for grant in grants {
            by_path.entry(grant.path()).or_default().push(grant);
        }
        Self(by_path)
    }

    /// Whether one of the grants covers `grant`. A grant covers only paths at or below its own
    /// path.
    pub(super) fn covers(&self, grant: &Grant) -> bool {
        let covers = |path: Option<&AbsPath>| self.0.get(&path).is_some_and(|at| at.iter().any(|it| it.covers(grant)));
        match grant.path() {
            Some(path) => path.ancestors().any(|at| covers(Some(&at))),
            None => covers(None),
        }
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Grant::Network => f.write_str("network: off → on"),
            Grant::Docker => f.write_str("docker: off → on, which is as good as root"),
            Grant::Nested => f.write_str("user namespaces inside: off → on"),
            Grant::Limit { limit } => write!(f, "limit `{}`: raised to {}", limit.kind(), limit.value()),
            Grant::Variable { name } => write!(f, "variable `{}`: given to the command", escape_for_display(&name.0)),
            Grant::OtherNames { path } => write!(f, "`{path}`: only this name of the file is protected"),
            Grant::Preset { name } => write!(f, "preset `@{name}`: on → off"),
            Grant::Create { path } => write!(f, "`{path}`: missing → created"),
            Grant::Inject { path } => write!(f, "`{path}`: the command reads injected content there"),
            Grant::Device { path } => write!(f, "device `{path}`: hidden → can be used"),
            Grant::Socket { path } => write!(f, "socket `{path}`: hidden → can be used"),
            Grant::Path { path, from, to } => write!(f, "`{path}`: {from} → {to}"),
        }
    }
}

/// A grant, and the entry of the project's file behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    pub grant: Grant,
    pub origin: Origin,
}

impl fmt::Display for Granted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.grant, self.origin)
    }
}

/// A line for each grant, with the entry behind it if that is known. A folder that is created and
/// opened has one line.
pub fn lines<'g>(grants: impl IntoIterator<Item = (&'g Grant, Option<&'g Origin>)>) -> Vec<String> {
    let grants: Vec<_> = grants.into_iter().collect();
    let created: HashSet<&AbsPath> = grants.iter().filter_map(|(grant, _)| created(grant)).collect();
    let opened = grants.iter().filter_map(|(grant, _)| match grant {
        Grant::Path { path, to, .. } if created.contains(path) => Some((path, *to)),
        _ => None,
    });
    let opened: HashMap<&AbsPath, Openness> = opened.collect();
    let line = |(grant, origin): &(&Grant, Option<&Origin>)| {
        let text = match grant {
            Grant::Path { path, .. } if opened.contains_key(path) => return None,
            Grant::Create { path } => match opened.get(path) {
                Some(to) => format!("{grant}, and {to}"),
                None => grant.to_string(),
            },
            _ => grant.to_string(),
        };
        Some(origin.map_or_else(|| text.clone(), |origin| format!("{text} ({origin})")))
    };
    grants.iter().filter_map(line).collect()
}

fn created(grant: &Grant) -> Option<&AbsPath> {
    if let Grant::Create { path } = grant { Some(path) } else { None }
}

impl Granted {
    pub fn parts(&self) -> (&Grant, Option<&Origin>) {
        (&self.grant, Some(&self.origin))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn path(path: &str, from: Openness, to: Openness) -> Grant {
        Grant::Path { path: AbsPath::root().join(path), from, to }
    }

    // SPEC T6, Z2
    #[test]
    fn consent_covers_what_lies_within_it_and_opens_no_more() {
        use Openness::{Hidden, ReadOnly, Writable};
        let agreed = path("home/u/data", ReadOnly, Writable);
        assert!(agreed.covers(&agreed));
        assert!(agreed.covers(&path("home/u/data/deep/er", ReadOnly, Writable)));
        assert!(!agreed.covers(&path("home/u", ReadOnly, Writable)), "above");
        assert!(!agreed.covers(&path("home/u/data-2", ReadOnly, Writable)), "beside");
        assert!(!agreed.covers(&path("home/u/data/key", Hidden, ReadOnly)), "what was hidden");
        assert!(!agreed.covers(&path("home/u/data/key", Hidden, Writable)), "what was hidden");
        assert!(path("home", Hidden, Writable).covers(&agreed));
        assert!(!path("home", Hidden, ReadOnly).covers(&agreed));
        assert!(!Grant::Network.covers(&Grant::Docker));
        let device = |at: &str| Grant::Device { path: AbsPath::root().join(at) };
        assert!(device("dev/dri").covers(&device("dev/dri/card0")));
        assert!(!device("dev/dri/card0").covers(&device("dev/dri")));
        assert!(!path("dev", Hidden, Writable).covers(&device("dev/dri")));
        let limit = |limit| Grant::Limit { limit };
        assert!(limit(Limit::processes(9)).covers(&limit(Limit::processes(8))));
        assert!(!limit(Limit::processes(8)).covers(&limit(Limit::processes(9))));
        assert!(!limit(Limit::tmp(9)).covers(&limit(Limit::processes(8))));
        let socket = |at: &str| Grant::Socket { path: AbsPath::root().join(at) };
        assert!(socket("run/a").covers(&socket("run/a")));
        assert!(!path("run", Hidden, Writable).covers(&socket("run/a")) && !socket("run").covers(&socket("run/a")));
    }

    #[test]
    fn every_grant_is_read_back_as_it_was_written() {
        let odd = AbsPath::root().child(OsStr::from_bytes(b"a\xff\n\""));
        let grants = [
            Grant::Network,
            Grant::Docker,
            Grant::Nested,
            Grant::Limit { limit: Limit::tmp(5 << 30) },
            Grant::Variable { name: Word("A".into()) },
            Grant::OtherNames { path: AbsPath::root() },
            Grant::Preset { name: "secrets".to_owned() },
            Grant::Create { path: odd.clone() },
            Grant::Device { path: AbsPath::root() },
            Grant::Socket { path: AbsPath::root() },
            Grant::Path { path: odd, from: Openness::Hidden, to: Openness::ReadOnly },
        ];
        let written = serde_json::to_string(&grants).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Grant>>(&written).unwrap(), grants);
        assert!(
            written.contains(r#"{"kind":"path","path":{"bytes":[47,97,255,10,34]},"from":"hidden","to":"read-only"}"#)
        );
    }

    #[test]
    fn a_grant_in_an_invalid_form_is_rejected() {
        for written in [
            r#"{"kind":"path","path":"a","from":"hidden","to":"read-only"}"#,
            r#"{"kind":"path","path":"/a/../b","from":"hidden","to":"read-only"}"#,
            r#"{"kind":"path","path":"/a","from":"hidden","to":"read-only","and":1}"#,
            r#"{"kind":"everything"}"#,
        ] {
            assert!(serde_json::from_str::<Grant>(written).is_err(), "{written}");
        }
    }
}
