//! The answers of `diff` about a path are true in a real sandbox with each of the two policies.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::sandbox::{BASE_ONLY, sandbox, succeeded, write};
use crate::support::{Place, stderr, stdout};

everywhere!(the_answers_of_diff_are_true_in_both_sandboxes);

const OLD: &str = "rw = ['~/data']\nro = ['docs', { path = 'later', if-missing = 'block' }]\nexclude = ['keys']\n";
const NEW: &str =
    "ro = ['keys', 'src', '~/data/sub']\nexclude = ['docs/draft', '~/vault']\nrw = ['~/data', '~/more']\n";

/// `hidden`, `read-only` or `writable`: what a command finds at a file or in a folder. A blocked
/// path cannot be written.
const PROBE: &str = r#"
for p in "$@"; do
    if [ -d "$p" ]; then
        if touch "$p/.probe" 2>/dev/null; then rm "$p/.probe"; echo writable
        elif ls "$p" >/dev/null 2>&1; then echo read-only; else echo hidden; fi
    elif [ ! -e "$p" ]; then
        if touch "$p" 2>/dev/null; then rm "$p"; echo writable; else echo blocked; fi
    elif ( : >>"$p" ) 2>/dev/null; then echo writable
    elif cat "$p" >/dev/null 2>&1; then echo read-only; else echo hidden; fi
done"#;

// SPEC F5
fn the_answers_of_diff_are_true_in_both_sandboxes(place: &Place) {
    for file in ["data/sub/x", "data/y", "more/z", "vault/v"] {
        place.write(format!("home/{file}"), "host");
    }
    for file in ["docs/draft/a", "docs/b", "keys/k", "src/main.rs"] {
        write(place, file, "host");
    }
    place.write("home/old.toml", format!("{BASE_ONLY}{OLD}"));
    place.write("home/new.toml", format!("{BASE_ONLY}{NEW}"));
    // Paths in a file of `--config` start at its folder, so the files must be in the project.
    for name in ["old.toml", "new.toml"] {
        fs::copy(place.home().join(name), place.project().join(name)).unwrap();
    }
    place.give_away();
    let output = place.agent_sandbox().args(["diff", "--json", "old.toml", "new.toml"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let found: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let changes = ["widened", "narrowed"].map(|group| found[group].as_array().unwrap().clone()).concat();
    let paths: Vec<&str> = changes.iter().filter_map(|change| change["what"]["path"].as_str()).collect();
    let named: Vec<&str> = paths.iter().map(|path| Path::new(path).file_name().unwrap().to_str().unwrap()).collect();
    for name in ["more", "keys", "docs", "later", "draft", "sub", "src", "vault"] {
        assert!(named.contains(&name), "{name} differs: {named:?}");
    }
    for (side, file) in [("old", "old.toml"), ("new", "new.toml")] {
        let mut command = sandbox(place);
        command.args(["--config", file, "--", "sh", "-c", PROBE, "sh"]).args(&paths);
        let is = succeeded(command.output().unwrap());
        let said = changes.iter().map(|change| change[side]["is"].as_str().unwrap());
        for ((path, is), said) in paths.iter().zip(is.lines()).zip(said) {
            let blocked = said == "blocked" && is != "writable";
            assert!(is == said || blocked, "by {file}, {path} is {is} and not {said}");
        }
    }
}
