//! Rules that name one path.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use crate::diagnostic::{Code, Diagnostic};
use crate::host::{FileKind, Resolved};
use crate::policy::path::{AbsPath, shown};
use crate::policy::rule::{Exactness, IfMissing, LayerKind, Rule};

use super::{Match, Resolver, pattern};

impl Resolver<'_> {
    pub(super) fn exact(&mut self, rule: &Arc<Rule>, resolved: Resolved) {
        let Resolved { path, links, kind, names } = resolved;
        let Some(kind) = self.kind_at_start(rule, &path, kind) else { return self.nothing_at(rule, path, &links) };
        if rule.shows_socket && kind == FileKind::Directory {
            let message = format!("`{}` is a folder, and no socket, so nothing is shown", shown(&rule.text));
            let help = "name the socket in it, or write a pattern for several, such as `/run/service/*.sock`";
            self.diagnostics.push(Diagnostic::new(Code::UnusedRule, message).at(&rule.origin).help(help));
        }
        if rule.shows_socket && !self.is_socket(rule, &path) {
            self.found.missing.push((rule.clone(), path));
            return;
        }
        if let Some(second_place) = &rule.refinements.second_place {
            self.find_second_place(rule, second_place, &path, kind);
        }
        let fixed_prefix = path.clone();
        let exactness = if rule.layer == LayerKind::Base { Exactness::Base } else { Exactness::Exact };
        let (rule, matched) = (rule.clone(), path.clone());
        self.accept(Match {
            rule,
            matched,
            path,
            kind,
            exactness,
            links,
            fixed_prefix,
            names,
            alias_of: None,
            loose: None,
        });
    }

    /// What will be at `path` when the command starts, where `kind` is now. Notes the rule where that is nothing, or a placeholder.
    fn kind_at_start(&mut self, rule: &Arc<Rule>, path: &AbsPath, kind: Option<FileKind>) -> Option<FileKind> {
        // What other runs have put up is not there.
        let there = kind.filter(|_| !self.stands(path));
        let made = || {
            let file = || self.found.new_files.iter().any(|file| file.path == *path).then_some(FileKind::File);
            self.will_be_made(path).then_some(FileKind::Directory).or_else(file)
        };
        let placeholders = &self.found.placeholders;
        let blocked = || {
            let at = placeholders.binary_search_by(|other| other.path.cmp(path)).ok()?;
            Some(placeholders[at].kind)
        };
        let at_start = there.or_else(made).or_else(blocked);
        // Only what is missing is blocked.
        if there.is_none() && (at_start.is_none() || blocked().is_some()) {
            self.found.absent.push((rule.clone(), path.clone()));
        }
        at_start
    }

    /// A rule for something that is missing, and stays so.
    fn nothing_at(&mut self, rule: &Arc<Rule>, path: AbsPath, links: &[AbsPath]) {
        match (rule.if_missing, links.last()) {
            (IfMissing::Skip, _) => self.missing(rule, path),
            (IfMissing::Error, _) => self.diagnostics.push(missing_path(rule)),
            (IfMissing::Create, Some(link)) => self.diagnostics.push(
                Diagnostic::new(
                    Code::MissingPath,
                    format!("`{}` leads through the symlink `{link}` to nothing", shown(&rule.text)),
                )
                .at(&rule.origin)
                .help("a directory is not created through a symlink; create its target, or name the target"),
            ),
            (IfMissing::Create, None) => self.found.missing.push((rule.clone(), path)),
            (IfMissing::Block, link) => {
                self.found.dangling.extend(link.map(|link| (rule.clone(), link.clone())));
                self.missing(rule, path);
            }
        }
    }

    /// A rule that applies to nothing here. Where somebody meant a variable or a home, it never will.
    pub(super) fn missing(&mut self, rule: &Arc<Rule>, path: AbsPath) {
        self.warn_if_literal(rule, if rule.access.is_protective() { "protects nothing" } else { "opens nothing" });
        self.found.missing.push((rule.clone(), path));
    }

    pub(super) fn warn_if_literal(&mut self, rule: &Rule, so: &str) {
        let text = rule.text.as_bytes();
        let home_inside = |text: &[u8]| text.windows(3).any(|part| matches!(part, [b'{' | b',', b'~', b'/']));
        let literal = matches!(text, [b'$', ..] | [b'~', 0..=b'.' | b'0'.., ..]) || home_inside(text);
        if literal && !rule.shows_socket && rule.layer > LayerKind::Preset {
            let written = shown(&rule.text);
            self.diagnostics.push(
                Diagnostic::new(Code::LiteralPath, format!("`{written}` is taken as it is written, and {so}"))
                    .at(&rule.origin)
                    .help("variables and `~name` are not expanded; write `~/…` at the start, or the whole path"),
            );
        }
    }
}

pub(super) fn missing_path(rule: &Rule) -> Diagnostic {
    let written = shown(&rule.text);
    let (what, help) = if pattern::has_metacharacter(&rule.text) {
        ("matches nothing", "correct the pattern, or choose `if-missing = \"skip\"`")
    } else if rule.access.is_protective() {
        ("does not exist", "create it, or choose `if-missing = \"skip\"`, `\"create\"` or `\"block\"`")
    } else {
        ("does not exist", "create it, or choose `if-missing = \"skip\"` or `\"create\"`")
    };
    Diagnostic::new(Code::MissingPath, format!("`{written}` {what}")).at(&rule.origin).help(help)
}
