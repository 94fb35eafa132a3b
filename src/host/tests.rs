use super::*;

use std::os::unix::fs::symlink;

/// A tree with everything that a name can be, and the paths to ask for.
fn tree() -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    for path in ["a/one/deep", "a/two", "a/three", "elsewhere/four"] {
        fs::create_dir_all(at(path)).unwrap();
    }
    fs::write(at("a/file"), "x").unwrap();
    fs::hard_link(at("a/file"), at("a/other-name")).unwrap();
    fs::write(at("a/empty"), "").unwrap();
    symlink("two", at("a/link")).unwrap();
    symlink("/elsewhere", at("a/away")).unwrap();
    symlink("nowhere", at("a/dangling")).unwrap();
    symlink("a", at("b")).unwrap();
    let names =
        ["one", "two", "three", "file", "other-name", "empty", "link", "away", "dangling", "missing", ".", ".."];
    let below = ["", "/deep", "/four", "/", "/..", "/../two"];
    let paths = names.iter().flat_map(|name| below.iter().map(move |below| format!("{name}{below}")));
    let paths = paths.flat_map(|path| ["/a/", "/b/", "/a/../b/", "//a/./", ""].map(|start| format!("{start}{path}")));
    (folder, paths.map(PathBuf::from).collect())
}

#[test]
fn what_was_listed_and_what_is_remembered_answers_as_the_host_does() {
    let (folder, paths) = tree();
    let host = Host::at(folder.path());
    let folders = ["/a", "/b", "/elsewhere", "/missing", "/a/file", "/a/one"].map(PathBuf::from);
    let hosts = [host.with_cache(), host.with_cache().listing(&folders)];
    let start = AbsPath::from_normal("/a");
    // In both orders: what is asked first is remembered.
    for path in paths.iter().chain(paths.iter().rev()) {
        let told = |host: &Host| {
            let resolved = host.resolve_from(&start, path).map_err(|e| e.raw_os_error())?;
            let (kind, names) = (host.kind(&resolved.path), host.names(&resolved.path));
            Ok::<_, Option<i32>>((kind.unwrap(), names.unwrap(), host.is_empty_file(&resolved.path), resolved))
        };
        for other in &hosts {
            assert_eq!(told(other), told(&host), "{}", path.display());
        }
    }
    let lists = hosts[1].lists().unwrap();
    assert!(["/a", "/b", "/elsewhere"].iter().all(|folder| lists.of(OsStr::new(folder)).is_some()));
    assert!(["/missing", "/a/file"].iter().all(|folder| lists.of(OsStr::new(folder)).is_none()));
}

#[test]
fn a_list_is_believed_about_directories_alone() {
    let (folder, _) = tree();
    let host = Host::at(folder.path()).with_cache().listing(&[PathBuf::from("/a")]);
    let kind = |path: &str| host.kind(&AbsPath::from_normal(path)).unwrap();
    assert_eq!(kind("/a/one"), Some(FileKind::Directory));
    for path in ["a/two", "a/three"] {
        fs::remove_dir(folder.path().join(path)).unwrap();
    }
    fs::remove_file(folder.path().join("a/empty")).unwrap();
    fs::create_dir(folder.path().join("a/new")).unwrap();
    assert_eq!(kind("/a/two"), Some(FileKind::Directory), "as it was");
    assert_eq!(kind("/a/empty"), None);
    assert_eq!(kind("/a/new"), Some(FileKind::Directory));
}

#[test]
fn a_folder_with_very_many_names_is_not_listed() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..=MOST_LISTED {
        fs::create_dir_all(folder.path().join(format!("full/{number}"))).unwrap();
    }
    // Enough for threads.
    let folders: Vec<PathBuf> = (0..200).map(|number| PathBuf::from(format!("/full/{number}"))).collect();
    let host = Host::at(folder.path()).listing(&[folders.as_slice(), &["/full".into()]].concat());
    let lists = host.lists().unwrap();
    assert!(lists.of(OsStr::new("/full")).is_none());
    assert!(folders.iter().all(|folder| lists.of(folder.as_os_str()).is_some_and(|entries| entries.is_empty())));
}
