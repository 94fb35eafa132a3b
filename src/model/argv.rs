//! The grammar of bwrap's command line: arguments to operations in order.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::{EnvironmentChange, ModelError, Namespace};
use crate::policy::path::AbsPath;

/// `MAX_ARGS` in bwrap's source.
const MAX_ARGS: usize = 9_000;

pub(super) enum BwrapOperation {
    /// `optional`: bwrap skips it if the source does not exist.
    Bind {
        source: AbsPath,
        dest: AbsPath,
        access: BindAccess,
        optional: bool,
    },
    Tmpfs {
        dest: AbsPath,
        modes: Modes,
    },
    Directory {
        dest: AbsPath,
        modes: Modes,
    },
    Symlink {
        target: OsString,
        dest: AbsPath,
    },
    Dev {
        dest: AbsPath,
    },
    Proc {
        dest: AbsPath,
    },
    Data {
        descriptor: i32,
        dest: AbsPath,
    },
    RemountReadOnly {
        dest: AbsPath,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BindAccess {
    ReadOnly,
    Writable,
    WritableWithDevices,
}

/// The mode of a directory that an operation creates, and of the parents that it creates on the
/// way. The umask plays no part in either.
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
        let own = perms.unwrap_or(Modes::DEFAULT.own);
        let closed = [0o070, 0o007].into_iter().filter(|class| own & class == 0).sum::<u32>();
        Modes { own, parents: Modes::DEFAULT.parents & !closed }
    }
}

#[derive(Default)]
pub(super) struct Invocation {
    pub operations: Vec<BwrapOperation>,
    pub unshared: BTreeSet<Namespace>,
    pub cwd: Option<AbsPath>,
    pub environment: Vec<EnvironmentChange>,
    pub command: Vec<OsString>,
}

pub(super) fn read<S: AsRef<OsStr>>(argv: &[S]) -> Result<Invocation, ModelError> {
    let mut args = argv.iter().map(AsRef::as_ref);
    let name = args.next().unwrap_or_default();
    if Path::new(name).file_name() != Some(OsStr::new("bwrap")) {
        return Err(ModelError::NotBwrap);
    }
    if args.len() > MAX_ARGS {
        return Err(ModelError::TooManyWords { limit: MAX_ARGS });
    }
    ArgvReader { args, perms: None, size: None, needs: Vec::new(), user_unshared: false }.read()
}

struct ArgvReader<'a, A> {
    args: A,
    /// A `--perms` or `--size` that waits for the flag that it modifies.
    perms: Option<u32>,
    size: Option<u64>,
    /// Flags that bwrap accepts only with a namespace of their own, whatever the order.
    needs: Vec<(&'a str, &'static str, Namespace)>,
    /// `--unshare-all` does not count here: it only *tries* the user namespace.
    user_unshared: bool,
}

