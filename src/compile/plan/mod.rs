//! Plans the mounts and their order from the decisions, and finds the decisions that need no mount.
//! This stage reads nothing from the machine.

mod hard_links;
mod injections;
mod links;
mod mount;
mod overflow;
mod pins;
mod placeholders;
mod private;
mod redacted;
mod view;

use std::collections::BTreeSet;

use crate::compile::decide::{Decision, Decisions};
use crate::compile::layers::OwnFile;
use crate::compile::placeholder::Placeholder;
use crate::compile::resolve::{GitExclude, PresetVariable, Runtime, RuntimeMount, SecondPlace, ShownLink};
use crate::host::FileKind;
use crate::policy::{AbsPath, Access, Injected, LayerKind, Mask, Origin, PathMap, places};
use crate::sys::ablate::{self, Mitigation};

pub use hard_links::check_hard_links;
pub(crate) use hard_links::find_names;
pub use injections::check_injections;
pub use links::{check_executable, check_links, is_refused_through_link, unsaid_links};
pub use mount::{BindKind, Mount, OnMissingSource, PlannedMount, Purpose};
pub use overflow::{MOST_IN_ARGV, Split};
use pins::Pins;
pub use placeholders::check_dangling;
pub use private::{
    PlannedLink, PrivateFolder, check_missing_private, check_private, may_be_linked, unsaid_private_links,
};
pub use redacted::check_copies;
pub use view::View;

/// A decision that needs no mount, because its surroundings already give it.
#[derive(Clone, Debug)]
pub struct RedundantRule {
    pub path: AbsPath,
    pub access: Access,
    pub because: Origin,
    pub inherited: View,
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub mounts: Vec<PlannedMount>,
    pub redundant: Vec<RedundantRule>,
    /// The placeholders that exist on the host during the run, parents first.
    pub placeholders: Vec<Placeholder>,
    /// Variables that presets set.
    pub variables: Vec<PresetVariable>,
    /// The private files: the guard mounts a link over each.
    pub links: Vec<PlannedLink>,
    /// bwrap's arguments contain at most this many masks and read-only binds, and at most this
    /// many pins.
    pub most_in_argv: usize,
    views: PathMap<View>,
}

impl Plan {
    /// Whether the command can follow the symlink of the host at `path`. In a private place, the
    /// plan may make the symlink again.
    pub fn shows_link(&self, path: &AbsPath) -> bool {
        let is_made = |planned: &PlannedMount| planned.path == *path && matches!(planned.mount, Mount::Symlink { .. });
        self.view(path).shows_host() || self.mounts.iter().any(is_made)
    }

    /// The view of the command at `path`, which contains no symlinks.
    pub fn view(&self, path: &AbsPath) -> View {
        view::at(&self.views, path)
    }

    /// The paths at which the view changes, parents first.
    pub fn borders(&self) -> impl Iterator<Item = &AbsPath> {
        self.views.keys()
    }

    /// The view of the command in the folder that `path` lies in.
    pub fn view_around(&self, path: &AbsPath) -> View {
        view::above(&self.views, path)
    }
}

/// The input of a plan besides the decisions.
pub struct Base<'a> {
    pub uid: u32,
    /// Our own executable, if a guard is used.
    pub guard: Option<&'a AbsPath>,
    pub runtime: &'a Runtime,
    pub own_files: &'a [OwnFile],
    pub git_excludes: &'a [GitExclude],
    pub second_places: &'a [SecondPlace],
    pub links: &'a [ShownLink],
    pub variables: Vec<PresetVariable>,
    /// `None` if private files are read-only.
    pub private: Option<PrivateFolder>,
}

