//! Text that is not TOML.

use super::said_about;

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
fn no_text_however_broken_stops_the_parser_or_drives_the_terminal() {
    let document = "network = \"\u{9b}2J\" # \u{1b}]0;x\u{7}\r\n[filesystem]\r\nro = ['é\u{202e}', \"\"\"\r\na\"\"\", { path = 1 }]\r\n[presets.É]\n";
    let pieces = (0..=document.len()).flat_map(|at| [document.get(..at), document.get(at..)]).flatten();
    for piece in pieces {
        let said = said_about(&format!("\n{piece}"));
        assert!(said.chars().all(|c| c == '\n' || !c.is_control()), "{said:?}");
        assert!(!said.contains('\u{202e}'), "{said:?}");
    }
}
