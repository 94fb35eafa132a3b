//! Names and definitions of presets.

use super::said_about;

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
