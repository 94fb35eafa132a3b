//! The grammar of bwrap's command line: words to operations in order.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::{EnvironmentChange, ModelError, Namespace};
use crate::policy::path::AbsPath;

/// `MAX_ARGS` in bwrap's source.
const MAX_WORDS: usize = 9_000;

pub(super) enum Operation {
    Bind { source: AbsPath, dest: AbsPath, kind: BindKind, if_missing: IfMissing },
    Tmpfs { dest: AbsPath, modes: Modes },
    Directory { dest: AbsPath, modes: Modes },
    Symlink { target: OsString, dest: AbsPath },
    Dev { dest: AbsPath },
    Proc { dest: AbsPath },
    Data { descriptor: i32, dest: AbsPath },
    RemountReadOnly { dest: AbsPath },
}

#[derive(Clone, Copy)]
pub(super) enum BindKind {
    ReadOnly,
    Writable,
    WritableWithDevices,
}

#[derive(Clone, Copy)]
pub(super) enum IfMissing {
    Refuse,
    Skip,
}

/// The mode of a directory that an operation makes, and of the parents that it makes on the way.
/// The umask plays no part in either.
#[derive(Clone, Copy)]
pub(super) struct Modes {
    pub own: u32,
    pub parents: u32,
}

impl Modes {
    /// A `--tmpfs` or a `--dir` without `--perms`.
    pub(super) const DEFAULT: Modes = Modes { own: 0o755, parents: 0o755 };

    /// Any operation that has no mode of its own, such as a bind: bwrap takes that for the mode
    /// 0000, so the parents are closed to all but the owner.
    pub(super) const MOUNT_POINT: Modes = Modes { own: 0o755, parents: 0o700 };

    /// bwrap closes the parents to the group, or to others, where `perms` gives that class nothing:
    /// `--perms 0700 --tmpfs /run/user/1000` makes `/run/user` 0700 too.
    fn with_perms(perms: Option<u32>) -> Modes {
        let Some(own) = perms else {
            return Modes::DEFAULT;
        };
        let mut parents = Modes::DEFAULT.parents;
        for class in [0o070, 0o007] {
            if own & class == 0 {
                parents &= !class;
            }
        }
        Modes { own, parents }
    }
}

#[derive(Default)]
pub(super) struct Invocation {
    pub operations: Vec<Operation>,
    pub unshared: BTreeSet<Namespace>,
    pub cwd: Option<AbsPath>,
    pub environment: Vec<EnvironmentChange>,
    pub command: Vec<OsString>,
    /// What `--cap-add` gives that could undo what the mounts say.
    pub powers: Vec<OsString>,
}

pub(super) fn read<S: AsRef<OsStr>>(words: &[S]) -> Result<Invocation, ModelError> {
    let mut words = words.iter().map(AsRef::as_ref);
    let name = words.next().unwrap_or_default();
    if Path::new(name).file_name() != Some(OsStr::new("bwrap")) {
        return Err(ModelError::NotBwrap);
    }
    if words.len() > MAX_WORDS {
        return Err(ModelError::TooManyWords { limit: MAX_WORDS });
    }
    Reader { words, perms: None, size: None, needs: Vec::new(), user_unshared: false }.read()
}

struct Reader<W> {
    words: W,
    /// A `--perms` or `--size` that waits for what it modifies.
    perms: Option<u32>,
    size: Option<u64>,
    /// Flags that bwrap accepts only with a namespace of their own, whatever the order.
    needs: Vec<(&'static str, &'static str, Namespace)>,
    /// `--unshare-all` does not count here: it only *tries* the user namespace.
    user_unshared: bool,
}

