//! The subcommands. Each has a file of its own, which also defines its arguments.

use crate::diagnostic;

use super::args::definition;
use super::check::CheckArgs;
use super::completions::CompletionsArgs;
use super::diff::DiffArgs;
use super::doctor::DoctorArgs;
use super::explain::ExplainArgs;
use super::init::InitArgs;
use super::lint::LintArgs;
use super::man::ManArgs;
use super::private::PrivateArgs;
use super::report::ReportArgs;
use super::schema::SchemaArgs;
use super::show::ShowArgs;
use super::trust::TrustArgs;
use super::verify::VerifyArgs;

// A comment on a variant would replace the documentation of its arguments in the help.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Subcommand {
    Check(CheckArgs),
    Explain(ExplainArgs),
    Show(ShowArgs),
    Diff(DiffArgs),
    Verify(VerifyArgs),
    Doctor(DoctorArgs),
    Init(InitArgs),
    Trust(TrustArgs),
    Lint(LintArgs),
    Report(ReportArgs),
    Private(PrivateArgs),
    Schema(SchemaArgs),
    /// Remove what a run that was killed has left at blocked paths
    ///
    /// The next run does so as well. What was changed meanwhile is left, and named.
    Sweep,
    Completions(CompletionsArgs),
    Man(ManArgs),
    /// Try what only a process that ends thereafter can try, for `doctor`
    #[command(name = "__doctor", hide = true)]
    DoctorProbe,
    /// Be the probe of `verify`
    #[command(name = "__verify", hide = true)]
    VerifyProbe {
        #[arg(long)]
        on_host: bool,
    },
}

/// The subcommand that `wrong` was probably meant to be.
pub(super) fn nearest(wrong: &str) -> Option<String> {
    let program = definition();
    let names = program.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()).map(|known| known.get_name());
    diagnostic::nearest(wrong, names).map(str::to_owned)
}
