//! A declarative policy compiler: layers of TOML to one deterministic bubblewrap argv.
//!
//! The modules stand in the order of the pipeline; a stage never imports a later one.
//!
//! Without the command line, from a policy to a process:
//!
//! ```no_run
//! use agent_sandbox::diagnostic::{Diagnostics, Format, render};
//! use agent_sandbox::host::Host;
//! use agent_sandbox::host::session::{Request, Session};
//! use agent_sandbox::{compile, launch, placeholders};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::system();
//! let session = Session::of_this_process(None).map_err(|diagnostic| diagnostic.message)?;
//! let request = Request { exclude: vec!["deploy/keys".into()], ..Request::default() };
//!
//! let mut diagnostics = Diagnostics::default();
//! let compiled = compile::compile(&host, &session, &request, &mut diagnostics);
//! let Some(compiled) = compiled.filter(|_| !diagnostics.has_errors()) else {
//!     return Err(render(&diagnostics, Format::Text { color: false }).into());
//! };
//!
//! let engine = launch::engine(&host, &session, &compiled).map_err(|diagnostic| diagnostic.message)?;
//! let argv = compiled.argv(&engine, &["make".into(), "test".into()], &mut diagnostics);
//! if diagnostics.has_errors() {
//!     return Err(render(&diagnostics, Format::Text { color: false }).into());
//! }
//!
//! launch::ready(&host, &session, &compiled, &argv).map_err(|diagnostic| diagnostic.message)?;
//! let undo = placeholders::put_up_for(&host, &compiled, &argv, placeholders::Removed::Kept).map_err(|diagnostic| diagnostic.message)?;
//! let status = launch::command(&argv)?.status()?;
//! print!("{}", render(&undo.finish(), Format::Text { color: false }));
//! # let _ = status;
//! # Ok(())
//! # }
//! ```

#![warn(unreachable_pub)]

// The rooms, in the order of their imports: a room imports only rooms above it. `model` imports
// `policy` alone. tests/docs/rooms.rs holds this order.
pub mod policy;

pub mod diagnostic;

pub mod sys;

pub mod host;

pub mod compile;

pub mod trust;

pub mod placeholders;

pub mod guard;

pub mod launch;

pub mod model;

pub mod audit;

pub mod cli;
