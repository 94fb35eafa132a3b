//! Finds the rule of AppArmor for user namespaces that applies to this program.
//!
//! An ordinary user may not list the profiles that the kernel has loaded. So this module reads the
//! label of its own process, which every process may read. If the label does not decide, the
//! module also reads the files in `/etc/apparmor.d`. It cannot find a profile that an
//! administrator has loaded from another file; the trial start of `doctor` decides such a case.

use std::fs;

use crate::host::Host;
use crate::policy::AbsPath;

use super::availability::{is_restricted, setting};

/// The command that installs and loads our profile, in a checkout of agent-sandbox.
pub(crate) const INSTALL_PROFILE: &str = "sudo install -m644 packaging/agent-sandbox.apparmor /etc/apparmor.d/agent-sandbox && \
    sudo apparmor_parser -r /etc/apparmor.d/agent-sandbox";

/// The command that loads our profile after its file was installed.
pub(crate) const LOAD_PROFILE: &str = "sudo apparmor_parser -r /etc/apparmor.d/agent-sandbox";

const OWN: &str = "agent-sandbox";
/// The file of Ubuntu's profiles for bwrap.
const OF_BWRAP: &str = "bwrap-userns-restrict";
/// The profile in that file under which the children of bwrap run. It denies all capabilities.
const OF_BWRAP_CHILDREN: &str = "unpriv_bwrap";

/// AppArmor's treatment of the user namespaces of bwrap and of the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Confinement {
    /// bwrap and the guard keep their capabilities.
    Unrestricted,
    /// A program without a profile loses all capabilities in a user namespace that it makes.
    Restricted,
    /// Ubuntu's profile for bwrap: bwrap keeps its capabilities, and its child the guard has none.
    BwrapProfile,
    /// Our profile (`packaging/agent-sandbox.apparmor`): bwrap and the guard keep their
    /// capabilities.
    OwnProfile,
}

/// `None` where this kernel has no AppArmor that could restrict user namespaces.
pub(crate) fn confinement(host: &Host) -> Option<Confinement> {
    setting(host, "proc/sys/kernel/apparmor_restrict_unprivileged_userns")?;
    Some(if runs_under_own_profile(host) {
        Confinement::OwnProfile
    } else if bwrap_has_profile(host) {
        // This profile applies whether or not the kernel restricts programs without a profile.
        Confinement::BwrapProfile
    } else if is_restricted(host) {
        Confinement::Restricted
    } else {
        Confinement::Unrestricted
    })
}

/// Whether the file of our profile exists. The profile may still not be loaded, or not apply to
/// this executable.
pub(crate) fn own_profile_is_installed(host: &Host) -> bool {
    is_installed(host, OWN)
}

fn runs_under_own_profile(host: &Host) -> bool {
    // The second file belongs to the first security module, which need not be AppArmor.
    let label =
        ["proc/self/attr/apparmor/current", "proc/self/attr/current"].iter().find_map(|path| setting(host, path));
    // The label is `agent-sandbox (enforce)`, or has no mode.
    label.is_some_and(|label| label.split(' ').next() == Some(OWN))
}

fn bwrap_has_profile(host: &Host) -> bool {
    // The kernel shows this list to root alone.
    match host.kernel_file("sys/kernel/security/apparmor/profiles") {
        Ok(Some(loaded)) => {
            String::from_utf8_lossy(&loaded).lines().any(|line| line.split(' ').next() == Some(OF_BWRAP_CHILDREN))
        }
        Ok(None) | Err(_) => is_installed(host, OF_BWRAP),
    }
}

