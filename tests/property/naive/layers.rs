//! The rules of a scene and their layers (SPEC sections 2 and 3).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use agent_sandbox::compile::own_places::MINIMAL;
use agent_sandbox::compile::presets::data::PRESETS;
use agent_sandbox::policy::{IfMissing, Refinements};

use crate::scene::{
    Access, Definition, Document, Entry, HOME, Missing, Own, PROJECT_FILE, STATE, SYSTEM_FILE, Scene, Stage, USER_FILE,
};

/// The layers, the lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    Base,
    Preset,
    System,
    User,
    Project,
    CommandLine,
}

#[derive(Clone, Debug)]
pub struct Rule {
    pub access: Access,
    pub text: Vec<u8>,
    pub missing: Missing,
    pub layer: Layer,
    pub base: PathBuf,
    /// Directories that a built-in preset's globs do not enter.
    pub skips: Vec<String>,
    pub except: Vec<String>,
}

#[derive(Debug, Default)]
pub struct Written {
    pub rules: Vec<Rule>,
    pub tmp_of_host: bool,
    /// The value of the last file that sets one.
    pub home: Option<&'static str>,
    pub base: Option<&'static str>,
    /// The paths of agent-sandbox's own files, with links.
    pub own: Vec<PathBuf>,
}

pub fn read(scene: &Scene, stage: &Stage) -> Written {
    let exists = |path: &Path| stage.real(path).symlink_metadata().is_ok();
    let candidates: Vec<&Path> = scene.cwd.ancestors().take_while(|folder| is_safe(folder)).collect();
    let marked: Vec<&&Path> =
        candidates.iter().filter(|folder| exists(&folder.join(PROJECT_FILE)) || exists(&folder.join(".git"))).collect();
    let root = marked.first().map_or(scene.cwd.as_path(), |folder| **folder);
    let outermost = marked.last().map_or(root, |folder| **folder);

    let mut reader = Reader { scene, written: Written::default(), on: BTreeMap::new(), defined: Vec::new() };
    reader.turn_on(["all"].into_iter(), Layer::Preset);
    reader.file(Path::new(SYSTEM_FILE), Layer::System, root);
    reader.file(Path::new(USER_FILE), Layer::User, root);
    for above in candidates.iter().filter(|folder| root.starts_with(folder) && **folder != root) {
        reader.file_above(&above.join(PROJECT_FILE), above);
    }
    match scene.own {
        Own::Found => reader.file(&root.join(PROJECT_FILE), Layer::Project, root),
        Own::Requested(file) => reader.file(&scene.cwd.join(file), Layer::Project, &scene.cwd),
        Own::None => {}
    }
    reader.document(&scene.flags, Layer::CommandLine, &scene.cwd);
    reader.presets(root, outermost, exists);
    reader.written.own.extend([root.join(PROJECT_FILE), STATE.into()]);
    reader.written
}

impl Written {
    pub fn has_minimal_base(&self) -> bool {
        self.base == Some("minimal")
    }

    /// The private home and the minimal base, if there are any (SPEC O1, O5).
    pub fn own_places(&self) -> Vec<PathBuf> {
        let is_private = self.home.map_or(self.has_minimal_base(), |home| home == "private");
        let home = is_private.then(|| PathBuf::from(HOME));
        self.has_minimal_base().then(|| PathBuf::from("/")).into_iter().chain(home).collect()
    }

    /// The paths that are visible in them without a rule. Programs are missing here, because these
    /// scenes have none on PATH.
    pub fn shown(&self) -> Vec<PathBuf> {
        let folders = MINIMAL.iter().filter(|_| self.has_minimal_base()).map(PathBuf::from);
        let home = (self.has_minimal_base() && self.home == Some("host")).then(|| PathBuf::from(HOME));
        folders.chain(home).collect()
    }
}

fn is_safe(folder: &Path) -> bool {
    let tops = ["/", "/etc", "/var", "/usr", "/opt", "/root", "/tmp", "/home", "/run"];
    !tops.iter().any(|top| folder == Path::new(top)) && !Path::new(HOME).starts_with(folder)
}

struct Reader<'a> {
    scene: &'a Scene,
    written: Written,
    /// The presets that are on, each with its rules if a user defined it.
    on: BTreeMap<String, Vec<Rule>>,
    defined: Vec<(&'a Definition, PathBuf)>,
}

impl<'a> Reader<'a> {
    fn file(&mut self, file: &Path, layer: Layer, base: &Path) {
        if let Some(document) = self.scene.files.get(file) {
            self.written.own.push(file.to_path_buf());
            self.document(document, layer, base);
        }
    }

