//! The switches of `tests/escape` are in no ordinary build.
#![cfg(not(feature = "ablate"))]

use std::fs;

use crate::support::{Place, binary};
use crate::{run, undisturbed};

#[test]
fn an_ordinary_build_knows_no_switch() {
    let program = fs::read(binary()).unwrap();
    let name = b"AGENT_SANDBOX_ABLATE";
    assert!(!program.windows(name.len()).any(|window| window == name), "the variable is in the binary");
}

#[test]
fn an_ordinary_build_ignores_the_variable() {
    undisturbed(|| {
        let place = Place::in_tmp();
        place.write(place.project().join(".agent-sandbox.toml"), "");
        let words = ["--print-args", "--", "true"];
        let without = run(&place, words);
        for value in ["own-files,private-tmp,mask-sealed,link-checks", "no-such-mitigation"] {
            let output = place.agent_sandbox().args(words).env("AGENT_SANDBOX_ABLATE", value).output().unwrap();
            assert_eq!(
                (output.status.code(), String::from_utf8(output.stdout).unwrap()),
                (Some(0), without.out.clone())
            );
        }
    });
}