/// Whether AppArmor loads the file of this name when the machine starts.
fn is_installed(host: &Host, name: &str) -> bool {
    let folder = AbsPath::root().join("etc/apparmor.d");
    let is_there = |path: AbsPath| fs::symlink_metadata(host.real(&path)).is_ok();
    is_there(folder.join(name)) && !is_there(folder.join("disable").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Confinement::{BwrapProfile, OwnProfile, Restricted, Unrestricted};

    const SWITCH: &str = "proc/sys/kernel/apparmor_restrict_unprivileged_userns";
    const LABEL: &str = "proc/self/attr/apparmor/current";
    const RESTRICT: &str = "etc/apparmor.d/bwrap-userns-restrict";
    const LIST: &str = "sys/kernel/security/apparmor/profiles";

    /// Paths below the root of the host, and their content.
    type Files = &'static [(&'static str, &'static str)];

    fn found(files: Files) -> Result<Option<Confinement>, std::io::Error> {
        let root = tempfile::tempdir()?;
        for (path, text) in files {
            let path = root.path().join(path);
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(path, text)?;
        }
        Ok(confinement(&Host::at(root.path())))
    }

    // SPEC H3
    #[test]
    fn the_four_cases_are_told_apart() -> Result<(), std::io::Error> {
        let table: [(Files, Option<Confinement>); 12] = [
            (&[], None),
            (&[(SWITCH, "0\n")], Some(Unrestricted)),
            (&[(SWITCH, "1\n")], Some(Restricted)),
            (&[(SWITCH, "1\n"), (LABEL, "unconfined\n")], Some(Restricted)),
            (&[(SWITCH, "1\n"), (RESTRICT, "")], Some(BwrapProfile)),
            // The profile also applies where programs without a profile are not restricted.
            (&[(SWITCH, "0\n"), (RESTRICT, "")], Some(BwrapProfile)),
            (
                &[(SWITCH, "1\n"), (RESTRICT, ""), ("etc/apparmor.d/disable/bwrap-userns-restrict", "")],
                Some(Restricted),
            ),
            // The list of the kernel outranks the files.
            (&[(SWITCH, "1\n"), (RESTRICT, ""), (LIST, "man_groff (enforce)\n")], Some(Restricted)),
            (&[(SWITCH, "1\n"), (LIST, "bwrap (enforce)\nunpriv_bwrap (enforce)\n")], Some(BwrapProfile)),
            (&[(SWITCH, "1\n"), (RESTRICT, ""), (LABEL, "agent-sandbox (enforce)\n")], Some(OwnProfile)),
            (&[(SWITCH, "1\n"), ("proc/self/attr/current", "agent-sandbox (enforce)\n")], Some(OwnProfile)),
            // A file alone does not say that this process runs under it.
            (&[(SWITCH, "1\n"), ("etc/apparmor.d/agent-sandbox", ""), (LABEL, "unconfined\n")], Some(Restricted)),
        ];
        for (files, expected) in table {
            assert_eq!(found(files)?, expected, "{files:?}");
        }
        Ok(())
    }

    /// The profile has the rules that make [`Confinement::OwnProfile`] true. `.ci/run` checks the
    /// whole profile with apparmor_parser, if a version that knows `userns` is installed.
    // SPEC H3
    #[test]
    fn our_profile_keeps_bwrap_out_of_its_own_profile() {
        let profile = include_str!("../../packaging/agent-sandbox.apparmor");
        let rules: Vec<&str> = profile.lines().map(str::trim).filter(|line| !line.starts_with('#')).collect();
        let head =
            "profile agent-sandbox /usr/{,local/}bin/agent-sandbox flags=(attach_disconnected,mediate_deleted) {";
        for rule in [head, "userns,", "capability,", "mount,", "umount,", "pivot_root,", "file rwlkmix /{**,},"] {
            assert!(rules.contains(&rule), "no `{rule}` in {rules:?}");
        }
        // The kernel ignores the rules of an unconfined profile, and refuses others after
        // no_new_privs.
        let text = rules.join("\n");
        assert!(!text.contains("unconfined") && !text.contains("->"), "{text}");
    }

    #[test]
    fn the_installation_is_one_line_wherever_it_is_named() {
        assert!(INSTALL_PROFILE.ends_with(LOAD_PROFILE));
        let page = include_str!("../../docs/install.md");
        for text in [include_str!("../../packaging/agent-sandbox.apparmor"), page] {
            assert!(text.lines().any(|line| line.trim_start_matches(['#', ' ', '$']) == INSTALL_PROFILE));
        }
    }
}
