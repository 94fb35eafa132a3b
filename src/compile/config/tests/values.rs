//! Values of the wrong type or form.

use super::said_about;

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
  |
  = help: write "private" or "host"

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
fn values_outside_the_allowed_set_are_reported() {
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
  = help: remove the NUL byte

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
  = help: write `sockets` at the top of the file, above the first `[table]`
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
  = help: remove the NUL byte
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
