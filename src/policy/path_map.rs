//! Values by path, and the search for the entries around and below a path.

use std::collections::BTreeMap;
use std::ops::{Bound, Deref, DerefMut};

use super::path::AbsPath;

/// A value for each of some paths, parents before children.
#[derive(Clone, Debug)]
pub struct PathMap<T>(BTreeMap<AbsPath, T>);

impl<T> Default for PathMap<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> Deref for PathMap<T> {
    type Target = BTreeMap<AbsPath, T>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<T> DerefMut for PathMap<T> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

/// If a path has several values, the last one counts.
impl<T> FromIterator<(AbsPath, T)> for PathMap<T> {
    fn from_iter<I: IntoIterator<Item = (AbsPath, T)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

impl<T> PathMap<T> {
    /// Replaces all entries at `path` and below it by one.
    pub fn cover(&mut self, path: AbsPath, value: T) {
        let below: Vec<AbsPath> = self.below(&path).map(|(at, _)| at.clone()).collect();
        for covered in below {
            self.0.remove(&covered);
        }
        self.0.insert(path, value);
    }

    /// The entry at `path`, or else at its nearest ancestor that has one.
    pub fn nearest(&self, path: &AbsPath) -> Option<(&AbsPath, &T)> {
        self.last_around(path, Bound::Included(path))
    }

    /// The entry at the nearest ancestor of `path` that has one, `path` itself left out.
    pub fn nearest_above(&self, path: &AbsPath) -> Option<(&AbsPath, &T)> {
        self.last_around(path, Bound::Excluded(path))
    }

    /// The last entry up to `end` that is at `path` or at an ancestor. If the entry found is at
    /// neither, the search goes on at the deepest directory that contains both paths, because no
    /// entry between them is at an ancestor of `path`.
    fn last_around(&self, path: &AbsPath, end: Bound<&AbsPath>) -> Option<(&AbsPath, &T)> {
        let found = self.0.range::<AbsPath, _>((Bound::Unbounded, end)).next_back()?;
        if path.is_within(found.0) {
            return Some(found);
        }
        let shared = AbsPath::from_normal(path.folders().find(|folder| found.0.lies_in(folder))?);
        self.last_around(path, Bound::Included(&shared))
    }

    pub fn within<'m>(&'m self, path: &'m AbsPath) -> impl Iterator<Item = (&'m AbsPath, &'m T)> {
        self.0.range::<AbsPath, _>(path..).take_while(|(at, _)| at.is_within(path))
    }

    pub fn below<'m>(&'m self, path: &'m AbsPath) -> impl Iterator<Item = (&'m AbsPath, &'m T)> {
        self.within(path).skip_while(move |(at, _)| *at == path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::path::tests::abs;

    #[test]
    fn the_nearest_entry_is_the_one_that_a_search_upwards_finds() {
        let names = ["/", "/a", "/a/b", "/a/b/c", "/a/b/c/d/e", "/a/b/c-d", "/a/b-c/d", "/a/bc", "/a-b", "/ab", "/b"];
        for chosen in 0..1_u32 << names.len() {
            let is_chosen = |index: &usize| chosen >> index & 1 == 1;
            let map: PathMap<()> = (0..names.len()).filter(is_chosen).map(|index| (abs(names[index]), ())).collect();
            for path in names.iter().map(|name| abs(name)) {
                let upwards = |from: usize| path.ancestors().skip(from).find(|above| map.contains_key(above));
                let name = |found: Option<(&AbsPath, &())>| found.map(|(at, ())| at.clone());
                assert_eq!(name(map.nearest(&path)), upwards(0), "{path}");
                assert_eq!(name(map.nearest_above(&path)), upwards(1), "{path}");
                let below = map.keys().filter(|at| at.is_below(&path));
                assert!(map.below(&path).map(|(at, ())| at).eq(below), "{path}");
            }
        }
    }

    #[test]
    fn covering_a_path_replaces_all_entries_below_it() {
        let mut map: PathMap<u8> = ["/", "/a/b", "/a/b/c", "/a/b-c"].into_iter().map(|name| (abs(name), 0)).collect();
        map.cover(abs("/a/b"), 1);
        map.cover(abs("/a/a"), 2);
        let left: Vec<(String, u8)> = map.iter().map(|(path, value)| (path.to_string(), *value)).collect();
        let expected = [("/", 0), ("/a/a", 2), ("/a/b", 1), ("/a/b-c", 0)];
        assert_eq!(left, expected.map(|(path, value)| (path.to_owned(), value)));
    }
}
