//! Errors of the operating system that name a path.

use std::io;

use crate::diagnostic::reason;
use crate::policy::AbsPath;

#[derive(Debug, thiserror::Error)]
#[error("`{path}`: {}", reason(.error))]
pub struct PathError {
    pub path: AbsPath,
    pub error: io::Error,
}

impl PathError {
    pub(crate) fn at(path: &AbsPath) -> impl Fn(io::Error) -> Self {
        |error| Self { path: path.clone(), error }
    }
}
