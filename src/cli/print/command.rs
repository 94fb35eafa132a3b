//! The default form: one bwrap command that a person can read and paste. Comments before it list
//! the other things that a run does.

use std::ffi::OsStr;

use crate::compile::environment::Fate;
use crate::compile::lower::Argv;
use crate::diagnostic::shell_quote;

use super::display_args;

pub(super) fn command(argv: &Argv) -> String {
    let mut out: String = besides(argv).iter().map(|(title, list)| format!("# {title}: {list}\n")).collect();
    out.push_str(&shell_quote(argv.program.as_os_str()));
    out.extend(argv.operations.iter().map(|operation| format!(" \\\n  {}", display_args(&operation.words))));
    let inside = argv.inside();
    if !inside.is_empty() {
        out.push_str(&format!(" \\\n  -- {}", display_args(&inside)));
    }
    out.push('\n');
    out
}

fn besides(argv: &Argv) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    let mut line = |title, list: &mut dyn Iterator<Item = &OsStr>| {
        lines.push((title, list.map(shell_quote).collect::<Vec<_>>().join(" ")));
    };
    let created = argv.create.iter().chain(argv.new_files.iter().map(|file| &file.path));
    line("a run creates", &mut created.map(|path| path.as_os_str()));
    line("a run puts up placeholders, which must stand", &mut argv.placeholders.iter().map(|one| one.path.as_os_str()));
    let environment = &argv.environment;
    if environment.only_named {
        line("a run passes only the variables", &mut environment.with(Fate::Passed).map(|(name, _)| name));
    } else {
        line("a run unsets the variables", &mut environment.with(Fate::Dropped).map(|(name, _)| name));
    }
    line("a run sets the variables", &mut environment.set().map(|(name, _, _)| name));
    let mut links = argv.guard.iter().flat_map(|guard| &guard.plan.links).map(|link| link.path.as_os_str());
    line("private files, over which the guard mounts a link to their copy", &mut links);
    let overflow = argv.guard.iter().flat_map(|guard| &guard.plan.overflow).count();
    if overflow > 0 {
        lines.push(("mounts that the guard makes, as its plan lists them", overflow.to_string()));
    }
    let descriptors: Vec<String> = argv.data.iter().map(|data| data.descriptor.to_string()).collect();
    let title = "file descriptors that a run opens, because the state folder has no place for them";
    lines.push((title, descriptors.join(" ")));
    if argv.guard.is_some() && argv.is_command_too_long() {
        let title = "bwrap takes fewer arguments; a run hands this many to the guard";
        lines.push((title, argv.command.len().to_string()));
    }
    lines.retain(|(_, list)| !list.is_empty());
    lines
}
