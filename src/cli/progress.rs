//! A sign of life, on a terminal, while patterns are looked for in a large tree.

use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::policy::path::AbsPath;

/// Who gets an answer within this time does not ask whether there will be one.
const PATIENCE: Duration = Duration::from_millis(500);
/// More often nobody can read it.
const INTERVAL: Duration = Duration::from_millis(100);
/// Where a terminal does not say how wide it is.
const USUAL_WIDTH: u16 = 80;

pub(super) struct Progress<W> {
    folders: AtomicUsize,
    width: usize,
    state: Mutex<State<W>>,
}

struct State<W> {
    to: W,
    next: Instant,
    is_shown: bool,
    has_ended: bool,
}

impl Progress<io::Stderr> {
    pub(super) fn on_terminal() -> Self {
        let size = rustix::termios::tcgetwinsize(io::stderr());
        let width = size.ok().map(|size| size.ws_col).filter(|width| *width > 0).unwrap_or(USUAL_WIDTH);
        Self::new(io::stderr(), width, Instant::now() + PATIENCE)
    }
}

impl<W: Write> Progress<W> {
    fn new(to: W, width: u16, first: Instant) -> Self {
        let state = Mutex::new(State { to, next: first, is_shown: false, has_ended: false });
        Self { folders: AtomicUsize::new(0), width: usize::from(width), state }
    }

    /// A folder is being read. Whoever finds another thread writing goes on.
    pub(super) fn note(&self, folder: &AbsPath) {
        let folders = self.folders.fetch_add(1, Ordering::Relaxed) + 1;
        let Ok(mut state) = self.state.try_lock() else { return };
        let now = Instant::now();
        if state.has_ended || now < state.next {
            return;
        }
        let said = format!("looking for what patterns match: {folders} folders, {folder}");
        let line: String = said.chars().take(self.width.saturating_sub(1)).collect();
        // A terminal that has gone is no reason to stop.
        let _ = write!(state.to, "\r\x1b[K{line}").and_then(|()| state.to.flush());
        state.next = now + INTERVAL;
        state.is_shown = true;
    }

    /// From now on the line belongs to others.
    pub(super) fn end(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_shown {
            let _ = write!(state.to, "\r\x1b[K").and_then(|()| state.to.flush());
        }
        state.is_shown = false;
        state.has_ended = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(progress: Progress<Vec<u8>>) -> String {
        String::from_utf8(progress.state.into_inner().unwrap().to).unwrap()
    }

    fn folder(name: &str) -> AbsPath {
        AbsPath::root().join(name)
    }

    #[test]
    fn who_is_quick_says_nothing() {
        let progress = Progress::new(Vec::new(), 80, Instant::now() + Duration::from_secs(3600));
        progress.note(&folder("a"));
        progress.end();
        assert_eq!(said(progress), "");
    }

    #[test]
    fn who_is_slow_says_how_far_it_is_on_one_line_that_goes_again() {
        let progress = Progress::new(Vec::new(), 60, Instant::now());
        progress.note(&folder("home/ada/project/node_modules"));
        // Too soon after the first.
        progress.note(&folder("b"));
        progress.end();
        progress.note(&folder("c"));
        let line = "looking for what patterns match: 1 folders, /home/ada/proje";
        assert_eq!(said(progress), format!("\r\x1b[K{line}\r\x1b[K"));
    }
}
