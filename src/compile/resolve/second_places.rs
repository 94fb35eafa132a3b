//! A file of the home that appears in a second place inside (SPEC P10).
//!
//! A program that saves by a temporary file and a rename cannot do so beside a file in the
//! read-only home. In a writable directory it can create the temporary file; the rename over the
//! mount is refused, and then it writes in place.

use crate::compile::placeholder::Placeholder;
use crate::host::FileKind;
use crate::policy::{AbsPath, Origin, Rule};

use super::Resolver;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecondPlace {
    pub source: AbsPath,
    /// The second place.
    pub path: AbsPath,
    /// The file to mount on, if nothing is at `path`.
    pub placeholder: Option<Placeholder>,
    /// The variable that names the folder, and that folder.
    pub env_var: Option<(String, AbsPath)>,
    pub origin: Origin,
}

impl Resolver<'_> {
    /// Notes the second place of `source`, unless it is already in use.
    pub(super) fn find_second_place(&mut self, rule: &Rule, second_place: &str, source: &AbsPath, kind: FileKind) {
        let variable = rule.refinements.second_place_var;
        let is_told = variable.is_some_and(|name| self.session.env.contains_key(std::ffi::OsStr::new(name)));
        let written = self.project.in_home(second_place);
        let (Some(folder), Some(name)) = (written.parent(), written.file_name()) else { return };
        let Ok(resolved) = self.host.resolve(folder.as_path()) else { return };
        let exists = resolved.kind == Some(FileKind::Directory) || self.found.create.contains(&resolved.path);
        // If a symlink leads into that directory, the program finds the file there, and can save
        // beside it.
        let is_there = source.is_within(&resolved.path);
        if is_told || kind != FileKind::File || !exists || is_there {
            return;
        }
        let path = resolved.path.child(name);
        let origin = &rule.origin;
        let placeholder = match self.host.kind(&path) {
            Ok(found) if found.is_none() || self.stands(&path) => {
                if !self.found.can_journal || !self.host.can_create(&path) {
                    return;
                }
                let (layer, origin) = (rule.layer, origin.clone());
                Some(Placeholder { path: path.clone(), kind: FileKind::File, parents: Vec::new(), layer, origin })
            }
            // An older bwrap may have left this file.
            Ok(_) if self.host.is_empty_file(&path) => None,
            _ => return,
        };
        let env_var = variable.map(|name| (name.to_owned(), folder));
        self.found.second_places.push(SecondPlace {
            source: source.clone(),
            path,
            placeholder,
            env_var,
            origin: origin.clone(),
        });
    }
}
