//! Which signals are blocked: launch blocks them around bwrap, and the guard takes that back.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::num::ParseIntError;
use std::str::FromStr;

use libc::{c_int, sigset_t};

/// Which signals a process has blocked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mask(pub(crate) u64);

impl Mask {
    /// That of this thread.
    pub(crate) fn current() -> Self {
        change_mask(libc::SIG_BLOCK, &set_of(&[])).map_or(Self(0), |set| Self::of(&set))
    }

    pub(crate) fn of(set: &sigset_t) -> Self {
        // SAFETY: only asks an initialised set; a number that is no signal is no member.
        let is_in = |number: &c_int| unsafe { libc::sigismember(set, *number) == 1 };
        Self((1..=64).filter(is_in).map(bit).fold(0, |all, bit| all | bit))
    }

    pub(crate) fn set(self) -> sigset_t {
        set_of(&(1..=64).filter(|number| self.0 & bit(*number) != 0).collect::<Vec<_>>())
    }

    /// For the guard, just before it executes the command: undoes what was blocked around it.
    pub(crate) fn restore(self) {
        let _ = change_mask(libc::SIG_SETMASK, &self.set());
    }
}

/// One word, which the guard is given.
impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl FromStr for Mask {
    type Err = ParseIntError;

    fn from_str(word: &str) -> Result<Self, ParseIntError> {
        u64::from_str_radix(word, 16).map(Self)
    }
}

pub(crate) fn set_of(numbers: &[c_int]) -> sigset_t {
    let mut set = MaybeUninit::<sigset_t>::uninit();
    // SAFETY: `sigemptyset` initialises the set, and `sigaddset` changes an initialised one.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for number in numbers {
            libc::sigaddset(set.as_mut_ptr(), *number);
        }
        set.assume_init()
    }
}

/// The mask as it was before.
pub(crate) fn change_mask(how: c_int, set: &sigset_t) -> io::Result<sigset_t> {
    let mut before = MaybeUninit::<sigset_t>::uninit();
    // SAFETY: both sets are valid for the call, which initialises `before` when it returns 0.
    unsafe {
        match libc::pthread_sigmask(how, set, before.as_mut_ptr()) {
            0 => Ok(before.assume_init()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

pub(crate) fn bit(number: c_int) -> u64 {
    1_u64.checked_shl(number.unsigned_abs().wrapping_sub(1)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_reads_as_it_was_written() {
        for numbers in [&[][..], &[1], &[2, 15, 64], &[libc::SIGKILL - 1, 34]] {
            let mask = Mask::of(&set_of(numbers));
            assert_eq!(mask.to_string().parse(), Ok(mask));
            assert_eq!(Mask::of(&mask.set()), mask);
        }
        assert_eq!(Mask::of(&set_of(&[1, 2])).to_string(), "3");
        assert!("".parse::<Mask>().is_err() && "x".parse::<Mask>().is_err());
    }
}
