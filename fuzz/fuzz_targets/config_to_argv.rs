//! Any bytes as a policy, all the way to an argv that the model reads: `cargo +nightly fuzz run
//! config_to_argv`.
#![no_main]

#[path = "../../tests/support/fuzzing.rs"]
mod fuzzing;

use std::sync::LazyLock;

use fuzzing::Target;
use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<Target> = LazyLock::new(Target::new);

fuzz_target!(|input: &[u8]| {
    TARGET.run(input);
});
