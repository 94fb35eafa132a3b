//! Something for each of some paths, asked by where a path lies.

use super::path::AbsPath;

/// Something for each of some paths, parents first.
///
/// Sorted, so what lies in a folder follows it, and whoever goes through all of it keeps what is around in a stack ([`Sweep`])
/// instead of asking for each path. To put single paths in between is dear: bring them all at once, or in order.
#[derive(Clone, Debug)]
pub struct PathMap<T>(Vec<(AbsPath, T)>);

impl<T> Default for PathMap<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// Of several for one path the last counts.
impl<T> FromIterator<(AbsPath, T)> for PathMap<T> {
    fn from_iter<I: IntoIterator<Item = (AbsPath, T)>>(entries: I) -> Self {
        Self::merged(entries, |known, next| *known = next)
    }
}

impl<T> IntoIterator for PathMap<T> {
    type Item = (AbsPath, T);
    type IntoIter = std::vec::IntoIter<(AbsPath, T)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<T> PathMap<T> {
    /// Several for one path become one, in their order.
    pub fn merged(entries: impl IntoIterator<Item = (AbsPath, T)>, merge: impl Fn(&mut T, T)) -> Self {
        let mut entries: Vec<(AbsPath, T)> = entries.into_iter().collect();
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        let mut merged = Self(Vec::with_capacity(entries.len()));
        for (path, value) in entries {
            match merged.0.last_mut() {
                Some((last, known)) if *last == path => merge(known, value),
                _ => merged.0.push((path, value)),
            }
        }
        merged
    }

    pub fn insert(&mut self, path: AbsPath, value: T) {
        match self.find(&path) {
            Ok(at) => self.0[at].1 = value,
            Err(at) => self.0.insert(at, (path, value)),
        }
    }

    /// Puts it in the place of all that is within `path`.
    pub fn cover(&mut self, path: AbsPath, value: T) {
        let within = self.range_within(&path);
        self.0.splice(within, [(path, value)]);
    }

    pub fn remove(&mut self, path: &AbsPath) {
        if let Ok(at) = self.find(path) {
            self.0.remove(at);
        }
    }

    pub fn get(&self, path: &AbsPath) -> Option<&T> {
        self.find(path).ok().map(|at| &self.0[at].1)
    }

    pub fn get_mut(&mut self, path: &AbsPath) -> Option<&mut T> {
        self.find(path).ok().map(|at| &mut self.0[at].1)
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Keeps only paths that are `wanted`.
    pub fn retain(&mut self, wanted: impl Fn(&AbsPath) -> bool) {
        self.0.retain(|(path, _)| wanted(path));
    }

    /// Something else for each of the same paths.
    pub fn map<U>(self, other: impl Fn(T) -> U) -> PathMap<U> {
        PathMap(self.0.into_iter().map(|(path, value)| (path, other(value))).collect())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&AbsPath, &T)> {
        self.0.iter().map(|(path, value)| (path, value))
    }

    /// All entries, each with the nearest one above it.
    pub fn with_around(&self) -> impl Iterator<Item = (&AbsPath, &T, Option<(&AbsPath, &T)>)> {
        let mut sweep = self.sweep();
        self.iter().map(move |(path, value)| (path, value, sweep.nearest_above(path)))
    }

    /// All entries, each with those below it.
    pub fn with_below(&self) -> impl Iterator<Item = (&AbsPath, &T, impl Iterator<Item = (&AbsPath, &T)>)> {
        self.0.iter().enumerate().map(|(at, (path, value))| {
            let below = self.0[at + 1..].iter().take_while(|(at, _)| at.is_within(path));
            (path, value, below.map(|(path, value)| (path, value)))
        })
    }

    /// For who asks in the order of paths.
    pub fn sweep(&self) -> Sweep<'_, T> {
        Sweep { ahead: &self.0, around: Vec::new() }
    }

    /// The entries at `path` and below it, for who goes on downwards from there.
    pub fn part(&self, path: &AbsPath) -> Part<'_, T> {
        Part(&self.0).part(path)
    }

