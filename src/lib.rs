//! A declarative policy compiler: layers of TOML to one deterministic bubblewrap argv.
//!
//! The modules stand in the order of the pipeline; a stage never imports a later one.

// The vocabulary that all stages share.
pub mod diagnostic;
pub mod origin;
pub mod path;
pub mod places;
pub mod rule;

// The world outside, as values.
pub mod host;
pub mod session;

// The stages.
pub mod config;

pub mod layers;

pub mod presets;

pub mod resolve;

pub mod decide;

pub mod plan;

pub mod lower;

pub mod pipeline;

// What is done with the outcome.
pub mod cli;
pub mod launch;
pub mod print;

// What an argv means, independently of all the above.
pub mod model;
