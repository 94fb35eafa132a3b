//! From decisions to mounts: what to mount, in which order, and what need not be mounted at all. Pure.

mod view;

use std::collections::BTreeMap;

use crate::decide::{Decision, Decisions};
use crate::host::FileKind;
use crate::origin::Origin;
use crate::path::AbsPath;
use crate::resolve::{Runtime, RuntimeMount};
use crate::rule::{Access, Mask};

pub use view::View;

/// One step of the set-up, in bwrap's terms but without its spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mount {
    /// A path of the host onto itself.
    Bind {
        path: AbsPath,
        writable: bool,
        devices: bool,
        if_gone: IfGone,
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
    /// `/dev/null` over a file: opening it is refused.
    MaskFile {
        path: AbsPath,
    },
    /// An empty file over a file.
    EmptyFile {
        path: AbsPath,
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

/// What to do if a path that was there when we looked has gone when bwrap mounts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfGone {
    Fail,
    Skip,
}

/// A mount and the reason for it.
#[derive(Clone, Debug)]
pub struct Planned {
    pub mount: Mount,
    pub because: Origin,
    /// The access that a rule asked for; `None` for what belongs to every sandbox.
    pub access: Option<Access>,
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
    views: BTreeMap<AbsPath, View>,
}

impl Plan {
    /// What the command will find at `path`, which holds no symlinks.
    pub fn view(&self, path: &AbsPath) -> View {
        let nearest = path.ancestors().find_map(|ancestor| self.views.get(&ancestor));
        nearest.copied().unwrap_or(View::HostRo)
    }
}

/// What every sandbox has, whatever the rules.
pub struct Base<'a> {
    pub uid: u32,
    pub runtime: &'a Runtime,
}

pub fn plan(decisions: &Decisions, base: &Base, optimize: bool) -> Plan {
    let mut planner =
        Planner { mounts: Vec::new(), dropped: Vec::new(), views: BTreeMap::new(), open: Vec::new(), optimize };
    let run = planner.base(base, decisions);
    for (path, decision) in decisions.iter() {
        planner.close_until(path);
        planner.decision(path, decision, decisions);
    }
    planner.close_all();
    planner.always(Mount::Seal { path: run }, "`/run` is read-only");
    Plan { mounts: planner.mounts, dropped: planner.dropped, views: planner.views }
}

