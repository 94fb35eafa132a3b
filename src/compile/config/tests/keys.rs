//! Keys that are unknown, or that are in the wrong table.

use super::said_about;

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
  = help: write one of these keys: `filesystem`, `network`, `docker`, `nested`, `require`, `env`, `limits`, `git`, `sockets`, `inject` and `presets`

error[unknown-key]: unknown key `why` in an entry of `rw`
 --> .agent-sandbox.toml:3:21
  |
3 | rw = [{ path = "a", why = "b" }]
  |                     ^^^
  |
  = help: write one of these keys: `path`, `if-missing` and `hard-links`
"#
    );
}

#[test]
fn a_synonym_of_a_key_gets_the_key_as_a_suggestion() {
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
fn an_error_about_a_key_in_the_wrong_table_names_the_right_one() {
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
  = help: write `ro` in `[filesystem]`

error[unknown-key]: unknown key `network` in `[filesystem]`
 --> .agent-sandbox.toml:3:1
  |
3 | network = true
  | ^^^^^^^
  |
  = help: write `network` at the top of the file, above the first `[table]`

error[unknown-key]: unknown key `include` in `[filesystem]`
 --> .agent-sandbox.toml:4:1
  |
4 | include = []
  | ^^^^^^^
  |
  = help: write `include` in `[presets.NAME]`

error[unknown-key]: unknown key `if-missing` in `[filesystem]`
 --> .agent-sandbox.toml:5:1
  |
5 | if-missing = "skip"
  | ^^^^^^^^^^
  |
  = help: write `if-missing` in an entry: { path = "PATH", if-missing = "error" }

error[unknown-key]: unknown key `tmp` in `[presets.tools]`
 --> .agent-sandbox.toml:7:1
  |
7 | tmp = "host"
  | ^^^
  |
  = help: write `tmp` in `[filesystem]`
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
  = help: write one of these keys: `path`, `if-missing` and `hard-links`

error[unknown-key]: unknown key `skip-directories` in `[presets.tools]`
 --> .agent-sandbox.toml:4:1
  |
4 | skip-directories = []
  | ^^^^^^^^^^^^^^^^
  |
  = help: write one of these keys: `ro`, `rw`, `exclude`, `private` and `include`
"#
    );
}
