//! The private places that the settings `home` and `base` ask for, and the files of the host that
//! are visible in them without a rule (SPEC section 25).

pub mod programs;

use std::collections::BTreeSet;

use crate::compile::config::{BaseTree, Home};
use crate::compile::layers::Project;
use crate::compile::policy::Setting;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::host::Session;
use crate::policy::{AbsPath, Access, LayerKind, Mask, Origin, Refinements, Rule};
use crate::sys::ablate::{self, Mitigation};

use programs::PROGRAMS;

/// The folders of the host that a minimal base shows.
pub const MINIMAL: [&str; 10] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix"];

/// System folders. A home in one of them belongs to a service, and holds files that programs need.
const SYSTEM: [&str; 5] = ["/usr", "/etc", "/var", "/dev", "/run"];

const ON_PATH: Origin = Origin::BuiltIn("a folder of PATH in the private home");
const OF_NPM: Origin = Origin::BuiltIn("packages of npm to which a folder of PATH leads");
const PART_OF_BASE: Origin = Origin::BuiltIn("a part of the minimal base");

/// The rules of both settings. All of them are on the base layer: any other rule beats them.
pub(super) fn rules(
    home: &Setting<Home>,
    base: &Setting<BaseTree>,
    project: &Project,
    session: &Session,
    diagnostics: &mut Diagnostics,
) -> Vec<Rule> {
    let mut rules = Vec::new();
    if base.value == BaseTree::Minimal && !ablate::is_off(Mitigation::MinimalBase) {
        rules.push(own_place(AbsPath::root(), &base.origin));
        rules.extend(MINIMAL.map(|folder| shown(AbsPath::root().join(folder), PART_OF_BASE)));
        if home.value == Home::Host {
            rules.push(shown(project.home.clone(), home.origin.clone()));
        }
    }
    if home.value == Home::Private && !ablate::is_off(Mitigation::PrivateHome) {
        if project.home.is_root() || MINIMAL.iter().any(|folder| project.home.as_os_str() == *folder) {
            let message = format!("the home cannot be private: it is `{}`, which every program needs", project.home);
            let help = "set HOME to a folder of your own, or set `home = \"host\"`";
            diagnostics.push(Diagnostic::new(Code::ReservedPath, message).at(&home.origin).help(help));
            return rules;
        }
        let homes = homes(project);
        rules.extend(homes.iter().map(|path| own_place((*path).clone(), &home.origin)));
        rules.extend(programs(&homes, session));
    }
    rules
}

/// The homes of the user: `$HOME`, and the home in the password file if it differs and is not the
/// home of a service.
fn homes(project: &Project) -> Vec<&AbsPath> {
    let is_service = |path: &AbsPath| {
        SYSTEM.iter().chain(&MINIMAL).any(|folder| path.lies_in(folder.as_ref()) || path.as_os_str() == *folder)
    };
    [&project.home].into_iter().chain(project.password_home.as_ref().filter(|path| !is_service(path))).collect()
}

/// The rules that show the folders of PATH in `homes`, and the folders that known programs need.
fn programs<'a>(homes: &'a [&AbsPath], session: &'a Session) -> impl Iterator<Item = Rule> + use<'a> {
    let in_home = |path: &AbsPath| homes.iter().any(|home| path.is_below(home));
    // PATH may name a folder twice.
    let folders: BTreeSet<AbsPath> = session.path_folders().filter_map(AbsPath::normalize).collect();
    let packages: Vec<AbsPath> = folders.iter().filter_map(packages_of).collect();
    let packages = packages.into_iter().map(|path| (path, OF_NPM));
    let on_path = packages.chain(folders.into_iter().map(|path| (path, ON_PATH)));
    let known = PROGRAMS.iter().flat_map(move |program| {
        let origin = Origin::BuiltIn(program.why);
        let by_variable = program.variables.iter().filter_map(|name| session.path_var(name));
        let by_path = program.paths.iter().flat_map(|path| homes.iter().map(move |home| home.join(path)));
        by_variable.chain(by_path).map(move |path| (path, origin.clone())).collect::<Vec<_>>()
    });
    on_path.chain(known).filter(move |(path, _)| in_home(path)).map(|(path, origin)| shown(path, origin))
}

/// The folder of packages to which programs in `folder` are symlinks: npm makes these in
/// `X/node_modules/.bin` and, with the prefix `X`, in `X/bin`.
fn packages_of(folder: &AbsPath) -> Option<AbsPath> {
    let around = folder.parent()?;
    match folder.file_name()?.as_encoded_bytes() {
        b".bin" if around.file_name().is_some_and(|name| name == "node_modules") => Some(around),
        b"bin" => Some(around.join("lib/node_modules")),
        _ => None,
    }
}

/// The rule that puts an empty folder in the place of the host's.
fn own_place(path: AbsPath, origin: &Origin) -> Rule {
    let refinements = Refinements { mask: Mask::OwnPlace, ..Refinements::NONE };
    Rule { refinements, ..Rule::exact(Access::Exclude, path, LayerKind::Base, origin.clone()) }
}

/// The rule that shows a path of the host in a private place, and nowhere else.
fn shown(path: AbsPath, origin: Origin) -> Rule {
    let refinements = Refinements { only_shows: true, ..Refinements::NONE };
    Rule { refinements, ..Rule::exact(Access::Ro, path, LayerKind::Base, origin) }
}