struct Planner {
    mounts: Vec<Planned>,
    dropped: Vec<Dropped>,
    /// What governs from a path downwards.
    views: BTreeMap<AbsPath, View>,
    /// Masked directories whose subtree is being planned: sealed when the last mount below them is made.
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
        self.mounts.push(Planned { mount, because: Origin::BuiltIn(why), access: None });
    }

    /// The mounts below every policy (SPEC B1). Returns `/run`, to be sealed at the end.
    fn base(&mut self, base: &Base, decisions: &Decisions) -> AbsPath {
        let root = AbsPath::root();
        let (dev, proc, run, tmp) = (root.child("dev"), root.child("proc"), root.child("run"), root.child("tmp"));
        let bind =
            |path: &AbsPath| Mount::Bind { path: path.clone(), writable: false, devices: false, if_gone: IfGone::Fail };
        self.always(bind(&root), "the host is read-only");
        self.always(Mount::Dev { path: dev.clone() }, "own `/dev`");
        self.always(Mount::Proc { path: proc.clone() }, "own `/proc`");
        self.always(Mount::Tmpfs { path: run.clone(), mode: 0o755 }, "own `/run`");
        for RuntimeMount { path, symlink, why } in &base.runtime.mounts {
            let mount = match symlink {
                Some(target) => Mount::Symlink { path: path.clone(), target: target.clone() },
                None => bind(path),
            };
            self.always(mount, why);
            self.views.insert(path.clone(), View::HostRo);
        }
        let user = run.join(format!("user/{}", base.uid));
        self.always(Mount::Directory { path: run.child("user"), mode: 0o755 }, "own runtime directory");
        self.always(Mount::Tmpfs { path: user.clone(), mode: 0o700 }, "own runtime directory");
        let ours = run.child("agent-sandbox");
        const MARKER: &str = "tells the command that it is inside";
        self.always(Mount::Tmpfs { path: ours.clone(), mode: 0o755 }, MARKER);
        self.always(Mount::Directory { path: ours.child("inside"), mode: 0o755 }, MARKER);
        self.always(Mount::Seal { path: ours }, MARKER);
        // A rule on `/tmp` itself, such as that of `tmp = "host"`, takes the place of ours.
        if decisions.get(&tmp).is_none() {
            self.always(Mount::Tmpfs { path: tmp.clone(), mode: 0o1777 }, "own `/tmp`");
            self.views.insert(tmp, View::Fresh);
        }
        self.views.insert(root, View::HostRo);
        self.views.insert(dev, View::Dev);
        self.views.insert(proc, View::Proc);
        self.views.insert(run.clone(), View::Fresh);
        self.views.insert(user, View::Fresh);
        run
    }

    fn decision(&mut self, path: &AbsPath, decision: &Decision, decisions: &Decisions) {
        let inherited = self.inherited(path);
        let view = View::of(decision.access);
        // In a private place there is nothing to hide, but the way to what is re-opened must not be writable.
        let leads_on = || inherited == View::Fresh && decisions.reopens_below(path);
        if self.optimize && inherited.gives(decision.access) && !leads_on() {
            self.dropped.push(Dropped {
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
        self.mounts.push(Planned {
            mount: mount(path, decision, inherited),
            because: decision.origin.clone(),
            access: Some(decision.access),
        });
        self.views.insert(path.clone(), view);
        if decision.access == Access::Exclude && decision.kind == FileKind::Directory {
            self.open.push(OpenMask { path: path.clone(), because: decision.origin.clone(), at, made: Vec::new() });
        }
    }

    fn inherited(&self, path: &AbsPath) -> View {
        let nearest = path.ancestors().find_map(|ancestor| self.views.get(&ancestor));
        nearest.copied().unwrap_or(View::HostRo)
    }

    /// Below a mask, directories on the way to what is re-opened are made search-only (SPEC B3); bwrap would make
    /// them listable.
    fn make_parents(&mut self, path: &AbsPath) {
        // A bind in between shows the host's directories: there is nothing to make.
        let nearest =
            path.parent().and_then(|parent| parent.ancestors().find(|ancestor| self.views.contains_key(ancestor)));
        let Some(mask) = self.open.last_mut().filter(|mask| Some(&mask.path) == nearest.as_ref()) else { return };
        let between: Vec<AbsPath> = path.ancestors().skip(1).take_while(|ancestor| *ancestor != mask.path).collect();
        for directory in between.into_iter().rev() {
            if !mask.made.contains(&directory) {
                mask.made.push(directory.clone());
                self.mounts.push(Planned {
                    mount: Mount::Directory { path: directory, mode: SEARCH_ONLY },
                    because: mask.because.clone(),
                    access: Some(Access::Exclude),
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
            self.seal(mask);
        }
    }

    fn close_all(&mut self) {
        while let Some(mask) = self.open.pop() {
            self.seal(mask);
        }
    }

    fn seal(&mut self, mask: OpenMask) {
        self.mounts.push(Planned {
            mount: Mount::Seal { path: mask.path },
            because: mask.because,
            access: Some(Access::Exclude),
        });
    }
}

fn mount(path: &AbsPath, decision: &Decision, inherited: View) -> Mount {
    let path = path.clone();
    match (decision.access, decision.kind) {
        (Access::Exclude, FileKind::Directory) => Mount::Tmpfs { path, mode: CLOSED },
        (Access::Exclude, FileKind::File) if decision.mask == Mask::Empty => Mount::EmptyFile { path },
        (Access::Exclude, _) => Mount::MaskFile { path },
        (access, kind) => {
            // A protection that silently did not happen would be a hole; an opening that did not is none.
            let narrows = access == Access::Ro && inherited == View::HostRw;
            let if_gone = if narrows || decision.required { IfGone::Fail } else { IfGone::Skip };
            let devices = access == Access::Rw && (kind == FileKind::Device || inherited == View::Dev);
            Mount::Bind { path, writable: access == Access::Rw, devices, if_gone }
        }
    }
}
