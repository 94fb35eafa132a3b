//! A declarative policy compiler: layers of TOML to one deterministic bubblewrap argv.
//!
//! The modules stand in the order of the pipeline; a stage never imports a later one.
//!
//! Without the command line, from a policy to a process:
//!
//! ```no_run
//! use agent_sandbox::diagnostic::{Diagnostics, Format, render};
//! use agent_sandbox::host::Host;
//! use agent_sandbox::session::{Request, Session};
//! use agent_sandbox::{launch, pipeline};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::system();
//! let session = Session::of_this_process(None).map_err(|diagnostic| diagnostic.message)?;
//! let request = Request { exclude: vec!["deploy/keys".into()], ..Request::default() };
//!
//! let mut diagnostics = Diagnostics::default();
//! let compiled = pipeline::compile(&host, &session, &request, &mut diagnostics);
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
//! let undo = launch::undo::prepare(&host, &compiled, &argv).map_err(|diagnostic| diagnostic.message)?;
//! let status = launch::command(&argv)?.status()?;
//! print!("{}", render(&undo.finish(), Format::Text { color: false }));
//! # let _ = status;
//! # Ok(())
//! # }
//! ```

#![warn(unreachable_pub)]

mod ablate;

// The vocabulary that all stages share.
pub mod bytes;
pub mod diagnostic;
mod exit_code;
pub mod guard_plan;
pub mod origin;
pub mod path;
pub mod placeholder;
pub mod places;
mod quoting;
pub mod report;
pub mod rule;

// The world outside, as values.
mod descriptors;
pub mod host;
pub mod identity;
pub mod journal;
mod mount_access;
pub mod mountinfo;
mod scope;
pub mod session;
mod signal_mask;
mod unfollowed;

// The stages.
pub mod config;

pub mod layers;

mod state;

pub mod presets;

pub mod resolve;

pub mod decide;

pub mod plan;

pub mod environment;

mod seccomp;

pub mod lower;

pub mod protection;

// What one policy opens beyond another.
pub mod compare;

// What the project's own file opens, and whether the user agreed.
pub mod trust;

pub mod pipeline;

// What is done with the outcome.
pub mod guard;
pub mod launch;
pub mod print;

// What an argv means, independently of all the above.
pub mod model;

// What people and tools ask about a policy.
pub mod audit;

// All of it, for who types.
pub mod cli;
