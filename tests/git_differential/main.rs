//! Random repositories, settings and attacks: a command changes git's files, and afterwards the
//! real git must run no program of the command, unless the report of the run names it.
//!
//! Each case restores a repository of the user (`shapes`), adds settings in the scopes that git
//! reads (`settings`), lets a command attack it in a sandbox (`attacks`), and then works with git
//! on the host (`work`). Every program that the attack plants writes its number into a file that
//! only the host can write. Each git of this machine takes its turn.
//!
//! The suite stops after a minute. `GIT_DIFFERENTIAL_CASES=2000` runs that many cases instead. A
//! failure prints its seed; `GIT_DIFFERENTIAL_SEED=N` begins with that one.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod attacks;
mod dice;
mod index;
mod settings;
mod shapes;
mod work;

#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use attacks::Attack;
use dice::Dice;
use settings::UserSettings;
use shapes::Shape;
use support::{Place, require_bwrap, stderr, stdout};

const LIMIT: Duration = Duration::from_secs(45);
const THREADS: usize = 2;
/// One case in this many is attacked without a sandbox, to show that the attacks work.
const CONTROL: u64 = 12;
/// The suite shows so many failures and stops.
const MOST_FAILURES: usize = 8;
const GITS: [&str; 2] = ["/usr/local/bin", "/usr/bin"];

/// The numbers of all threads together.
#[derive(Default)]
struct Tally {
    cases: AtomicUsize,
    refused: AtomicUsize,
    reported: AtomicUsize,
    /// Something ran, and the report had named it.
    told: AtomicUsize,
    controls: AtomicUsize,
    controls_broken: AtomicUsize,
    failures: Mutex<Vec<String>>,
}

// SPEC R5
#[test]
fn git_runs_nothing_that_is_not_protected_held_or_reported() {
    require_bwrap();
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let first = number("GIT_DIFFERENTIAL_SEED").unwrap_or(now.as_secs() * 1_000_000);
    let cases = number("GIT_DIFFERENTIAL_CASES");
    println!("GIT_DIFFERENTIAL_SEED={first}");
    let (next, tally, started) = (AtomicU64::new(first), Tally::default(), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let stage = Stage::new();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let is_over = match cases {
                        Some(cases) => seed - first >= cases,
                        None => started.elapsed() > LIMIT,
                    };
                    if is_over || tally.failures.lock().unwrap().len() >= MOST_FAILURES {
                        return;
                    }
                    stage.play(seed, &tally);
                }
            });
        }
    });
    let count = |of: &AtomicUsize| of.load(Ordering::Relaxed);
    println!(
        "{} cases, {} refused, {} reported, in {} of them something ran; {} of {} controls broken",
        count(&tally.cases),
        count(&tally.refused),
        count(&tally.reported),
        count(&tally.told),
        count(&tally.controls_broken),
        count(&tally.controls)
    );
    let failures = tally.failures.lock().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    let controls = count(&tally.controls);
    assert!(controls < 10 || count(&tally.controls_broken) * 4 > controls, "most attacks have no effect anyway");
    assert!(count(&tally.refused) * 10 < count(&tally.cases) + 10, "too many starts are refused");
}

/// A home with a project, and the repositories of all shapes to begin with.
struct Stage {
    place: Place,
}

impl Stage {
    fn new() -> Self {
        let stage = Self { place: Place::outside_tmp() };
        stage.place.write("home/.gitconfig", settings::IDENTITY);
        stage.place.write("home/.ssh/id_ed25519", "secret\n");
        for shape in Shape::ALL {
            stage.renew(None);
            stage.host(
                &[],
                GITS[0],
                &format!("set -e\ncd code/project\n{}\n{}", shapes::FUNCTIONS, shape.script()),
                true,
            );
            stage.host(&[], GITS[0], &format!("cp -a \"$HOME/code\" \"$HOME/{}\"", shape.name()), true);
        }
        stage
    }