    /// The entry at `path`, or else at its nearest ancestor that has one.
    pub fn nearest(&self, path: &AbsPath) -> Option<(&AbsPath, &T)> {
        self.around(path, self.0.partition_point(|(at, _)| at <= path))
    }

    /// The entry at the nearest ancestor of `path` that has one, `path` itself left out.
    pub fn nearest_above(&self, path: &AbsPath) -> Option<(&AbsPath, &T)> {
        self.around(path, self.0.partition_point(|(at, _)| at < path))
    }

    /// The nearest of the first `count` entries that `path` lies in. What lies between an ancestor and `path` lies in that ancestor, so
    /// all that remains after a look is where the two ways part.
    fn around(&self, path: &AbsPath, mut count: usize) -> Option<(&AbsPath, &T)> {
        loop {
            let (at, value) = self.0.get(count.checked_sub(1)?)?;
            if path.is_within(at) {
                return Some((at, value));
            }
            let shared = path.shared_with(at);
            count = self.0[..count].partition_point(|(at, _)| *at <= shared);
        }
    }

    /// The entries at `path` and below it.
    pub fn within(&self, path: &AbsPath) -> impl Iterator<Item = (&AbsPath, &T)> {
        self.0[self.range_within(path)].iter().map(|(path, value)| (path, value))
    }

    /// The entries strictly below `path`.
    pub fn below<'m>(&'m self, path: &'m AbsPath) -> impl Iterator<Item = (&'m AbsPath, &'m T)> {
        self.0[self.0.partition_point(|(at, _)| at <= path)..]
            .iter()
            .take_while(|(at, _)| at.is_within(path))
            .map(|(path, value)| (path, value))
    }

    fn range_within(&self, path: &AbsPath) -> std::ops::Range<usize> {
        let start = self.0.partition_point(|(at, _)| at < path);
        start..start + self.0[start..].partition_point(|(at, _)| at.is_within(path))
    }

    fn find(&self, path: &AbsPath) -> Result<usize, usize> {
        self.0.binary_search_by(|(at, _)| at.cmp(path))
    }
}

/// The entries of a map at a path and below it. Most paths have none, and then nobody searches any farther.
pub struct Part<'m, T>(&'m [(AbsPath, T)]);

impl<T> Clone for Part<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Part<'_, T> {}

impl<'m, T> Part<'m, T> {
    /// Those of them at `path`, which lies in its own, and below.
    pub fn part(self, path: &AbsPath) -> Self {
        let from = &self.0[self.0.partition_point(|(at, _)| at < path)..];
        Self(&from[..from.partition_point(|(at, _)| at.is_within(path))])
    }

    /// The entry at `path`, which is its own.
    pub fn here(self, path: &AbsPath) -> Option<&'m T> {
        self.0.first().filter(|(at, _)| at == path).map(|(_, value)| value)
    }

    /// Whether there are entries strictly below `path`, which is its own.
    pub fn goes_on_below(self, path: &AbsPath) -> bool {
        self.0.last().is_some_and(|(at, _)| at != path)
    }
}

/// The same answers as those of the map, for paths that are asked in their order: no search for each.
pub struct Sweep<'m, T> {
    ahead: &'m [(AbsPath, T)],
    /// The entries met so far that the last path lies in, outermost first.
    around: Vec<(&'m AbsPath, &'m T)>,
}

impl<'m, T> Sweep<'m, T> {
    /// The nearest entry above `path`, which does not come before any path that was asked for earlier.
    pub fn nearest_above(&mut self, path: &AbsPath) -> Option<(&'m AbsPath, &'m T)> {
        self.way_to(path).last().copied()
    }

