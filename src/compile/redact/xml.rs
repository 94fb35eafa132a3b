//! Settings in XML. Elements that hold credentials are removed with all that is in them.

use super::Unclear;

/// Names of elements, in lower case. Headers of Maven carry tokens; the last two are NuGet's.
const ELEMENTS: [&str; 6] =
    ["password", "passphrase", "privatekey", "httpheaders", "packagesourcecredentials", "apikeys"];

pub(super) fn without_credentials(text: &str) -> Result<String, Unclear> {
    let mut out = String::with_capacity(text.len());
    // The names of the open elements, and how many of them are around the one that is removed.
    let mut open: Vec<&str> = Vec::new();
    let mut removed: Option<usize> = None;
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        if removed.is_none() {
            out.push_str(&rest[..at]);
        }
        let markup = markup(&rest[at..])?;
        rest = &rest[at + markup.text.len()..];
        let mut is_kept = removed.is_none();
        match markup.kind {
            // A comment may hold an old password.
            MarkupKind::Comment => is_kept &= !names_credential(markup.text),
            MarkupKind::Other => {}
            MarkupKind::Empty(name) => is_kept &= !is_credential(name, markup.text),
            MarkupKind::Start(name) => {
                if is_kept && is_credential(name, markup.text) {
                    (removed, is_kept) = (Some(open.len()), false);
                }
                open.push(name);
            }
            MarkupKind::End(name) => {
                if open.pop() != Some(name) {
                    return Err(Unclear::Syntax);
                }
                if removed == Some(open.len()) {
                    removed = None;
                }
            }
        }
        if is_kept {
            out.push_str(markup.text);
        }
    }
    if !open.is_empty() {
        return Err(Unclear::Syntax);
    }
    out.push_str(rest);
    Ok(out)
}

fn names_credential(comment: &str) -> bool {
    let comment = comment.to_ascii_lowercase();
    ELEMENTS.iter().any(|name| comment.contains(name))
}

/// Whether an element holds a credential, by its name or by one of its attributes.
fn is_credential(name: &str, tag: &str) -> bool {
    let name = name.rsplit(':').next().unwrap_or(name);
    let has_password = || tag.contains('=') && tag.to_ascii_lowercase().contains("password");
    ELEMENTS.iter().any(|known| name.eq_ignore_ascii_case(known)) || has_password()
}

/// One piece of markup, from `<` to `>`.
struct Markup<'t> {
    text: &'t str,
    kind: MarkupKind<'t>,
}

enum MarkupKind<'t> {
    Start(&'t str),
    End(&'t str),
    Empty(&'t str),
    Comment,
    /// A processing instruction or a section of plain text.
    Other,
}

/// The markup at the start of `text`. A document type is refused: it can define text elsewhere.
fn markup(text: &str) -> Result<Markup<'_>, Unclear> {
    let up_to = |end: &str| text.find(end).map(|at| &text[..at + end.len()]).ok_or(Unclear::Syntax);
    let until = |end, kind| Ok(Markup { text: up_to(end)?, kind });
    if text.starts_with("<!--") {
        return until("-->", MarkupKind::Comment);
    }
    if text.starts_with("<![CDATA[") {
        return until("]]>", MarkupKind::Other);
    }
    if text.starts_with("<?") {
        return until("?>", MarkupKind::Other);
    }
    if text.starts_with("<!") {
        return Err(Unclear::Syntax);
    }
    let mut quote = None;
    let end = text.char_indices().find(|(_, c)| {
        match quote {
            Some(open) if *c == open => quote = None,
            None if ['"', '\''].contains(c) => quote = Some(*c),
            _ => {}
        }
        quote.is_none() && *c == '>'
    });
    let text = &text[..end.ok_or(Unclear::Syntax)?.0 + 1];
    let inner = &text[1..text.len() - 1];
    let name = |inner: &'_ str| inner.split(|c: char| c.is_whitespace() || c == '/').next().unwrap_or_default().len();
    let kind = match inner.strip_prefix('/') {
        Some(inner) => MarkupKind::End(inner.trim_end()),
        None if inner.ends_with('/') => MarkupKind::Empty(&inner[..name(inner)]),
        None => MarkupKind::Start(&inner[..name(inner)]),
    };
    let (MarkupKind::Start(name) | MarkupKind::End(name) | MarkupKind::Empty(name)) = kind else {
        return Err(Unclear::Syntax);
    };
    if name.is_empty() || name.contains(['<', '"', '\'']) { Err(Unclear::Syntax) } else { Ok(Markup { text, kind }) }
}
