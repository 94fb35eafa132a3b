//! Placeholders that are made together and renamed at once.

use std::path::Path;

use rustix::fs::FileType;
use rustix::io::Errno;

use crate::compile::placeholder::PlaceholderItem;
use crate::host::journal::{Intent, TEMPORARY};
use crate::host::nofollow::look;
use crate::host::{Host, PathError};
use crate::policy::path::AbsPath;

/// A file or directory to make in an existing directory, with everything below it, parents first.
pub(crate) struct Tree<'i> {
    pub temporary: AbsPath,
    pub items: Vec<&'i PlaceholderItem>,
}

/// Groups the missing items, which are in the order of their paths, by the outermost item that has
/// to be made.
pub(crate) fn trees<'i>(host: &Host, missing: &[&'i PlaceholderItem], tag: &str) -> Result<Vec<Tree<'i>>, PathError> {
    let mut trees: Vec<Tree<'i>> = Vec::new();
    for item in missing {
        // Everything below a directory follows it directly.
        if let Some(tree) = trees.last_mut().filter(|tree| item.path.is_below(tree.top())) {
            tree.items.push(item);
            continue;
        }
        let failed = PathError::at(&item.path);
        match look(host, &item.path).map_err(&failed)? {
            None => {
                let name = format!("{TEMPORARY}{tag}-{}", trees.len());
                let temporary = item.path.parent().unwrap_or_else(AbsPath::root).child(name);
                trees.push(Tree { temporary, items: vec![item] });
            }
            Some(found) if FileType::from_raw_mode(found.st_mode).is_symlink() => {
                return Err(failed(Errno::LOOP.into()));
            }
            // Made since the policy was compiled: it is mounted like everything that exists.
            Some(_) => {}
        }
    }
    Ok(trees)
}

impl Tree<'_> {
    pub(crate) fn top(&self) -> &AbsPath {
        &self.items[0].path
    }

    pub(crate) fn temporary_path(&self, item: &PlaceholderItem) -> AbsPath {
        self.temporary.join(self.relative(item))
    }

    pub(crate) fn intent(&self) -> Intent {
        let inside = self.items.iter().map(|item| (self.relative(item).to_path_buf(), item.content));
        Intent::new(&self.temporary, inside)
    }

    fn relative<'a>(&self, item: &'a PlaceholderItem) -> &'a Path {
        item.path.relative_to(self.top()).unwrap_or(Path::new(""))
    }
}
