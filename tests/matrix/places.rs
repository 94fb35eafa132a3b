//! Private homes and minimal bases, with and without presets, for each access that a rule gives to
//! a folder of the home.

use agent_sandbox::compile::config::{BaseTree, Home};
use agent_sandbox::compile::request::Request;
use agent_sandbox::model::ModelView as View;

use crate::dimensions::{Access, Around, OwnBase, OwnHome, Presets};
use crate::support::{Tree, abs, model};
use crate::{Table, seen};

const ROWS: usize = OwnHome::ALL.len() * OwnBase::ALL.len() * Presets::ALL.len() * Around::ALL.len();

// SPEC O5
#[test]
fn homes_and_bases() {
    let mut table = Table::default();
    for around in Around::ALL {
        let tree = tree(*around);
        for home in OwnHome::ALL {
            for base in OwnBase::ALL {
                for presets in Presets::ALL {
                    let case = Case { home: *home, base: *base, presets: *presets, around: *around };
                    let name = format_args!("home {home:7} base {base:7} presets {presets:3} ~/data {around:7}");
                    table.row(name, &case.expect().to_string(), &case.compile(&tree).to_string());
                }
            }
        }
    }
    table.check("places", ROWS);
}

fn tree(around: Around) -> Tree {
    let files = ["usr/bin/env", "srv/a", "home/u/.bashrc", "home/u/.cache/a", "home/u/data/a", "home/u/proj/src/"];
    let tree = Tree::new(files);
    let user = "home/u/.config/agent-sandbox/config.toml = [filesystem]";
    match around {
        Around::Silent => {}
        Around::Rw => tree.add(&format!("{user}\nrw = [\"~/data\"]")),
        Around::Exclude => tree.add(&format!("{user}\nexclude = [\"~/data\"]")),
    }
    tree
}

struct Case {
    home: OwnHome,
    base: OwnBase,
    presets: Presets,
    around: Around,
}

/// The effect of the settings.
struct Effect {
    programs: Access,
    elsewhere: Access,
    bashrc: Access,
    cache: Access,
    data: Access,
    project: Access,
}

impl std::fmt::Display for Effect {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let Self { programs, elsewhere, bashrc, cache, data, project } = self;
        write!(
            f,
            "/usr {programs:7} /srv {elsewhere:7} .bashrc {bashrc:7} .cache {cache:7} data {data:7} project {project}"
        )
    }
}

impl Case {
    /// SPEC O1, O2 and O5. Without presets, a flag of the user shows the project.
    fn expect(&self) -> Effect {
        let shown = |is_shown: bool| if is_shown { Access::Ro } else { Access::Exclude };
        let home = shown(self.home == OwnHome::Host);
        let is_on = self.presets == Presets::On;
        Effect {
            programs: Access::Ro,
            elsewhere: shown(self.base == OwnBase::Host),
            bashrc: home,
            cache: if is_on { Access::Rw } else { home },
            data: match self.around {
                Around::Silent => home,
                Around::Rw => Access::Rw,
                Around::Exclude => Access::Exclude,
            },
            project: if is_on { Access::Rw } else { Access::Ro },
        }
    }

    fn compile(&self, tree: &Tree) -> Effect {
        let off = || (vec!["!all".into()], vec!["/home/u/proj".into()]);
        let (presets, ro) = if self.presets == Presets::On { Default::default() } else { off() };
        let request = Request {
            home: Some(if self.home == OwnHome::Private { Home::Private } else { Home::Host }),
            base: Some(if self.base == OwnBase::Minimal { BaseTree::Minimal } else { BaseTree::Host }),
            presets,
            ro,
            ..Request::default()
        };
        let (compiled, diagnostics) = tree.compile("/home/u/proj", &request);
        assert!(!diagnostics.has_errors(), "{diagnostics:?}");
        let model = model(&compiled.unwrap());
        // A path that is missing in a private home, but that the command could create, counts as
        // hidden.
        let at = |path: &str| match model.view(&abs(path)) {
            View::Absent { creatable: true } => Access::Exclude,
            _ => seen(&model, &abs(path)),
        };
        Effect {
            programs: at("/usr/bin/env"),
            elsewhere: at("/srv/a"),
            bashrc: at("/home/u/.bashrc"),
            cache: at("/home/u/.cache/a"),
            data: at("/home/u/data/a"),
            project: at("/home/u/proj/src"),
        }
    }
}