pub fn plan(decisions: &Decisions, base: &Base, optimize: bool) -> Plan {
    let mut planner = Planner {
        private: base.private.as_ref(),
        mounts: Vec::new(),
        redundant: Vec::new(),
        links: Vec::new(),
        views: PathMap::default(),
        own_places: BTreeSet::new(),
        open: Vec::new(),
        optimize,
    };
    let root = AbsPath::root();
    let own_root = decisions.get(&root).filter(|decision| decision.is_own_place());
    match own_root {
        Some(decision) => planner.own(&root, Mount::OwnRoot, &decision.origin),
        None => planner.always_at(root, View::HostRo, read_only(OnMissingSource::Refuse), "the host is read-only"),
    }
    planner.pins(decisions, base);
    planner.base(base, decisions);
    for (path, decision) in decisions.iter() {
        planner.close_masks(Some(path));
        planner.decision(path, decision, decisions);
    }
    planner.close_masks(None);
    let mut placeholders: Vec<Placeholder> =
        decisions.iter().filter_map(|(_, decision)| decision.placeholder.as_deref().cloned()).collect();
    for exclude in base.git_excludes {
        planner.git_exclude(exclude, decisions, &mut placeholders);
    }
    let mut variables = planner.second_places(base.second_places, decisions, &mut placeholders);
    variables.extend_from_slice(&base.variables);
    variables.extend(planner.links.iter().filter_map(PlannedLink::variable));
    placeholders.sort_by(|a, b| a.path.cmp(&b.path));
    if base.guard.is_some() {
        planner.mask_source();
    }
    if let Some(folder) = &base.private {
        planner.private_copies(&folder.path);
    }
    planner.links_to_shown(base.links);
    planner.always(places::at(places::DEV), Mount::RemountReadOnly, "`/dev` is read-only");
    planner.always(places::at(places::RUN), Mount::RemountReadOnly, "`/run` is read-only");
    if let Some(decision) = own_root {
        planner.own(&AbsPath::root(), Mount::RemountReadOnly, &decision.origin);
    }
    Plan {
        mounts: planner.mounts,
        redundant: planner.redundant,
        placeholders,
        variables,
        links: planner.links,
        most_in_argv: MOST_IN_ARGV,
        views: planner.views,
    }
}

struct Planner<'a> {
    mounts: Vec<PlannedMount>,
    redundant: Vec<RedundantRule>,
    links: Vec<PlannedLink>,
    views: PathMap<View>,
    own_places: BTreeSet<AbsPath>,
    /// Masked directories whose subtree is being planned. They become read-only after the last
    /// mount below them.
    open: Vec<OpenMask>,
    optimize: bool,
    /// `None` if private files are read-only.
    private: Option<&'a PrivateFolder>,
}

struct OpenMask {
    path: AbsPath,
    because: Origin,
    /// Index of the mask in `mounts`: its mode depends on the mounts that follow.
    at: usize,
    /// Directories made on the way to re-opened paths.
    made: Vec<AbsPath>,
}

/// The mode of a directory in which only the mount points can be reached.
const SEARCH_ONLY: u32 = 0o111;
const CLOSED: u32 = 0o000;
/// The mode of a directory that only the command's user can access.
const OWN: u32 = 0o700;

