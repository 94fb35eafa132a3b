//! The clock from which file systems take their timestamps.

/// The time in seconds and nanoseconds. The clock ticks a few hundred times in a second, so a file
/// that changes from now on is not older than this.
///
/// rustix is not used, because its access to the clock crashes under valgrind
/// (`benches/instructions.py`).
#[allow(unsafe_code)]
pub(crate) fn coarse_now() -> (i64, i64) {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills this one value. If the call failed, every file would count as
    // changed since.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &raw mut now) };
    (now.tv_sec, now.tv_nsec)
}
