//! Random repositories, settings and attacks: a command changes git's files, and afterwards the
//! real git must run no program of the command, unless the report of the run names it.
//!
//! Each case restores a repository of the user (`shapes`), adds settings in the scopes that git
//! reads (`settings`), lets a command attack it in a sandbox (`attacks`), and then works with git
//! on the host (`work`). Every program that the attack plants writes its number into a file that
//! only the host can write. Each git of this machine takes its turn.
//!
//! The suite begins with the same seed each time, and stops after a minute.
//! `GIT_DIFFERENTIAL_CASES=2000` runs that many cases instead, and `GIT_DIFFERENTIAL_SEED=random`
//! begins with a random seed. A failure prints its seed, and `GIT_DIFFERENTIAL_SEED=N` begins with
//! the seed N.
//!
//! The controls are a fixed list of attacks, which all take effect on the host.
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
/// The first seed of the suite.
const FIRST: u64 = 1_000_000;
/// The suite stops after this number of failures.
const MOST_FAILURES: usize = 8;
const GITS: [&str; 2] = ["/usr/local/bin", "/usr/bin"];

/// The totals of all threads.
#[derive(Default)]
struct Tally {
    cases: AtomicUsize,
    refused: AtomicUsize,
    reported: AtomicUsize,
    /// The cases in which a planted program ran and the report had named it.
    told: AtomicUsize,
    failures: Mutex<Vec<String>>,
}

// SPEC R5
#[test]
fn git_runs_nothing_that_is_not_protected_held_or_reported() {
    require_bwrap();
    let number = |text: &String| text.parse::<u64>().unwrap();
    let seed = std::env::var("GIT_DIFFERENTIAL_SEED").ok();
    let first = match &seed {
        None => FIRST,
        Some(seed) if seed == "random" => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            now.as_secs() * 1_000_000
        }
        Some(seed) => number(seed),
    };
    let cases = std::env::var("GIT_DIFFERENTIAL_CASES").ok().as_ref().map(number);
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
                    stage.judge(seed, &tally);
                }
            });
        }
    });
    let count = |of: &AtomicUsize| of.load(Ordering::Relaxed);
    println!(
        "{} cases, {} refused, {} reported, in {} of which a planted program ran",
        count(&tally.cases),
        count(&tally.refused),
        count(&tally.reported),
        count(&tally.told)
    );
    let failures = tally.failures.lock().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    // Other seeds may have more settings that make a start refuse.
    let is_fixed = seed.is_none();
    assert!(!is_fixed || count(&tally.refused) * 10 < count(&tally.cases) + 10, "too many starts are refused");
}

/// Attacks that git obeys on the host, and the work of the user that follows.
const CONTROLS: [(Shape, &str); 12] = [
    (Shape::Plain, "arm .git 1 monitor"),
    (Shape::Plain, "arm .git 1 hooks"),
    (Shape::Plain, "arm .git 1 hooks-path"),
    (Shape::Plain, "arm .git 1 include-if"),
    (Shape::Plain, "arm .git 1 worktree-settings"),
    (Shape::Plain, "arm .git 1 commondir"),
    (Shape::Plain, "mv .git .git.aside; cp -r .git.aside .git; arm .git 1 settings-link"),
    (Shape::Plain, "rm -rf .git; made .; arm .git 1 hooks-link"),
    (Shape::Plain, "made new; arm new/.git 1 monitor; index new named"),
    (Shape::Plain, "bare 1 plain; rm -f .git/HEAD"),
    (Shape::NoRepository, "made .; arm .git 1 monitor; formed . pointer"),
    (Shape::IsWorktree, "arm \"$(git rev-parse --git-common-dir)\" 1 monitor"),
];

