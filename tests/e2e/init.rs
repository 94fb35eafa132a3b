use crate::support::{Place, binary, stderr};

for_both!(a_policy_that_cannot_be_written_inside_is_refused_with_the_reason);

// SPEC I3
fn a_policy_that_cannot_be_written_inside_is_refused_with_the_reason(place: &Place) {
    let root: &[&str] = if place.uid == 0 { &["--allow-root"] } else { &[] };
    let mut command = place.agent_sandbox();
    command.args(root).args(["--ro", ".", "--"]).arg(binary()).arg("init");
    let output = command.output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("error[init-failed]") && said.contains("from inside a sandbox"), "{said}");
    assert!(!place.project().join(".agent-sandbox.toml").exists());
}
