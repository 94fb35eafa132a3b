//! Capabilities, all of which the command loses.

use std::io;

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets, remove_capability_from_bounding_set, set_capabilities};

use crate::sys::ablate::{self, Mitigation};

/// Drops every capability for good. An ordinary user would lose them by the exec; root would not.
pub(crate) fn drop_capabilities() -> io::Result<()> {
    for bit in 0..u64::BITS {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << bit)) {
            // This number is past the last capability that the kernel knows.
            Err(Errno::INVAL) => break,
            // Without a namespace of its own, the guard may not do this.
            Err(Errno::PERM) if ablate::is_off(Mitigation::MountLock) => break,
            dropped => dropped?,
        }
    }
    rustix::thread::clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?)
}