impl Planner<'_> {
    fn always(&mut self, path: AbsPath, mount: Mount, why: &'static str) {
        self.mounts.push(PlannedMount { path, mount, purpose: Purpose::Base, because: Origin::BuiltIn(why) });
    }

    /// Adds a mount of the base that changes the view from `path` downwards.
    fn always_at(&mut self, path: AbsPath, view: View, mount: Mount, why: &'static str) {
        self.always(path.clone(), mount, why);
        self.views.cover(path, view);
    }

    /// Adds a mount for a private place that a setting asks for.
    fn own(&mut self, path: &AbsPath, mount: Mount, because: &Origin) {
        let is_place = matches!(mount, Mount::OwnRoot | Mount::Tmpfs { .. });
        let because = because.clone();
        self.mounts.push(PlannedMount { path: path.clone(), mount, purpose: Purpose::Own, because });
        if is_place {
            self.views.cover(path.clone(), View::Fresh);
            self.own_places.insert(path.clone());
        }
    }

    /// Creates the host's symlinks again that lie in a private place and lead to a path that the
    /// command sees.
    fn links_to_shown(&mut self, links: &[ShownLink]) {
        let mut made = BTreeSet::new();
        for ShownLink { path, target, leads_to, because } in links {
            let is_in_own = self.views.nearest(path).is_some_and(|(at, _)| self.own_places.contains(at));
            let is_shown = view::at(&self.views, leads_to).shows_host() || self.own_places.contains(leads_to);
            if is_in_own && is_shown && made.insert(path) {
                self.own(path, Mount::Symlink { target: target.clone() }, because);
            }
        }
    }

    /// Makes the pins directly after the mount of the root, while every directory of the host can
    /// still be seen. Later, a tmpfs covers some of these directories, such as a project in `/tmp`,
    /// and a mount there would pin a directory of the tmpfs instead.
    fn pins(&mut self, decisions: &Decisions, base: &Base) {
        if ablate::is_off(Mitigation::Pins) {
            return;
        }
        let own_root = self.own_places.contains(&AbsPath::root());
        let Pins { pins, roots } = pins::pins(decisions, base.own_files, own_root);
        for (path, because) in &roots {
            self.own(path, read_only(OnMissingSource::Notice), because);
        }
        for (path, (keeps, because)) in pins {
            let mount = read_only(OnMissingSource::Notice);
            self.mounts.push(PlannedMount { path, mount, purpose: Purpose::Pin { keeps }, because });
        }
    }

    /// Adds the other mounts that every sandbox has (SPEC B1).
    fn base(&mut self, base: &Base, decisions: &Decisions) {
        let dev = places::at(places::DEV);
        self.always_at(dev.clone(), View::Dev, Mount::Dev, "own `/dev`");
        // bwrap gives its `/dev` no size, so this one is sized, and `/dev` becomes read-only.
        self.always_at(dev.child("shm"), View::Fresh, Mount::Tmpfs { mode: 0o1777 }, "own `/dev/shm`");
        self.always_at(places::at(places::PROC), View::Proc, Mount::Proc, "own `/proc`");
        let run = places::at(places::RUN);
        self.always_at(run.clone(), View::Fresh, Mount::Tmpfs { mode: 0o755 }, "own `/run`");
        for RuntimeMount { path, symlink, why } in base.runtime {
            let link = symlink.clone().map(|target| Mount::Symlink { target });
            let mount = link.unwrap_or_else(|| read_only(OnMissingSource::Skip));
            self.always_at(path.clone(), View::HostRo, mount, why);
        }
        let runtime = run.child("user").child(base.uid.to_string());
        self.always_at(runtime, View::Fresh, Mount::Tmpfs { mode: 0o700 }, "own runtime directory");
        // A rule on `/tmp` itself, such as that of `tmp = "host"`, replaces this tmpfs.
        let tmp = places::at(places::TMP);
        if decisions.get(&tmp).is_none() && !ablate::is_off(Mitigation::PrivateTmp) {
            self.always_at(tmp, View::Fresh, Mount::Tmpfs { mode: 0o1777 }, "own `/tmp`");
        }
        let marker = places::at(places::MARKER);
        self.always(marker, Mount::Directory { mode: 0o755 }, "tells the command that it is inside");
        self.always(places::at(places::README), Mount::Readme, "tells the command which rules govern it");
        if let Some(executable) = base.guard {
            let binary = Mount::OwnBinary { executable: executable.clone() };
            self.always(places::at(places::GUARD), binary, "the guard: agent-sandbox itself");
            self.always(places::at(places::PLAN), Mount::GuardPlan, "the guard's plan");
        }
    }

    /// If the policy masks a file, also mounts the mask file beside the guard's plan, so that the
    /// guard can compare masked files with it.
    fn mask_source(&mut self) {
        let is_mask = |planned: &PlannedMount| matches!(planned.mount, Mount::MaskFile { .. });
        let plan = self.mounts.iter().position(|planned| planned.mount == Mount::GuardPlan);
        if let Some(at) = plan.filter(|_| self.mounts.iter().any(is_mask)) {
            let (path, mount) = (places::at(places::MASKED), Mount::MaskSource);
            let because = Origin::BuiltIn("the content of every hidden file");
            self.mounts.insert(at + 1, PlannedMount { path, mount, purpose: Purpose::Base, because });
        }
    }

    fn decision(&mut self, path: &AbsPath, decision: &Decision, decisions: &Decisions) {
        if decision.is_own_place() {
            // The root is mounted already, because its mount comes before all pins.
            if !path.is_root() {
                self.make_parents(path);
                self.open_the_way();
                self.own(path, Mount::Tmpfs { mode: OWN }, &decision.origin);
            }
            return;
        }
        let inherited = view::at(&self.views, path);
        // In a private place there is nothing to hide, but the directories on the way to a
        // re-opened path must not be writable.
        let leads_on = || inherited == View::Fresh && decisions.reopens_below(path);
        let is_link = self.private.is_some_and(|folder| folder.may_have(path, decision))
            && self.links.len() < private::MOST_LINKS;
        let is_injected = decision.injected.is_some();
        let changes_nothing = || inherited.gives(decision.access) && !leads_on() && !is_link && !is_injected;
        // The base mount of `/` already carries out the rule on `/`. A second mount of `/` would
        // cover all mounts made since.
        if path.is_root() || (self.optimize && changes_nothing()) {
            self.redundant.push(RedundantRule {
                path: path.clone(),
                access: decision.access,
                because: decision.origin.clone(),
                inherited,
            });
            return;
        }
        self.make_parents(path);
        if decision.access != Access::Exclude {
            self.open_the_way();
        }
        let at = self.mounts.len();
        // The guard mounts its link over the host's file. If the host's file does not show, bwrap
        // must first mount a file for the link to cover.
        if !is_link || !inherited.shows_host() {
            let mount = mount(decision, inherited);
            let purpose = if is_injected { Purpose::Injection } else { Purpose::Rule(decision.access) };
            self.mounts.push(PlannedMount { path: path.clone(), mount, purpose, because: decision.origin.clone() });
        }
        let is_copy = decision.copy.is_some();
        let is_fresh = decision.mask == Mask::Fresh && decision.kind == FileKind::Directory;
        let view = match decision.access {
            _ if is_injected => View::Injected,
            Access::Exclude if is_copy => View::Redacted,
            Access::Exclude if is_fresh => View::Fresh,
            access => View::of(access),
        };
        self.views.cover(path.clone(), view);
        if let Some(file) = decision.private.filter(|_| is_link) {
            let is_missing = decision.placeholder.is_some();
            let because = decision.origin.clone();
            self.links.push(PlannedLink { path: path.clone(), file, is_missing, because });
        }
        if view == View::Masked && decision.kind == FileKind::Directory {
            self.open.push(OpenMask { path: path.clone(), because: decision.origin.clone(), at, made: Vec::new() });
        }
    }

    /// Below a mask, directories on the way to a re-opened path are made search-only (SPEC B3);
    /// bwrap would make them listable.
    fn make_parents(&mut self, path: &AbsPath) {
        let Some(mask) = self.open.last_mut() else { return };
        // A bind in between shows the host's directories: there is nothing to make.
        if self.views.nearest(path).is_none_or(|(at, _)| *at != mask.path) {
            return;
        }
        let between: Vec<AbsPath> = path.ancestors().skip(1).take_while(|ancestor| *ancestor != mask.path).collect();
        for directory in between.into_iter().rev() {
            if !mask.made.contains(&directory) {
                mask.made.push(directory.clone());
                let mount = Mount::Directory { mode: SEARCH_ONLY };
                self.mounts.push(PlannedMount::of_rule(directory, mount, Access::Exclude, &mask.because));
            }
        }
    }

    /// Lets the command search every mask around a path that is re-opened.
    fn open_the_way(&mut self) {
        for mask in &self.open {
            if let Mount::Tmpfs { mode } = &mut self.mounts[mask.at].mount {
                *mode = SEARCH_ONLY;
            }
        }
    }

    /// Makes the masks read-only whose subtree ends before `next`. Without `next`, makes all of
    /// them read-only.
    fn close_masks(&mut self, next: Option<&AbsPath>) {
        while let Some(mask) = self.open.pop_if(|mask| next.is_none_or(|path| !path.is_within(&mask.path))) {
            if !ablate::is_off(Mitigation::MaskSealed) {
                let seal = PlannedMount::of_rule(mask.path, Mount::RemountReadOnly, Access::Exclude, &mask.because);
                self.mounts.push(seal);
            }
        }
    }
}

