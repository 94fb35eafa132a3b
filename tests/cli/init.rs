use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::run;
use crate::support::Place;

const FILE: &str = ".agent-sandbox.toml";

// SPEC I3
#[test]
fn a_file_is_written_once() {
    let place = Place::in_tmp();
    place.write("home/code/project/Cargo.toml", "");
    let printed = run(&place, ["init", "--stdout"]);
    assert_eq!((printed.code, printed.err.as_str()), (Some(0), ""));
    assert!(!place.project().join(FILE).exists());
    let written = run(&place, ["init"]);
    let expected = format!("wrote {}/{FILE}: read it, and change it\n", place.project().display());
    assert_eq!((written.code, written.out, written.err.as_str()), (Some(0), expected, ""));
    assert_eq!(fs::read_to_string(place.project().join(FILE)).unwrap(), printed.out);
    let mode = fs::metadata(place.project().join(FILE)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777 & !0o644, 0, "{mode:o}");

    fs::write(place.project().join(FILE), "# mine\n").unwrap();
    let again = run(&place, ["init"]);
    assert_eq!((again.code, again.codes()), (Some(125), vec!["already-there"]));
    assert_eq!(fs::read_to_string(place.project().join(FILE)).unwrap(), "# mine\n");
}

// SPEC I2
#[test]
fn a_file_from_init_checks_lints_and_runs_without_consent() {
    let place = Place::in_tmp();
    for (file, text) in [("package.json", "{}"), (".github/workflows/ci.yml", ""), ("key.p12", "x"), (".eslintrc", "")]
    {
        place.write(format!("home/code/project/{file}"), text);
    }
    assert_eq!(run(&place, ["init"]).code, Some(0));
    let checked = run(&place, ["check"]);
    assert_eq!((checked.code, checked.err.as_str()), (Some(0), ""));
    let linted = run(&place, ["lint"]);
    assert_eq!((linted.code, linted.out.as_str(), linted.err.as_str()), (Some(0), "nothing found\n", ""));
    let words = ["--print-args", "--", "true"];
    assert!(!run(&place, words).err.contains("widening"));
}

// SPEC I3
#[test]
fn a_link_is_not_followed() {
    let place = Place::in_tmp();
    for target in ["/nowhere", "elsewhere.toml"] {
        let link = place.project().join(FILE);
        symlink(target, &link).unwrap();
        place.give_away();
        assert_eq!(run(&place, ["init"]).codes(), ["already-there"]);
        assert!(!place.project().join("elsewhere.toml").exists());
        fs::remove_file(link).unwrap();
    }
}

#[test]
fn the_file_is_written_to_the_root_of_the_project() {
    let place = Place::in_tmp();
    place.write("home/code/project/.git/HEAD", "ref: refs/heads/main\n");
    place.write("home/code/project/src/main.rs", "");
    assert_eq!(run(&place, ["init", "--cwd", "src"]).code, Some(0));
    assert!(place.project().join(FILE).exists() && !place.project().join("src").join(FILE).exists());
}

// SPEC I3
#[test]
fn init_refuses_a_home() {
    let place = Place::in_tmp();
    let home = place.home();
    let ran = run(&place, ["init", "--cwd", home.to_str().unwrap()]);
    assert_eq!((ran.code, ran.codes()), (Some(125), vec!["unsafe-root"]));
    assert!(!home.join(FILE).exists());
}

/// `init` leaves mistakes in other files to `check`.
#[test]
fn init_ignores_a_broken_file_of_the_user() {
    let place = Place::in_tmp();
    place.write("home/.config/agent-sandbox/config.toml", "nonsense");
    assert_eq!(run(&place, ["init"]).code, Some(0));
}