impl<'a, A: Iterator<Item = &'a OsStr>> ArgvReader<'a, A> {
    fn read(mut self) -> Result<Invocation, ModelError> {
        let mut read = Invocation::default();
        loop {
            let arg = self.args.next().ok_or(ModelError::NoCommand)?;
            self.check_modifiers(arg)?;
            if arg == "--" {
                break;
            }
            let flag = arg.to_str().ok_or_else(|| ModelError::UnknownFlag { flag: arg.into() })?;
            self.flag(flag, &mut read)?;
        }
        for (flag, needs, namespace) in self.needs {
            let met = match namespace {
                Namespace::User => self.user_unshared,
                other => read.unshared.contains(&other),
            };
            if !met {
                return Err(ModelError::Needs { flag: flag.into(), needs });
            }
        }
        read.command = self.args.map(OsStr::to_os_string).collect();
        if read.command.is_empty() { Err(ModelError::NoCommand) } else { Ok(read) }
    }

    fn flag(&mut self, flag: &'a str, read: &mut Invocation) -> Result<(), ModelError> {
        let operation = match flag {
            "--bind" | "--bind-try" => self.bind(flag, BindAccess::Writable)?,
            "--ro-bind" | "--ro-bind-try" => self.bind(flag, BindAccess::ReadOnly)?,
            "--dev-bind" | "--dev-bind-try" => self.bind(flag, BindAccess::WritableWithDevices)?,
            "--tmpfs" => {
                self.size = None;
                let modes = Modes::with_perms(self.perms.take());
                BwrapOperation::Tmpfs { dest: self.path(flag)?, modes }
            }
            "--dir" => {
                let modes = Modes::with_perms(self.perms.take());
                BwrapOperation::Directory { dest: self.path(flag)?, modes }
            }
            "--symlink" => {
                let target = self.value(flag)?.to_os_string();
                BwrapOperation::Symlink { target, dest: self.path(flag)? }
            }
            "--dev" => BwrapOperation::Dev { dest: self.path(flag)? },
            "--proc" => BwrapOperation::Proc { dest: self.path(flag)? },
            "--ro-bind-data" => {
                self.perms = None;
                let descriptor = self.number(flag, "the number of a file descriptor")?;
                let descriptor = i32::try_from(descriptor).unwrap_or(i32::MAX);
                BwrapOperation::Data { descriptor, dest: self.path(flag)? }
            }
            "--remount-ro" => BwrapOperation::RemountReadOnly { dest: self.path(flag)? },
            _ => return self.setting(flag, read),
        };
        read.operations.push(operation);
        Ok(())
    }

    /// The flags that mount nothing.
    fn setting(&mut self, flag: &'a str, read: &mut Invocation) -> Result<(), ModelError> {
        match flag {
            "--perms" => self.perms = Some(self.mode(flag)?),
            "--size" => match self.number(flag, "a number of bytes")? {
                0 => return Err(invalid(flag, OsStr::new("0"), "at least one byte")),
                size => self.size = Some(size),
            },
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
            "--unshare-cgroup" | "--unshare-cgroup-try" => _ = read.unshared.insert(Namespace::Cgroup),
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
            "--as-pid-1" => self.needs.push((flag, "--unshare-pid", Namespace::Pid)),
            "--hostname" => {
                self.value(flag)?;
                self.needs.push((flag, "--unshare-uts", Namespace::Uts));
            }
            "--disable-userns" => self.needs.push((flag, "--unshare-user", Namespace::User)),
            "--cap-drop" => _ = self.value(flag)?,
            "--cap-add" => {
                let value = self.value(flag)?;
                // CAP_SYS_ADMIN unmounts a mask; CAP_DAC_OVERRIDE walks through a directory of
                // mode 0000.
                if !value.eq_ignore_ascii_case("CAP_SETFCAP") {
                    let why = "a capability may undo what the mounts say";
                    return Err(ModelError::NotModelled { flag: flag.into(), value: value.into(), why });
                }
            }
            // The process owns all that the argv creates, whatever its number.
            "--uid" | "--gid" => {
                self.number(flag, "a number")?;
                self.needs.push((flag, "--unshare-user", Namespace::User));
            }
            "--seccomp" => _ = self.number(flag, "the number of a file descriptor")?,
            _ => return Err(ModelError::UnknownFlag { flag: flag.into() }),
        }
        Ok(())
    }

    /// `--perms` and `--size` reach only the next operation, and only some operations take them.
    /// bwrap ignores a trailing one. Here it is an error, because it has no effect.
    fn check_modifiers(&self, arg: &OsStr) -> Result<(), ModelError> {
        let may_follow = |all: &[&str]| all.iter().any(|flag| arg == *flag);
        let modifier = if self.perms.is_some() && !may_follow(&["--size", "--tmpfs", "--dir", "--ro-bind-data"]) {
            "--perms"
        } else if self.size.is_some() && !may_follow(&["--perms", "--tmpfs"]) {
            "--size"
        } else {
            return Ok(());
        };
        Err(ModelError::StrayModifier { modifier, before: arg.into() })
    }

    fn value(&mut self, flag: &str) -> Result<&'a OsStr, ModelError> {
        self.args.next().ok_or_else(|| ModelError::MissingValue { flag: flag.into() })
    }

    /// Each path has one spelling: where bwrap takes a relative destination, or one with `..`,
    /// depends on more than the argv.
    fn path(&mut self, flag: &str) -> Result<AbsPath, ModelError> {
        let value = self.value(flag)?;
        AbsPath::normalize(value)
            .filter(|path| path.as_os_str() == value)
            .ok_or_else(|| ModelError::NotNormal { flag: flag.into(), value: value.into() })
    }

    fn bind(&mut self, flag: &str, access: BindAccess) -> Result<BwrapOperation, ModelError> {
        let (source, dest) = (self.path(flag)?, self.path(flag)?);
        Ok(BwrapOperation::Bind { source, dest, access, optional: flag.ends_with("-try") })
    }

    fn mode(&mut self, flag: &str) -> Result<u32, ModelError> {
        let value = self.value(flag)?;
        digits(value)
            .and_then(|text| u32::from_str_radix(text, 8).ok())
            .filter(|mode| *mode <= 0o7777)
            .ok_or_else(|| invalid(flag, value, "an octal mode up to 7777"))
    }

    fn number(&mut self, flag: &str, expected: &'static str) -> Result<u64, ModelError> {
        let value = self.value(flag)?;
        digits(value).and_then(|text| text.parse().ok()).ok_or_else(|| invalid(flag, value, expected))
    }
}

/// `value`, if it has no sign: `parse` would accept one.
fn digits(value: &OsStr) -> Option<&str> {
    value.to_str().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
}

fn invalid(flag: &str, value: &OsStr, expected: &'static str) -> ModelError {
    ModelError::InvalidValue { flag: flag.into(), value: value.into(), expected }
}
