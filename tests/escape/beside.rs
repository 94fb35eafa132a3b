//! Two sandboxes at once: one tries to keep something from being found by the other, or gets at what the other protects.

use std::fs;

use crate::outcome::Verdict;
use crate::scene::{BASE_ONLY, CANARY, PLANTED, Running, Scene, words};

for_everybody!("look-again": moving_a_folder_while_another_sandbox_looks_for_what_is_in_it);

everywhere!("own-names": renaming_what_another_sandbox_protects);

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

/// One sandbox hands its project to one in another project, in which nothing is mounted at what the first one protects.
fn renaming_what_another_sandbox_protects(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "rw = ['~/shared']\nro = ['kept', { path = '.vscode/', if-missing = 'block' }]");
    scene.write("kept/file", "original");
    let shared = scene.home().join("shared");
    let mut other = start_beside(scene, "rename_lent.py", &["kept", ".vscode"]);
    other.until("started", || shared.join("started").exists());
    let lent = scene.attack("lend.py", &["while-it-runs"]).completed();
    let ran = other.wait().completed();
    let planted = |path: &str| scene.bytes(path).is_some_and(|bytes| bytes == PLANTED.as_bytes());
    let broken = planted("kept/planted") || planted(".vscode/planted");
    Verdict::broken_if(broken, format!("{}{}", lent.err, ran.out))
}

/// Starts something in another project of the same user, with a folder that both can write.
pub fn start_beside<A: AsRef<std::ffi::OsStr>>(scene: &Scene, attack: &str, arguments: &[A]) -> Running {
    let other = scene.home().join("code/other");
    fs::create_dir_all(&other).unwrap();
    fs::create_dir_all(scene.home().join("shared")).unwrap();
    scene.place.give_away();
    let mut product = scene.product();
    product.current_dir(&other).arg("--");
    words(&mut product, attack, arguments);
    Running::start(product)
}
