//! The outcome of an attack, and of the attack with its mitigation switched off.

use std::io::Write;
use std::process::Command;

use crate::scene::Scene;
use crate::support::{Place, require_bwrap, stderr, stdout};

pub enum Verdict {
    /// The policy held. The text says how the attack ended.
    Held(String),
    /// The attack succeeded. The text says what it reached.
    Broken(String),
}

impl Verdict {
    pub fn broken_if(broken: bool, what: impl Into<String>) -> Self {
        if broken { Self::Broken(what.into()) } else { Self::Held(what.into()) }
    }

    fn is_broken(&self) -> bool {
        matches!(self, Self::Broken(_))
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Held(how) => write!(f, "held: {how}"),
            Self::Broken(how) => write!(f, "broken: {how}"),
        }
    }
}

pub type Attack = fn(&Scene) -> Verdict;

/// Runs `attack` against the product, and again for the control. `control` names the mitigations
/// that are switched off, separated by commas, or describes what the attack itself leaves out.
pub fn judge(place: fn() -> Place, control: &'static str, attack: Attack) {
    require_bwrap();
    let product = attack(&Scene::new(place(), None));
    let without = attack(&Scene::new(place(), Some(control)));
    note(control, &product, &without);
    assert!(
        !product.is_broken() && without.is_broken(),
        "{}\n  as it is: {product}\n  control, without {control}: {without}\n",
        if product.is_broken() { "the attack succeeds" } else { "the control does not show that the attack works" },
    );
}

/// Appends the verdicts to the file that `ESCAPE_REPORT` names, as an overview for people.
fn note(control: &str, product: &Verdict, without: &Verdict) {
    let Some(report) = std::env::var_os("ESCAPE_REPORT") else { return };
    let word = |verdict: &Verdict| if verdict.is_broken() { "broken" } else { "held" };
    let test = std::thread::current().name().unwrap_or("?").to_owned();
    let line = format!("{test}\t{}\t{}\t{control}\n", word(product), word(without));
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(report).unwrap();
    file.write_all(line.as_bytes()).unwrap();
}

/// Judges the attack as root. If the tests run as another user, the test named `name` runs once
/// more as root of a user namespace, because a skipped test would count as passed.
pub fn judge_as_root(name: &str, place: fn() -> Place, control: &'static str, attack: Attack) {
    if rustix::process::getuid().is_root() {
        return judge(place, control, attack);
    }
    let (_crate, name) = name.split_once("::").unwrap();
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .output()
        .expect("these tests need unshare: run scripts/test, which installs util-linux");
    assert!(
        output.status.success() && stdout(&output).contains("1 passed"),
        "as root in a user namespace (if this machine has none, run the tests as root):\n{}{}",
        stdout(&output),
        stderr(&output)
    );
}

/// Whether this is root of the whole machine, not of a user namespace. If not, prints that the
/// attack is not tried.
pub fn is_real_root() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let whole = map.split_whitespace().eq(["0", "0", "4294967295"]);
    if !whole || !rustix::process::getuid().is_root() {
        eprintln!("not tried: only root of the whole machine can prepare this");
        return false;
    }
    true
}
