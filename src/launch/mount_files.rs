//! Our files that bwrap binds: the guard's plan, contents that replace a file, and the mask of
//! hidden files. They are in the state folder, which no rule makes writable inside (SPEC D6). A
//! file is named by the SHA-256 of its content, so a policy always has the same argv. Each use
//! checks owner, mode and content again.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType, Mode, OFlags, Stat, fchmod, fstat};
use rustix::process::geteuid;

use crate::compile::Compiled;
use crate::compile::layers::Layers;
use crate::compile::lower::{MountContent, MountFile, MountFiles};
use crate::host::state_dir::StateFiles;
use crate::host::{Host, OpenDir, PathError, if_there};
use crate::policy::AbsPath;

const KIND: StateFiles = StateFiles { folder: Layers::MOUNT_FILES, max_bytes: 0 };
/// The mode of our files. The owner may write, so a write inside fails with EROFS, as for every
/// file on a read-only mount.
const MODE: Mode = Mode::RUSR.union(Mode::WUSR);
/// The time for which contents are kept after their last use, so that a printed argv can still be
/// run.
const KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// The shortest time between two updates of the time of the last use.
const NOTED: Duration = Duration::from_secs(24 * 60 * 60);

/// Decides whether bwrap binds files in the state folder or gets their contents by descriptors.
/// Makes the folder of these files, and the folder of private files, which is hidden inside (SPEC
/// Q6).
pub(super) fn place(host: &Host, compiled: &Compiled) -> MountFiles {
    let layers = &compiled.layers;
    let folder = KIND.create_folder(host, &layers.state).and_then(|folder| {
        if let Some(private) = compiled.missing_private_folder() {
            OpenDir::create_all(host, &private)?;
        }
        Ok(folder)
    });
    match folder {
        Ok(folder) if folder.is_writable() => MountFiles::In(layers.mount_files()),
        Ok(_) | Err(_) => MountFiles::Descriptors,
    }
}

/// Writes the files of an argv that are missing, or whose owner, mode or content is wrong.
pub(super) fn write(host: &Host, state: &AbsPath, files: &[MountFile]) -> Result<(), PathError> {
    let Some(first) = files.first() else { return Ok(()) };
    let folder = KIND.open_folder(host, state).map_err(PathError::at(&first.path))?;
    let mut is_new = false;
    for file in files {
        let name = file.path.file_name().unwrap_or_default();
        let was_made = match &file.content {
            MountContent::Bytes(content) => provide_content(&folder, name, content),
            MountContent::Unreadable => provide_mask(&folder, name),
        };
        is_new |= was_made.map_err(PathError::at(&file.path))?;
    }
    if is_new {
        // A file that cannot be removed now is removed by a later run.
        let _ = sweep(&folder, files);
    }
    Ok(())
}

/// Returns whether the file had to be made.
fn provide_content(folder: &OpenDir, name: &OsStr, content: &[u8]) -> io::Result<bool> {
    if let Ok(file) = folder.open_file(name, OFlags::RDONLY)
        && holds(&file, content)?
    {
        return Ok(false);
    }
    replace(folder, name, |new| {
        let mut file = folder.make_file(new, OFlags::WRONLY, MODE)?;
        file.write_all(content)?;
        // The mode must not depend on the caller's umask.
        Ok(fchmod(&file, MODE)?)
    })
}

/// Whether this is our file with this content. Records that it is used.
fn holds(file: &File, content: &[u8]) -> io::Result<bool> {
    let found = fstat(file)?;
    if !is_ours(&found, FileType::RegularFile, MODE) || usize::try_from(found.st_size) != Ok(content.len()) {
        return Ok(false);
    }
    let mut read = Vec::with_capacity(content.len() + 1);
    file.take(content.len() as u64 + 1).read_to_end(&mut read)?;
    if age(&found) > NOTED {
        file.set_modified(SystemTime::now())?;
    }
    Ok(read == content)
}

fn provide_mask(folder: &OpenDir, name: &OsStr) -> io::Result<bool> {
    match folder.stat(name)? {
        Some(found) if is_ours(&found, FileType::Socket, Mode::empty()) => Ok(false),
        Some(_) | None => replace(folder, name, |new| folder.make_socket(new)),
    }
}

fn is_ours(found: &Stat, kind: FileType, mode: Mode) -> bool {
    found.st_uid == geteuid().as_raw()
        && FileType::from_raw_mode(found.st_mode) == kind
        && Mode::from_raw_mode(found.st_mode) == mode
        && found.st_nlink == 1
}

/// Makes a file under a temporary name and renames it to `name`.
fn replace(folder: &OpenDir, name: &OsStr, make: impl FnOnce(&str) -> io::Result<()>) -> io::Result<bool> {
    let new = format!(".new-{}", std::process::id());
    // A killed process with the same id may have left such a file.
    if_there(folder.remove_file(&new))?;
    let moved = make(&new).and_then(|()| folder.rename(&new, folder, name));
    if moved.is_err() {
        let _ = folder.remove_file(&new);
    }
    moved.map(|()| true)
}

