//! A small tree on the host, and the comparison of model and kernel on each of its paths.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use agent_sandbox::model::ModelView as View;

use crate::sandbox::{abs, bwrap, give_away, identity, model, strings, texts};

/// Each directory of the tree has the directories `a` and `b` and the file `file`, down to this
/// depth. So a directory that is bound over one at the same depth or deeper has all its mount
/// points.
const DEPTH: usize = 3;

/// Opens each path, because `access(2)` does not suffice. Prints a line for each path, then a line
/// of `stat` for each existing path, then a line for each directory that it could rename and
/// rename back.
const PROBE: &str = r#"
for path do
    read=- write=- link=
    if [ -L "$path" ]; then link=$(readlink "$path")
    elif [ -d "$path" ]; then
        true <"$path" && read=r
        true >"$path/.probe" && write=w
    elif [ -e "$path" ]; then
        true <"$path" && read=r
        true >>"$path" && write=w
    fi
    echo "$path|$read|$write|$link"
done 2>/dev/null
echo ===
stat -c '%n|%d:%i|%a' -- "$@"
for path do shift; set -- "$@" "$path/.probe"; done
rm -f -- "$@" 2>/dev/null
for path do shift; set -- "$@" "${path%/.probe}"; done
echo ===
exec python3 -I -S -c '
import os, sys
directories = [path for path in sys.argv[1:] if not os.path.basename(path) in ("file", "link", "missing")]
for path in directories:
    try:
        os.chmod(path, 0o755)
    except OSError:
        pass
