//! A probe for the inside of a sandbox: reports what the kernel allows at each path, without leaving a trace.
//!
//! The answers are compared with the model of the argv, so this module asks the kernel and decides nothing.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::ExitCode;

use serde_json::json;

use super::output::Output;

pub(super) fn run(output: &Output) -> ExitCode {
    let mut input = Vec::new();
    if io::stdin().lock().read_to_end(&mut input).is_err() {
        return ExitCode::FAILURE;
    }
    let mut report = String::new();
    for path in input.split(|b| *b == 0).filter(|path| !path.is_empty()) {
        report.push_str(&examine(Path::new(OsStr::from_bytes(path))));
        report.push('\n');
    }
    output.print(report.as_bytes())
}

/// One line of JSON: what is there, and `ok` or the error number for reading and for writing.
fn examine(path: &Path) -> String {
    let kind = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => "directory",
        Ok(found) if found.is_symlink() => "symlink",
        Ok(found) if found.file_type().is_char_device() => "device",
        Ok(_) => "file",
        Err(e) => return json!({ "kind": "none", "error": number(&e) }).to_string(),
    };
    let (read, write) = if kind == "directory" {
        (fs::read_dir(path).map(drop), create_in(path))
    } else {
        (
            fs::File::open(path).and_then(|mut file| file.read(&mut [0; 1])).map(drop),
            OpenOptions::new().append(true).open(path).map(drop),
        )
    };
    json!({ "kind": kind, "read": answer(&read), "write": answer(&write) }).to_string()
}

fn create_in(directory: &Path) -> io::Result<()> {
    let name = directory.join(format!(".agent-sandbox-probe-{}", std::process::id()));
    fs::create_dir(&name)?;
    fs::remove_dir(&name)
}

fn answer(result: &io::Result<()>) -> serde_json::Value {
    match result {
        Ok(()) => json!("ok"),
        Err(e) => json!(number(e)),
    }
}

fn number(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or_default()
}
