//! Landlock: what stays within the sandbox, and in which folders it makes names.

use std::os::fd::OwnedFd;

use landlock::{
    AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    Scope, make_bitflags,
};

/// To make, remove or rename anything.
fn names() -> BitFlags<AccessFs> {
    make_bitflags!(AccessFs::{
        RemoveDir | RemoveFile | MakeChar | MakeDir | MakeReg | MakeSock | MakeFifo | MakeBlock | MakeSym | Refer
    })
}

/// Keeps signals and connections to abstract sockets within the sandbox. Handles no right on files, so no mount and no path is
/// affected.
pub(crate) fn apply() -> Result<(), RulesetError> {
    with_scopes(ruleset())?.create()?.restrict_self()?;
    Ok(())
}

/// Names are made, removed and changed in `folders` and below alone, by whatever mount somebody gets there; with `scopes`, the above as well. A folder that another
/// sandbox hands to this one is on the mounts of that one, but the kernel keeps a mount point in its place only for who sees something mounted there: this one does not.
///
/// Who has such rules cannot make mounts.
pub(crate) fn keep_names(folders: impl Iterator<Item = OwnedFd>, scopes: bool) -> Result<(), RulesetError> {
    let ruleset = if scopes { with_scopes(ruleset())? } else { ruleset() };
    let rules = folders.map(|folder| Ok::<_, RulesetError>(PathBeneath::new(folder, names())));
    ruleset.handle_access(names())?.create()?.add_rules(rules)?.restrict_self()?;
    Ok(())
}

/// Whether this kernel can keep signals and abstract sockets inside (Linux 6.12).
pub(crate) fn is_available() -> bool {
    with_scopes(ruleset()).and_then(Ruleset::create).is_ok()
}

/// Whether it can keep names in folders, and lets files be moved from one to another (Linux 5.19).
pub(crate) fn can_keep_names() -> bool {
    ruleset().handle_access(names()).and_then(Ruleset::create).is_ok()
}

fn ruleset() -> Ruleset {
    Ruleset::default().set_compatibility(CompatLevel::HardRequirement)
}

fn with_scopes(ruleset: Ruleset) -> Result<Ruleset, RulesetError> {
    ruleset.scope(Scope::AbstractUnixSocket | Scope::Signal)
}
