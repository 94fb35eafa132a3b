//! Checks of the kernel and its settings.

use crate::compile::protection::leaves_open;
use crate::host::{Host, Session, mountinfo};
use crate::launch::apparmor::{self, Confinement};
use crate::launch::{self, availability};
use crate::policy::{AbsPath, Protection, places};
use crate::sys::landlock;

use super::probe::Tried;
use super::{DoctorFinding, FindingStatus};

pub(super) fn user_namespaces(host: &Host, session: &Session, bwrap: Option<&AbsPath>, tried: &Tried) -> DoctorFinding {
    if let Err(diagnostic) = availability::check(host, session, bwrap.unwrap_or(&AbsPath::root())) {
        return DoctorFinding::missing(&diagnostic);
    }
    let limit = availability::setting(host, "proc/sys/user/max_user_namespaces");
    let limit = limit.map_or_else(String::new, |limit| format!(", at most {limit}"));
    match &tried.no_user_namespace {
        None => DoctorFinding::ok(format!("can be made{limit}")),
        Some(why) => DoctorFinding::limited(
            format!("cannot be made by this program: {why}"),
            "bwrap may be allowed to make one, but the guard is not",
            "see the lines `AppArmor` and `container`; in a sandbox or container, ask its administrator",
        ),
    }
}

pub(super) fn apparmor(host: &Host) -> Option<DoctorFinding> {
    let remedy = if apparmor::own_profile_is_installed(host) {
        format!(
            "the file of our profile exists, but this program does not run under it: start it as \
             `/usr/bin/agent-sandbox` or `/usr/local/bin/agent-sandbox`, and load the profile with \
             `{}`",
            apparmor::LOAD_PROFILE
        )
    } else {
        format!("install agent-sandbox in `/usr/local/bin`, and its profile with `{}`", apparmor::INSTALL_PROFILE)
    };
    Some(match apparmor::confinement(host)? {
        Confinement::Unrestricted => DoctorFinding::ok("unrestricted: user namespaces keep their capabilities"),
        Confinement::OwnProfile => {
            DoctorFinding::ok("our profile: bwrap and the guard keep their capabilities; nothing is lost")
        }
        Confinement::BwrapProfile => DoctorFinding::limited(
            "bwrap's profile (`bwrap-userns-restrict`): bwrap works, and its children have no capabilities",
            format!("the guard cannot work, so {}", leaves_open(Protection::Guard)),
            remedy,
        ),
        Confinement::Restricted => DoctorFinding::limited(
            "restricted (`kernel.apparmor_restrict_unprivileged_userns` is 1): a program without a profile has no \
             capabilities in a user namespace",
            "nothing runs, unless the caller is root, bwrap is setuid, or a profile in another file allows it",
            remedy,
        ),
    })
}

pub(super) fn container(host: &Host, session: &Session) -> DoctorFinding {
    let is_one = if availability::in_container(host, session) { "this is one" } else { "no sign of a container" };
    let parts = match covered_in_proc(host) {
        0 => return DoctorFinding::ok(is_one),
        1 => "1 part of `/proc` is".to_owned(),
        count => format!("{count} parts of `/proc` are"),
    };
    let effect =
        "the kernel may refuse to mount a new `/proc` in a user namespace: then no sandbox can start".to_owned();
    DoctorFinding {
        status: FindingStatus::Limited,
        effect: Some(effect),
        remedy: launch::explain_refusal("proc", false).help,
        ..DoctorFinding::ok(format!("{is_one}, and {parts} covered"))
    }
}

/// Counts the mounts that hide parts of `/proc`. While such a mount exists, the kernel may refuse
/// a new `/proc` in a user namespace. A mount on a folder that is always empty hides nothing.
fn covered_in_proc(host: &Host) -> usize {
    let table = host.mount_table().ok().flatten().unwrap_or_default();
    let proc = places::at(places::PROC);
    let empty = proc.join("sys/fs/binfmt_misc");
    mountinfo::parse(&table).flatten().filter(|entry| entry.point.is_below(&proc) && entry.point != empty).count()
}

/// Reports the features that an old kernel lacks.
pub(super) fn kernel() -> DoctorFinding {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    match version(&release) {
        Some(version) if version < (5, 3) => DoctorFinding::limited(
            format!("{release}, before 5.3"),
            "there are no pidfds, so runs are not supervised",
            "use a newer kernel, or `--exec`",
        ),
        Some(version) if version < (6, 15) => DoctorFinding::limited(
            format!("{release}, before 6.15"),
            "a command that was killed looks like one that exits with 128 plus a signal",
            "use a newer kernel to tell them apart",
        ),
        _ => DoctorFinding::ok(release),
    }
}