    /// Reads the restrictions of the file above the project's (SPEC L4).
    fn file_above(&mut self, file: &Path, base: &Path) {
        let Some(document) = self.scene.files.get(file) else { return };
        self.written.own.push(file.to_path_buf());
        if document.tmp == Some("private") {
            self.written.tmp_of_host = false;
        }
        if document.home == Some("private") {
            self.written.home = document.home;
        }
        if document.base == Some("minimal") {
            self.written.base = document.base;
        }
        let forbids = |rule: &Rule| rule.access != Access::Rw;
        let rules = document.entries.iter().map(|entry| rule(entry, Layer::Project, base));
        self.written.rules.extend(rules.filter(forbids));
        self.defined.extend(document.definitions.iter().map(|definition| (definition, base.to_path_buf())));
        let named = document.presets.iter().filter_map(|written| written.strip_prefix("@"));
        for name in self.with_included(named) {
            let rules: Vec<Rule> = self.defined_rules(&name, Layer::Project).into_iter().filter(forbids).collect();
            self.on.entry(name).or_default().extend(rules);
        }
    }

    fn document(&mut self, document: &'a Document, layer: Layer, base: &Path) {
        if let Some(tmp) = document.tmp {
            self.written.tmp_of_host = tmp == "host";
        }
        self.written.home = document.home.or(self.written.home);
        self.written.base = document.base.or(self.written.base);
        self.defined.extend(document.definitions.iter().map(|definition| (definition, base.to_path_buf())));
        let removed = document.presets.iter().filter_map(|written| written.strip_prefix("!@"));
        for name in self.with_included(removed) {
            self.on.remove(&name);
        }
        let added = document.presets.iter().filter_map(|written| written.strip_prefix("@"));
        self.turn_on(added, layer);
        self.written.rules.extend(document.entries.iter().map(|entry| rule(entry, layer, base)));
    }

    /// Turns presets on in the layer that names them, with all definitions so far (SPEC P4).
    fn turn_on<'n>(&mut self, names: impl Iterator<Item = &'n str>, layer: Layer) {
        for name in self.with_included(names) {
            let rules = self.defined_rules(&name, layer);
            self.on.insert(name, rules);
        }
    }

    fn defined_rules(&self, name: &str, layer: Layer) -> Vec<Rule> {
        let own = self.defined.iter().filter(|(definition, _)| definition.name == name);
        own.flat_map(|(definition, base)| definition.entries.iter().map(move |e| rule(e, layer, base))).collect()
    }

    fn with_included<'n>(&self, names: impl Iterator<Item = &'n str>) -> BTreeSet<String> {
        let mut all: BTreeSet<String> = names.map(str::to_owned).collect();
        loop {
            let own = self.defined.iter().filter(|(definition, _)| all.contains(definition.name));
            let mut more: BTreeSet<String> =
                own.flat_map(|(definition, _)| definition.include.iter().map(|name| (*name).to_owned())).collect();
            for data in PRESETS.iter().filter(|preset| all.contains(preset.name)) {
                more.extend(data.include.iter().map(ToString::to_string));
            }
            if more.is_subset(&all) {
                return all;
            }
            all.extend(more);
        }
    }

    fn presets(&mut self, root: &Path, outermost: &Path, exists: impl Fn(&Path) -> bool) {
        for (name, rules) in std::mem::take(&mut self.on) {
            self.written.rules.extend(rules);
            let Some(data) = PRESETS.iter().find(|preset| preset.name == name) else { continue };
            let base = if name == "secrets" { outermost } else { root };
            let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
            // Paths with `$GIT…` need a repository, and scenes with built-in presets have none.
            for entry in data.entries().filter(|entry| !entry.path.starts_with("$GIT")) {
                let parent = base.join(entry.path);
                let Refinements { in_use, create_for, needs_parent, except, .. } = entry.refinements;
                let signs = in_use.iter().map(|sign| Path::new(HOME).join(sign.trim_start_matches("~/")));
                let is_in_use = in_use.is_empty() || signs.into_iter().any(|sign| exists(&sign));
                let missing = match entry.if_missing {
                    // These scenes have no program on PATH.
                    IfMissing::Skip if create_for == Some("*") => Missing::Create,
                    IfMissing::Skip => Missing::Skip,
                    // SPEC M6.
                    IfMissing::Block if needs_parent && !exists(parent.parent().unwrap()) => Missing::Skip,
                    IfMissing::Block if !is_in_use => Missing::Skip,
                    IfMissing::Block => Missing::Block,
                    other => panic!("{name}: {} says `{other:?}`, which is not supported here", entry.path),
                };
                let access = match entry.access {
                    agent_sandbox::policy::Access::Rw => Access::Rw,
                    agent_sandbox::policy::Access::Ro => Access::Ro,
                    agent_sandbox::policy::Access::Exclude => Access::Exclude,
                };
                self.written.rules.push(Rule {
                    access,
                    text: entry.path.as_bytes().to_vec(),
                    missing,
                    layer: Layer::Preset,
                    base: base.to_path_buf(),
                    skips: texts(data.skip_directories),
                    except: texts(except),
                });
            }
        }
    }
}

fn rule(entry: &Entry, layer: Layer, base: &Path) -> Rule {
    let Entry { access, text, missing } = entry.clone();
    Rule { access, text, missing, layer, base: base.to_path_buf(), skips: Vec::new(), except: Vec::new() }
}
