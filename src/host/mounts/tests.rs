use super::*;

fn abs(path: &str) -> AbsPath {
    AbsPath::root().join(path)
}

/// Each line is `alias = name`, with the name that the rule reached. `(around)` means that the
/// rule is on a folder around that name.
fn aliases(table: &str, path: &str) -> Vec<String> {
    let found = Mounts::read(table.as_bytes()).map(|mounts| mounts.aliases(&abs(path))).unwrap_or_default();
    let around = |of: &AliasOf| if of.inherited { " (around)" } else { "" };
    found.iter().map(|(alias, of)| format!("{alias} = {}{}", of.path, around(of))).collect()
}

const ROOT: &str = "20 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n21 20 0:21 / /proc rw - proc proc rw\n";

fn table(lines: &str) -> String {
    format!("{ROOT}{lines}")
}

#[test]
fn without_second_mounts_there_are_no_aliases() {
    assert!(Mounts::read(table("22 20 8:2 / /home rw - ext4 /dev/sda2 rw\n").as_bytes()).is_none());
    let parts_of_proc = "22 21 0:21 /sys /proc/sys ro - proc proc rw\n23 20 0:5 / /dev rw - devtmpfs d rw\n24 23 0:5 /x /dev/x rw - devtmpfs d rw\n";
    assert!(Mounts::read(table(parts_of_proc).as_bytes()).is_none());
    assert!(Mounts::read(b"").is_none());
}

// SPEC W3
#[test]
fn a_mount_of_proc_or_of_a_part_of_dev_elsewhere_is_an_alias() {
    let proc = table("22 20 0:21 / /srv/proc rw - proc proc rw\n");
    assert_eq!(aliases(&proc, "/proc"), ["/srv/proc = /proc"]);
    let memory = table("22 20 0:30 / /dev/shm rw - tmpfs t rw\n23 20 0:30 /x /srv/x rw - tmpfs t rw\n");
    assert_eq!(aliases(&memory, "/dev/shm/x/s"), ["/srv/x/s = /dev/shm/x/s"]);
}

#[test]
fn a_bind_of_a_folder_around_a_path_shows_the_path_there() {
    let table = table("22 20 8:1 /home/u /mnt/copy rw - ext4 /dev/sda1 rw\n");
    assert_eq!(aliases(&table, "/home/u/.ssh"), ["/mnt/copy/.ssh = /home/u/.ssh"]);
    assert_eq!(aliases(&table, "/home/u"), ["/mnt/copy = /home/u"]);
    // The alias works in both directions.
    assert_eq!(aliases(&table, "/mnt/copy/.ssh"), ["/home/u/.ssh = /mnt/copy/.ssh"]);
    assert_eq!(aliases(&table, "/home/v"), [""; 0]);
    assert_eq!(aliases(&table, "/home/user"), [""; 0]);
}

#[test]
fn a_bind_mount_of_a_path_inside_a_folder_is_an_alias() {
    let table = table("22 20 8:1 /home/u/.ssh/keys /mnt/keys rw - ext4 /dev/sda1 rw\n");
    assert_eq!(aliases(&table, "/home/u/.ssh"), ["/mnt/keys = /home/u/.ssh/keys (around)"]);
    assert_eq!(aliases(&table, "/home/u/.ssh/keys"), ["/mnt/keys = /home/u/.ssh/keys"]);
    assert_eq!(aliases(&table, "/home/u/.ssh/keys/id"), ["/mnt/keys/id = /home/u/.ssh/keys/id"]);
}

#[test]
fn a_file_can_be_bound_too() {
    let table = table("22 20 8:1 /home/u/.env /mnt/a rw - ext4 /dev/sda1 rw\n");
    assert_eq!(aliases(&table, "/home/u/.env"), ["/mnt/a = /home/u/.env"]);
}

#[test]
fn another_mount_of_a_nested_file_system_is_an_alias() {
    let table = table("22 20 8:2 / /data/disk rw - ext4 b rw\n23 20 8:2 / /mnt/disk rw - ext4 b rw\n");
    assert_eq!(aliases(&table, "/data"), ["/mnt/disk = /data/disk (around)"]);
    assert_eq!(aliases(&table, "/data/disk/x"), ["/mnt/disk/x = /data/disk/x"]);
}