for path in directories:
    parent, name = os.path.split(path)
    try:
        # The folder, not its path: where it is shown below itself, the way there is gone with the old name.
        folder = os.open(parent, os.O_PATH)
        os.rename(name, "renamed", src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        continue
    os.rename("renamed", name, src_dir_fd=folder, dst_dir_fd=folder)
    print(path)
' "$@"
"#;

#[derive(Debug, PartialEq, Eq)]
enum Found {
    Host { identity: String, readable: bool, writable: bool },
    Fresh { mode: u32, readable: bool, writable: bool },
    Symlink { target: String },
    Nothing,
    Denied,
}

pub struct Tree {
    pub root: String,
    pub directories: Vec<String>,
    _removed_at_the_end: tempfile::TempDir,
}

impl Tree {
    pub fn below(parent: &str) -> Tree {
        let folder = tempfile::Builder::new().prefix("model-").tempdir_in(parent).unwrap();
        let root = fs::canonicalize(folder.path()).unwrap().to_str().unwrap().to_owned();
        let mut directories = vec![root.clone()];
        let mut level = directories.clone();
        for _ in 0..DEPTH {
            level = level.iter().flat_map(|d| [format!("{d}/a"), format!("{d}/b")]).collect();
            directories.extend(level.iter().cloned());
        }
        for directory in &directories {
            fs::create_dir_all(directory).unwrap();
            fs::write(format!("{directory}/file"), directory).unwrap();
            for (path, mode) in [(directory.clone(), 0o755), (format!("{directory}/file"), 0o644)] {
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
                give_away(&path);
            }
        }
        Tree { root, directories, _removed_at_the_end: folder }
    }

    pub fn depth(&self, directory: &str) -> usize {
        directory[self.root.len()..].matches('/').count()
    }

    pub fn paths(&self) -> Vec<String> {
        let around = |directory: &String| ["", "/file", "/link", "/missing"].map(|name| format!("{directory}{name}"));
        self.directories.iter().flat_map(around).collect()
    }

    /// The paths that the probe finds when bwrap runs with `flags`, and the directories that it can
    /// rename. `Err` has bwrap's message if it does not start.
    fn probe(&self, flags: &[String]) -> Result<(BTreeMap<String, Found>, BTreeSet<String>), String> {
        let command = strings(&["--", "sh", "-c", PROBE, "probe"]);
        let output = bwrap(&[flags, &command, &self.paths()].concat());
        let (stdout, stderr) = texts(&output);
        let [opens, nodes, renamed] = stdout.split("===\n").collect::<Vec<_>>()[..] else {
            return Err(stderr);
        };
        let nodes: BTreeMap<&str, (&str, &str)> = nodes
            .lines()
            .filter_map(|line| line.split_once('|'))
            .map(|(path, rest)| (path, rest.split_once('|').unwrap()))
            .collect();
        let null = identity("/dev/null").unwrap();
        let device_of_tree = format!("{}:", fs::metadata(&self.root).unwrap().dev());
        let found = opens.lines().map(|line| {
            let [path, read, write, target] = line.split('|').collect::<Vec<_>>()[..] else {
                panic!("not a line of the probe: {line}")
            };
            let (readable, writable) = (read == "r", write == "w");
            let found = match nodes.get(path) {
                _ if !target.is_empty() => Found::Symlink { target: target.into() },
                Some((identity, _)) if *identity == null || identity.starts_with(&device_of_tree) => {
                    Found::Host { identity: (*identity).into(), readable, writable }
                }
                Some((_, mode)) => Found::Fresh { mode: u32::from_str_radix(mode, 8).unwrap(), readable, writable },
                None if stderr.contains(&format!("'{path}': Permission denied")) => Found::Denied,
                None => Found::Nothing,
            };
            (path.to_owned(), found)
        });
        Ok((found.collect(), renamed.lines().map(str::to_owned).collect()))
    }

    /// Checks that model and kernel agree on every path of the tree, or that both refuse. Returns
    /// the kinds of view that occurred.
    pub fn agree(&self, flags: &[String]) -> Result<BTreeSet<&'static str>, String> {
        let shown = flags.join(" ");
        match (model(flags), self.probe(flags)) {
            (Err(_), Err(_)) => Ok(BTreeSet::from(["Refused"])),
            (Err(error), Ok(_)) => Err(format!("bwrap starts, the model says: {error}\n{shown}")),
            (Ok(_), Err(stderr)) => Err(format!("bwrap does not start: {stderr}\n{shown}")),
            (Ok(model), Ok((found, renamed))) => {
                let mut met = BTreeSet::new();
                for path in self.paths() {
                    let view = model.view(&abs(&path));
                    if found.get(&path) != Some(&expected(&view)) {
                        let found = found.get(&path);
                        return Err(format!("{path}: model {view:?}, kernel {found:?}\n{shown}"));
                    }
                    met.insert(name_of(&view));
                }
                for directory in &self.directories {
                    let (model, kernel) = (model.can_rename(&abs(directory)), renamed.contains(directory));
                    if model != kernel {
                        return Err(format!("{directory} can be renamed: model {model}, kernel {kernel}\n{shown}"));
                    }
                    met.insert(if model { "Renamed" } else { "Not renamed" });
                }
                Ok(met)
            }
        }
    }
}

fn expected(view: &View) -> Found {
    match view {
        View::Host { source, writable, .. } => match identity(source) {
            Some(identity) => Found::Host { identity, readable: true, writable: *writable },
            None => Found::Nothing,
        },
        View::MaskedFile => {
            let identity = identity("/dev/null").unwrap();
            Found::Host { identity, readable: false, writable: false }
        }
        View::Fresh { mode, writable } => {
            Found::Fresh { mode: *mode, readable: mode & 0o400 != 0, writable: *writable && mode & 0o300 == 0o300 }
        }
        View::Absent { .. } => Found::Nothing,
        View::Unreachable { .. } => Found::Denied,
        View::Symlink { target, .. } => Found::Symlink { target: target.to_str().unwrap().to_owned() },
        View::Data | View::Dev | View::Proc => panic!("the sequences make none of these"),
    }
}

fn name_of(view: &View) -> &'static str {
    match view {
        View::Host { writable: true, .. } => "Host, writable",
        View::Host { writable: false, .. } => "Host, read-only",
        View::MaskedFile => "MaskedFile",
        View::Fresh { writable: true, .. } => "Fresh, writable",
        View::Fresh { writable: false, .. } => "Fresh, read-only",
        View::Absent { .. } => "Absent",
        View::Unreachable { .. } => "Unreachable",
        View::Symlink { .. } => "Symlink",
        View::Data | View::Dev | View::Proc => "special",
    }
}
