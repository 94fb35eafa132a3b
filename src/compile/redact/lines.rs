//! Files with a setting on each line. A comment counts as a setting: it may hold an old token.

use super::Unclear;

/// Keys of npm that hold credentials, at any place in a line: `//registry.example/:_authToken`.
const OF_NPM: [&str; 3] = ["_auth", "_password", "private key-----"];
/// Keys of Yarn that hold credentials, at the top and in `npmRegistries` and `npmScopes`.
const OF_YARN: [&str; 2] = ["npmauthtoken", "npmauthident"];
/// Settings of Bundler that are no hosts: `__` stands for a dot, and `___` for a dash.
const OF_BUNDLER: [&str; 5] = ["BUILD__", "LOCAL__", "MIRROR__", "PLUGIN__", "TRUST___POLICY"];
/// A key that contains one of these words holds a credential.
const WORDS: [&str; 14] = [
    "auth",
    "authorization",
    "apikey",
    "credential",
    "key",
    "pass",
    "passphrase",
    "passwd",
    "password",
    "pat",
    "private",
    "pwd",
    "secret",
    "token",
];

/// The lines of a text, each with its line end. A lone carriage return is a line end, too, as for
/// npm.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(['\n', '\r'])
}

/// Whether a value only names a variable: `${NPM_TOKEN}`.
pub(super) fn is_reference(value: &str) -> bool {
    let value = value.trim().trim_matches(['"', '\'']);
    let name = value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    // A reference with a default value does not count, because the default may be a credential. A
    // reference with an empty default counts: npm writes `?`, Yarn `-` and `:-`.
    let name = name.map(|name| name.trim_end_matches(['?', '-', ':']));
    name.is_some_and(|name| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
}

pub(super) fn npmrc(text: &str) -> String {
    let is_kept = |line: &&str| {
        let lower = line.to_ascii_lowercase();
        let (key, value) = lower.split_once('=').map_or((lower.as_str(), None), |(key, value)| (key, Some(value)));
        // The key of a client certificate: `//registry.example/:key`.
        let is_key = ["key", "\"key\""].contains(&key.trim()) || key.trim().ends_with(":key");
        let is_secret = is_key || OF_NPM.iter().any(|key| lower.contains(key));
        !is_secret || value.is_some_and(is_reference)
    };
    lines(text).filter(is_kept).collect()
}

pub(super) fn yarnrc(text: &str) -> Result<String, Unclear> {
    let mut out = String::with_capacity(text.len());
    // The indentation of a removed key: deeper lines belong to its value.
    let mut removed: Option<usize> = None;
    for line in lines(text) {
        let content = line.trim();
        let indent = line.len() - line.trim_start_matches(' ').len();
        if removed.is_some_and(|key| content.is_empty() || indent > key) {
            continue;
        }
        removed = None;
        let lower = line.to_ascii_lowercase();
        if !OF_YARN.iter().any(|key| lower.contains(key)) {
            out.push_str(line);
            continue;
        }
        if content.starts_with('#') {
            continue;
        }
        // If the key does not begin the line, or follows `?`, the end of the value is not clear.
        let (key, value) = content.split_once(':').ok_or(Unclear::Syntax)?;
        let key = key.trim().trim_matches(['"', '\'']).to_ascii_lowercase();
        if !OF_YARN.contains(&key.as_str()) {
            return Err(Unclear::Syntax);
        }
        let value = value.trim();
        if is_reference(value) {
            out.push_str(line);
            continue;
        }
        // An alias refers to a value elsewhere, and an open quote goes on at any indentation.
        if value.starts_with(['*', '&', '!']) || is_open_quote(value) {
            return Err(Unclear::Syntax);
        }
        removed = Some(indent);
    }
    Ok(out)
}

fn is_open_quote(value: &str) -> bool {
    let quote = value.chars().next().filter(|first| ['"', '\''].contains(first));
    quote.is_some_and(|quote| !value[1..].contains(quote))
}

/// `BUNDLE_KEY: "value"`. The key of a credential is a host, with `__` for each dot, or a URL. A
/// list continues on lines that start with `-`.
pub(super) fn bundle(text: &str) -> Result<String, Unclear> {
    let mut out = String::with_capacity(text.len());
    let mut is_removed = false;
    for line in lines(text) {
        let content = line.trim();
        if content.is_empty() || content == "---" {
            is_removed = false;
            out.push_str(line);
            continue;
        }
        if line.starts_with([' ', '\t', '-']) {
            if !is_removed {
                out.push_str(line);
            }
            continue;
        }
        let setting = content.trim_start_matches(['#', ' ', '"', '\'']);
        let Some((key, value)) = setting.split_once(": ").or_else(|| Some((setting.strip_suffix(':')?, ""))) else {
            // A comment without a setting.
            if !content.starts_with('#') {
                return Err(Unclear::Syntax);
            }
            is_removed = false;
            out.push_str(line);
            continue;
        };
        let name = key.trim_matches(['"', '\'']).to_ascii_uppercase();
        let name = name.strip_prefix("BUNDLE_").unwrap_or(&name);
        let is_host =
            (name.contains("__") || name.contains('/')) && !OF_BUNDLER.iter().any(|section| name.starts_with(section));
        is_removed = (is_host || names_credential(name)) && !is_reference(value);
        match is_removed {
            // The end of the value is not clear.
            true if is_open_quote(value.trim()) => return Err(Unclear::Syntax),
            true => {}
            false => out.push_str(line),
        }
    }
    Ok(out)
}

/// `key = value`, `key: value` or `key value`. A backslash at the end continues a line.
pub(super) fn properties(text: &str) -> Result<String, Unclear> {
    let mut out = String::with_capacity(text.len());
    let mut lines = lines(text);
    while let Some(first) = lines.next() {
        let mut whole = first.to_owned();
        let content = first.trim_start();
        let is_comment = content.starts_with(['#', '!']);
        while !is_comment && is_continued(&whole) {
            let Some(next) = lines.next() else { break };
            whole.push_str(next);
        }
        let setting = whole.trim_start_matches(|c: char| c.is_whitespace() || c == '#' || c == '!');
        let key = key_of(setting)?;
        // A sentence in a comment is no setting.
        let is_setting = !is_comment || setting[key.len()..].trim_start().starts_with(['=', ':']);
        if !is_setting || !(names_credential(key) || is_secret_header(setting)) {
            out.push_str(&whole);
        }
    }
    Ok(out)
}

fn is_continued(line: &str) -> bool {
    let line = line.trim_end_matches(['\r', '\n']);
    (line.len() - line.trim_end_matches('\\').len()) % 2 == 1
}

/// The text before the first `=`, `:` or blank without a backslash before it.
fn key_of(line: &str) -> Result<&str, Unclear> {
    let mut is_escaped = false;
    let ends = |c: char| {
        let ends = !is_escaped && (c == '=' || c == ':' || c.is_whitespace());
        is_escaped = c == '\\' && !is_escaped;
        ends
    };
    let key = &line[..line.find(ends).unwrap_or(line.len())];
    // A `\u` escape in a key can stand for any character.
    if key.contains("\\u") { Err(Unclear::Syntax) } else { Ok(key) }
}

/// Whether the setting is a header of requests that signs in: `header = Authorization: …` of Wget.
fn is_secret_header(setting: &str) -> bool {
    let lower = setting.to_ascii_lowercase();
    let value = lower.strip_prefix("header").map(|rest| rest.trim_start_matches([' ', '\t', '=', '"', '\'']));
    let name = value.and_then(|value| value.split(':').next());
    name.is_some_and(|name| name.trim() == "cookie" || names_credential(name))
}

/// Whether a word of the key says that the value is a credential: `signing.keyPassword`,
/// `ossrh_token`, `access-tokens`.
fn names_credential(key: &str) -> bool {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in key.chars().filter(|c| *c != '\\') {
        if !c.is_alphanumeric() || (c.is_uppercase() && was_lower) {
            words.push(String::new());
        }
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase() || c.is_numeric();
    }
    // `trusted-public-keys` of Nix.
    let is_public = words.iter().any(|word| word == "public");
    words.iter().any(|word| {
        // `password1` of MySQL.
        let word = word.trim_end_matches(|c: char| c.is_ascii_digit());
        let one = word.strip_suffix('s').unwrap_or(word);
        let is_known = WORDS.contains(&one) || WORDS.contains(&word);
        let ends_like_one = ["password", "passwd", "token", "secret", "apikey"].iter().any(|end| one.ends_with(end));
        (is_known && !(is_public && one == "key")) || ends_like_one
    })
}
