//! The start of a sandbox: finds bwrap and the command, checks that this machine can run them, and
//! supervises the run or executes bwrap. `run.rs` reads top to bottom. Only this module and
//! `placeholders` change the host. They make the paths that a rule asks for (`if-missing =
//! "create"` and `"block"`) and our files in the state folder. They repair or move aside
//! repositories that a command broke or planted.

pub mod aftermath;
pub(crate) mod apparmor;
pub(crate) mod availability;
pub(crate) mod bwrap;
mod command;
mod exec;
mod kept_report;
pub(crate) mod limits;
mod look;
mod mount_files;
mod own_sandbox;
mod ready;
mod recheck;
mod restore;
mod run;
mod run_hooks;
mod streams;
mod supervise;

pub(crate) use aftermath::absent as reported_if_created;
pub use availability::explain_refusal;
pub(crate) use bwrap::has_seccomp;
pub use bwrap::{find as find_bwrap, is_inside, kernel, machine};
pub(crate) use kept_report::Reports;
pub use kept_report::{KeptFinding, KeptReport, ReportList};
pub(crate) use limits::LIMIT_REACHED;
pub use look::Look;
pub use own_sandbox::own_sandbox;
pub use ready::{check_caller, ready};
pub use recheck::Recheck;
pub(crate) use run::{FrontEnd, Prepared, Ran, Residue, SupervisedLimits, find_guard};
pub use run::{Refusal, Sandbox};
pub(crate) use run_hooks::RunHooks;
pub use supervise::Ending;
pub(crate) use supervise::{Conclusion, GivenStreams, Supervisor};
