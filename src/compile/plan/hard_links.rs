//! Files with several names: a mount covers one name, and the others lead to the same file.

use crate::compile::decide::{Decision, Decisions};
use crate::compile::resolve::sockets;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, shell_quote};
use crate::host::FileKind;
use crate::policy::{AbsPath, Access, HardLinks, Origin};
use crate::sys::ablate::{self, Mitigation};

use super::{Plan, View};

/// SPEC W4: refuses a rule on a file that could be read or changed under another name, unless the
/// rule accepts that. The socket of a service only causes a warning: any user of the machine can
/// give a socket a second name.
pub fn check_hard_links(plan: &Plan, decisions: &Decisions, diagnostics: &mut Diagnostics) {
    let mut refused: Vec<(&AbsPath, &Decision, usize)> = Vec::new();
    for (path, decision) in decisions.iter().filter(|(path, decision)| is_exposed(plan, path, decision)) {
        // A pattern may match hundreds of such files; one diagnostic for each rule is enough.
        match refused.iter_mut().find(|(_, first, _)| first.origin == decision.origin) {
            Some((_, _, more)) => *more += 1,
            None => refused.push((path, decision, 0)),
        }
    }
    for (path, Decision { access, names, origin, .. }, more) in refused {
        if sockets::is_of_a_service(origin) {
            let message = format!(
                "a service listens on `{path}`, which is one of {names} hard links: the command may reach the service by \
                 another"
            );
            let help = format!("remove the others: `{}` shows them", find_names(path));
            diagnostics.push(Diagnostic::new(Code::UnplacedSocket, message).help(help));
            continue;
        }
        let more = match more {
            0 => String::new(),
            1 => "; the rule matches one more such file".to_owned(),
            more => format!("; the rule matches {more} more such files"),
        };
        let message =
            format!("`{path}` is one of {names} hard links to a file, and `{access}` covers only this one{more}");
        let help = format!(
            "remove the others (`{}` shows them), \
                 or accept them: {access} = [{{ path = \"{path}\", hard-links = \"allow\" }}]",
            find_names(path)
        );
        diagnostics.push(Diagnostic::new(Code::OtherNames, message).at(origin).help(help));
    }
}

/// The command that shows all names of the file at `path`.
pub(crate) fn find_names(path: &AbsPath) -> String {
    format!("find ~ -xdev -samefile {}", shell_quote(path.as_os_str()))
}

fn is_exposed(plan: &Plan, path: &AbsPath, decision: &Decision) -> bool {
    let has_others = decision.kind == FileKind::File && decision.names > 1;
    // An alias is the same file under another mount. Only the rule itself is reported, not its
    // alias.
    let is_alias = matches!(decision.origin, Origin::Alias { .. });
    let narrows = || match decision.access {
        Access::Exclude => true,
        Access::Ro => plan.view_around(path) == View::HostRw,
        Access::Rw => false,
    };
    !ablate::is_off(Mitigation::HardLinks)
        && has_others
        && !is_alias
        && narrows()
        && decision.hard_links == HardLinks::Refuse
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_adds_nothing_to_a_command_to_copy() {
        let path = AbsPath::root().child("a; touch $(b)");
        assert_eq!(find_names(&path), "find ~ -xdev -samefile '/a; touch $(b)'");
        assert_eq!(find_names(&AbsPath::root().child("x")), "find ~ -xdev -samefile /x");
    }
}
