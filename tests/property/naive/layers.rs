//! Which rules there are, and on which layer (SPEC sections 2 and 3).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::scene::{
    Access, Definition, Document, Entry, HOME, Missing, Own, PROJECT_FILE, STATE, SYSTEM_FILE, Scene, Stage, USER_FILE,
};

/// Lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
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
    /// Directories that a built-in preset's globs do not enter, and names that they do not mean.
    pub skips: Vec<String>,
    pub except: Vec<String>,
}

#[derive(Debug, Default)]
pub struct Written {
    pub rules: Vec<Rule>,
    pub tmp_of_host: bool,
    /// Our own files, as they are spelled.
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

fn is_safe(folder: &Path) -> bool {
    let tops = ["/", "/etc", "/var", "/usr", "/opt", "/root", "/tmp", "/home", "/run"];
    !tops.iter().any(|top| folder == Path::new(top)) && !Path::new(HOME).starts_with(folder)
}

struct Reader<'a> {
    scene: &'a Scene,
    written: Written,
    /// The presets that are on, with the rules of those that somebody defined.
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

    /// SPEC L4: only what forbids.
    fn file_above(&mut self, file: &Path, base: &Path) {
        let Some(document) = self.scene.files.get(file) else { return };
        self.written.own.push(file.to_path_buf());
        if document.tmp == Some("private") {
            self.written.tmp_of_host = false;
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
        self.defined.extend(document.definitions.iter().map(|definition| (definition, base.to_path_buf())));
        let removed = document.presets.iter().filter_map(|written| written.strip_prefix("!@"));
        for name in self.with_included(removed) {
            self.on.remove(&name);
        }
        let added = document.presets.iter().filter_map(|written| written.strip_prefix("@"));
        self.turn_on(added, layer);
        self.written.rules.extend(document.entries.iter().map(|entry| rule(entry, layer, base)));
    }

    /// SPEC P4: on the layer that names it, with all that has been defined up to there.
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
            for data in all.iter().filter_map(|name| BUILT_IN.get(name.as_str())) {
                more.extend(strings(data, "include").iter().map(|name| name.trim_start_matches('@').to_owned()));
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
            let Some(data) = BUILT_IN.get(name.as_str()) else { continue };
            let base = if name == "secrets" { outermost } else { root };
            for (key, access) in [("rw", Access::Rw), ("ro", Access::Ro), ("exclude", Access::Exclude)] {
                for value in data.get(key).and_then(|list| list.as_array()).into_iter().flatten() {
                    let table = value.as_table();
                    let text = value.as_str().or_else(|| table.and_then(|table| table["path"].as_str())).unwrap();
                    // These stand for a repository, and there is none where built-in presets are on.
                    if text.starts_with("$GIT") {
                        continue;
                    }
                    let says = |key: &str| table.and_then(|table| table.get(key));
                    let needs_parent = says("needs-parent").is_some_and(|value| value.as_bool() == Some(true));
                    let parent = base.join(text);
                    let in_use = table.map(|table| strings(table, "in-use")).unwrap_or_default();
                    let in_use: Vec<_> =
                        in_use.iter().map(|sign| Path::new(HOME).join(sign.trim_start_matches("~/"))).collect();
                    // No program is on PATH here.
                    let for_everybody = says("create-for").is_some_and(|it| it.as_str() == Some("*"));
                    let missing = match says("if-missing").and_then(|value| value.as_str()) {
                        None | Some("skip") if for_everybody => Missing::Create,
                        None | Some("skip") => Missing::Skip,
                        // SPEC M6.
                        Some("block") if needs_parent && !exists(parent.parent().unwrap()) => Missing::Skip,
                        Some("block") if !in_use.is_empty() && !in_use.iter().any(|sign| exists(sign)) => Missing::Skip,
                        Some("block") => Missing::Block,
                        Some(other) => panic!("{name}: {text} says `{other}`, and nothing here reads that"),
                    };
                    self.written.rules.push(Rule {
                        access,
                        text: text.as_bytes().to_vec(),
                        missing,
                        layer: Layer::Preset,
                        base: base.to_path_buf(),
                        skips: strings(data, "skip-directories"),
                        except: table.map(|table| strings(table, "except")).unwrap_or_default(),
                    });
                }
            }
        }
    }
}

fn rule(entry: &Entry, layer: Layer, base: &Path) -> Rule {
    let Entry { access, text, missing } = entry.clone();
    Rule { access, text, missing, layer, base: base.to_path_buf(), skips: Vec::new(), except: Vec::new() }
}

/// What the built-in presets hold is data, and no part of the semantics.
static BUILT_IN: LazyLock<BTreeMap<&str, toml::Table>> = LazyLock::new(|| {
    let files = [
        ("all", include_str!("../../../src/compile/presets/data/all.toml")),
        ("base", include_str!("../../../src/compile/presets/data/base.toml")),
        ("secrets", include_str!("../../../src/compile/presets/data/secrets.toml")),
        ("caches", include_str!("../../../src/compile/presets/data/caches.toml")),
        ("agents", include_str!("../../../src/compile/presets/data/agents.toml")),
        ("git", include_str!("../../../src/compile/presets/data/git.toml")),
        ("autorun", include_str!("../../../src/compile/presets/data/autorun.toml")),
    ];
    files.into_iter().map(|(name, text)| (name, text.parse().unwrap())).collect()
});

fn strings(table: &toml::Table, key: &str) -> Vec<String> {
    let list = table.get(key).and_then(|list| list.as_array());
    list.into_iter().flatten().filter_map(|value| value.as_str()).map(str::to_owned).collect()
}
