//! A declarative policy compiler: layers of TOML to one deterministic bubblewrap argv.
//!
//! The modules stand in the order of the pipeline; a stage never imports a later one.

pub mod diagnostic;
pub mod origin;
pub mod path;
pub mod rule;

pub mod config;
pub mod decide;
pub mod host;
pub mod launch;
pub mod layers;
pub mod lower;
pub mod pipeline;
pub mod plan;
pub mod presets;
pub mod print;
pub mod resolve;
pub mod session;

pub mod cli;
pub mod model;
