//! How often to look whether the command has stopped.

use std::time::Duration;

use crate::sys::terminal;

/// When to look whether the command is stopped: nobody tells but its parent, and that is bwrap, which does not care.
pub(super) struct Watch {
    pub(super) interval: Option<Duration>,
    /// Where a terminal is there, somebody waits for the prompt of a shell.
    at_rest: Option<Duration>,
}

impl Watch {
    const AT_REST: Duration = Duration::from_millis(250);
    const CLOSELY: Duration = Duration::from_millis(1);

    pub(super) fn new() -> Self {
        let at_rest = terminal::open().map(|_| Self::AT_REST);
        Self { interval: at_rest, at_rest }
    }

    /// After a signal that may well stop it.
    pub(super) fn closely(&mut self) {
        self.interval = Some(Self::CLOSELY);
    }

    pub(super) fn less_closely(&mut self) {
        self.interval = self.interval.map(|interval| interval * 2).filter(|interval| *interval < Self::AT_REST);
        self.interval = self.interval.or(self.at_rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watch_is_close_after_a_signal_and_then_rests() {
        for at_rest in [None, Some(Watch::AT_REST)] {
            let mut watch = Watch { interval: at_rest, at_rest };
            watch.closely();
            assert_eq!(watch.interval, Some(Watch::CLOSELY));
            for _ in 0..10 {
                watch.less_closely();
            }
            assert_eq!(watch.interval, at_rest);
        }
    }
}