fn read_only(on_missing: OnMissingSource) -> Mount {
    Mount::Bind { kind: BindKind::ReadOnly, on_missing }
}

fn mount(decision: &Decision, inherited: View) -> Mount {
    match decision.injected.as_deref() {
        Some(Injected::Source { path, .. }) => return Mount::Injected { source: path.clone() },
        Some(Injected::Text(text)) => return Mount::DataFile { content: text.to_vec() },
        None => {}
    }
    let reads_as = match decision.mask {
        _ if ablate::is_off(Mitigation::MaskDenied) => Some(&b""[..]),
        Mask::Denied | Mask::OwnPlace | Mask::Fresh => None,
        Mask::Reads(text) => Some(text.as_bytes()),
        Mask::Redacted(_) => decision.copy.as_deref(),
    };
    match (decision.access, decision.kind) {
        (Access::Exclude, FileKind::Directory) if decision.mask == Mask::Fresh => Mount::Tmpfs { mode: OWN },
        (Access::Exclude, FileKind::Directory) if ablate::is_off(Mitigation::MaskDenied) => {
            Mount::Tmpfs { mode: 0o755 }
        }
        (Access::Exclude, FileKind::Directory) => Mount::Tmpfs { mode: CLOSED },
        (Access::Exclude, FileKind::File) if reads_as.is_some() => {
            Mount::DataFile { content: reads_as.unwrap_or_default().to_vec() }
        }
        (Access::Exclude, _) => {
            // Masks of the base layer hide sockets of services, and a service may have ended
            // since.
            let on_missing =
                if decision.layer == LayerKind::Base { OnMissingSource::Skip } else { OnMissingSource::Notice };
            Mount::MaskFile { on_missing }
        }
        (access, kind) => {
            // A protection that is silently missing would be a hole. An opening that is missing
            // opens nothing.
            let narrows = access == Access::Ro && inherited == View::HostRw;
            let on_missing = match narrows {
                _ if decision.required => OnMissingSource::Refuse,
                true => OnMissingSource::Notice,
                false => OnMissingSource::Skip,
            };
            let kind = match access {
                Access::Rw if kind == FileKind::Device || inherited == View::Dev => BindKind::WithDevices,
                Access::Rw => BindKind::Writable,
                _ => BindKind::ReadOnly,
            };
            Mount::Bind { kind, on_missing }
        }
    }
}
