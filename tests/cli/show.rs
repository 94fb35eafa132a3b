use crate::explain::checked;
use crate::support::Place;
use crate::{ran, run};

#[test]
fn show_prints_the_same_paths_as_text_and_as_json() {
    let place = Place::in_tmp();
    place.write("home/.ssh/id", "");
    place.write("home/code/project/keys/a", "");
    let words = ["--exclude", "keys", "--network=false", "show"];
    let text = run(&place, words).out;
    let value = checked("show", &run(&place, words.iter().chain(&["--json"])));
    assert_eq!((&value["network"]["value"], &value["guard"]), (&false.into(), &true.into()));
    let home = place.home();
    let access = |path: &str| {
        let path = home.join(path);
        let nodes = value["paths"].as_array().unwrap();
        let node = nodes.iter().find(|node| node["path"] == path.to_str().unwrap());
        node.unwrap_or_else(|| panic!("{path:?} is not shown"))["access"].as_str().unwrap()
    };
    assert_eq!((access(".ssh"), access("code/project"), access("code/project/keys")), ("exclude", "rw", "exclude"));
    for (name, access, origin) in [(".ssh", "exclude", "@secrets"), ("keys", "exclude", "--exclude keys")] {
        let line = text.lines().find(|line| line.contains(&format!("─ {name} "))).unwrap();
        assert!(line.contains(access) && line.ends_with(origin), "{line}");
    }
    assert!(text.contains("network     off (--network false)"), "{text}");
}

/// Names are shown, and no values: a reader must not learn the caller's secrets.
// SPEC X7
#[test]
fn no_value_of_a_variable_is_shown() {
    let place = Place::in_tmp();
    for words in [&["show"][..], &["show", "--json"]] {
        let output = place.agent_sandbox().env("TOKEN", "hush-hush").args(words).output().unwrap();
        assert!(output.status.success() && !crate::support::stdout(&output).contains("hush-hush"));
    }
}

#[test]
fn show_counts_the_paths_below_the_depth() {
    let place = Place::in_tmp();
    place.write("home/code/project/.env", "");
    let text = run(&place, ["show", "--depth", "1"]).out;
    assert!(text.lines().any(|line| line.contains(" below: ")), "{text}");
    assert!(!text.contains("@autorun "), "{text}");
}

#[test]
fn show_rejects_tree_flags_with_json_and_invalid_depths() {
    for words in [["show", "--json", "--all"], ["show", "--json", "--depth=1"], ["show", "--depth=x", "--all"]] {
        assert_eq!(ran(words).code, Some(2), "{words:?}");
    }
}
