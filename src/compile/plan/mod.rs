//! From decisions to mounts: what to mount, in which order, and what need not be mounted at all.
//! Pure.

mod executable;
mod expected;
mod hard_links;
mod links;
mod overflow;
mod pins;
mod placeholders;
mod second_places;
mod view;

use crate::compile::decide::{Decision, Decisions};
use crate::compile::layers::OwnFile;
use crate::compile::placeholder::Placeholder;
use crate::compile::resolve::{GitExclude, Runtime, RuntimeMount, SecondPlace};
use crate::host::FileKind;
use crate::policy::origin::Origin;
use crate::policy::path::AbsPath;
use crate::policy::places;
use crate::policy::rule::{Access, LayerKind, Mask};
use crate::sys::ablate::{self, Mitigation};

pub use executable::check_executable;
pub use hard_links::check_hard_links;
pub(crate) use hard_links::find_names;
pub use links::{check_links, is_refused_through_link, unsaid_links};
pub use overflow::{MOST_IN_ARGV, Split};
use pins::Pin;
pub use placeholders::check_dangling;
pub use second_places::Told;
pub use view::View;
use view::{Layering, Views};

/// One step of the set-up, in bwrap's terms but without its spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mount {
    /// A path of the host onto itself.
    Bind {
        path: AbsPath,
        kind: BindKind,
        on_missing: OnMissing,
    },
    /// Our own executable, under a name inside: the guard.
    OwnBinary {
        path: AbsPath,
        executable: AbsPath,
    },
    /// The guard's plan. Its content follows from all other mounts, so `lower` fills it in.
    GuardPlan {
        path: AbsPath,
    },
    /// The file that all masked files show, for the guard to compare with.
    MaskSource {
        path: AbsPath,
    },
    /// A file of the host in a second place, writable.
    Elsewhere {
        path: AbsPath,
        source: AbsPath,
    },
    /// An empty file system.
    Tmpfs {
        path: AbsPath,
        mode: u32,
    },
    /// An empty directory in a file system of ours.
    Directory {
        path: AbsPath,
        mode: u32,
    },
    Symlink {
        path: AbsPath,
        target: std::path::PathBuf,
    },
    /// A file of ours that cannot be opened, over a file.
    MaskFile {
        path: AbsPath,
        on_missing: OnMissing,
    },
    /// A read-only file of ours with this content, over a file.
    DataFile {
        path: AbsPath,
        content: Vec<u8>,
    },
    /// Makes a file system of ours read-only, once everything in it is in place.
    Seal {
        path: AbsPath,
    },
    Dev {
        path: AbsPath,
    },
    Proc {
        path: AbsPath,
    },
}

impl Mount {
    /// The mount point.
    pub fn path(&self) -> &AbsPath {
        match self {
            Mount::Bind { path, .. }
            | Mount::OwnBinary { path, .. }
            | Mount::GuardPlan { path }
            | Mount::MaskSource { path }
            | Mount::Elsewhere { path, .. }
            | Mount::Tmpfs { path, .. }
            | Mount::Directory { path, .. }
            | Mount::Symlink { path, .. }
            | Mount::MaskFile { path, .. }
            | Mount::DataFile { path, .. }
            | Mount::Seal { path }
            | Mount::Dev { path }
            | Mount::Proc { path } => path,
        }
    }

