//! A declarative policy compiler: layers of TOML to one deterministic bubblewrap argv.
//!
//! The modules stand in the order of the pipeline; a stage never imports a later one.

pub mod path;
pub mod origin;
pub mod rule;
pub mod diagnostic;

pub mod host;
pub mod config;
pub mod layers;
pub mod presets;
pub mod resolve;
pub mod decide;
pub mod plan;
pub mod lower;
pub mod pipeline;
pub mod launch;

pub mod model;
pub mod cli;
