//! The default form: one bwrap command that a person can read and paste. Comments before it name
//! what a run does besides.

use std::ffi::OsStr;

use crate::compile::environment::{Environment, Fate};
use crate::compile::lower::Argv;

use super::{quote_all, quote_for_people};

pub(super) fn command(argv: &Argv) -> Vec<u8> {
    let mut out = Vec::new();
    for (what, paths) in besides(argv) {
        out.extend([b"# ", what.as_bytes(), b": ", &paths, b"\n"].concat());
    }
    out.extend(quote_for_people(argv.program.as_os_str()));
    for operation in &argv.operations {
        out.extend([b" \\\n  ", quote_all(&operation.words, quote_for_people).as_slice()].concat());
    }
    let inside = argv.inside();
    if !inside.is_empty() {
        out.extend([b" \\\n  -- ", quote_all(&inside, quote_for_people).as_slice()].concat());
    }
    out.push(b'\n');
    out
}

/// What a run does besides executing the command: one line for each kind of thing.
fn besides(argv: &Argv) -> Vec<(&'static str, Vec<u8>)> {
    let mut lines = Vec::new();
    let mut line = |what, list: &mut dyn Iterator<Item = &OsStr>| {
        let list: Vec<Vec<u8>> = list.map(quote_for_people).collect();
        if !list.is_empty() {
            lines.push((what, list.join(&b' ')));
        }
    };
    line(
        "a run creates",
        &mut argv.create.iter().chain(argv.new_files.iter().map(|file| &file.path)).map(|path| path.as_os_str()),
    );
    line("a run puts up placeholders, which must stand", &mut argv.placeholders.iter().map(|one| one.path.as_os_str()));
    let Environment { only_named, .. } = argv.environment;
    if only_named {
        line("a run passes only the variables", &mut argv.environment.with(Fate::Passed).map(|(name, _)| name));
    } else {
        line("a run unsets the variables", &mut argv.environment.with(Fate::Dropped).map(|(name, _)| name));
    }
    line("a run sets the variables", &mut argv.environment.set().map(|(name, _, _)| name));
    let overflow = argv.guard.iter().flat_map(|guard| &guard.plan.overflow).count();
    if overflow > 0 {
        lines.push(("mounts that the guard makes, as its plan lists them", overflow.to_string().into_bytes()));
    }
    let descriptors: Vec<String> = argv.data.iter().map(|data| data.descriptor.to_string()).collect();
    if !descriptors.is_empty() {
        let what = "file descriptors that a run opens, because the state folder has no place for them";
        lines.push((what, descriptors.join(" ").into_bytes()));
    }
    if argv.guard.is_some() && argv.is_command_too_long() {
        lines.push((
            "bwrap takes fewer arguments; a run hands this many to the guard",
            argv.command.len().to_string().into_bytes(),
        ));
    }
    lines
}
