//! Tests the full text of every diagnostic of the parser.

mod keys;
mod presets;
mod syntax;
mod values;

use std::sync::Arc;

use super::parse;
use crate::diagnostic::{Diagnostics, Format, render};
use crate::policy::Source;

fn source(name: &str, text: &str) -> Arc<Source> {
    Arc::new(Source::new(name.to_owned(), text.to_owned()))
}

/// The document and the expected diagnostics both start with a line break, so that the tests are
/// easy to read.
fn said_about(document: &str) -> String {
    let mut diagnostics = Diagnostics::default();
    parse(&source(".agent-sandbox.toml", &document[1..]), &mut diagnostics);
    format!("\n{}", render(&diagnostics, Format::Text { color: false }))
}
