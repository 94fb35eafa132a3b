use std::process::ExitCode;

fn main() -> ExitCode {
    agent_sandbox::cli::main(std::env::args_os().collect())
}
