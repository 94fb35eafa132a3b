use agent_sandbox::{Refusal, Sandbox};

fn main() -> Result<(), Refusal> {
    let sandbox = Sandbox::for_project(".")?.exclude("deploy/keys").compile()?;
    println!("{}", sandbox.argv(["make", "test"])?.to_shell());
    let outcome = sandbox.command(["make", "test"]).capture().run()?;
    print!("{}", String::from_utf8_lossy(&outcome.stdout));
    eprint!("{}", String::from_utf8_lossy(&outcome.stderr));
    println!("make {}", outcome.ending);
    Ok(())
}
