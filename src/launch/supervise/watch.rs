//! The interval at which the supervisor checks whether the command has stopped.

use std::time::Duration;

use crate::sys::terminal;

/// The interval at which to check whether the command is stopped. The kernel reports a stop only
/// to the parent of the command, which is bwrap.
pub(super) struct Watch {
    pub(super) interval: Option<Duration>,
    /// Set if there is a terminal, at which a user may wait for the shell's prompt.
    at_rest: Option<Duration>,
}

impl Watch {
    const AT_REST: Duration = Duration::from_millis(250);
    const CLOSELY: Duration = Duration::from_millis(1);

    pub(super) fn new() -> Self {
        let at_rest = terminal::open().map(|_| Self::AT_REST);
        Self { interval: at_rest, at_rest }
    }

    /// Checks often, for the time after a signal that may stop the command.
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
