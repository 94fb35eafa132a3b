//! Colours on a terminal. The text says the same without them.

use std::fmt::{self, Display};

use anstyle::{AnsiColor, Style};

use crate::audit::effective_access::EffectiveAccess;

/// Whether a stream gets colours.
#[derive(Clone, Copy, Debug)]
pub struct Paint(pub bool);

impl Paint {
    pub(super) fn access<T: Display>(self, access: EffectiveAccess, text: T) -> Painted<T> {
        let color = match access {
            EffectiveAccess::Rw | EffectiveAccess::Private => AnsiColor::Green,
            EffectiveAccess::Exclude => AnsiColor::Red,
            _ => AnsiColor::Yellow,
        };
        self.with(color.on_default(), text)
    }

    pub(super) fn good<T: Display>(self, text: T) -> Painted<T> {
        self.with(AnsiColor::Green.on_default(), text)
    }

    pub(super) fn bad<T: Display>(self, text: T) -> Painted<T> {
        self.with(AnsiColor::Red.on_default().bold(), text)
    }

    pub(super) fn warning<T: Display>(self, text: T) -> Painted<T> {
        self.with(AnsiColor::Yellow.on_default(), text)
    }

    pub(super) fn heading<T: Display>(self, text: T) -> Painted<T> {
        self.with(Style::new().bold(), text)
    }

    /// Styles text that is not part of the answer itself.
    pub(super) fn aside<T: Display>(self, text: T) -> Painted<T> {
        self.with(Style::new().dimmed(), text)
    }

    fn with<T: Display>(self, style: Style, text: T) -> Painted<T> {
        Painted { style: self.0.then_some(style), text }
    }
}

/// A format width counts the text alone, without the escape codes.
pub(super) struct Painted<T> {
    style: Option<Style>,
    text: T,
}

impl<T: Display> Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.style {
            None => self.text.fmt(f),
            Some(style) => {
                write!(f, "{style}")?;
                self.text.fmt(f)?;
                write!(f, "{style:#}")
            }
        }
    }
}