/// Removes contents that no start has used for [`KEPT`].
fn sweep(folder: &OpenDir, used: &[MountFile]) -> io::Result<()> {
    for name in folder.names()? {
        let is_used = used.iter().any(|file| file.path.file_name() == Some(&name));
        let is_old = |found: &Stat| FileType::from_raw_mode(found.st_mode).is_file() && age(found) > KEPT;
        if !is_used && folder.stat(&name)?.is_some_and(|found| is_old(&found)) {
            folder.remove_file(&name)?;
        }
    }
    Ok(())
}

/// The time since the file was made or used. Zero if the clock was set back.
fn age(found: &Stat) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let used = Duration::from_secs(u64::try_from(found.st_mtime).unwrap_or_default());
    now.saturating_sub(used)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt, symlink};
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::policy::sha256;

    struct Scene {
        root: tempfile::TempDir,
    }

    impl Scene {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            fs::DirBuilder::new().recursive(true).mode(0o700).create(root.path().join("state/mounts")).unwrap();
            Self { root }
        }

        fn folder(&self) -> PathBuf {
            self.root.path().join("state/mounts")
        }

        fn write(&self, files: &[MountFile]) {
            let state = AbsPath::normalize("/state").unwrap();
            write(&Host::at(self.root.path()), &state, files).unwrap();
        }
    }

    fn content(text: &str) -> MountFile {
        let path = AbsPath::normalize("/state/mounts").unwrap().child(sha256(text.as_bytes()));
        MountFile { path, content: MountContent::Bytes(text.into()) }
    }

    fn mask() -> MountFile {
        let path = AbsPath::normalize("/state/mounts/masked").unwrap();
        MountFile { path, content: MountContent::Unreadable }
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    // SPEC B15
    #[test]
    fn a_content_is_written_once_under_the_name_of_its_hash() {
        let scene = Scene::new();
        scene.write(&[content("abc")]);
        let file = scene.folder().join("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!((fs::read_to_string(&file).unwrap().as_str(), mode(&file)), ("abc", 0o600));
        let inode = fs::metadata(&file).unwrap().ino();
        scene.write(&[content("abc")]);
        assert_eq!(fs::metadata(&file).unwrap().ino(), inode);
    }

    // SPEC B15
    #[test]
    fn a_mount_file_with_a_wrong_owner_mode_or_content_is_replaced() {
        type Change = (&'static str, fn(&Path));
        let changes: [Change; 5] = [
            ("another content", |file| {
                fs::write(file, "abd").unwrap();
            }),
            ("another mode", |file| fs::set_permissions(file, fs::Permissions::from_mode(0o644)).unwrap()),
            ("a symlink", |file| {
                fs::rename(file, file.with_file_name("elsewhere")).unwrap();
                symlink("elsewhere", file).unwrap();
            }),
            ("a second name", |file| fs::hard_link(file, file.with_file_name("other")).unwrap()),
            ("a socket", |file| {
                fs::remove_file(file).unwrap();
                rustix::fs::mknodat(rustix::fs::CWD, file, FileType::Socket, MODE, 0).unwrap();
            }),
        ];
        for (name, change) in changes {
            let scene = Scene::new();
            scene.write(&[content("abc")]);
            let file = scene.folder().join(sha256(b"abc"));
            change(&file);
            scene.write(&[content("abc")]);
            let found = fs::symlink_metadata(&file).unwrap();
            assert!(found.is_file() && found.nlink() == 1, "{name}");
            assert_eq!((fs::read_to_string(&file).unwrap().as_str(), mode(&file)), ("abc", 0o600), "{name}");
        }
    }

    #[test]
    fn the_mask_is_a_socket_that_no_process_can_open() {
        let scene = Scene::new();
        scene.write(&[mask()]);
        let file = scene.folder().join("masked");
        assert!(fs::symlink_metadata(&file).unwrap().file_type().is_socket());
        assert_eq!(mode(&file), 0);
        // If another process has changed the mode of a mask, the mask is made again.
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        scene.write(&[mask()]);
        assert_eq!(mode(&file), 0);
    }

    // SPEC B15
    #[test]
    fn contents_that_were_not_used_for_a_week_are_removed_when_another_is_written() {
        let scene = Scene::new();
        let old = |name: &str, days: u64| {
            let file = scene.folder().join(name);
            let used = SystemTime::now() - Duration::from_secs(24 * 60 * 60 * days);
            File::open(file).unwrap().set_modified(used).unwrap();
        };
        scene.write(&[content("old"), content("used"), content("young"), mask()]);
        for (text, days) in [("old", 8), ("used", 8), ("young", 6)] {
            old(&sha256(text.as_bytes()), days);
        }
        scene.write(&[content("used")]);
        scene.write(&[content("new")]);
        let is_there = |text: &str| scene.folder().join(sha256(text.as_bytes())).exists();
        assert_eq!(["old", "used", "young", "new"].map(is_there), [false, true, true, true]);
        assert!(scene.folder().join("masked").exists());
    }
}