    /// The mount point and what is mounted there, for a file in a second place.
    fn elsewhere(&self) -> Option<(&AbsPath, &AbsPath)> {
        match self {
            Mount::Elsewhere { path, source } => Some((path, source)),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindKind {
    ReadOnly,
    Writable,
    /// Writable, and device nodes in it work.
    WithDevices,
}

/// What happens if the source of a bind is missing when bwrap mounts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMissing {
    /// Nothing is mounted: a path that a rule would have opened stays closed.
    Skip,
    /// The guard notices, and the start is repeated. Without a guard bwrap fails.
    Notice,
    /// bwrap fails.
    Refuse,
}

/// A mount and the reason for it.
#[derive(Clone, Debug)]
pub struct Planned {
    pub mount: Mount,
    pub purpose: Purpose,
    pub because: Origin,
}

/// What a step of the set-up is there for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It belongs to every sandbox.
    Base,
    /// A rule asked for this access.
    Rule(Access),
    /// It keeps a directory from being moved, and so `keeps`, which lies below it, where the rule
    /// says (SPEC B12). Nothing of it is seen: a writable bind covers it.
    Pin { keeps: AbsPath },
}

impl Purpose {
    /// For people: what it is there for, and who wants it.
    pub fn explained(&self, because: &Origin) -> String {
        match self {
            Purpose::Base => because.to_string(),
            Purpose::Rule(access) => format!("{access}: {because}"),
            Purpose::Pin { keeps } => format!("pin: keeps `{keeps}` in its place, {because}"),
        }
    }
}

/// A decision that needs no mount, because its surroundings already give it.
#[derive(Clone, Debug)]
pub struct Dropped {
    pub path: AbsPath,
    pub access: Access,
    pub because: Origin,
    pub inherited: View,
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub mounts: Vec<Planned>,
    pub dropped: Vec<Dropped>,
    /// What has to stand on the host before the first mount, and only as long as the sandbox does.
    /// Parents first.
    pub placeholders: Vec<Placeholder>,
    /// Variables that tell programs of second places.
    pub told: Vec<Told>,
    /// How many masks and read-only binds, and how many pins, bwrap's arguments carry.
    pub most_in_argv: usize,
    views: Views,
}

impl Plan {
    /// What the command will find at `path`, which holds no symlinks.
    pub fn view(&self, path: &AbsPath) -> View {
        self.views.at(path)
    }

    /// The paths from which on something else is found than in the folder around, parents first.
    /// Between two of them the view does not change.
    pub fn borders(&self) -> impl Iterator<Item = &AbsPath> {
        self.views.borders()
    }

    /// What the command will find in the folder that `path` lies in.
    pub fn view_around(&self, path: &AbsPath) -> View {
        self.views.above(path)
    }
}

/// What every sandbox has, whatever the rules.
pub struct Base<'a> {
    pub uid: u32,
    /// Our own executable, where a guard is used.
    pub guard: Option<&'a AbsPath>,
    pub runtime: &'a Runtime,
    pub own_files: &'a [OwnFile],
    pub git_exclude: Option<&'a GitExclude>,
    pub second_places: &'a [SecondPlace],
}

pub fn plan(decisions: &Decisions, base: &Base, optimize: bool) -> Plan {
    let mut planner = Planner {
        // A mask takes two: most of this is used, and the rest costs nothing.
        mounts: Vec::with_capacity(2 * decisions.count()),
        dropped: Vec::new(),
        views: Views::default(),
        open: Vec::new(),
        optimize,
    };
    planner.root();
    planner.pins(decisions, base);
    planner.base(base, decisions);
    let mut seen = Layering::over(std::mem::take(&mut planner.views), decisions.count());
    for (path, decision) in decisions.iter() {
        planner.close_until(path);
        planner.decision(path, decision, decisions, &mut seen);
    }
    planner.remount_all_ro();
    planner.views = seen.done();
    let mut placeholders: Vec<Placeholder> =
        decisions.iter().filter_map(|(_, decision)| decision.placeholder.as_deref().cloned()).collect();
    if let Some(exclude) = base.git_exclude {
        planner.git_exclude(exclude, decisions, &mut placeholders);
    }
    let told = planner.second_places(base.second_places, decisions, &mut placeholders);
    placeholders.sort_by(|a, b| a.path.cmp(&b.path));
    if base.guard.is_some() {
        planner.mask_source();
    }
    planner.always(Mount::Seal { path: places::at(places::RUN) }, "`/run` is read-only");
    Plan {
        mounts: planner.mounts,
        dropped: planner.dropped,
        placeholders,
        told,
        most_in_argv: MOST_IN_ARGV,
        views: planner.views,
    }
}

struct Planner {
    mounts: Vec<Planned>,
    dropped: Vec<Dropped>,
    views: Views,
    /// Masked directories whose subtree is being planned: sealed when the last mount below them is
    /// made.
    open: Vec<OpenMask>,
    optimize: bool,
}

struct OpenMask {
    path: AbsPath,
    because: Origin,
    /// Index of the mask in `mounts`: its mode depends on what follows.
    at: usize,
    /// Directories made on the way to what is re-opened.
    made: Vec<AbsPath>,
}

/// Nothing but its owner's mount points can be reached through it.
const SEARCH_ONLY: u32 = 0o111;
const CLOSED: u32 = 0o000;

impl Planner {
    fn always(&mut self, mount: Mount, why: &'static str) {
        self.mounts.push(Planned { mount, purpose: Purpose::Base, because: Origin::BuiltIn(why) });
    }

