//! Symlinks of the host on the way to a path that a rule shows. If a private place covers such a
//! symlink, the plan makes the symlink again.

use std::path::PathBuf;

use crate::policy::{AbsPath, Access, Mask, Origin};

use super::{Match, Resolver};

const TO_HOME: Origin = Origin::BuiltIn("a symlink on the way to the home");

/// A symlink on the way to a path that a rule shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownLink {
    pub path: AbsPath,
    /// The text of the symlink.
    pub target: PathBuf,
    /// The path that the rule shows.
    pub leads_to: AbsPath,
    pub because: Origin,
}

impl Resolver<'_> {
    pub(super) fn links_to_shown(&mut self) {
        let matches = &self.found.matches;
        if !matches.iter().any(|found| found.rule.refinements.mask == Mask::OwnPlace) {
            return;
        }
        let may_show = |found: &&Match| found.rule.access != Access::Exclude && !found.rule.is_preset_ro();
        let links = matches.iter().filter(may_show).flat_map(|found| found.links.iter().map(move |link| (link, found)));
        let links = links.filter_map(|(link, found)| {
            // If the link cannot be read, the command does not see the path under this name, which
            // opens nothing. `Host` records transient errors.
            let target = self.host.link_target(link).ok()?;
            let (leads_to, because) = (found.path.clone(), found.rule.origin.clone());
            Some(ShownLink { path: link.clone(), target, leads_to, because })
        });
        self.found.links = links.chain(self.links_to_home()).collect();
        self.found.links.sort_by(|a, b| a.path.cmp(&b.path));
    }

    /// Programs use `$HOME`, which may lead through symlinks.
    fn links_to_home(&self) -> Vec<ShownLink> {
        let home = self.session.path_var("HOME").and_then(|home| self.host.resolve(home.as_path()).ok());
        let links = home.map(|home| home.links).unwrap_or_default();
        let shown = links.into_iter().filter_map(|link| {
            let target = self.host.link_target(&link).ok()?;
            Some(ShownLink { path: link, target, leads_to: self.project.home.clone(), because: TO_HOME })
        });
        shown.collect()
    }
}
