//! An ordinary build does not have the switches of `tests/escape`.
#![cfg(not(feature = "ablate"))]

use std::fs;

use crate::support::{Place, binary};
use crate::{run, undisturbed};

#[test]
fn an_ordinary_build_has_no_switches() {
    let program = fs::read(binary()).unwrap();
    for name in ["AGENT_SANDBOX_ABLATE", "AGENT_SANDBOX_PAUSE"] {
        let is_name = |window: &[u8]| window == name.as_bytes();
        assert!(!program.windows(name.len()).any(is_name), "the variable {name} is in the binary");
    }
}

#[test]
fn an_ordinary_build_does_not_pause() {
    let place = Place::in_tmp();
    let file = place.path().join("pause");
    let points = format!("before-bwrap {0}\nbefore-go {0}", file.display());
    let output = place.agent_sandbox().args(["--", "echo", "ran"]).env("AGENT_SANDBOX_PAUSE", points).output().unwrap();
    assert_eq!((output.stdout.as_slice(), file.exists()), (&b"ran\n"[..], false));
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