    /// A part of the base that shows something of its own from `path` downwards.
    fn always_at(&mut self, path: &AbsPath, view: View, mount: impl FnOnce(AbsPath) -> Mount, why: &'static str) {
        self.always(mount(path.clone()), why);
        self.views.cover(path.clone(), view);
    }

    fn root(&mut self) {
        self.always_at(&AbsPath::root(), View::HostRo, read_only(OnMissing::Refuse), "the host is read-only");
    }

    /// Directly above the root, where every directory of the host can still be seen. Later some lie
    /// below a tmpfs, such as a project in `/tmp`, and a mount there would pin a directory of the
    /// tmpfs instead.
    fn pins(&mut self, decisions: &Decisions, base: &Base) {
        if ablate::is_off(Mitigation::Pins) {
            return;
        }
        for (path, Pin { keeps, because }) in pins::pins(decisions, base.own_files) {
            let mount = read_only(OnMissing::Notice)(path);
            self.mounts.push(Planned { mount, purpose: Purpose::Pin { keeps }, because });
        }
    }

    /// The other mounts below every policy (SPEC B1).
    fn base(&mut self, base: &Base, decisions: &Decisions) {
        let tmpfs = |mode| move |path| Mount::Tmpfs { path, mode };
        self.always_at(&places::at(places::DEV), View::Dev, |path| Mount::Dev { path }, "own `/dev`");
        self.always_at(&places::at(places::PROC), View::Proc, |path| Mount::Proc { path }, "own `/proc`");
        let run = places::at(places::RUN);
        self.always_at(&run, View::Fresh, tmpfs(0o755), "own `/run`");
        for RuntimeMount { path, symlink, why } in &base.runtime.mounts {
            match symlink.clone() {
                Some(target) => self.always_at(path, View::HostRo, |path| Mount::Symlink { path, target }, why),
                None => self.always_at(path, View::HostRo, read_only(OnMissing::Skip), why),
            }
        }
        let runtime = run.child("user").child(base.uid.to_string());
        self.always_at(&runtime, View::Fresh, tmpfs(0o700), "own runtime directory");
        let marker = Mount::Directory { path: places::at(places::MARKER), mode: 0o755 };
        self.always(marker, "tells the command that it is inside");
        if let Some(executable) = base.guard {
            let path = places::at(places::GUARD);
            self.always(Mount::OwnBinary { path, executable: executable.clone() }, "the guard: agent-sandbox itself");
            self.always(Mount::GuardPlan { path: places::at(places::PLAN) }, "the guard's plan");
        }
        // A rule on `/tmp` itself, such as that of `tmp = "host"`, takes the place of ours.
        let tmp = places::at(places::TMP);
        if decisions.get(&tmp).is_none() && !ablate::is_off(Mitigation::PrivateTmp) {
            self.always_at(&tmp, View::Fresh, tmpfs(0o1777), "own `/tmp`");
        }
    }

    /// Where the policy masks a file, the guard needs the mask to compare with. It stands beside
    /// the guard's plan.
    fn mask_source(&mut self) {
        let is_mask = |planned: &Planned| matches!(planned.mount, Mount::MaskFile { .. });
        let plan = self.mounts.iter().position(|planned| matches!(planned.mount, Mount::GuardPlan { .. }));
        if let Some(at) = plan.filter(|_| self.mounts.iter().any(is_mask)) {
            let mount = Mount::MaskSource { path: places::at(places::MASKED) };
            let because = Origin::BuiltIn("what every hidden file shows");
            self.mounts.insert(at + 1, Planned { mount, purpose: Purpose::Base, because });
        }
    }

    fn decision(&mut self, path: &AbsPath, decision: &Decision, decisions: &Decisions, seen: &mut Layering) {
        let (source, inherited) = seen.at(path).unzip();
        let inherited = inherited.unwrap_or(View::HostRo);
        let view = View::of(decision.access);
        // In a private place there is nothing to hide, but the way to what is re-opened must not be
        // writable.
        let leads_on = || inherited == View::Fresh && decisions.reopens_below(path);
        let changes_nothing = || inherited.gives(decision.access) && !leads_on();
        // The base mount of `/` is the rule on `/`: once more would cover all that came between.
        if path.is_root() || (self.optimize && changes_nothing()) {
            self.dropped.push(Dropped {
                path: path.clone(),
                access: decision.access,
                because: decision.origin.clone(),
                inherited,
            });
            return;
        }
        self.make_parents(path, source);
        if decision.access != Access::Exclude {
            self.open_the_way();
        }
        let at = self.mounts.len();
        self.mounts.push(Planned {
            mount: mount(path, decision, inherited),
            purpose: Purpose::Rule(decision.access),
            because: decision.origin.clone(),
        });
        seen.cover(path.clone(), view);
        if decision.access == Access::Exclude && decision.kind == FileKind::Directory {
            self.open.push(OpenMask { path: path.clone(), because: decision.origin.clone(), at, made: Vec::new() });
        }
    }

