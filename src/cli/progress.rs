//! A progress line on the terminal while globs search a large tree.

use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::policy::AbsPath;

/// The time after which a search shows its progress.
const PATIENCE: Duration = Duration::from_millis(500);
/// The time between two updates.
const INTERVAL: Duration = Duration::from_millis(100);
/// The width to assume for a terminal that does not report its own.
const USUAL_WIDTH: u16 = 80;

pub(super) struct Progress<W> {
    folders: AtomicUsize,
    width: usize,
    state: Mutex<ProgressState<W>>,
}

struct ProgressState<W> {
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
        let state = Mutex::new(ProgressState { to, next: first, is_shown: false, has_ended: false });
        Self { folders: AtomicUsize::new(0), width: usize::from(width), state }
    }

    /// Counts a folder that is being read. If another thread holds the lock, that thread shows
    /// progress.
    pub(super) fn note(&self, folder: &AbsPath) {
        let folders = self.folders.fetch_add(1, Ordering::Relaxed) + 1;
        let Ok(mut state) = self.state.try_lock() else { return };
        let now = Instant::now();
        if state.has_ended || now < state.next {
            return;
        }
        let said = format!("searching for matches of patterns: {folders} folders, {folder}");
        let line: String = said.chars().take(self.width.saturating_sub(1)).collect();
        // A closed terminal does not stop the search.
        let _ = write!(state.to, "\r\x1b[K{line}").and_then(|()| state.to.flush());
        state.next = now + INTERVAL;
        state.is_shown = true;
    }

    /// Clears the line. Later calls of `note` do not show it again.
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

    // SPEC K3
    #[test]
    fn a_short_search_shows_nothing() {
        let progress = Progress::new(Vec::new(), 80, Instant::now() + Duration::from_secs(3600));
        progress.note(&folder("a"));
        progress.end();
        assert_eq!(said(progress), "");
    }

    // SPEC K3
    #[test]
    fn a_long_search_shows_one_line_and_clears_it() {
        let progress = Progress::new(Vec::new(), 60, Instant::now());
        progress.note(&folder("home/ada/project/node_modules"));
        // Comes before the interval has passed.
        progress.note(&folder("b"));
        progress.end();
        progress.note(&folder("c"));
        let line = "searching for matches of patterns: 1 folders, /home/ada/pro";
        assert_eq!(said(progress), format!("\r\x1b[K{line}\r\x1b[K"));
    }
}
