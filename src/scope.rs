//! Landlock, for two scopes and for no file.

use landlock::{CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetError, Scope};

/// Keeps signals and connections to abstract sockets within the sandbox. Handles no right on files, so no mount and no path is
/// affected.
pub(crate) fn apply() -> Result<(), RulesetError> {
    ruleset()?.create()?.restrict_self()?;
    Ok(())
}

/// Whether this kernel can do that (Linux 6.12).
pub(crate) fn is_available() -> bool {
    ruleset().and_then(Ruleset::create).is_ok()
}

fn ruleset() -> Result<Ruleset, RulesetError> {
    Ruleset::default().set_compatibility(CompatLevel::HardRequirement).scope(Scope::AbstractUnixSocket | Scope::Signal)
}