    /// Below a mask, directories on the way to what is re-opened are made search-only (SPEC B3);
    /// bwrap would make them listable. `source` is the mount point that governs `path` so far.
    fn make_parents(&mut self, path: &AbsPath, source: Option<&AbsPath>) {
        // A bind in between shows the host's directories: there is nothing to make.
        let Some(mask) = self.open.last_mut().filter(|mask| Some(&mask.path) == source) else { return };
        let between: Vec<AbsPath> = path.ancestors().skip(1).take_while(|ancestor| *ancestor != mask.path).collect();
        for directory in between.into_iter().rev() {
            if !mask.made.contains(&directory) {
                mask.made.push(directory.clone());
                self.mounts.push(Planned {
                    mount: Mount::Directory { path: directory, mode: SEARCH_ONLY },
                    purpose: Purpose::Rule(Access::Exclude),
                    because: mask.because.clone(),
                });
            }
        }
    }

    /// Something is re-opened below every mask that is not sealed yet.
    fn open_the_way(&mut self) {
        for mask in &self.open {
            if let Mount::Tmpfs { mode, .. } = &mut self.mounts[mask.at].mount {
                *mode = SEARCH_ONLY;
            }
        }
    }

    /// Seals the masks whose subtree ends before `path`.
    fn close_until(&mut self, path: &AbsPath) {
        while let Some(mask) = self.open.pop_if(|mask| !path.is_within(&mask.path)) {
            self.remount_ro(mask);
        }
    }

    fn remount_all_ro(&mut self) {
        while let Some(mask) = self.open.pop() {
            self.remount_ro(mask);
        }
    }

    fn remount_ro(&mut self, mask: OpenMask) {
        if ablate::is_off(Mitigation::MaskSealed) {
            return;
        }
        self.mounts.push(Planned {
            mount: Mount::Seal { path: mask.path },
            purpose: Purpose::Rule(Access::Exclude),
            because: mask.because,
        });
    }
}

fn read_only(on_missing: OnMissing) -> impl FnOnce(AbsPath) -> Mount {
    move |path| Mount::Bind { path, kind: BindKind::ReadOnly, on_missing }
}

fn mount(path: &AbsPath, decision: &Decision, inherited: View) -> Mount {
    let path = path.clone();
    let shows_empty = decision.mask == Mask::Empty || ablate::is_off(Mitigation::MaskDenied);
    match (decision.access, decision.kind) {
        (Access::Exclude, FileKind::Directory) if ablate::is_off(Mitigation::MaskDenied) => {
            Mount::Tmpfs { path, mode: 0o755 }
        }
        (Access::Exclude, FileKind::Directory) => Mount::Tmpfs { path, mode: CLOSED },
        (Access::Exclude, FileKind::File) if shows_empty => Mount::DataFile { path, content: Vec::new() },
        (Access::Exclude, _) => {
            // No rule asked for it: the socket of a service, which may have ended meanwhile.
            let on_missing = if decision.layer == LayerKind::Base { OnMissing::Skip } else { OnMissing::Notice };
            Mount::MaskFile { path, on_missing }
        }
        (access, kind) => {
            // A protection that is silently missing would be a hole; an opening that is missing is
            // none.
            let narrows = access == Access::Ro && inherited == View::HostRw;
            let on_missing = match narrows {
                _ if decision.required => OnMissing::Refuse,
                true => OnMissing::Notice,
                false => OnMissing::Skip,
            };
            let kind = match access {
                Access::Rw if kind == FileKind::Device || inherited == View::Dev => BindKind::WithDevices,
                Access::Rw => BindKind::Writable,
                _ => BindKind::ReadOnly,
            };
            Mount::Bind { path, kind, on_missing }
        }
    }
}
