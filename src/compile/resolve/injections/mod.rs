//! Injections: the paths at which the command reads another content (SPEC section 27). Each becomes
//! a match that no other rule beats.

mod owners;

use std::path::Path;
use std::sync::Arc;

use crate::compile::layers::OwnFile;
use crate::compile::placeholder::Placeholder;
use crate::compile::policy::{InjectedContent, Injection, Policy};
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::{FileKind, Resolved};
use crate::policy::{AbsPath, Access, Exactness, Injected, LayerKind, Origin, Rule, escape_for_display};
use crate::sys::ablate::{self, Mitigation};

use super::{Match, Resolver, anchored, reserved};
use owners::{Owner, Owners};

/// bwrap needs time for each bind, and a command can fill a folder for the next start.
const MOST_OF_A_FOLDER: usize = 64;

/// An injection whose target does not exist on the host.
#[derive(Clone, Debug)]
pub struct MissingTarget {
    /// The file or folder to mount on.
    pub placeholder: Placeholder,
    /// Whether this process can create it.
    pub can_create: bool,
}

/// Why an injection is refused, and what to do.
struct Refused {
    message: String,
    help: String,
}

type Outcome<T> = Result<T, Refused>;

fn refused<T>(message: impl Into<String>, help: impl Into<String>) -> Outcome<T> {
    Err(Refused { message: message.into(), help: help.into() })
}

impl Resolver<'_> {
    /// Adds a match for each path at which something is injected. All other rules are resolved.
    pub(super) fn injections(&mut self, policy: &Policy, own_files: &[OwnFile]) {
        if policy.injections.is_empty() {
            return;
        }
        let owners = Owners::new(self.host);
        let mut injector = Injector { resolver: self, own_files, owners, points: Vec::new(), left_out: 0 };
        // A preset injects only where no other injection is.
        let is_of_preset = |injection: &&Injection| injection.layer == LayerKind::Preset;
        let (of_presets, written): (Vec<&Injection>, Vec<&Injection>) =
            policy.injections.iter().partition(is_of_preset);
        for injection in written.into_iter().chain(of_presets) {
            injector.inject(injection);
        }
        for point in injector.points {
            self.accept_injection(point);
        }
    }

    /// Whether git inside reads a list for this repository, nested ones included, that can name an
    /// injected path (SPEC M5).
    fn has_git_exclude(&mut self, Owner { work_tree, git_dir, common_dir }: Owner) -> bool {
        if self.found.git_excludes.iter().any(|known| known.work_tree == work_tree) {
            return true;
        }
        let exclude = self.git_exclude_of(work_tree, git_dir, &common_dir);
        self.found.git_excludes.extend(exclude.clone());
        exclude.is_some()
    }

    fn accept_injection(&mut self, point: Point) {
        let Point { path, kind, content, links, rule, is_missing } = point;
        // The file stays hidden under this name, so its other names matter as before (SPEC W4).
        let hides = |found: &&Match| found.path == path && found.rule.access == Access::Exclude;
        let names = self.found.matches.iter().filter(hides).map(|found| found.names).max().unwrap_or(1);
        if is_missing {
            let parents = self.missing_parents(&path).unwrap_or_default();
            let (layer, origin) = (rule.layer, rule.origin.clone());
            let can_create = self.host.can_create(&path);
            let placeholder = Placeholder { path: path.clone(), kind, parents, layer, origin };
            self.found.missing_targets.push(MissingTarget { placeholder, can_create });
        }
        let rule = Arc::new(Rule { injected: Some(Arc::new(content)), ..rule });
        self.found.matches.push(Match { links, names, ..Match::new(rule, path, kind, Exactness::Injected) });
    }
}

/// A path at which something is injected.
struct Point {
    path: AbsPath,
    kind: FileKind,
    content: Injected,
    /// The symlinks between what was written and `path`.
    links: Vec<AbsPath>,
    /// The injection as a rule for this path.
    rule: Rule,
    is_missing: bool,
}

struct Injector<'r, 'a> {
    resolver: &'r mut Resolver<'a>,
    own_files: &'r [OwnFile],
    owners: Owners<'a>,
    points: Vec<Point>,
    /// How many entries of the folder there was no room for.
    left_out: usize,
}

