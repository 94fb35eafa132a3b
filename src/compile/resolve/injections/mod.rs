//! Injections: the paths at which the command reads other content (SPEC section 27). Each becomes a
//! match, and no other rule wins over it.

mod owners;

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

use crate::compile::layers::{OwnFile, PROJECT_FILE};
use crate::compile::placeholder::Placeholder;
use crate::compile::policy::{InjectedContent, Injection, Policy};
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::git::Repository;
use crate::host::git::ignore::may_take_out;
use crate::host::{FileKind, Resolved};
use crate::policy::{AbsPath, Access, Exactness, Injected, LayerKind, Origin, Rule, escape_for_display};
use crate::sys::ablate::{self, Mitigation};

use super::{Match, Resolver, anchored, reserved};
use owners::Owners;

/// The most entries of a folder that are injected. bwrap needs time for each bind, and a command
/// can fill a folder for the next start.
const MOST_OF_A_FOLDER: usize = 64;

/// The largest `.gitignore` that is read.
const LARGEST_GITIGNORE: u64 = 1 << 20;

/// The number of symlinks that the kernel follows.
const MOST_LINKS: usize = 40;

/// An injection whose target does not exist on the host.
#[derive(Clone, Debug)]
pub struct MissingTarget {
    /// The file or folder to mount on.
    pub placeholder: Placeholder,
    /// Whether this process can create it.
    pub can_create: bool,
}

/// The reason why an injection is refused, and the remedy.
struct Refused {
    message: String,
    help: String,
    /// The source is the problem, not the target.
    is_source: bool,
}

type OrRefused<T> = Result<T, Refused>;

fn refused<T>(message: impl Into<String>, help: impl Into<String>) -> OrRefused<T> {
    Err(Refused { message: message.into(), help: help.into(), is_source: false })
}

fn refused_source<T>(message: impl Into<String>, help: impl Into<String>) -> OrRefused<T> {
    Err(Refused { message: message.into(), help: help.into(), is_source: true })
}

