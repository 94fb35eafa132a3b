//! The built binary on real bwrap: a process inside tests the promises of a policy, and the test
//! judges them on the host.
//!
//! Most tests run in four situations: as an ordinary user and as root with `--allow-root`, each
//! with the project below `/tmp`, which is private inside, and elsewhere.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[macro_use]
mod situations;

mod beside;
mod credentials;
mod diff;
mod doctor;
mod environment;
mod features;
mod git;
mod guard;
mod home;
mod identity;
mod init;
mod inject;
mod inputs;
mod levels;
mod limits;
mod mounts;
mod names;
mod network;
mod overflow;
mod paste;
mod pins;
mod presets;
mod private;
mod process;
mod random;
mod reports;
mod rest;
mod restore;
mod sandbox;
mod script;
mod start;
mod streams;
mod supervised;
mod surroundings;
mod tools;
mod trust;
mod undo;
mod unfinished;
mod verify;

#[path = "../support/mod.rs"]
mod support;
