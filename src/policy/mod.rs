//! The vocabulary that all rooms share. Nothing here reads the machine.

pub mod origin;
mod origin_json;
pub mod path;
pub mod path_json;
mod path_map;
pub mod places;
pub mod rule;
