//! Takes the credentials out of a settings file (SPEC P16). This module reads nothing from the
//! machine.
//!
//! Tools can still read the text: lines or elements are removed whole, and the rest stays as it
//! is. A text that is unclear is refused, and the caller then hides the file. Credentials are
//! recognised by the names that the format gives them, not by the look of the value.

mod lines;
mod toml;
mod urls;
mod xml;

use crate::policy::CredentialFile;

/// The reason why no copy without credentials can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unclear {
    #[error("it is not text")]
    NoText,
    #[error("its syntax is not understood")]
    Syntax,
}

/// The text without its credentials; `None` if it has none.
pub(crate) fn without_credentials(file: CredentialFile, text: &[u8]) -> Result<Option<Vec<u8>>, Unclear> {
    let text = std::str::from_utf8(text).map_err(|_| Unclear::NoText)?;
    if text.contains('\0') {
        return Err(Unclear::NoText);
    }
    let copy = match file {
        CredentialFile::Npmrc => lines::npmrc(text),
        CredentialFile::Yarnrc => lines::yarnrc(text)?,
        CredentialFile::Urls => text.to_owned(),
        CredentialFile::Toml => toml::without_credentials(text)?,
        CredentialFile::Xml => xml::without_credentials(text)?,
        CredentialFile::Properties => lines::properties(text)?,
        CredentialFile::Bundle => lines::bundle(text)?,
    };
    let copy = urls::without_credentials(&copy);
    Ok((copy != text).then(|| copy.into_bytes()))
}

#[cfg(test)]
mod tests;