/// The first two numbers of a release: `6.18.3-arch1`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

pub(super) fn landlock(tried: &Tried) -> DoctorFinding {
    let found = tried.landlock.map_or_else(|| "none".to_owned(), |abi| format!("ABI {abi}"));
    if landlock::is_available() {
        return DoctorFinding::ok(format!("{found}, can keep signals and abstract sockets inside"));
    }
    DoctorFinding::limited(
        format!("{found}, without scopes"),
        leaves_open(Protection::Landlock),
        "use Linux 6.12 or later, with `landlock` in `lsm=`",
    )
}

pub(super) fn seccomp() -> DoctorFinding {
    if launch::has_seccomp() {
        return DoctorFinding::ok("filters of system calls");
    }
    let effect = leaves_open(Protection::Seccomp);
    let remedy = "use a kernel with CONFIG_SECCOMP_FILTER";
    DoctorFinding::limited("no filters for this architecture and kernel", effect, remedy)
}

pub(super) fn overlay(tried: &Tried) -> DoctorFinding {
    DoctorFinding::ok(match &tried.no_overlay {
        None => "can be mounted in a user namespace".to_owned(),
        Some(why) => format!("cannot be mounted in a user namespace ({why}); agent-sandbox does not need it"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const SWITCH: &str = "proc/sys/kernel/apparmor_restrict_unprivileged_userns";

    /// Paths below the root of the host, and their content.
    type HostFiles<'a> = &'a [(&'a str, &'a str)];

    fn apparmor_with(files: HostFiles) -> Result<Option<DoctorFinding>, std::io::Error> {
        let root = tempfile::tempdir()?;
        for (path, text) in files {
            let path = root.path().join(path);
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(path, text)?;
        }
        Ok(apparmor(&Host::at(root.path())))
    }

    // SPEC H3
    #[test]
    fn each_case_of_apparmor_names_the_lost_protections() -> Result<(), std::io::Error> {
        let restrict = ("etc/apparmor.d/bwrap-userns-restrict", "");
        let own = ("proc/self/attr/apparmor/current", "agent-sandbox (enforce)\n");
        let lost = Some("the guard cannot work, so mounts are neither compared with the plan nor locked");
        let nothing_runs =
            Some("nothing runs, unless the caller is root, bwrap is setuid, or a profile in another file allows it");
        let cases: [(HostFiles, &str, FindingStatus, Option<&str>); 4] = [
            (&[(SWITCH, "0\n")], "unrestricted: ", FindingStatus::Ok, None),
            (&[(SWITCH, "1\n")], "restricted (", FindingStatus::Limited, nothing_runs),
            (&[(SWITCH, "1\n"), restrict], "bwrap's profile (", FindingStatus::Limited, lost),
            (&[(SWITCH, "1\n"), restrict, own], "our profile: ", FindingStatus::Ok, None),
        ];
        for (files, begins, status, effect) in cases {
            let finding = apparmor_with(files)?.ok_or(std::io::ErrorKind::NotFound)?;
            assert!(finding.found.starts_with(begins), "{finding:?}");
            assert_eq!((finding.status, finding.effect.as_deref()), (status, effect), "{finding:?}");
            let installs = finding.remedy.is_some_and(|remedy| remedy.contains(apparmor::INSTALL_PROFILE));
            assert_eq!(installs, status == FindingStatus::Limited);
        }
        assert!(apparmor_with(&[])?.is_none(), "a kernel without the setting has nothing to say");
        Ok(())
    }

    #[test]
    fn the_remedy_for_a_profile_that_does_not_apply_is_to_load_it() -> Result<(), std::io::Error> {
        let finding = apparmor_with(&[(SWITCH, "1\n"), ("etc/apparmor.d/agent-sandbox", "")])?;
        let remedy = finding.and_then(|finding| finding.remedy).unwrap_or_default();
        assert!(remedy.contains(apparmor::LOAD_PROFILE) && !remedy.contains("sudo install"), "{remedy}");
        Ok(())
    }

    #[test]
    fn a_release_begins_with_its_version() {
        assert_eq!(version("6.18.3-arch1-1"), Some((6, 18)));
        assert_eq!(version("5.10"), Some((5, 10)));
        assert_eq!(version("unknown"), None);
    }
}
