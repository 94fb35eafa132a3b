//! The vocabulary that all rooms share. Nothing here reads the machine.

mod hash;
pub mod limits;
pub mod origin;
pub mod path;
pub mod path_json;
mod path_map;
pub mod places;
pub mod private;
pub mod rule;

pub use hash::sha256;
pub use limits::{Limit, LimitKind};
pub use origin::{Origin, Place, Source, Sourced};
pub use path::{AbsPath, PathMap, escape_for_display, escape_json};
pub use path_json::Word;
pub use private::PrivateFile;
pub use rule::{
    Access, CredentialFile, Exactness, HardLinks, IfMissing, Injected, LayerKind, Mask, Precedence, Protection,
    Refinements, Rule,
};
