//! `agent-sandbox private`.

use serde_json::Value;

use crate::run;
use crate::support::{Place, require_bwrap};

fn stable(text: &str, place: &Place) -> String {
    text.replace(place.path().to_str().unwrap(), "/PLACE")
}

#[test]
fn copies_are_listed_shown_and_forgotten() {
    require_bwrap();
    let place = Place::in_tmp();
    assert_eq!(run(&place, ["private", "list"]).out, "no project has a copy of a private file\n");
    place.write("home/.tool/a.json", "{\"x\": 1}");
    place.write("home/.config/agent-sandbox/config.toml", "[filesystem]\nprivate = [\"~/.tool/a.json\"]\n");
    let script = "printf '{\"x\": 2, \"y\": [3]}' >~/.tool/a.json";
    let ran = run(&place, ["--", "sh", "-c", script]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.err.contains("warning[private-kept]: `x` and `y`"), "{}", ran.err);
    let list = run(&place, ["private", "list"]);
    assert_eq!(stable(&list.out, &place), "/PLACE/home/code/project  /PLACE/home/.tool/a.json  2 keys differ\n");
    let file = place.home().join(".tool/a.json");
    let file = file.to_str().unwrap();
    let shown = "/PLACE/home/.tool/a.json\n  x: `1` on the host, `2` in the copy\n  y: nothing on the host, `[3]` in the copy\n";
    for words in [vec!["private", "show"], vec!["private", "show", file]] {
        assert_eq!(stable(&run(&place, words).out, &place), shown);
    }
    assert_eq!(run(&place, ["private", "show", "other"]).out, "there is no such copy in this project\n");
    let json = run(&place, ["private", "show", "--json"]);
    let answer: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(answer["copies"][0]["changes"][0]["key"], "x", "{answer:#}");
    let schema: Value = serde_json::from_str(&run(&place, ["schema", "private"]).out).unwrap();
    jsonschema::validate(&schema, &answer).unwrap();
    let missing = run(&place, ["private", "forget", "other"]);
    assert_eq!((missing.code, missing.out.contains("there is no copy of")), (Some(1), true));
    for (words, said) in
        [(vec!["private", "forget"], "needs a FILE"), (vec!["private", "forget", "--json", file], "has no JSON form")]
    {
        let refused = run(&place, words);
        assert_eq!((refused.code, refused.err.contains(said)), (Some(125), true), "{}", refused.err);
    }
    let forgotten = run(&place, ["private", "forget", file]);
    assert_eq!(
        (forgotten.code, stable(&forgotten.out, &place).as_str()),
        (Some(0), "forgotten /PLACE/home/.tool/a.json\n")
    );
    assert_eq!(run(&place, ["--", "cat", file]).out, "{\"x\": 1}", "the next run starts with the host's file");
}
