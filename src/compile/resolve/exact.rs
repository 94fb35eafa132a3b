//! Rules that name one path.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use crate::diagnostic::Code;
use crate::host::{FileKind, Resolved};
use crate::policy::{AbsPath, Exactness, IfMissing, LayerKind, Rule, escape_for_display};

use super::{Match, Resolver, pattern};

impl Resolver<'_> {
    pub(super) fn exact(&mut self, rule: &Arc<Rule>, resolved: Resolved) {
        let Resolved { path, links, kind, names } = resolved;
        if rule.refinements.only_shows && kind.is_none() {
            return;
        }
        if rule.refinements.only_missing && kind.is_some() && !self.stands(&path) {
            return;
        }
        let Some(kind) = self.kind_at_start(rule, &path, kind) else { return self.nothing_at(rule, path, &links) };
        if rule.shows_socket && kind == FileKind::Directory {
            let message =
                format!("`{}` is a folder and not a socket, so nothing is shown", escape_for_display(&rule.text));
            let help = "name the socket in it, or write a pattern for several, such as `/run/service/*.sock`";
            self.report(rule, Code::UnusedRule, message, help);
        }
        if rule.shows_socket && !self.is_socket(rule, &path) {
            return self.found.missing.push((rule.clone(), path));
        }
        if let Some(second_place) = &rule.refinements.second_place {
            self.find_second_place(rule, second_place, &path, kind);
        }
        let exactness = if rule.layer == LayerKind::Base { Exactness::Base } else { Exactness::Exact };
        self.accept(Match { links, names, ..Match::new(rule.clone(), path, kind, exactness) });
    }

    /// The kind of file that will be at `path` when the command starts. `kind` is the kind now.
    /// Records the rule if nothing, or only a placeholder, will be there.
    fn kind_at_start(&mut self, rule: &Arc<Rule>, path: &AbsPath, kind: Option<FileKind>) -> Option<FileKind> {
        let there = kind.filter(|_| !self.stands(path));
        if there.is_some() {
            return there;
        }
        let file = || self.found.new_files.iter().any(|file| file.path == *path).then_some(FileKind::File);
        let made = self.will_be_made(path).then_some(FileKind::Directory).or_else(file);
        let blocked = self.blocked.get(path).copied();
        if made.is_none() || blocked.is_some() {
            self.found.absent.push((rule.clone(), path.clone()));
        }
        made.or(blocked)
    }

    /// Handles a rule for a path that is missing and will not be created.
    fn nothing_at(&mut self, rule: &Arc<Rule>, path: AbsPath, links: &[AbsPath]) {
        match (rule.if_missing, links.last()) {
            // git follows the dangling link, and obeys any file that a command creates at its
            // target.
            (IfMissing::Skip, Some(link)) if rule.protects_repository() => {
                self.found.dangling.push((rule.clone(), link.clone()));
                self.missing(rule, path);
            }
            (IfMissing::Skip, _) => self.missing(rule, path),
            (IfMissing::Error, _) => self.report_missing(rule),
            (IfMissing::Create, Some(link)) => {
                let message =
                    format!("`{}` leads through the symlink `{link}` to nothing", escape_for_display(&rule.text));
                let help = "create the target of the symlink, or name the target: no directory is created through a \
                            symlink";
                self.report(rule, Code::MissingPath, message, help);
            }
            (IfMissing::Create, None) => self.found.missing.push((rule.clone(), path)),
            (IfMissing::Block, link) => {
                self.found.dangling.extend(link.map(|link| (rule.clone(), link.clone())));
                self.missing(rule, path);
            }
        }
    }

    pub(super) fn missing(&mut self, rule: &Arc<Rule>, path: AbsPath) {
        self.refuse_literal(rule);
        self.found.missing.push((rule.clone(), path));
    }

    /// Refuses a text that looks like a variable or a user's home, which no rule expands (SPEC
    /// G9). Returns whether the text is refused.
    pub(super) fn refuse_literal(&mut self, rule: &Rule) -> bool {
        if rule.layer <= LayerKind::Preset {
            return false;
        }
        let text = rule.text.as_bytes();
        let (found, help) = match text {
            [b'$', ..] => ("begins with a variable", in_place_of_variable(rule)),
            [b'~', 0..=b'.' | b'0'.., ..] => {
                ("begins with the home of another user", "write the whole path".to_owned())
            }
            _ if text.windows(3).any(|part| matches!(part, [b'{' | b',', b'~', b'/'])) => {
                ("has `~/` in braces", "write an entry for each path: `~/` is the home only at the start".to_owned())
            }
            _ => return false,
        };
        let as_it_is = escape_for_display(&rule.text);
        let help = match pattern::has_metacharacter(&rule.text) {
            true => help,
            false => format!("{help}; if that is its name, write `./{as_it_is}`"),
        };
        self.report(rule, Code::LiteralPath, format!("`{as_it_is}` {found}, which rules do not expand"), help);
        true
    }

    pub(super) fn report_missing(&mut self, rule: &Rule) {
        let (what, help) = if pattern::has_metacharacter(&rule.text) {
            ("matches nothing", "correct the pattern, or choose `if-missing = \"skip\"`")
        } else if rule.access.is_protective() {
            ("does not exist", "create it, or choose `if-missing = \"skip\"`, `\"create\"` or `\"block\"`")
        } else {
            ("does not exist", "create it, or choose `if-missing = \"skip\"` or `\"create\"`")
        };
        self.report(rule, Code::MissingPath, format!("`{}` {what}", escape_for_display(&rule.text)), help);
    }
}

/// The text to write instead of a path that begins with a variable.
fn in_place_of_variable(rule: &Rule) -> String {
    let text = escape_for_display(&rule.text);
    let in_home = ["$HOME/", "${HOME}/"].into_iter().find_map(|start| text.strip_prefix(start));
    match in_home {
        Some(rest) => format!("write `~/{rest}`"),
        None if rule.shows_socket => {
            "write the path of the socket, or a pattern for it, such as `/tmp/ssh-*/agent.*`".to_owned()
        }
        None => {
            format!("write the path, or give it in a flag, where the shell expands it: `--{} \"{text}\"`", rule.access)
        }
    }
}
