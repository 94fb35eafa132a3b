//! Does the model say what the kernel does? Real bwrap runs each argv as an ordinary user, a probe
//! inside reports what it finds at each path of a small tree, and which directories it can rename,
//! and that is compared with `Model::view` and `Model::can_rename`.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod facts;
mod pins;
mod sandbox;
mod sequences;
mod tree;
