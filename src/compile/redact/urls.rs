//! Credentials in URLs: `https://user:password@host/`, and in proxies: `user:password@host`.

/// The characters that end the authority of a URL in a settings file. A password may hold blanks.
const ENDS: [char; 9] = ['/', '?', '#', '"', '\'', '<', '>', '\r', '\n'];
const SLASHES: [char; 2] = ['/', '\\'];

/// Schemes that programs read without their slashes, too: `https:user@host`.
const SPECIAL: [&str; 5] = ["http", "https", "ws", "wss", "ftp"];

/// The text without the credentials of its URLs. A reference such as `${TOKEN}` is no credential:
/// its value is in the environment.
pub(super) fn without_credentials(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(':') {
        let (before, after) = rest.split_at(at + 1);
        out.push_str(before);
        rest = after;
        let authority = after.trim_start_matches(SLASHES);
        let slashes = &after[..after.len() - authority.len()];
        let scheme = scheme_of(before);
        let is_special = SPECIAL.contains(&scheme.as_str()) && !authority.starts_with(char::is_whitespace);
        if !is_special && !slashes.ends_with("//") {
            continue;
        }
        let end = authority.find(ENDS).unwrap_or(authority.len());
        let credentials = authority[..end].rfind('@').map(|at| &authority[..at]);
        if let Some(credentials) = credentials.filter(|text| is_secret(&scheme, text)) {
            out.push_str(slashes);
            rest = &authority[credentials.len() + 1..];
        }
    }
    out.push_str(rest);
    out.split_inclusive(['\n', '\r']).map(without_credentials_of_proxy).collect()
}

/// The letters at the end of `before`, which ends with a colon, in lower case.
fn scheme_of(before: &str) -> String {
    let before = before.trim_end_matches(':').trim_end_matches('\\');
    let start = before.rfind(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c)).map_or(0, |at| at + 1);
    before.get(start..).unwrap_or_default().to_ascii_lowercase()
}

/// Whether the text before the `@` is more than a user's name. Over HTTP, registries accept a
/// token as a user's name.
fn is_secret(scheme: &str, credentials: &str) -> bool {
    let is_web = scheme.ends_with("http") || scheme.ends_with("https");
    let parts: Vec<&str> = credentials.splitn(2, ':').collect();
    (is_web || parts.len() > 1) && !parts.iter().all(|part| part.is_empty() || super::lines::is_reference(part))
}

/// A line such as `proxy = user:password@host:3128` without the user and the password.
fn without_credentials_of_proxy(line: &str) -> String {
    let parts = || {
        let (key, value) = line.split_at(line.find(['=', ':'])? + 1);
        let shown = value.trim_start_matches([' ', '\t', '"', '\'']);
        let credentials = &shown[..shown.find(|c: char| c.is_whitespace() || c == '/').unwrap_or(shown.len())];
        let credentials = &credentials[..credentials.rfind('@')?];
        let is_proxy = key.to_ascii_lowercase().contains("proxy");
        let is_secret = is_proxy && credentials.contains(':') && is_secret("", credentials);
        is_secret.then(|| format!("{key}{}{}", &value[..value.len() - shown.len()], &shown[credentials.len() + 1..]))
    };
    parts().unwrap_or_else(|| line.to_owned())
}
