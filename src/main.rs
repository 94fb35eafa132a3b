use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: agent_sandbox::allocator::Small = agent_sandbox::allocator::Small;

fn main() -> ExitCode {
    agent_sandbox::cli::main(std::env::args_os().collect())
}