#[test]
fn git_runs_each_program_of_the_controls() {
    require_bwrap();
    let stage = Stage::new();
    let mut harmless = Vec::new();
    for (shape, script) in CONTROLS {
        let attacks = vec![Attack { number: 1, script: script.to_owned(), mentions: Vec::new() }];
        let case = Case { git: GITS[1], shape, user: UserSettings::default(), attacks, work: work::fixed(shape) };
        let played = stage.play(&case, true);
        if !played.pwned.starts_with("1 ") {
            harmless.push(format!("{shape:?}: {script}\n{}", stderr(&played.ran)));
        }
    }
    assert!(harmless.is_empty(), "{}", harmless.join("\n"));
}

/// The input of one run.
struct Case {
    git: &'static str,
    shape: Shape,
    user: UserSettings,
    attacks: Vec<Attack>,
    /// The work of the user afterwards.
    work: String,
}

/// The result of a case.
struct Played {
    ran: Output,
    was_refused: bool,
    /// The planted programs that ran on the host afterwards.
    pwned: String,
}

/// A home with a project, and with a repository of each shape to copy.
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

    /// Replaces the user's code by a copy of a shape, or by an empty project.
    fn renew(&self, shape: Option<Shape>) {
        let code = self.place.home().join("code");
        // An attack may have removed the rights of folders.
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
        // An attack may have removed the rights of the project.
        let mut command = self.command("/bin/sh", variables, git);
        let output = command.current_dir(self.place.home()).args(["-c", script]).output().unwrap();
        assert!(!must_succeed || output.status.success(), "{script}\n{}{}", stdout(&output), stderr(&output));
        output
    }

    fn random(&self, seed: u64) -> Case {
        let mut dice = Dice::new(seed);
        let gits: Vec<&str> = GITS.into_iter().filter(|folder| Path::new(folder).join("git").exists()).collect();
        let git = *dice.pick(&gits);
        let shape = *dice.pick(&Shape::ALL);
        let user = UserSettings::random(&mut dice, shape, &self.place.project());
        let attacks = Attack::random(&mut dice, shape, &self.place);
        let work = work::random(&mut dice, shape);
        Case { git, shape, user, attacks, work }
    }

    /// Runs the attack of a case, in a sandbox or, as a control, on the host. Then runs the user's
    /// work.
    fn play(&self, case: &Case, is_control: bool) -> Played {
        let Case { git, shape, user, attacks, work } = case;
        self.renew(Some(*shape));
        fs::write(self.place.home().join(".gitconfig"), format!("{}{}", settings::IDENTITY, user.global)).unwrap();
        fs::write(self.place.home().join("system"), &user.system).unwrap();
        self.host(&[], git, &format!("cd code/project\n{}\n{}", settings::PROGRAMS, user.script), false);
        let attacks = attacks.iter().map(|attack| format!("( {} ) </dev/null >/dev/null 2>&1", attack.script));
        let attacks = attacks.collect::<Vec<_>>().join("\n");
        let script = format!("{}\n{attacks}\necho done", attacks::FUNCTIONS);
        let mut command = if is_control {
            self.command("/bin/sh", &user.variables, git)
        } else {
            let mut command = self.command(support::binary(), &user.variables, git);
            command.args(["--", "/bin/sh"]);
            command
        };
        let ran = command.args(["-c", &script]).output().unwrap();
        // In a control, programs may have run during the attack itself, and do not count.
        let _ = fs::remove_file(self.place.home().join("pwned"));
        let was_refused = ran.status.code() == Some(125) && stdout(&ran).is_empty();
        if !was_refused {
            self.host(&user.variables, git, work, false);
        }
        let pwned = fs::read_to_string(self.place.home().join("pwned")).unwrap_or_default();
        Played { ran, was_refused, pwned }
    }

    fn judge(&self, seed: u64, tally: &Tally) {
        let case = self.random(seed);
        let Played { ran, was_refused, pwned } = self.play(&case, false);
        let Case { git, shape, user, attacks, .. } = &case;
        let report = stderr(&ran);
        let finished = was_refused || stdout(&ran).ends_with("done\n");
        let counted = |of: &AtomicUsize, is_so: bool| of.fetch_add(usize::from(is_so), Ordering::Relaxed);
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