    /// Puts a shape, or nothing, in the place of the user's code.
    fn renew(&self, shape: Option<Shape>) {
        let code = self.place.home().join("code");
        // An attack may have closed its folders.
        let _ = Command::new("chmod").args(["-R", "u+rwX"]).arg(&code).status();
        let _ = fs::remove_dir_all(&code);
        match shape {
            Some(shape) => {
                let copied = Command::new("cp").arg("-a").arg(self.place.home().join(shape.name())).arg(&code).status();
                assert!(copied.unwrap().success());
            }
            None => {
                fs::create_dir_all(self.place.project()).unwrap();
                self.place.give_away();
            }
        }
        let _ = fs::remove_file(self.place.home().join("pwned"));
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>, variables: &[(String, String)], git: &str) -> Command {
        let mut command = self.place.command(program);
        command.env("PATH", format!("{git}:/usr/local/bin:/usr/bin:/bin"));
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        command
    }

    #[track_caller]
    fn host(&self, variables: &[(String, String)], git: &str, script: &str, must_succeed: bool) -> Output {
        // An attack may have closed the project.
        let mut command = self.command("/bin/sh", variables, git);
        let output = command.current_dir(self.place.home()).args(["-c", script]).output().unwrap();
        assert!(!must_succeed || output.status.success(), "{script}\n{}{}", stdout(&output), stderr(&output));
        output
    }

    fn play(&self, seed: u64, tally: &Tally) {
        let mut dice = Dice::new(seed);
        let gits: Vec<&str> = GITS.into_iter().filter(|folder| Path::new(folder).join("git").exists()).collect();
        let git = *dice.pick(&gits);
        let shape = *dice.pick(&Shape::ALL);
        let user = UserSettings::random(&mut dice, shape, &self.place.project());
        let attacks = Attack::random(&mut dice, shape, &self.place);
        let work = work::random(&mut dice, shape);
        let is_control = seed.is_multiple_of(CONTROL);

        self.renew(Some(shape));
        fs::write(self.place.home().join(".gitconfig"), format!("{}{}", settings::IDENTITY, user.global)).unwrap();
        fs::write(self.place.home().join("system"), &user.system).unwrap();
        self.host(&[], git, &format!("cd code/project\n{}\n{}", settings::PROGRAMS, user.script), false);
        let script = format!(
            "{}\n{}\necho done",
            attacks::FUNCTIONS,
            attacks
                .iter()
                .map(|attack| format!("( {} ) </dev/null >/dev/null 2>&1", attack.script))
                .collect::<Vec<_>>()
                .join("\n")
        );
        let mut command = if is_control {
            self.command("/bin/sh", &user.variables, git)
        } else {
            let mut command = self.command(support::binary(), &user.variables, git);
            command.args(["--", "/bin/sh"]);
            command
        };
        let ran = command.args(["-c", &script]).output().unwrap();
        // A control runs the attack itself on the host.
        let _ = fs::remove_file(self.place.home().join("pwned"));
        let report = stderr(&ran);
        let was_refused = ran.status.code() == Some(125) && stdout(&ran).is_empty();
        let finished = was_refused || stdout(&ran).ends_with("done\n");
        if !was_refused {
            self.host(&user.variables, git, &work, false);
        }
        let pwned = fs::read_to_string(self.place.home().join("pwned")).unwrap_or_default();

        let counted = |of: &AtomicUsize, is_so: bool| of.fetch_add(usize::from(is_so), Ordering::Relaxed);
        if is_control {
            counted(&tally.controls, true);
            counted(&tally.controls_broken, !pwned.is_empty());
            return;
        }
        counted(&tally.cases, true);
        counted(&tally.refused, was_refused);
        counted(&tally.reported, report.contains("warning["));
        let is_told = |attack: &Attack| attack.mentions.iter().any(|mention| report.contains(mention.as_str()));
        let ran_number = |attack: &Attack| pwned.lines().any(|line| line.starts_with(&format!("{} ", attack.number)));
        let silent: Vec<&Attack> = attacks.iter().filter(|attack| ran_number(attack) && !is_told(attack)).collect();
        counted(&tally.told, attacks.iter().any(|attack| ran_number(attack) && is_told(attack)));
        if silent.is_empty() && finished {
            return;
        }
        let failure = format!(
            "GIT_DIFFERENTIAL_SEED={seed} GIT_DIFFERENTIAL_CASES=1\ngit in {git}, {shape:?}\nsettings: {user:#?}\n\
             silent: {silent:#?}\nall attacks:\n{}\nreport:\n{report}\nran on the host:\n{pwned}",
            attacks.iter().map(|attack| attack.script.as_str()).collect::<Vec<_>>().join("\n"),
        );
        tally.failures.lock().unwrap().push(failure);
    }
}
