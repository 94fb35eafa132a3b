//! Every diagnostic of the parser, as the whole text that people read.

use std::sync::Arc;

use super::{parse, parse_builtin};
use crate::diagnostic::{Diagnostics, Format, render};
use crate::origin::Source;

fn source(name: &str, text: &str) -> Arc<Source> {
    Arc::new(Source { name: name.to_owned(), text: text.to_owned() })
}

/// Both the document and what is said about it start with a line break, for the look of the tests.
fn said_about(document: &str) -> String {
    let mut diagnostics = Diagnostics::default();
    parse(&source(".agent-sandbox.toml", &document[1..]), &mut diagnostics);
    format!("\n{}", render(&diagnostics, Format::Text { color: false }))
}

#[test]
fn toml_that_cannot_be_parsed_is_one_diagnostic() {
    let document = r#"
network = tru
[filesystem
"#;
    assert_eq!(
        said_about(document),
        r#"
error[invalid-toml]: unclosed table, expected `]`
 --> .agent-sandbox.toml:2:12
  |
2 | [filesystem
  |            ^
"#
    );
}

#[test]
fn a_key_that_is_given_twice_is_not_toml() {
    let document = r#"
network = true
network = false
"#;
    assert_eq!(
        said_about(document),
        r#"
error[invalid-toml]: duplicate key
 --> .agent-sandbox.toml:2:1
  |
2 | network = false
  | ^^^^^^^
"#
    );
}

#[test]
fn an_unfinished_file_is_reported_at_its_end() {
    let document = r#"
[filesystem]
ro = [
"#;
    assert_eq!(
        said_about(document),
        r#"
error[invalid-toml]: unclosed array, expected `]`
 --> .agent-sandbox.toml:2:7
  |
2 | ro = [
  |       ^
"#
    );
}

#[test]
fn a_misspelt_key_gets_the_nearest_one() {
    let document = r#"
[filesystm]
[filesystem]
exlude = []
RO = []
[[filesystem.rw]]
path = "a"
if_missing = "skip"
[[filesystem.rw]]
pth = "b"
"#;
    assert_eq!(
        said_about(document),
        r#"
error[unknown-key]: unknown key `filesystm` at the top level
 --> .agent-sandbox.toml:1:2
  |
1 | [filesystm]
  |  ^^^^^^^^^
  |
  = help: did you mean `filesystem`?

error[unknown-key]: unknown key `exlude` in `[filesystem]`
 --> .agent-sandbox.toml:3:1
  |
3 | exlude = []
  | ^^^^^^
  |
  = help: did you mean `exclude`?

error[unknown-key]: unknown key `RO` in `[filesystem]`
 --> .agent-sandbox.toml:4:1
  |
4 | RO = []
  | ^^
  |
  = help: did you mean `ro`?

error[unknown-key]: unknown key `if_missing` in an entry of `rw`
 --> .agent-sandbox.toml:7:1
  |
7 | if_missing = "skip"
  | ^^^^^^^^^^
  |
  = help: did you mean `if-missing`?

error[unknown-key]: unknown key `pth` in an entry of `rw`
 --> .agent-sandbox.toml:9:1
  |
9 | pth = "b"
  | ^^^
  |
  = help: did you mean `path`?
"#
    );
}

#[test]
fn a_key_that_resembles_none_gets_the_list() {
    let document = r#"
colour = true
[filesystem]
rw = [{ path = "a", why = "b" }]
"#;
    assert_eq!(
        said_about(document),
        r#"
error[unknown-key]: unknown key `colour` at the top level
 --> .agent-sandbox.toml:1:1
  |
1 | colour = true
  | ^^^^^^
  |
  = help: the keys here are `filesystem`, `network`, `docker`, `nested`, `require`, `env`, `sockets` and `presets`

error[unknown-key]: unknown key `why` in an entry of `rw`
 --> .agent-sandbox.toml:3:21
  |
3 | rw = [{ path = "a", why = "b" }]
  |                     ^^^
  |
  = help: the keys here are `path`, `if-missing` and `hard-links`
"#
    );
}

#[test]
fn another_word_for_a_key_gets_the_key() {
    let document = r#"
[filesystem]
read_only = []
hide = []
[presets."my/tools"]
presets = []
"#;
    assert_eq!(
        said_about(document),
        r#"
error[unknown-key]: unknown key `read_only` in `[filesystem]`
 --> .agent-sandbox.toml:2:1
  |
2 | read_only = []
  | ^^^^^^^^^
  |
  = help: did you mean `ro`?

error[unknown-key]: unknown key `hide` in `[filesystem]`
 --> .agent-sandbox.toml:3:1
  |
3 | hide = []
  | ^^^^
  |
  = help: did you mean `exclude`?

error[unknown-key]: unknown key `presets` in `[presets."my/tools"]`
 --> .agent-sandbox.toml:5:1
  |
5 | presets = []
  | ^^^^^^^
  |
  = help: did you mean `include`?
"#
    );
}

#[test]
fn a_key_in_the_wrong_table_is_told_where_it_belongs() {
    let document = r#"
ro = ["src"]
[filesystem]
network = true
include = []
if-missing = "skip"
[presets.tools]
tmp = "host"
"#;
    assert_eq!(
        said_about(document),
        r#"
error[unknown-key]: unknown key `ro` at the top level
 --> .agent-sandbox.toml:1:1
  |
1 | ro = ["src"]
  | ^^
  |
  = help: `ro` belongs in `[filesystem]`

error[unknown-key]: unknown key `network` in `[filesystem]`
 --> .agent-sandbox.toml:3:1
  |
3 | network = true
  | ^^^^^^^
  |
  = help: `network` belongs at the top of the file, above the first `[table]`

error[unknown-key]: unknown key `include` in `[filesystem]`
 --> .agent-sandbox.toml:4:1
  |
4 | include = []
  | ^^^^^^^
  |
  = help: `include` belongs in `[presets.NAME]`

error[unknown-key]: unknown key `if-missing` in `[filesystem]`
 --> .agent-sandbox.toml:5:1
  |
5 | if-missing = "skip"
  | ^^^^^^^^^^
  |
  = help: `if-missing` belongs in an entry: { path = "PATH", if-missing = "error" }

error[unknown-key]: unknown key `tmp` in `[presets.tools]`
 --> .agent-sandbox.toml:7:1
  |
7 | tmp = "host"
  | ^^^
  |
  = help: `tmp` belongs in `[filesystem]`
"#
    );
}

#[test]
fn keys_of_built_in_presets_are_unknown_in_a_configuration() {
    let document = r#"
[filesystem]
ro = [{ path = "*.pem", except = ["ca.pem"] }]
[presets.tools]
skip-directories = []
"#;
    assert_eq!(
        said_about(document),
        r#"
error[unknown-key]: unknown key `except` in an entry of `ro`
 --> .agent-sandbox.toml:2:25
  |
2 | ro = [{ path = "*.pem", except = ["ca.pem"] }]
  |                         ^^^^^^
  |
  = help: the keys here are `path`, `if-missing` and `hard-links`

error[unknown-key]: unknown key `skip-directories` in `[presets.tools]`
 --> .agent-sandbox.toml:4:1
  |
4 | skip-directories = []
  | ^^^^^^^^^^^^^^^^
  |
  = help: the keys here are `ro`, `rw`, `exclude` and `include`
"#
    );
}

#[test]
fn settings_of_the_wrong_type_are_reported() {
    let document = r#"
network = "true"
docker = 1
filesystem = 1.5
presets = ["@all"]
"#;
    assert_eq!(
        said_about(document),
        r#"
error[wrong-type]: `network` must be a boolean, not a string
 --> .agent-sandbox.toml:1:11
  |
1 | network = "true"
  |           ^^^^^^
  |
  = help: write `true` or `false`, without quotes

error[wrong-type]: `docker` must be a boolean, not an integer
 --> .agent-sandbox.toml:2:10
  |
2 | docker = 1
  |          ^
  |
  = help: write `true` or `false`

error[wrong-type]: `filesystem` must be a table, not a float
 --> .agent-sandbox.toml:3:14
  |
3 | filesystem = 1.5
  |              ^^^
  |
  = help: write it as `[filesystem]`

error[wrong-type]: `presets` must be a table, not an array
 --> .agent-sandbox.toml:4:11
  |
4 | presets = ["@all"]
  |           ^^^^^^^^
  |
  = help: define presets as `[presets.NAME]`; to switch presets on or off, write `presets` in `[filesystem]`
"#
    );
}

#[test]
fn tables_and_dates_in_place_of_values_are_reported() {
    let document = r#"
[network]
on = true
[filesystem]
tmp = 1979-05-27
[presets]
tools = []
"#;
    assert_eq!(
        said_about(document),
        r#"
error[wrong-type]: `network` must be a boolean, not a table
 --> .agent-sandbox.toml:1:1
  |
1 | [network]
  | ^^^^^^^^^
  |
  = help: write `true` or `false`

error[wrong-type]: `tmp` must be a string, not a date
 --> .agent-sandbox.toml:4:7
  |
4 | tmp = 1979-05-27
  |       ^^^^^^^^^^

error[wrong-type]: `presets.tools` must be a table, not an array
 --> .agent-sandbox.toml:6:9
  |
6 | tools = []
  |         ^^
  |
  = help: write it as `[presets.tools]`
"#
    );
}

#[test]
fn a_lone_entry_gets_the_brackets_as_remedy() {
    let document = r#"
[filesystem]
ro = "src"
rw = { path = "a" }
exclude = true
presets = "@all"
"#;
    assert_eq!(
        said_about(document),
        r#"
error[wrong-type]: `ro` must be an array, not a string
 --> .agent-sandbox.toml:2:6
  |
2 | ro = "src"
  |      ^^^^^
  |
  = help: write `ro = ["src"]`

error[wrong-type]: `rw` must be an array, not a table
 --> .agent-sandbox.toml:3:6
  |
3 | rw = { path = "a" }
  |      ^^^^^^^^^^^^^^
  |
  = help: write `rw = [{ path = "a" }]`

error[wrong-type]: `exclude` must be an array, not a boolean
 --> .agent-sandbox.toml:4:11
  |
4 | exclude = true
  |           ^^^^

error[wrong-type]: `presets` must be an array, not a string
 --> .agent-sandbox.toml:5:11
  |
5 | presets = "@all"
  |           ^^^^^^
  |
  = help: write `presets = ["@all"]`
"#
    );
}

#[test]
fn elements_of_the_wrong_type_are_reported() {
    let document = r#"
[filesystem]
ro = [1, "a", ["b"]]
rw = [{ path = 1 }]
presets = [true]
"#;
    assert_eq!(
        said_about(document),
        r#"
error[wrong-type]: `ro` holds strings and tables, not an integer
 --> .agent-sandbox.toml:2:7
  |
2 | ro = [1, "a", ["b"]]
  |       ^
  |
  = help: write "PATH", or { path = "PATH", if-missing = "error" }

error[wrong-type]: `ro` holds strings and tables, not an array
 --> .agent-sandbox.toml:2:15
  |
2 | ro = [1, "a", ["b"]]
  |               ^^^^^
  |
  = help: write "PATH", or { path = "PATH", if-missing = "error" }

error[wrong-type]: `path` must be a string, not an integer
 --> .agent-sandbox.toml:3:16
  |
3 | rw = [{ path = 1 }]
  |                ^

error[wrong-type]: `presets` holds strings, not a boolean
 --> .agent-sandbox.toml:4:12
  |
4 | presets = [true]
  |            ^^^^
"#
    );
}

#[test]
fn words_outside_the_set_are_reported() {
    let document = r#"
[filesystem]
tmp = "shared"
ro = [{ path = "a", if-missing = "eror" }]
"#;
    assert_eq!(
        said_about(document),
        r#"
error[invalid-value]: `shared` is not a value of `tmp`
 --> .agent-sandbox.toml:2:7
  |
2 | tmp = "shared"
  |       ^^^^^^^^
  |
  = help: write "private" or "host"

error[invalid-value]: `eror` is not a value of `if-missing`
 --> .agent-sandbox.toml:3:34
  |
3 | ro = [{ path = "a", if-missing = "eror" }]
  |                                  ^^^^^^
  |
  = help: did you mean "error"?
"#
    );
}

#[test]
fn an_entry_without_a_path_is_reported() {
    let document = r#"
[filesystem]
ro = [{ if-missing = "error" }]
[[filesystem.rw]]
"#;
    assert_eq!(
        said_about(document),
        r#"
error[invalid-value]: this entry of `ro` has no `path`
 --> .agent-sandbox.toml:2:7
  |
2 | ro = [{ if-missing = "error" }]
  |       ^^^^^^^^^^^^^^^^^^^^^^^^
  |
  = help: add `path = "PATH"`

error[invalid-value]: this entry of `rw` has no `path`
 --> .agent-sandbox.toml:3:1
  |
3 | [[filesystem.rw]]
  | ^^^^^^^^^^^^^^^^^
  |
  = help: add `path = "PATH"`
"#
    );
}

#[test]
fn paths_that_cannot_mean_anything_are_reported() {
    let document = r#"
[filesystem]
ro = [""]
rw = ["a\u0000b"]
exclude = [{ path = "" }]
"#;
    assert_eq!(
        said_about(document),
        r#"
error[invalid-path]: the path is empty
 --> .agent-sandbox.toml:2:7
  |
2 | ro = [""]
  |       ^^
  |
  = help: write "." for the folder that relative paths start at

error[invalid-path]: `a\u{0}b` contains a NUL byte
 --> .agent-sandbox.toml:3:7
  |
3 | rw = ["a\u0000b"]
  |       ^^^^^^^^^^
  |
  = help: no path can contain one

error[invalid-path]: the path is empty
 --> .agent-sandbox.toml:4:21
  |
4 | exclude = [{ path = "" }]
  |                     ^^
  |
  = help: write "." for the folder that relative paths start at
"#
    );
}

#[test]
fn names_that_cannot_be_written_after_an_at_sign_are_reported() {
    let document = r#"
[presets.Tools]
[presets._x]
[presets."\u001b[2J"]
ro = 1
[presets."a/b_c-1"]
"#;
    assert_eq!(
        said_about(document),
        r#"
error[invalid-preset-name]: `Tools` cannot be the name of a preset
 --> .agent-sandbox.toml:1:10
  |
1 | [presets.Tools]
  |          ^^^^^
  |
  = help: use lower-case letters, digits, `-`, `_` and `/`, with a letter or digit first

error[invalid-preset-name]: `_x` cannot be the name of a preset
 --> .agent-sandbox.toml:2:10
  |
2 | [presets._x]
  |          ^^
  |
  = help: use lower-case letters, digits, `-`, `_` and `/`, with a letter or digit first

error[invalid-preset-name]: `\u{1b}[2J` cannot be the name of a preset
 --> .agent-sandbox.toml:3:10
  |
3 | [presets."\u001b[2J"]
  |          ^^^^^^^^^^^
  |
  = help: use lower-case letters, digits, `-`, `_` and `/`, with a letter or digit first

error[wrong-type]: `ro` must be an array, not an integer
 --> .agent-sandbox.toml:4:6
  |
4 | ro = 1
  |      ^
"#
    );
}

#[test]
fn presets_that_are_not_written_as_at_name_are_reported() {
    let document = r#"
[filesystem]
presets = ["git", "!Git", "@", "", "!@all", "@lint/x"]
"#;
    assert_eq!(
        said_about(document),
        r#"
error[invalid-value]: `git` does not name a preset
 --> .agent-sandbox.toml:2:12
  |
2 | presets = ["git", "!Git", "@", "", "!@all", "@lint/x"]
  |            ^^^^^
  |
  = help: write `@git`

error[invalid-value]: `!Git` does not name a preset
 --> .agent-sandbox.toml:2:19
  |
2 | presets = ["git", "!Git", "@", "", "!@all", "@lint/x"]
  |                   ^^^^^^
  |
  = help: write `!@git`

error[invalid-value]: `@` does not name a preset
 --> .agent-sandbox.toml:2:27
  |
2 | presets = ["git", "!Git", "@", "", "!@all", "@lint/x"]
  |                           ^^^
  |
  = help: write `@NAME`

error[invalid-value]: an empty string does not name a preset
 --> .agent-sandbox.toml:2:32
  |
2 | presets = ["git", "!Git", "@", "", "!@all", "@lint/x"]
  |                                ^^
  |
  = help: write `@NAME`
"#
    );
}

#[test]
fn a_preset_cannot_include_a_removal() {
    let document = r#"
[presets.tools]
include = ["!@git", "git", "@caches"]
"#;
    assert_eq!(
        said_about(document),
        r#"
error[invalid-value]: `!@git` removes a preset, and `include` can only add
 --> .agent-sandbox.toml:2:12
  |
2 | include = ["!@git", "git", "@caches"]
  |            ^^^^^^^
  |
  = help: switch it off with `presets` in `[filesystem]`

error[invalid-value]: `git` does not name a preset
 --> .agent-sandbox.toml:2:21
  |
2 | include = ["!@git", "git", "@caches"]
  |                     ^^^^^
  |
  = help: write `@git`
"#
    );
}

#[test]
fn mistakes_in_the_data_file_of_a_preset_are_shown_in_that_file() {
    let document = r#"
description = 1
relative-to = "projct"
leave-trackd = true
exclude = [{ path = "*.pem", exept = [] }]
"#;
    let mut diagnostics = Diagnostics::default();
    parse_builtin("secrets", &source("presets/secrets.toml", &document[1..]), &mut diagnostics);
    let said = format!("\n{}", render(&diagnostics, Format::Text { color: false }));
    assert_eq!(
        said,
        r#"
error[wrong-type]: `description` must be a string, not an integer
 --> presets/secrets.toml:1:15
  |
1 | description = 1
  |               ^

error[invalid-value]: `projct` is not a value of `relative-to`
 --> presets/secrets.toml:2:15
  |
2 | relative-to = "projct"
  |               ^^^^^^^^
  |
  = help: did you mean "project"?

error[unknown-key]: unknown key `leave-trackd` in a built-in preset
 --> presets/secrets.toml:3:1
  |
3 | leave-trackd = true
  | ^^^^^^^^^^^^
  |
  = help: did you mean `leave-tracked`?

error[unknown-key]: unknown key `exept` in an entry of `exclude`
 --> presets/secrets.toml:4:30
  |
4 | exclude = [{ path = "*.pem", exept = [] }]
  |                              ^^^^^
  |
  = help: did you mean `except`?
"#
    );
}

#[test]
fn no_text_however_broken_stops_the_parser_or_drives_the_terminal() {
    let document = "network = \"\u{9b}2J\" # \u{1b}]0;x\u{7}\r\n[filesystem]\r\nro = ['é\u{202e}', \"\"\"\r\na\"\"\", { path = 1 }]\r\n[presets.É]\n";
    let pieces = (0..=document.len()).flat_map(|at| [document.get(..at), document.get(at..)]).flatten();
    for piece in pieces {
        let said = said_about(&format!("\n{piece}"));
        assert!(said.chars().all(|c| c == '\n' || !c.is_control()), "{said:?}");
        assert!(!said.contains('\u{202e}'), "{said:?}");
    }
}

#[test]
fn sockets_are_a_list_of_paths() {
    let document = r#"
sockets = "~/.ssh/agent"
[filesystem]
sockets = []
"#;
    assert_eq!(
        said_about(document),
        r#"
error[wrong-type]: `sockets` must be an array, not a string
 --> .agent-sandbox.toml:1:11
  |
1 | sockets = "~/.ssh/agent"
  |           ^^^^^^^^^^^^^^
  |
  = help: write `sockets = ["~/.ssh/agent"]`

error[unknown-key]: unknown key `sockets` in `[filesystem]`
 --> .agent-sandbox.toml:3:1
  |
3 | sockets = []
  | ^^^^^^^
  |
  = help: `sockets` belongs at the top of the file, above the first `[table]`
"#
    );
    let document = r#"
sockets = ["", 1, "a\u0000b"]
"#;
    assert_eq!(
        said_about(document),
        r#"
error[invalid-path]: the path is empty
 --> .agent-sandbox.toml:1:12
  |
1 | sockets = ["", 1, "a\u0000b"]
  |            ^^
  |
  = help: write "." for the folder that relative paths start at

error[wrong-type]: `sockets` holds strings, not an integer
 --> .agent-sandbox.toml:1:16
  |
1 | sockets = ["", 1, "a\u0000b"]
  |                ^

error[invalid-path]: `a\u{0}b` contains a NUL byte
 --> .agent-sandbox.toml:1:19
  |
1 | sockets = ["", 1, "a\u0000b"]
  |                   ^^^^^^^^^^
  |
  = help: no path can contain one
"#
    );
}

#[test]
fn other_names_of_a_file_are_refused_or_allowed() {
    let document = r#"
[filesystem]
exclude = [{ path = "key", hard-links = "alow" }]
"#;
    assert_eq!(
        said_about(document),
        r#"
error[invalid-value]: `alow` is not a value of `hard-links`
 --> .agent-sandbox.toml:2:41
  |
2 | exclude = [{ path = "key", hard-links = "alow" }]
  |                                         ^^^^^^
  |
  = help: did you mean "allow"?
"#
    );
}
