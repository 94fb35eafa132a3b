//! Compares the model with the kernel. The real bwrap runs each argv as an ordinary user. A probe
//! inside reports the access at each path of a small tree, and the directories that it can rename.
//! The suite compares them with `Model::view` and `Model::can_rename`.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod facts;
mod pins;
mod sandbox;
mod sequences;
mod tree;