#[test]
fn a_path_can_have_many_aliases_also_through_binds_of_binds() {
    let table = table(
        "22 20 8:1 /srv /a rw - ext4 s rw\n23 20 8:1 /srv/b /b rw - ext4 s rw\n24 23 8:1 /srv/b/c /b/d rw - ext4 s rw\n",
    );
    assert_eq!(
        aliases(&table, "/srv/b/c/key"),
        ["/a/b/c/key = /srv/b/c/key", "/b/c/key = /srv/b/c/key", "/b/d/key = /srv/b/c/key"]
    );
}

#[test]
fn parts_of_one_file_system_without_a_common_part_are_no_other_names() {
    let table = "20 1 0:30 /@ / rw - btrfs /dev/sda1 rw\n21 20 0:30 /@home /home rw - btrfs /dev/sda1 rw\n22 20 0:31 / /x rw - tmpfs t rw\n";
    assert_eq!(aliases(table, "/home/u/.ssh"), [""; 0]);
    assert_eq!(aliases(table, "/etc/shadow"), [""; 0]);
    let with_top = format!("{table}23 20 0:30 / /.top rw - btrfs /dev/sda1 rw\n");
    assert_eq!(aliases(&with_top, "/home/u/.ssh"), ["/.top/@home/u/.ssh = /home/u/.ssh"]);
    assert_eq!(aliases(&with_top, "/etc/shadow"), ["/.top/@/etc/shadow = /etc/shadow"]);
}

// SPEC W3
#[test]
fn a_covered_mount_is_no_alias() {
    // Another mount on the same mount point, and one on a folder above it.
    let bind = "22 20 8:1 /home/u /mnt/copy rw - ext4 s rw\n";
    let same = table(&format!("{bind}23 22 8:9 / /mnt/copy rw - ext4 b rw\n"));
    assert_eq!(aliases(&same, "/home/u/.ssh"), [""; 0]);
    let above = table(&format!("{bind}23 20 8:9 / /mnt rw - ext4 b rw\n"));
    assert_eq!(aliases(&above, "/home/u/.ssh"), [""; 0]);
    let inside = table(&format!("{bind}23 22 8:9 / /mnt/copy/.ssh rw - ext4 b rw\n"));
    assert_eq!(aliases(&inside, "/home/u/.ssh"), [""; 0]);
    // A folder mounted onto itself hides its other name.
    let itself = table("22 20 8:1 /home /home rw - ext4 s rw\n");
    assert_eq!(aliases(&itself, "/home/u/.ssh"), [""; 0]);
    // The rule means the file system that is mounted on the path, and not the directory below that
    // mount.
    let there = table("22 20 8:2 / /home/u rw - ext4 b rw\n23 20 8:1 /home/u /mnt/copy rw - ext4 s rw\n");
    assert_eq!(aliases(&there, "/home/u/.ssh"), [""; 0]);
    assert_eq!(aliases(&there, "/home"), [""; 0]);
}

#[test]
fn names_are_written_with_octal_escapes() {
    let table = table("22 20 8:1 /a\\040b\\134c /mnt/x\\011\\012y rw - ext4 s rw\n");
    assert_eq!(aliases(&table, "/a b\\c/key"), ["/mnt/x\\t\\ny/key = /a b\\c/key"]);
}

#[test]
fn mounts_without_a_valid_path_are_ignored() {
    let table = table(
        "22 20 8:1 /home/u//deleted /mnt/a rw - ext4 s rw\n23 20 0:40 /../.. /mnt/b rw - cgroup2 c rw\nnonsense\n24 x 8:1 / /y rw\n",
    );
    assert_eq!(aliases(&table, "/home/u/.ssh"), [""; 0]);
}

#[test]
fn without_a_mount_of_the_root_the_table_is_still_read() {
    // In a chroot.
    let table = "22 5 8:1 /srv/a /a rw - ext4 s rw\n23 5 8:1 /srv/a/b /b rw - ext4 s rw\n";
    assert_eq!(aliases(table, "/a/b/key"), ["/b/key = /a/b/key"]);
    assert_eq!(aliases(table, "/etc/shadow"), [""; 0]);
}
