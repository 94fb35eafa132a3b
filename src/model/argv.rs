//! The grammar of bwrap's command line: arguments to operations in order.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::{ModelError, Namespace};
use crate::policy::AbsPath;

/// The most arguments that bwrap accepts: `MAX_ARGS` in its source.
const MAX_ARGS: usize = 9_000;

/// An operation of bwrap at a path.
pub(super) enum BwrapOperation {
    /// `optional`: bwrap skips it if the source does not exist.
    Bind {
        source: AbsPath,
        access: BindAccess,
        optional: bool,
    },
    Tmpfs {
        modes: Modes,
    },
    Directory {
        modes: Modes,
    },
    Symlink {
        target: OsString,
    },
    Dev,
    Proc,
    /// A read-only file with the content of this file descriptor.
    Data {
        descriptor: i32,
    },
    RemountReadOnly,
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
    /// The modes of a `--tmpfs` or a `--dir` without `--perms`.
    pub(super) const DEFAULT: Modes = Modes { own: 0o755, parents: 0o755 };

    /// The modes for an operation without a mode of its own, such as a bind. bwrap then assumes
    /// the mode 0000, so only the owner has access to the parents.
    pub(super) const MOUNT_POINT: Modes = Modes { own: 0o755, parents: 0o700 };

    /// If `perms` gives the group or others no access, bwrap gives that class no access to the
    /// parents: `--perms 0700 --tmpfs /run/user/1000` also makes `/run/user` 0700.
    fn with_perms(perms: Option<u32>) -> Modes {
        let own = perms.unwrap_or(Modes::DEFAULT.own);
        let closed = [0o070, 0o007].into_iter().filter(|class| own & class == 0).sum::<u32>();
        Modes { own, parents: Modes::DEFAULT.parents & !closed }
    }
}

#[derive(Default)]
pub(super) struct Invocation {
    pub operations: Vec<(AbsPath, BwrapOperation)>,
    pub unshared: BTreeSet<Namespace>,
    pub cwd: Option<AbsPath>,
    /// The variables that `--setenv` sets.
    pub variables: BTreeMap<OsString, OsString>,
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
    ArgvReader { args, perms: None, size: false, has_user_namespace: false, needs_user_namespace: None }.read()
}

struct ArgvReader<'a, A> {
    args: A,
    /// A `--perms` that waits for the flag that it modifies.
    perms: Option<u32>,
    /// A `--size` that waits for its `--tmpfs`. The model needs no sizes.
    size: bool,
    /// `--unshare-all` does not count here: it only *tries* the user namespace.
    has_user_namespace: bool,
    /// A flag that bwrap accepts only with a user namespace, in any order.
    needs_user_namespace: Option<&'a str>,
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
        if let Some(flag) = self.needs_user_namespace.filter(|_| !self.has_user_namespace) {
            return Err(ModelError::Needs { flag: flag.into(), needs: "--unshare-user" });
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
                self.size = false;
                BwrapOperation::Tmpfs { modes: Modes::with_perms(self.perms.take()) }
            }
            "--dir" => BwrapOperation::Directory { modes: Modes::with_perms(self.perms.take()) },
            "--symlink" => BwrapOperation::Symlink { target: self.value(flag)?.to_os_string() },
            "--dev" => BwrapOperation::Dev,
            "--proc" => BwrapOperation::Proc,
            "--ro-bind-data" => {
                self.perms = None;
                BwrapOperation::Data { descriptor: self.descriptor(flag)? }
            }
            "--remount-ro" => BwrapOperation::RemountReadOnly,
            _ => return self.setting(flag, read),
        };
        read.operations.push((self.path(flag)?, operation));
        Ok(())
    }

    /// The flags that mount nothing.
    fn setting(&mut self, flag: &'a str, read: &mut Invocation) -> Result<(), ModelError> {
        match flag {
            "--perms" => self.perms = Some(self.mode(flag)?),
            "--size" => {
                let value = self.value(flag)?;
                let is_size = digits(value).and_then(|text| text.parse::<u64>().ok()).is_some_and(|size| size > 0);
                self.size = is_size.then_some(true).ok_or_else(|| invalid(flag, value, "a number of bytes"))?;
            }
            "--unshare-all" => read.unshared.extend(Namespace::ALL),
            "--unshare-user" => {
                self.has_user_namespace = true;
                read.unshared.insert(Namespace::User);
            }
            // Flags apply in order: a later `--unshare-all` unshares the network again.
            "--share-net" => _ = read.unshared.remove(&Namespace::Net),
            "--chdir" => read.cwd = Some(self.path(flag)?),
            "--setenv" => {
                let name = self.value(flag)?.to_owned();
                read.variables.insert(name, self.value(flag)?.to_owned());
            }
            "--die-with-parent" => {}
            "--disable-userns" => self.needs_user_namespace = Some(flag),
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
            "--seccomp" => _ = self.descriptor(flag)?,
            _ => return Err(ModelError::UnknownFlag { flag: flag.into() }),
        }
        Ok(())
    }

    /// `--perms` and `--size` apply only to the next operation, and only some operations accept
    /// them. bwrap ignores a trailing one. Here it is an error, because it has no effect.
    fn check_modifiers(&self, arg: &OsStr) -> Result<(), ModelError> {
        let is_one_of = |flags: &[&str]| flags.iter().any(|flag| arg == *flag);
        match self.perms {
            _ if self.size && arg == "--tmpfs" => Ok(()),
            None if self.size && arg == "--perms" => Ok(()),
            _ if self.size => Err(ModelError::StraySize { before: arg.into() }),
            Some(_) if !is_one_of(&["--tmpfs", "--dir", "--ro-bind-data"]) => {
                Err(ModelError::StrayPerms { before: arg.into() })
            }
            _ => Ok(()),
        }
    }

    fn value(&mut self, flag: &str) -> Result<&'a OsStr, ModelError> {
        self.args.next().ok_or_else(|| ModelError::MissingValue { flag: flag.into() })
    }

    /// Accepts only normalized absolute paths. The destination that bwrap derives from a relative
    /// path, or from one with `..`, depends on more than the argv.
    fn path(&mut self, flag: &str) -> Result<AbsPath, ModelError> {
        let value = self.value(flag)?;
        AbsPath::normalize(value)
            .filter(|path| path.as_os_str() == value)
            .ok_or_else(|| ModelError::NotNormal { flag: flag.into(), value: value.into() })
    }

    fn bind(&mut self, flag: &str, access: BindAccess) -> Result<BwrapOperation, ModelError> {
        Ok(BwrapOperation::Bind { source: self.path(flag)?, access, optional: flag.ends_with("-try") })
    }

    fn mode(&mut self, flag: &str) -> Result<u32, ModelError> {
        let value = self.value(flag)?;
        digits(value)
            .and_then(|text| u32::from_str_radix(text, 8).ok())
            .filter(|mode| *mode <= 0o7777)
            .ok_or_else(|| invalid(flag, value, "an octal mode up to 7777"))
    }

    fn descriptor(&mut self, flag: &str) -> Result<i32, ModelError> {
        let value = self.value(flag)?;
        let number = digits(value).and_then(|text| text.parse().ok());
        number.ok_or_else(|| invalid(flag, value, "the number of a file descriptor"))
    }
}

/// `value`, if it has no sign: `parse` would accept one.
fn digits(value: &OsStr) -> Option<&str> {
    value.to_str().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
}

fn invalid(flag: &str, value: &OsStr, expected: &'static str) -> ModelError {
    ModelError::InvalidValue { flag: flag.into(), value: value.into(), expected }
}