impl Resolver<'_> {
    /// Adds a match for each path at which something is injected. Runs after all other rules are
    /// resolved.
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

    /// Whether git inside will read a list of ignored files that can name an injected path in this
    /// repository (SPEC M5). The repository may be a nested one.
    fn has_git_exclude(&mut self, work_tree: Repository) -> bool {
        let path = work_tree.common_dir.join("info/exclude");
        // Linked worktrees share the list of their repository, and only one copy can be mounted
        // there.
        if let Some(known) = self.found.git_excludes.iter_mut().find(|known| known.path == path) {
            if !known.work_trees.contains(&work_tree) {
                known.work_trees.push(work_tree);
            }
            return true;
        }
        let exclude = self.git_exclude_of(work_tree);
        self.found.git_excludes.extend(exclude.clone());
        exclude.is_some()
    }

    fn accept_injection(&mut self, point: InjectionPoint) {
        let InjectionPoint { path, kind, content, links, rule, is_missing } = point;
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
struct InjectionPoint {
    path: AbsPath,
    kind: FileKind,
    content: Injected,
    /// The symlinks between the written path and `path`.
    links: Vec<AbsPath>,
    /// The injection as a rule for this path.
    rule: Rule,
    is_missing: bool,
}

struct Injector<'r, 'a> {
    resolver: &'r mut Resolver<'a>,
    own_files: &'r [OwnFile],
    owners: Owners<'a>,
    points: Vec<InjectionPoint>,
    /// The number of the folder's entries beyond [`MOST_OF_A_FOLDER`].
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
        if let Err(Refused { message, help, is_source }) = self.find(injection, &rule) {
            let origin = if is_source { &injection.from_origin } else { &rule.origin };
            self.points.truncate(known);
            let help = match &injection.origin {
                Origin::Preset { name, .. } => format!("{help}; or switch `@{name}` off"),
                _ => help,
            };
            self.resolver.diagnostics.push(Diagnostic::new(code, message).at(origin).help(help));
        } else if self.left_out > 0 {
            let to = escape_for_display(&injection.to);
            let message = format!(
                "only the first {MOST_OF_A_FOLDER} entries are injected at `{to}`, and {} are left out",
                self.left_out
            );
            let help = "inject one folder that holds the others, or fewer of them";
            self.resolver
                .diagnostics
                .push(Diagnostic::new(Code::InjectionSkipped, message).at(&rule.origin).help(help));
        }
    }

    fn find(&mut self, injection: &Injection, rule: &Rule) -> OrRefused<()> {
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
                let origin = injection.from_origin.clone();
                let of_source = Rule { text: from.clone(), origin, ..rule.clone() };
                let source = self.resolve(&of_source).map_err(|refused| Refused { is_source: true, ..refused })?;
                if source.kind.is_none()
                    && (rule.layer == LayerKind::Preset || self.resolver.refuse_literal(&of_source))
                {
                    return Ok(());
                }
                self.tree(&source, target, rule, true)
            }
        }
    }

    /// The path that the text of `rule` leads to. The text is a path and no pattern.
    fn resolve(&self, rule: &Rule) -> OrRefused<Resolved> {
        let (anchor, text) = anchored(rule, &self.resolver.project.home);
        let found = self.resolver.host.resolve_from(anchor, Path::new(text));
        found.or_else(|e| {
            let path = anchor.join(text);
            if e.raw_os_error() != Some(Errno::LOOP.raw_os_error()) {
                let message = format!("cannot examine `{path}`: {}", reason(&e));
                return refused(message, "make it readable for you, or name another path");
            }
            match self.reserved_end(&path) {
                Some((end, why)) if end == path => refused(format!("`{path}` {why}"), "name another path"),
                Some((end, why)) => refused(format!("`{path}` leads to `{end}`, which {why}"), "name another path"),
                None => refused(format!("the symlinks at `{path}` lead in a circle"), "repair or remove the links"),
            }
        })
    }

    /// The path to which symlinks at `path` lead if it belongs to the sandbox, and why nothing is
    /// injected there. A link in `/proc` leads each process to another path, so none of these is
    /// followed.
    fn reserved_end(&self, path: &AbsPath) -> Option<(AbsPath, &'static str)> {
        let mut at = path.clone();
        for _ in 0..MOST_LINKS {
            if let Some((why, _)) = reserved(&at, Access::Ro) {
                return Some((at, why));
            }
            at = at.parent()?.join(self.resolver.host.link_target(&at).ok()?);
        }
        None
    }

    /// Injects a file or folder of the host. A folder is injected child by child into one that
    /// exists, so that its other entries stay visible (SPEC J3).
    fn tree(&mut self, source: &Resolved, target: Resolved, rule: &Rule, is_top: bool) -> OrRefused<()> {
        let from = &source.path;
        let content = || Injected::Source { path: from.clone(), links: source.links.clone() };
        match source.kind {
            None => {
                return refused_source(format!("`{from}` does not exist"), "create it, or remove the injection");
            }
            Some(FileKind::Directory) => {}
            Some(_) if !self.resolver.host.is_regular(from) => {
                let message = format!("`{from}` is neither a file nor a folder");
                return refused_source(message, "inject a regular file: a FIFO, a socket or a device is none");
            }
            Some(_) if !self.resolver.host.can_read(from) => {
                let message = format!("`{from}` cannot be read");
                return refused_source(message, "make it readable for you, or name another file");
            }
            Some(_) => return self.file(content(), target, rule),
        }
        let to = &target.path;
        let there = self.kind_there(&target);
        // A preset adds to a folder of the project, and changes nothing that the folder already
        // has.
        let is_folder = there.is_none_or(|kind| kind == FileKind::Directory);
        if rule.layer == LayerKind::Preset && there.is_some() && !(is_top && is_folder) {
            return Ok(());
        }
        // A link such as `.claude/skills -> ../.agents/skills` shows the folder already.
        if rule.layer == LayerKind::Preset && to == from {
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
        let has_rules_below = || self.resolver.found.matches.iter().any(|found| found.path.is_below(to));
        let is_merged = is_top || there.is_some() || has_rules_below();
        if !is_merged {
            return self.add(FileKind::Directory, content(), target, rule);
        }
        let entries = self.resolver.host.read_dir(from).or_else(|e| {
            refused_source(format!("cannot search `{from}`: {}", reason(&e)), "make it readable for you")
        })?;
        if is_top && entries.is_empty() && rule.layer != LayerKind::Preset {
            let message = format!("`{from}` is empty, and nothing is injected at `{to}`");
            let help = "put something into the folder, or remove the injection";
            let warning = Diagnostic::new(Code::InjectionSkipped, message).at(&rule.origin).help(help);
            self.resolver.diagnostics.push(warning);
        }
        let mut names: Vec<_> = entries.into_iter().map(|entry| entry.name).collect();
        names.sort();
        for name in names {
            let text = Path::new(&rule.text).join(&name).into_os_string();
            let resolve =
                |path: &AbsPath| self.resolve(&Rule { text: path.child(&name).as_os_str().into(), ..rule.clone() });
            let (mut below, mut child) = (resolve(from)?, resolve(to)?);
            if let Some(link) = child.links.first().filter(|_| rule.layer != LayerKind::Preset) {
                return refused(
                    format!("`{link}` is a symlink, and nothing is injected through it"),
                    "remove the link",
                );
            }
            child.links.extend(target.links.iter().cloned());
            below.links.extend(source.links.iter().cloned());
            self.tree(&below, child, &Rule { text, ..rule.clone() }, false)?;
        }
        Ok(())
    }

    fn file(&mut self, content: Injected, target: Resolved, rule: &Rule) -> OrRefused<()> {
        if self.kind_there(&target) == Some(FileKind::Directory) && rule.layer != LayerKind::Preset {
            let message = format!("`{}` is a folder, and a file cannot be injected there", target.path);
            return refused(message, "name the file in `to`");
        }
        self.add(FileKind::File, content, target, rule)
    }

    /// The kind of file that the host has at the target. A placeholder of another run counts as
    /// missing.
    fn kind_there(&self, target: &Resolved) -> Option<FileKind> {
        target.kind.filter(|_| !self.resolver.stands(&target.path))
    }

    /// Whether the agent that reads `path` is in use. In the home, its folder must exist.
    fn is_in_use(&self, path: &AbsPath) -> bool {
        let has_folder = || self.resolver.missing_parents(path).is_some_and(|parents| parents.is_empty());
        path.is_within(&self.resolver.project.root) || has_folder()
    }

    /// Refuses a path that `git add` inside would stage.
    fn refuse_without_exclude(&mut self, path: &AbsPath, kind: FileKind) -> OrRefused<()> {
        let Some(owner) = self.owners.nearest(path) else { return Ok(()) };
        let (list, work_tree) = (owner.common_dir.join("info/exclude"), owner.work_tree.clone());
        let can_stage = self.resolver.host.can_create(&owner.git_dir.child("index.lock"));
        let has_list = self.resolver.has_git_exclude(owner);
        if !can_stage || ablate::is_off(Mitigation::InjectedIgnored) {
            return Ok(());
        }
        if !has_list {
            let message = format!("git cannot be told to leave `{path}` alone: nothing can be mounted on `{list}`");
            return refused(message, "make that a regular file, or name another target");
        }
        self.refuse_taken_out(path, kind, &work_tree)
    }

    /// Refuses a path that a `.gitignore` re-includes with a `!` line: a `.gitignore` outranks
    /// git's list of ignored files.
    fn refuse_taken_out(&self, path: &AbsPath, kind: FileKind, work_tree: &AbsPath) -> OrRefused<()> {
        for folder in path.ancestors().skip(1).take_while(|folder| folder.is_within(work_tree)) {
            let file = folder.child(".gitignore");
            let Some(relative) = path.relative_to(&folder) else { continue };
            let names: Vec<&[u8]> = relative.iter().map(OsStrExt::as_bytes).collect();
            let read = match self.resolver.host.kind(&file) {
                // git ignores a `.gitignore` that is a folder.
                Ok(Some(FileKind::Directory)) => continue,
                _ => self.resolver.host.read_regular(&file, LARGEST_GITIGNORE),
            };
            let text = read.or_else(|e| {
                let message = format!("cannot tell whether git ignores `{path}`: `{file}`: {}", reason(&e));
                refused(message, "make it a readable file, or name another target")
            })?;
            if may_take_out(&text.unwrap_or_default(), &names, kind == FileKind::Directory) {
                let message = format!("git inside would add `{path}`: `{file}` has a line with `!` that matches it");
                return refused(message, "name another target, or remove that line");
            }
        }
        Ok(())
    }

    /// Whether other runs would treat the folder around `path` as a project or a repository.
    fn marks_a_project(&self, path: &AbsPath) -> bool {
        let is_missing = |at: &AbsPath| self.resolver.stands(at) || !matches!(self.resolver.host.kind(at), Ok(Some(_)));
        let has_name = |at: &AbsPath, name: &str| at.file_name().is_some_and(|own| own == name);
        has_name(path, PROJECT_FILE)
            || path.ancestors().any(|at| has_name(&at, ".git") && (at == *path || is_missing(&at)))
    }

    fn add(&mut self, kind: FileKind, content: Injected, target: Resolved, rule: &Rule) -> OrRefused<()> {
        let is_missing = self.kind_there(&target).is_none();
        let Resolved { path, links, kind: there, .. } = target;
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
                false => format!("of the injections at `{path}` and at `{other}`, one lies in the other; see {origin}"),
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
        if self.marks_a_project(&path) && !ablate::is_off(Mitigation::ProjectMarkers) {
            let message = format!("`{path}` would make the folder around it a project or a repository");
            return refused(message, "name another target");
        }
        // A placeholder of another run is a folder or a file, and this run cannot change that.
        let has_folder = there.map(|there| there == FileKind::Directory);
        if is_missing && has_folder.is_some_and(|has_folder| has_folder != (kind == FileKind::Directory)) {
            let (has, wants) = match has_folder {
                Some(true) => ("folder", "file"),
                _ => ("file", "folder"),
            };
            let message = format!("another run keeps a {has} at `{path}`, and a {wants} cannot be injected there");
            return refused(message, "wait until that run has ended, or name another target");
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
        self.refuse_without_exclude(&path, kind)?;
        let rule = rule.clone();
        self.points.push(InjectionPoint { path, kind, content, links, rule, is_missing });
        Ok(())
    }
}
