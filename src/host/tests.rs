use super::*;

use std::os::unix::fs::symlink;

/// A tree with every kind of file, and the paths to resolve.
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
fn a_cache_answers_as_the_host_does() {
    let (folder, paths) = tree();
    let host = Host::at(folder.path());
    let cached = host.with_cache();
    let start = AbsPath::from_normal("/a");
    // Both orders, because the first answer is remembered.
    for path in paths.iter().chain(paths.iter().rev()) {
        let told = |host: &Host| {
            let resolved = host.resolve_from(&start, path).map_err(|e| e.raw_os_error())?;
            let (kind, names) = (host.kind(&resolved.path), host.names(&resolved.path));
            Ok::<_, Option<i32>>((kind.unwrap(), names.unwrap(), host.is_empty_file(&resolved.path), resolved))
        };
        assert_eq!(told(&cached), told(&host), "{}", path.display());
    }
}