    /// All entries above `path`, outermost first.
    pub fn way_to(&mut self, path: &AbsPath) -> &[(&'m AbsPath, &'m T)] {
        while let [(at, value), ahead @ ..] = self.ahead
            && at < path
        {
            self.leave_for(at);
            self.around.push((at, value));
            self.ahead = ahead;
        }
        self.leave_for(path);
        &self.around
    }

    fn leave_for(&mut self, path: &AbsPath) {
        while self.around.pop_if(|(at, _)| !path.is_within(at)).is_some() {}
    }
}

/// A map that is filled in the order of paths, and asked meanwhile.
pub struct Growing<T> {
    map: PathMap<T>,
    /// The places of those that the last path lies in.
    open: Vec<usize>,
}

impl<T> Default for Growing<T> {
    fn default() -> Self {
        Self { map: PathMap::default(), open: Vec::new() }
    }
}

impl<T> Growing<T> {
    /// With room for `count` of them.
    pub fn with_room(count: usize) -> Self {
        Self { map: PathMap(Vec::with_capacity(count)), open: Vec::new() }
    }

    /// What there is so far.
    pub fn so_far(&self) -> &PathMap<T> {
        &self.map
    }

    /// Comes to `path`, which does not lie before any other so far.
    pub fn reach(&mut self, path: &AbsPath) {
        let entries = &self.map.0;
        while self.open.pop_if(|at| !path.is_within(&entries[*at].0)).is_some() {}
    }

    /// The nearest entry at the path that was reached, or above it.
    pub fn nearest(&self) -> Option<(&AbsPath, &T)> {
        let (at, value) = &self.map.0[*self.open.last()?];
        Some((at, value))
    }

    /// At the path that was reached.
    pub fn put(&mut self, path: AbsPath, value: T) {
        if self.nearest().is_some_and(|(at, _)| *at == path) {
            self.open.pop();
            self.map.0.pop();
        }
        self.open.push(self.map.0.len());
        self.map.0.push((path, value));
    }

    pub fn done(self) -> PathMap<T> {
        self.map
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
            let within = |index: usize| chosen >> index & 1 == 1;
            let map: PathMap<()> = (0..names.len()).rev().filter(|i| within(*i)).map(|i| (abs(names[i]), ())).collect();
            let mut sweep = map.sweep();
            let mut growing = Growing::default();
            for (index, path) in names.iter().map(|name| abs(name)).enumerate() {
                let upwards = |from: usize| path.ancestors().skip(from).find(|above| map.get(above).is_some());
                let name = |found: Option<(&AbsPath, &())>| found.map(|(at, ())| at.clone());
                assert_eq!(name(map.nearest(&path)), upwards(0), "{path}");
                assert_eq!(name(map.nearest_above(&path)), upwards(1), "{path}");
                assert_eq!(name(sweep.nearest_above(&path)), upwards(1), "{path}");
                for part in path.ancestors().map(|above| map.part(&above).part(&path)) {
                    assert_eq!(part.here(&path), map.get(&path), "{path}");
                    assert_eq!(part.goes_on_below(&path), map.below(&path).next().is_some(), "{path}");
                }
                growing.reach(&path);
                assert_eq!(name(growing.nearest()), upwards(1), "{path}");
                if within(index) {
                    growing.put(path.clone(), ());
                    growing.put(path, ());
                }
            }
            assert!(growing.done().iter().eq(map.iter()));
        }
    }

    #[test]
    fn what_covers_a_path_takes_the_place_of_all_that_is_in_it() {
        let mut map: PathMap<u8> = ["/", "/a/b", "/a/b/c", "/a/b-c"].into_iter().map(|name| (abs(name), 0)).collect();
        map.cover(abs("/a/b"), 1);
        map.cover(abs("/a/a"), 2);
        let left: Vec<(String, u8)> = map.iter().map(|(path, value)| (path.to_string(), *value)).collect();
        let expected = [("/", 0), ("/a/a", 2), ("/a/b", 1), ("/a/b-c", 0)];
        assert_eq!(left, expected.map(|(path, value)| (path.to_owned(), value)));
    }
}
