//! Paths as a tree that stays readable when it is long.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::audit::effective_access::EffectiveAccess;
use crate::audit::show::ShownPath;
use crate::cli::style::Paint;
use crate::policy::path::{AbsPath, shown};
use crate::policy::rule::Exactness;

/// What is left out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Folding {
    /// How many levels are shown below `/`.
    pub depth: Option<usize>,
    /// Also show each of many matches of one rule.
    pub all: bool,
}

/// So many matches of one rule beside each other are still shown one by one.
const FEW: usize = 4;

/// Lines that are longer than this do not move the columns of all others.
const WIDEST: usize = 60;

/// One line: the tree on the left, then the columns.
struct Line {
    branch: String,
    name: String,
    access: Option<EffectiveAccess>,
    note: String,
}

/// `nodes` stand parents first.
pub(super) fn text(nodes: &[ShownPath], folding: Folding, paint: Paint) -> String {
    let mut lines = Vec::new();
    let roots = tops(nodes);
    for (top, below) in roots {
        lines.push(line(String::new(), top.path.to_string(), top));
        children(below, &top.path, 1, "", folding, &mut lines);
    }
    let width = |line: &Line| (line.branch.chars().count() + line.name.chars().count(), line.access);
    let widths = lines.iter().map(width).filter(|(_, access)| access.is_some()).map(|(width, _)| width);
    let names = widths.filter(|width| *width <= WIDEST).max().unwrap_or(0);
    let accesses = lines.iter().filter_map(|line| line.access).map(|access| access.to_string().len()).max();
    let accesses = accesses.unwrap_or(0);
    let mut out = String::new();
    for line in lines {
        let pad = " ".repeat(names.saturating_sub(line.branch.chars().count() + line.name.chars().count()));
        // Writing to a `String` cannot fail.
        let _ = match line.access {
            Some(access) => writeln!(
                out,
                "{}{}{pad}  {}  {}",
                paint.aside(&line.branch),
                line.name,
                paint.access(access.like(), format!("{access:<accesses$}")),
                paint.aside(&line.note)
            ),
            None => writeln!(out, "{}{}", paint.aside(&line.branch), paint.aside(&line.name)),
        };
    }
    out
}

/// Each node that none of these is around, with those that lie in it.
fn tops(nodes: &[ShownPath]) -> Vec<(&ShownPath, &[ShownPath])> {
    let mut tops = Vec::new();
    let mut rest = nodes;
    while let Some((top, after)) = rest.split_first() {
        let below = after.iter().take_while(|node| node.path.is_below(&top.path)).count();
        tops.push((top, &after[..below]));
        rest = &after[below..];
    }
    tops
}

/// What one line stands for: a node with those in it, or many matches of one rule.
enum Item<'n> {
    One(&'n ShownPath, &'n [ShownPath]),
    Many(&'n ShownPath, usize),
}

fn children(
    below: &[ShownPath],
    around: &AbsPath,
    depth: usize,
    indent: &str,
    folding: Folding,
    lines: &mut Vec<Line>,
) {
    if below.is_empty() {
        return;
    }
    if folding.depth.is_some_and(|most| depth > most) {
        let name = format!("… {} below: {}", below.len(), counts(below));
        lines.push(Line { branch: format!("{indent}└─ "), name, access: None, note: String::new() });
        return;
    }
    let items = items(tops(below), folding);
    let last = items.len() - 1;
    for (at, item) in items.into_iter().enumerate() {
        let (turn, bar) = if at == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let branch = format!("{indent}{turn}");
        match item {
            Item::One(node, below) => {
                lines.push(line(branch, relative(&node.path, around), node));
                children(below, &node.path, depth + 1, &format!("{indent}{bar}"), folding, lines);
            }
            Item::Many(node, count) => {
                let text = node.rule.text.as_ref().map(|text| shown(&text.0)).unwrap_or_default();
                lines.push(line(branch, format!("{text} ({count} paths)"), node));
            }
        }
    }
}

/// Matches of one pattern, with nothing in them, become one item where there are many.
fn items<'n>(tops: Vec<(&'n ShownPath, &'n [ShownPath])>, folding: Folding) -> Vec<Item<'n>> {
    let may_fold = |node: &ShownPath, below: &[ShownPath]| {
        let is_plain = below.is_empty() && node.pinned_for.is_none() && !node.placeholder;
        !folding.all && is_plain && node.rule.by == Exactness::Glob && node.rule.at == node.path
    };
    let key = |node: &ShownPath| {
        (node.rule.origin.to_string(), node.rule.text.as_ref().map(|text| text.0.clone()), node.access)
    };
    let mut many: BTreeMap<_, usize> = BTreeMap::new();
    for (node, below) in &tops {
        if may_fold(node, below) {
            *many.entry(key(node)).or_default() += 1;
        }
    }
    many.retain(|_, count| *count > FEW);
    let mut items = Vec::new();
    let mut said = Vec::new();
    for (node, below) in tops {
        let key = key(node);
        match many.get(&key).filter(|_| may_fold(node, below)) {
            None => items.push(Item::One(node, below)),
            Some(_) if said.contains(&key) => {}
            Some(count) => {
                items.push(Item::Many(node, *count));
                said.push(key);
            }
        }
    }
    items
}

fn line(branch: String, name: String, node: &ShownPath) -> Line {
    let mut note = node.rule.origin.to_string();
    if node.placeholder {
        note.push_str(" (placeholder)");
    }
    if node.pinned_for.is_some() {
        note.push_str(" (pinned)");
    }
    Line { branch, name, access: Some(node.access), note }
}

fn counts(nodes: &[ShownPath]) -> String {
    let mut counts: BTreeMap<EffectiveAccess, usize> = BTreeMap::new();
    for node in nodes {
        *counts.entry(node.access).or_default() += 1;
    }
    counts.iter().map(|(access, count)| format!("{count} {access}")).collect::<Vec<_>>().join(", ")
}

fn relative(path: &AbsPath, around: &AbsPath) -> String {
    path.relative_to(around).map_or_else(|| path.to_string(), |below| shown(below.as_os_str()))
}
