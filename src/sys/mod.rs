//! Thin wrappers over system calls. The only module with `unsafe`.
#![allow(clippy::disallowed_methods, reason = "the paths are the kernel's own, and callers hand over descriptors")]

pub(crate) mod ablate;
pub(crate) mod capabilities;
pub(crate) mod clock;
pub(crate) mod fd;
pub(crate) mod landlock;
pub(crate) mod late_mounts;
pub(crate) mod namespaces;
pub(crate) mod process;
pub(crate) mod read_only;
pub(crate) mod rlimits;
pub(crate) mod seccomp;
pub(crate) mod signals;
pub(crate) mod terminal;
pub(crate) mod timer;
