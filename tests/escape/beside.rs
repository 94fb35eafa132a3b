//! Two sandboxes at once in one project: one tries to keep something from being found by the other.

use std::fs;

use crate::outcome::Verdict;
use crate::scene::{BASE_ONLY, CANARY, Scene};

for_everybody!("look-again": moving_a_folder_while_another_sandbox_looks_for_what_is_in_it);

/// How many starts a control may take to meet the moment. Against the product fewer must do.
const STARTS: usize = 30;
const STARTS_OF_THE_CONTROL: usize = 600;

fn moving_a_folder_while_another_sandbox_looks_for_what_is_in_it(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "exclude = ['**/.env', { path = '.blocked', if-missing = 'block' }]");
    scene.write("a/first/box/.env", CANARY);
    scene.mkdir("z/last");
    // A walk needs something to do between the two places, in whatever order it takes them.
    for number in 0..300 {
        for side in ["a", "z"] {
            fs::create_dir(scene.project().join(side).join(number.to_string())).unwrap();
        }
    }
    scene.place.give_away();
    let mut mover = scene.start::<&str>("shuffle.py", &[]);
    mover.until("started", || scene.project().join("started").exists());
    let starts = if scene.is_control() { STARTS_OF_THE_CONTROL } else { STARTS };
    let mut refused = 0;
    let mut seen = None;
    for _ in 0..starts {
        assert!(!mover.has_ended());
        let ran = scene.attack("look_for.py", &[".env"]);
        // Who moves fast enough keeps others from starting, and no more than that.
        refused += usize::from(ran.refused_or_completed("the sandbox is not as planned"));
        if ran.shows_canary() {
            seen = Some(ran);
            break;
        }
    }
    fs::write(scene.project().join("stop"), "").unwrap();
    mover.wait().completed();
    Verdict::broken_if(seen.is_some(), format!("{refused} starts were refused; {seen:?}"))
}