impl Injector<'_, '_> {
    fn inject(&mut self, injection: &Injection) {
        let known = self.points.len();
        self.left_out = 0;
        let rule = Rule::written(
            Access::Ro,
            injection.to.clone(),
            injection.base.clone(),
            injection.layer,
            injection.origin.clone(),
        );
        let is_of_preset = injection.layer == LayerKind::Preset;
        let code = if is_of_preset { Code::InjectionSkipped } else { Code::InjectionRefused };
        if let Err(Refused { message, help }) = self.find(injection, &rule) {
            self.points.truncate(known);
            let help = match &injection.origin {
                Origin::Preset { name, .. } => format!("{help}; or switch `@{name}` off"),
                _ => help,
            };
            self.resolver.diagnostics.push(Diagnostic::new(code, message).at(&rule.origin).help(help));
        } else if self.left_out > 0 {
            let to = escape_for_display(&injection.to);
            let message =
                format!("only the first {MOST_OF_A_FOLDER} entries are injected at `{to}`, and {} not", self.left_out);
            let help = "inject one folder that holds the others, or fewer of them";
            self.resolver
                .diagnostics
                .push(Diagnostic::new(Code::InjectionSkipped, message).at(&rule.origin).help(help));
        }
    }

    fn find(&mut self, injection: &Injection, rule: &Rule) -> Outcome<()> {
        for path in injection.unless {
            if self.resolve(&Rule { text: path.into(), ..rule.clone() })?.kind.is_some() {
                return Ok(());
            }
        }
        let target = self.resolve(rule)?;
        if target.kind.is_none() {
            self.resolver.refuse_literal(rule);
        }
        match &injection.content {
            InjectedContent::Text(text) => self.file(Injected::Text(Arc::clone(text)), target, rule),
            InjectedContent::From(from) => {
                let source = self.resolve(&Rule { text: from.clone(), ..rule.clone() })?;
                if source.kind.is_none() && rule.layer == LayerKind::Preset {
                    return Ok(());
                }
                self.tree(&source, target, rule, true)
            }
        }
    }

    /// Where the text of `rule` leads. It is a path and no pattern.
    fn resolve(&self, rule: &Rule) -> Outcome<Resolved> {
        let (anchor, text) = anchored(rule, &self.resolver.project.home);
        let found = self.resolver.host.resolve_from(anchor, Path::new(text));
        found.or_else(|e| {
            let message = format!("cannot look at `{}`: {}", anchor.join(text), reason(&e));
            refused(message, "make it readable for you, or name another path")
        })
    }

    /// Injects a file or folder of the host. A folder is injected child by child into one that
    /// exists, so that its other entries stay visible (SPEC J3).
    fn tree(&mut self, source: &Resolved, target: Resolved, rule: &Rule, is_top: bool) -> Outcome<()> {
        let from = &source.path;
        match source.kind {
            None => {
                return refused(format!("`{from}` does not exist"), "create it, or remove the injection");
            }
            Some(FileKind::Directory) => {}
            Some(_) if self.resolver.host.is_regular(from) => {
                return self.file(Injected::Source(from.clone()), target, rule);
            }
            Some(_) => {
                let message = format!("`{from}` is neither a file nor a folder");
                return refused(message, "inject a regular file: a FIFO, a socket or a device is none");
            }
        }
        let to = &target.path;
        let there = self.kind_there(&target);
        // A preset adds to a folder of the project, and changes nothing that it has.
        let is_folder = there.is_none_or(|kind| kind == FileKind::Directory);
        if rule.layer == LayerKind::Preset && there.is_some() && !(is_top && is_folder) {
            return Ok(());
        }
        if !is_folder {
            let message = format!("`{from}` is a folder, and `{to}` is a file");
            return refused(message, "name a folder in `to`, or a file in `from`");
        }
        if to.is_within(from) {
            let message = format!("`{to}` lies in `{from}`, which would be injected into itself");
            return refused(message, "name a target outside of the folder");
        }
        let is_merged = is_top || there.is_some() || self.has_rules_below(to);
        if !is_merged {
            return self.add(FileKind::Directory, Injected::Source(from.clone()), target, rule);
        }
        let entries =
            self.resolver.host.read_dir(from).or_else(|e| {
                refused(format!("cannot look into `{from}`: {}", reason(&e)), "make it readable for you")
            })?;
        let mut names: Vec<_> = entries.into_iter().map(|entry| entry.name).collect();
        names.sort();
        for name in names {
            let text = Path::new(&rule.text).join(&name).into_os_string();
            let resolve =
                |path: &AbsPath| self.resolve(&Rule { text: path.child(&name).as_os_str().into(), ..rule.clone() });
            let (source, mut child) = (resolve(from)?, resolve(to)?);
            if let Some(link) = child.links.first().filter(|_| rule.layer != LayerKind::Preset) {
                return refused(
                    format!("`{link}` is a symlink, and nothing is injected through it"),
                    "remove the link",
                );
            }
            child.links.extend(target.links.iter().cloned());
            self.tree(&source, child, &Rule { text, ..rule.clone() }, false)?;
        }
        Ok(())
    }