impl<'a, W: Iterator<Item = &'a OsStr>> Reader<W> {
    fn read(mut self) -> Result<Invocation, ModelError> {
        let mut read = Invocation::default();
        loop {
            let word = self.words.next().ok_or(ModelError::NoCommand)?;
            self.check_modifiers(word)?;
            if word == "--" {
                break;
            }
            let flag = word.to_str().ok_or_else(|| ModelError::UnknownFlag { flag: word.into() })?;
            self.flag(flag, &mut read)?;
        }
        for (flag, needs, namespace) in self.needs {
            let met = match namespace {
                Namespace::User => self.user_unshared,
                other => read.unshared.contains(&other),
            };
            if !met {
                return Err(ModelError::Needs { flag, needs });
            }
        }
        read.command = self.words.map(OsStr::to_os_string).collect();
        if read.command.is_empty() {
            return Err(ModelError::NoCommand);
        }
        Ok(read)
    }

    fn flag(&mut self, flag: &str, read: &mut Invocation) -> Result<(), ModelError> {
        let operation = match flag {
            "--bind" => self.bind(flag, BindKind::Writable, IfMissing::Refuse)?,
            "--bind-try" => self.bind(flag, BindKind::Writable, IfMissing::Skip)?,
            "--ro-bind" => self.bind(flag, BindKind::ReadOnly, IfMissing::Refuse)?,
            "--ro-bind-try" => self.bind(flag, BindKind::ReadOnly, IfMissing::Skip)?,
            "--dev-bind" => self.bind(flag, BindKind::WritableWithDevices, IfMissing::Refuse)?,
            "--dev-bind-try" => self.bind(flag, BindKind::WritableWithDevices, IfMissing::Skip)?,
            "--tmpfs" => {
                self.size = None;
                let modes = Modes::with_perms(self.perms.take());
                Operation::Tmpfs { dest: self.path(flag)?, modes }
            }
            "--dir" => {
                let modes = Modes::with_perms(self.perms.take());
                Operation::Directory { dest: self.path(flag)?, modes }
            }
            "--symlink" => {
                let target = self.value(flag)?.to_os_string();
                Operation::Symlink { target, dest: self.path(flag)? }
            }
            "--dev" => Operation::Dev { dest: self.path(flag)? },
            "--proc" => Operation::Proc { dest: self.path(flag)? },
            "--ro-bind-data" => {
                let descriptor = self.number(flag, "the number of a file descriptor")?;
                self.perms = None;
                let descriptor = i32::try_from(descriptor).unwrap_or(i32::MAX);
                Operation::Data { descriptor, dest: self.path(flag)? }
            }
            "--remount-ro" => Operation::RemountReadOnly { dest: self.path(flag)? },
            _ => return self.setting(flag, read),
        };
        read.operations.push(operation);
        Ok(())
    }

    /// The flags that mount nothing.
    fn setting(&mut self, flag: &str, read: &mut Invocation) -> Result<(), ModelError> {
        match flag {
            "--perms" => self.perms = Some(self.mode(flag)?),
            "--size" => self.size = Some(self.size(flag)?),
            "--unshare-all" => read.unshared.extend(Namespace::ALL),
            "--unshare-user" => {
                self.user_unshared = true;
                read.unshared.insert(Namespace::User);
            }
            "--unshare-user-try" => _ = read.unshared.insert(Namespace::User),
            "--unshare-ipc" => _ = read.unshared.insert(Namespace::Ipc),
            "--unshare-pid" => _ = read.unshared.insert(Namespace::Pid),
            "--unshare-net" => _ = read.unshared.insert(Namespace::Net),
            "--unshare-uts" => _ = read.unshared.insert(Namespace::Uts),
            "--unshare-cgroup" | "--unshare-cgroup-try" => {
                read.unshared.insert(Namespace::Cgroup);
            }
            // In order with the others: a later `--unshare-all` takes it back.
            "--share-net" => _ = read.unshared.remove(&Namespace::Net),
            "--chdir" => read.cwd = Some(self.path(flag)?),
            "--setenv" => {
                let name = self.value(flag)?.to_os_string();
                let value = self.value(flag)?.to_os_string();
                read.environment.push(EnvironmentChange::Set { name, value });
            }
            "--unsetenv" => {
                let name = self.value(flag)?.to_os_string();
                read.environment.push(EnvironmentChange::Unset { name });
            }
            "--clearenv" => read.environment.push(EnvironmentChange::Clear),
            "--die-with-parent" | "--new-session" => {}
            "--as-pid-1" => self.needs.push(("--as-pid-1", "--unshare-pid", Namespace::Pid)),
            "--hostname" => {
                self.value(flag)?;
                self.needs.push(("--hostname", "--unshare-uts", Namespace::Uts));
            }
            "--disable-userns" => {
                self.needs.push(("--disable-userns", "--unshare-user", Namespace::User));
            }
            "--cap-drop" => _ = self.value(flag)?,
            "--cap-add" => {
                let value = self.value(flag)?;
                if !value.eq_ignore_ascii_case("CAP_SETFCAP") {
                    read.powers.push(value.to_os_string());
                }
            }
            "--uid" => self.number_of(flag, "--uid")?,
            "--gid" => self.number_of(flag, "--gid")?,
            "--seccomp" => _ = self.number(flag, "the number of a file descriptor")?,
            _ => return Err(ModelError::UnknownFlag { flag: flag.into() }),
        }
        Ok(())
    }

