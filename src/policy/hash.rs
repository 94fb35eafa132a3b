//! SHA-256, which names agent-sandbox's own files and identifies the content that a user agreed
//! to.

use sha2::{Digest, Sha256};

/// The SHA-256 of `content` in hexadecimal digits.
pub fn sha256(content: impl AsRef<[u8]>) -> String {
    let digits = Sha256::digest(content).into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}