    fn file(&mut self, content: Injected, target: Resolved, rule: &Rule) -> Outcome<()> {
        if self.kind_there(&target) == Some(FileKind::Directory) && rule.layer != LayerKind::Preset {
            let message = format!("`{}` is a folder, and a file cannot be injected there", target.path);
            return refused(message, "name the file in `to`");
        }
        self.add(FileKind::File, content, target, rule)
    }

    /// The kind of file that the host has at the target. A placeholder of another run counts as
    /// nothing.
    fn kind_there(&self, target: &Resolved) -> Option<FileKind> {
        target.kind.filter(|_| !self.resolver.stands(&target.path))
    }

    /// Whether the agent that looks at `path` is in use: in the home, its folder exists.
    fn is_in_use(&self, path: &AbsPath) -> bool {
        let has_folder = || self.resolver.missing_parents(path).is_some_and(|parents| parents.is_empty());
        path.is_within(&self.resolver.project.root) || has_folder()
    }

    fn has_rules_below(&self, path: &AbsPath) -> bool {
        self.resolver.found.matches.iter().any(|found| found.path.is_below(path))
    }

    /// Refuses a path that `git add` inside would stage.
    fn refuse_without_exclude(&mut self, path: &AbsPath) -> Outcome<()> {
        let Some(owner) = self.owners.nearest(path) else { return Ok(()) };
        let list = owner.common_dir.join("info/exclude");
        let can_stage = self.resolver.host.can_create(&owner.git_dir.child("index.lock"));
        if self.resolver.has_git_exclude(owner) || !can_stage || ablate::is_off(Mitigation::InjectedIgnored) {
            return Ok(());
        }
        let message = format!("git cannot be told to leave `{path}` alone: nothing can be mounted on `{list}`");
        refused(message, "make that a regular file, or name another target")
    }

    fn add(&mut self, kind: FileKind, content: Injected, target: Resolved, rule: &Rule) -> Outcome<()> {
        let is_missing = self.kind_there(&target).is_none();
        let Resolved { path, links, .. } = target;
        let is_of_preset = rule.layer == LayerKind::Preset;
        let clash = self.points.iter().find(|known| known.path.is_within(&path) || path.is_within(&known.path));
        // A preset replaces no file of the user or of the project.
        if is_of_preset && (!is_missing || clash.is_some() || !links.is_empty() || !self.is_in_use(&path)) {
            return Ok(());
        }
        if let Some(known) = clash {
            let (other, origin) = (&known.path, &known.rule.origin);
            let message = match *other == path {
                true => format!("two injections are at `{path}`; the other one is {origin}"),
                false => format!("the injections at `{path}` and at `{other}` are in each other; see {origin}"),
            };
            return refused(message, "remove one of the two, or name another target");
        }
        if let Some((why, _)) = reserved(&path, Access::Ro) {
            return refused(format!("`{path}` {why}"), "name another target");
        }
        if self.own_files.iter().any(|own| path.is_within(&own.path) || own.path.is_within(&path)) {
            let message = format!("`{path}` belongs to agent-sandbox, and the command must see it as it is");
            return refused(message, "name another target");
        }
        if path.as_path().ends_with("info/exclude") {
            let message = format!("`{path}` may be git's list of ignored files, of which git inside reads a copy");
            return refused(message, "name another target");
        }
        let new = self.points.iter().filter(|known| known.rule.origin == rule.origin).count();
        if new == MOST_OF_A_FOLDER {
            self.left_out += 1;
            return Ok(());
        }
        if is_missing && self.resolver.missing_parents(&path).is_none() {
            let message = format!("nothing can be at `{path}`: a file is on the way");
            return refused(message, "name another target");
        }
        self.owners.refuse_tracked(&path)?;
        self.refuse_without_exclude(&path)?;
        let rule = rule.clone();
        self.points.push(Point { path, kind, content, links, rule, is_missing });
        Ok(())
    }
}
