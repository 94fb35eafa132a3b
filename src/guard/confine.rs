//! What the command may not do, beyond paths: capabilities, signals and abstract sockets of the host, and a few system calls.

use std::io;

use landlock::{CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetError, Scope};
use rustix::thread::{CapabilitySet, CapabilitySets, remove_capability_from_bounding_set, set_capabilities};

/// Drops every capability for good. An ordinary user would lose them by the exec; root would not.
pub(crate) fn drop_capabilities() -> io::Result<()> {
    for bit in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        match remove_capability_from_bounding_set(capability) {
            // Past the last one that this kernel knows.
            Err(rustix::io::Errno::INVAL) => break,
            dropped => dropped?,
        }
    }
    rustix::thread::clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?)
}

/// Keeps signals and connections to abstract sockets within the sandbox. Handles no right on files, so no mount and no path is
/// affected.
pub(crate) fn scope() -> Result<(), RulesetError> {
    ruleset()?.create()?.restrict_self()?;
    Ok(())
}

/// Whether this kernel can do that (Linux 6.12).
pub(crate) fn can_scope() -> bool {
    ruleset().and_then(Ruleset::create).is_ok()
}

fn ruleset() -> Result<Ruleset, RulesetError> {
    Ruleset::default().set_compatibility(CompatLevel::HardRequirement).scope(Scope::AbstractUnixSocket | Scope::Signal)
}
