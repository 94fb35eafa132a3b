//! Quotes arguments for a shell.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::policy::escape_for_display;

/// Quotes an argument on one line, for a command that a person may copy. Bytes that a terminal
/// would obey or could not show are escaped in `$'…'`, which bash, zsh and ksh read.
pub(crate) fn shell_quote(word: &OsStr) -> String {
    if let Some(text) = word.to_str().filter(|text| escape_for_display(word) == **text) {
        return quote_text(text);
    }
    let escaped = word.as_bytes().iter().map(|byte| match byte {
        b'\n' => "\\n".to_owned(),
        b'\t' => "\\t".to_owned(),
        // A shell that does not know `$'…'` must not read `\'` as the end of the quotes.
        b'\'' => "\\047".to_owned(),
        b'\\' => "\\\\".to_owned(),
        b' '..=b'~' => char::from(*byte).to_string(),
        byte => format!("\\x{byte:02x}"),
    });
    format!("$'{}'", escaped.collect::<String>())
}

/// Quotes an argument so that a POSIX shell reads it back, byte for byte. `shell-words` takes text
/// only, and paths are bytes.
pub(crate) fn quote(word: &OsStr) -> Vec<u8> {
    if let Some(text) = word.to_str() {
        return quote_text(text).into_bytes();
    }
    let quoted = word.as_bytes().iter().flat_map(|byte| match byte {
        b'\'' => b"'\\''".to_vec(),
        byte => vec![*byte],
    });
    [b"'".to_vec(), quoted.collect(), b"'".to_vec()].concat()
}

fn quote_text(text: &str) -> String {
    // `shell-words` would quote the whole of `--flag=value`, so only the value is quoted.
    let is_flag = |flag: &str| {
        flag.strip_prefix("--").is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'))
    };
    if let Some((flag, value)) = text.split_once('=').filter(|(flag, value)| is_flag(flag) && !value.is_empty()) {
        return format!("{flag}={}", quote_text(value));
    }
    let quoted = shell_words::quote(text);
    // `shell-words` quotes for a POSIX shell. bash also expands `{a,b}`, and `!` if it is
    // interactive; zsh also expands `^`.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./:@%+,-".contains(&byte);
    if quoted == text && !text.bytes().all(is_plain) { format!("'{text}'") } else { quoted.into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_quoted_as_far_as_a_shell_needs_it() {
        for (word, quoted) in [
            ("plain", "plain"),
            ("", "''"),
            ("two words", "'two words'"),
            ("it's", r"'it'\''s'"),
            ("!@secrets", "'!@secrets'"),
            (".env.{a,b}", "'.env.{a,b}'"),
            ("x^y", "'x^y'"),
            ("--network=false", "--network=false"),
            ("--rw=a b", "--rw='a b'"),
            ("--A$B=c", "'--A$B=c'"),
        ] {
            assert_eq!(String::from_utf8_lossy(&quote(OsStr::new(word))), quoted);
        }
        assert_eq!(shell_quote(OsStr::from_bytes(b"a\n\xff")), r"$'a\n\xff'");
    }

    /// dash reads `$'…'` as a dollar sign and a quoted text. The quotes must end at the same place.
    #[test]
    fn a_shell_without_ansi_quotes_runs_nothing_of_a_name() {
        for name in ["l';touch pwned;#\n", "\\';touch pwned;#\n", "$(touch pwned)\n", "`touch pwned`\u{1b}", "\n'"] {
            let quoted = shell_quote(OsStr::new(name));
            let words = shell_words::split(&quoted).unwrap();
            assert_eq!(words.len(), 1, "{quoted}");
            assert_eq!(quoted.matches('\'').count(), 2, "{quoted}");
        }
    }

    #[test]
    fn a_name_with_a_quote_is_read_back() {
        assert_eq!(shell_quote(OsStr::new("it's\n\\")), r"$'it\047s\n\\'");
    }
}
