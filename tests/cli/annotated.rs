use crate::run;
use crate::support::Place;

/// A run may create a file at a path for two opposite reasons.
#[test]
fn a_placeholder_is_annotated_as_a_block_or_as_a_mount_point() {
    let place = Place::in_tmp();
    place.write("home/.claude.json", "{}");
    place.write("home/.claude/settings.json", "{}");
    let ran = run(&place, ["--print-args=annotated", "--", "true"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let why = |path: &str| {
        let start = format!("# {}/home/{path} ", place.path().display());
        let line = ran.out.lines().find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("{}", ran.out));
        line[start.len()..].trim_start().to_owned()
    };
    assert_eq!(why(".claude/skills"), "# @agents: exists during the run, so that it cannot be created");
    assert_eq!(why(".claude/.claude.json"), "# @agents: exists during the run, for a file to be mounted on");
}
