//! Credentials in URLs: `https://user:password@host/`.

/// The characters that end the authority of a URL in a settings file.
const ENDS: [char; 11] = ['/', '?', '#', '"', '\'', '<', '>', ' ', '\t', '\r', '\n'];

/// The text without the credentials of its URLs. A reference such as `${TOKEN}` is no credential:
/// its value is in the environment.
pub(super) fn without_credentials(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let end = after.find(|c| ENDS.contains(&c)).unwrap_or(after.len());
        let credentials = after[..end].rfind('@').map(|at| &after[..at]);
        rest = match credentials.filter(|text| is_secret(before, text)) {
            Some(credentials) => &after[credentials.len() + 1..],
            None => after,
        };
    }
    out.push_str(rest);
    out
}

/// Whether the text before the `@` tells more than a name. Over HTTP, registries accept a token as
/// a user's name.
fn is_secret(before: &str, credentials: &str) -> bool {
    let scheme = before.trim_end_matches("://").trim_end_matches('\\').to_ascii_lowercase();
    let is_web = scheme.ends_with("http") || scheme.ends_with("https");
    let parts: Vec<&str> = credentials.splitn(2, ':').collect();
    (is_web || parts.len() > 1) && !parts.iter().all(|part| part.is_empty() || super::lines::is_reference(part))
}