    /// Who the process is. It owns what the argv makes, whatever its number.
    fn number_of(&mut self, flag: &str, name: &'static str) -> Result<(), ModelError> {
        self.number(flag, "a number")?;
        self.needs.push((name, "--unshare-user", Namespace::User));
        Ok(())
    }

    /// `--perms` and `--size` reach only the next operation, and only some take them. bwrap lets a
    /// trailing one pass; here that is an error too, for it means nothing.
    fn check_modifiers(&self, word: &OsStr) -> Result<(), ModelError> {
        let may_follow = |all: &[&str]| all.iter().any(|flag| word == *flag);
        let modifier = if self.perms.is_some() && !may_follow(&["--size", "--tmpfs", "--dir", "--ro-bind-data"]) {
            "--perms"
        } else if self.size.is_some() && !may_follow(&["--perms", "--tmpfs"]) {
            "--size"
        } else {
            return Ok(());
        };
        Err(ModelError::StrayModifier { modifier, before: word.into() })
    }

    fn value(&mut self, flag: &str) -> Result<&'a OsStr, ModelError> {
        self.words.next().ok_or_else(|| ModelError::MissingValue { flag: flag.into() })
    }

    /// One spelling for each path: bwrap takes a relative destination, or one with `..`, to
    /// places which the words alone do not tell.
    fn path(&mut self, flag: &str) -> Result<AbsPath, ModelError> {
        let value = self.value(flag)?;
        AbsPath::normalize(value)
            .filter(|path| path.as_os_str() == value)
            .ok_or_else(|| ModelError::NotNormal { flag: flag.into(), value: value.into() })
    }

    fn bind(&mut self, flag: &str, kind: BindKind, if_missing: IfMissing) -> Result<Operation, ModelError> {
        let source = self.path(flag)?;
        Ok(Operation::Bind { source, dest: self.path(flag)?, kind, if_missing })
    }

    fn mode(&mut self, flag: &str) -> Result<u32, ModelError> {
        let expected = "an octal mode up to 7777";
        let value = self.value(flag)?;
        value
            .to_str()
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|text| u32::from_str_radix(text, 8).ok())
            .filter(|mode| *mode <= 0o7777)
            .ok_or_else(|| invalid(flag, value, expected))
    }

    fn size(&mut self, flag: &str) -> Result<u64, ModelError> {
        match self.number(flag, "a number of bytes")? {
            0 => Err(invalid(flag, OsStr::new("0"), "at least one byte")),
            size => Ok(size),
        }
    }

    fn number(&mut self, flag: &str, expected: &'static str) -> Result<u64, ModelError> {
        let value = self.value(flag)?;
        value
            .to_str()
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| invalid(flag, value, expected))
    }
}

fn invalid(flag: &str, value: &OsStr, expected: &'static str) -> ModelError {
    ModelError::InvalidValue { flag: flag.into(), value: value.into(), expected }
}
