//! Programs can use files on standard streams as they can without a sandbox.

use std::fs::{self, DirEntry, File};
use std::os::unix::fs::FileTypeExt;

use rustix::fs::{Mode, OFlags};

use crate::sandbox::{failed, policy, python, sandbox, succeeded, write};
use crate::support::{Place, binary};

everywhere!(a_file_on_standard_input_is_read_as_ever);
for_both!(
    the_caller_reads_on_where_the_command_stopped_reading,
    a_file_without_a_name_is_read,
    a_large_file_is_read,
    other_streams_pass_as_they_are,
    the_command_can_write_to_files_that_the_caller_opened,
    streams_can_be_opened_anew,
    a_disk_is_no_stream,
);

// SPEC S13
fn a_file_on_standard_input_is_read_as_ever(place: &Place) {
    const READ: &str = "
import mmap, os
text = b'first line\\nsecond line\\n'
assert os.lseek(0, 0, os.SEEK_CUR) == 0
assert mmap.mmap(0, 0, prot=mmap.PROT_READ)[:] == text
assert os.pread(0, 5, 11) == b'secon'
assert os.read(0, 6) == b'first ' and os.lseek(0, 0, os.SEEK_END) == len(text)
assert open('/dev/stdin', 'rb').read() == text and os.fstat(0).st_nlink == 1
print('read')
";
    policy(place, "exclude = ['hidden']");
    for file in ["notes.md", "hidden/notes.md"] {
        write(place, file, "first line\nsecond line\n");
        let open = || File::open(place.project().join(file)).unwrap();
        for flags in [&[][..], &["--exec"], &["--no-guard"]] {
            assert_eq!(python(sandbox(place).args(flags).arg("--").stdin(open()), READ, &[]), "read\n", "{flags:?}");
            let output = sandbox(place).args(flags).args(["--", "wc", "-c"]).stdin(open()).output().unwrap();
            assert_eq!(succeeded(output).trim(), "23", "{flags:?}");
        }
    }
    write(place, "empty", "");
    let empty = File::open(place.project().join("empty")).unwrap();
    assert_eq!(succeeded(sandbox(place).args(["--", "wc", "-c"]).stdin(empty).output().unwrap()).trim(), "0");
}

/// The output of a shell script whose arguments start agent-sandbox.
fn script(place: &Place, text: &str) -> String {
    let mut command = place.command("bash");
    command.args(["-c", text, "bash"]).arg(binary());
    if place.uid == 0 {
        command.arg("--allow-root");
    }
    succeeded(command.current_dir(place.project()).output().unwrap())
}

// SPEC S13
fn the_caller_reads_on_where_the_command_stopped_reading(place: &Place) {
    policy(place, "");
    write(place, "lines", "one\ntwo\nthree\n");
    let said = script(place, "{ read -r line; echo $line; \"$@\" -- sh -c 'read -r line; echo $line'; cat; } < lines");
    assert_eq!(said, "one\ntwo\nthree\n");
}

// SPEC S13
fn a_file_without_a_name_is_read(place: &Place) {
    policy(place, "");
    write(place, "removed", "content\n");
    assert_eq!(script(place, "exec 0< removed; rm removed; \"$@\" -- cat"), "content\n");
    write(place, "replaced", "content\n");
    assert_eq!(script(place, "exec 0< replaced; echo other > new; mv new replaced; \"$@\" -- cat"), "content\n");
    assert_eq!(script(place, "\"$@\" -- cat <<'.'\nsome text\n.\n"), "some text\n");
    // bash stores a here-document that does not fit into a pipe in a file.
    let long = "x".repeat(100_000);
    assert_eq!(script(place, &format!("\"$@\" -- wc -c <<'.'\n{long}\n.\n")).trim(), "100001");
}

// SPEC S13
fn a_large_file_is_read(place: &Place) {
    policy(place, "");
    write(place, "large", "");
    File::options().write(true).open(place.project().join("large")).unwrap().set_len(100 << 20).unwrap();
    assert_eq!(script(place, "\"$@\" -- wc -c < large").trim(), (100 << 20).to_string());
}

// SPEC S13
fn other_streams_pass_as_they_are(place: &Place) {
    policy(place, "");
    assert_eq!(script(place, "echo text | \"$@\" -- cat"), "text\n");
    assert_eq!(script(place, "\"$@\" -- cat < <(echo text)"), "text\n");
    assert_eq!(script(place, "\"$@\" -- cat < /dev/null"), "");
    assert_eq!(script(place, "\"$@\" -- sh -c 'cat 2>/dev/null; echo done' <&-"), "done\n");
    assert_eq!(script(place, "\"$@\" -- head -c 4 < /proc/version"), "Linu");
}

// SPEC S13
fn the_command_can_write_to_files_that_the_caller_opened(place: &Place) {
    policy(place, "ro = ['log']");
    write(place, "log", "before\n");
    assert_eq!(script(place, "\"$@\" -- sh -c 'echo out; echo err >&2' >> log 2>&1; cat log"), "before\nout\nerr\n");
    assert_eq!(script(place, "\"$@\" -- sh -c 'echo new' > log; cat log"), "new\n");
    assert_eq!(script(place, "\"$@\" -- sh -c 'cat; echo more >&0' 0<> log >/dev/null; cat log"), "new\nmore\n");
}

/// Scripts can open `/dev/stdout` and `/dev/stderr`, even if the file is read-only inside.
// SPEC C13
fn streams_can_be_opened_anew(place: &Place) {
    policy(place, "");
    let write = "\"$@\" -- sh -c 'echo out >> /dev/stdout; echo err >> /dev/stderr; echo null > /dev/null'";
    assert_eq!(script(place, &format!("{write} 2>&1 | cat")), "out\nerr\n");
    assert_eq!(script(place, &format!("{write} >> ~/log 2>&1; cat ~/log")), "out\nerr\n");
    let fifo = "mkfifo ~/fifo; cat ~/fifo > ~/heard & ";
    assert_eq!(script(place, &format!("{fifo} {write} > ~/fifo 2>&1; wait; cat ~/heard")), "out\nerr\n");
}

/// The test opens the disk with O_PATH, which does not touch the device.
// SPEC S5
fn a_disk_is_no_stream(place: &Place) {
    policy(place, "");
    let is_disk = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_block_device());
    let Some(disk) = fs::read_dir("/dev").unwrap().flatten().find(is_disk) else { return };
    let disk = rustix::fs::open(disk.path(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
    failed(&sandbox(place).args(["--", "true"]).stdin(disk).output().unwrap(), 125, "standard input is a disk");
}
