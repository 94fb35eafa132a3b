//! From a plan to words. OWNS the spelling of bwrap's flags; pure.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::origin::Origin;
use crate::path::AbsPath;
use crate::placeholder::Placeholder;
use crate::plan::{BindKind, Dropped, IfGone, Mount, Plan};
use crate::rule::Access;

/// bwrap gives up past this many words (`MAX_ARGS`), the wrapped command's own included.
const MAX_WORDS: usize = 9000;

/// The first after standard error.
const FIRST_DESCRIPTOR: i32 = 3;

/// The words of one step, and why they are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    pub words: Vec<OsString>,
    pub because: Origin,
    pub access: Option<Access>,
}

/// The whole command: what is printed is what is executed.
#[derive(Clone, Debug)]
pub struct Argv {
    pub program: AbsPath,
    pub operations: Vec<Operation>,
    pub command: Vec<OsString>,
    /// Directories that must exist before the first word is executed.
    pub create: Vec<AbsPath>,
    /// What must stand on the host before the first word is executed, and is removed after the last.
    pub placeholders: Vec<Placeholder>,
    /// Descriptors that must be open on these contents. One for each, because bwrap closes a descriptor after its
    /// first use.
    pub data: Vec<Data>,
    pub dropped: Vec<Dropped>,
}

/// A descriptor and what is read from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    pub descriptor: i32,
    pub content: Vec<u8>,
}

impl Argv {
    /// All words, bwrap first.
    pub fn words(&self) -> Vec<&OsStr> {
        let operations = self.operations.iter().flat_map(|operation| &operation.words);
        std::iter::once(self.program.as_os_str())
            .chain(operations.map(OsString::as_os_str))
            .chain([OsStr::new("--")])
            .chain(self.command.iter().map(OsString::as_os_str))
            .collect()
    }
}

/// What surrounds the mounts.
pub struct Surroundings<'a> {
    pub program: &'a AbsPath,
    pub cwd: &'a AbsPath,
    pub network: bool,
    pub as_root: bool,
    /// `TMPDIR` names a place that is not writable inside.
    pub reset_tmpdir: bool,
    pub create: &'a [AbsPath],
    pub command: &'a [OsString],
}

pub fn lower(plan: &Plan, around: &Surroundings, diagnostics: &mut Diagnostics) -> Argv {
    let mut operations = vec![always(["--die-with-parent"], "nothing outlives the caller")];
    operations.push(always(["--unshare-all"], "own namespaces"));
    if around.network {
        operations.push(always(["--share-net"], "the network is on"));
    }
    if around.as_root {
        // Without these root inside could unmount what hides a path.
        operations.push(always(["--unshare-user", "--cap-drop", "ALL"], "root keeps no capability"));
    }
    let mut data = Vec::new();
    operations.extend(plan.mounts.iter().map(|planned| Operation {
        words: words(&planned.mount, &mut data),
        because: planned.because.clone(),
        access: planned.access,
    }));
    if around.reset_tmpdir {
        operations.push(always(["--setenv", "TMPDIR", "/tmp"], "TMPDIR is not writable inside"));
    }
    operations.push(Operation {
        words: vec!["--chdir".into(), around.cwd.as_os_str().to_owned()],
        because: Origin::BuiltIn("working directory"),
        access: None,
    });
    let argv = Argv {
        program: around.program.clone(),
        operations,
        command: around.command.to_vec(),
        create: around.create.to_vec(),
        placeholders: plan.placeholders.clone(),
        data,
        dropped: plan.dropped.clone(),
    };
    refuse_too_many_words(&argv, diagnostics);
    argv
}

fn always<const N: usize>(words: [&str; N], why: &'static str) -> Operation {
    Operation { words: words.map(OsString::from).to_vec(), because: Origin::BuiltIn(why), access: None }
}

fn words(mount: &Mount, data: &mut Vec<Data>) -> Vec<OsString> {
    match mount {
        Mount::Bind { path, kind, if_gone } => {
            let flag = match (kind, if_gone) {
                (BindKind::ReadOnly, IfGone::Fail) => "--ro-bind",
                (BindKind::ReadOnly, IfGone::Skip) => "--ro-bind-try",
                (BindKind::Writable, IfGone::Fail) => "--bind",
                (BindKind::Writable, IfGone::Skip) => "--bind-try",
                (BindKind::WithDevices, IfGone::Fail) => "--dev-bind",
                (BindKind::WithDevices, IfGone::Skip) => "--dev-bind-try",
            };
            spelled([flag.as_ref(), path.as_os_str(), path.as_os_str()])
        }
        Mount::Tmpfs { path, mode } => with_mode(*mode, "--tmpfs", path),
        Mount::Directory { path, mode } => with_mode(*mode, "--dir", path),
        Mount::Symlink { path, target } => spelled(["--symlink".as_ref(), target.as_os_str(), path.as_os_str()]),
        Mount::MaskFile { path } => spelled(["--ro-bind".as_ref(), "/dev/null".as_ref(), path.as_os_str()]),
        Mount::DataFile { path, content } => {
            let descriptor = data.last().map_or(FIRST_DESCRIPTOR, |last| last.descriptor + 1);
            data.push(Data { descriptor, content: content.clone() });
            spelled(["--ro-bind-data".as_ref(), descriptor.to_string().as_ref(), path.as_os_str()])
        }
        Mount::Seal { path } => spelled(["--remount-ro".as_ref(), path.as_os_str()]),
        Mount::Dev { path } => spelled(["--dev".as_ref(), path.as_os_str()]),
        Mount::Proc { path } => spelled(["--proc".as_ref(), path.as_os_str()]),
    }
}

fn with_mode(mode: u32, flag: &str, path: &AbsPath) -> Vec<OsString> {
    /// What bwrap uses when nothing is said.
    const DEFAULT: u32 = 0o755;
    let mut words = Vec::new();
    if mode != DEFAULT {
        words = spelled(["--perms".as_ref(), format!("{mode:04o}").as_ref()]);
    }
    words.extend(spelled([flag.as_ref(), path.as_os_str()]));
    words
}

fn spelled<const N: usize>(words: [&OsStr; N]) -> Vec<OsString> {
    words.map(OsStr::to_owned).to_vec()
}

fn refuse_too_many_words(argv: &Argv, diagnostics: &mut Diagnostics) {
    // bwrap does not count its own name.
    let count = argv.words().len() - 1;
    if count <= MAX_WORDS {
        return;
    }
    let mut cost: BTreeMap<String, usize> = BTreeMap::new();
    for operation in argv.operations.iter().filter(|operation| operation.access.is_some()) {
        *cost.entry(operation.because.to_string()).or_default() += operation.words.len();
    }
    let mut cost: Vec<(String, usize)> = cost.into_iter().collect();
    cost.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let most: Vec<String> = cost.iter().take(3).map(|(rule, words)| format!("{rule} ({words} words)")).collect();
    diagnostics.push(
        Diagnostic::new(
            Code::TooManyWords,
            format!("the policy comes to {count} words, and bwrap takes at most {MAX_WORDS}"),
        )
        .help(format!("cover whole directories instead of their files; most words come from {}", most.join(", "))),
    );
}
