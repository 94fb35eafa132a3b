//! The tree of paths that `show` prints.

use std::collections::BTreeMap;

use crate::audit::effective_access::EffectiveAccess;
use crate::audit::show::ShownPath;
use crate::cli::style::Paint;
use crate::policy::{AbsPath, Exactness, escape_for_display};

/// The parts of the tree that are left out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Folding {
    /// The number of levels that are shown below `/`.
    pub depth: Option<usize>,
    /// Also show each of many matches of one rule.
    pub all: bool,
}

/// Up to this many matches of one rule in one folder are shown one by one.
const FEW: usize = 4;

/// The width up to which a line moves the columns of all other lines.
const WIDEST: usize = 60;

/// One line: the tree on the left, then the columns, if any.
struct TreeLine {
    branch: String,
    name: String,
    columns: Option<(EffectiveAccess, String)>,
}

/// `nodes` lists parents first.
pub(super) fn text(nodes: &[ShownPath], folding: Folding, paint: Paint) -> String {
    let mut lines = Vec::new();
    for (top, below) in tops(nodes) {
        lines.push(line(String::new(), top.path.to_string(), top));
        children(below, &top.path, 1, "", folding, &mut lines);
    }
    let width = |line: &TreeLine| line.branch.chars().count() + line.name.chars().count();
    let with_columns = || lines.iter().filter(|line| line.columns.is_some());
    let names = with_columns().map(width).filter(|width| *width <= WIDEST).max().unwrap_or(0);
    let accesses = lines.iter().filter_map(|line| line.columns.as_ref()).map(|(access, _)| access.to_string().len());
    let accesses = accesses.max().unwrap_or(0);
    let shown = lines.iter().map(|line| {
        let branch = paint.aside(&line.branch);
        let Some((access, note)) = &line.columns else { return format!("{branch}{}\n", paint.aside(&line.name)) };
        let blanks = " ".repeat(names.saturating_sub(width(line)));
        let access = paint.access(*access, format!("{access:<accesses$}"));
        format!("{branch}{}{blanks}  {access}  {}\n", line.name, paint.aside(note))
    });
    shown.collect()
}

/// The nodes that lie in no other of `nodes`, each with the nodes below it.
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

fn children(
    below: &[ShownPath],
    around: &AbsPath,
    depth: usize,
    indent: &str,
    folding: Folding,
    lines: &mut Vec<TreeLine>,
) {
    if below.is_empty() {
        return;
    }
    if folding.depth.is_some_and(|most| depth > most) {
        let name = format!("… {} below: {}", below.len(), counts(below));
        lines.push(TreeLine { branch: format!("{indent}└─ "), name, columns: None });
        return;
    }
    let items = items(tops(below), folding);
    let last = items.len() - 1;
    for (at, (node, below, count)) in items.into_iter().enumerate() {
        let (turn, bar) = if at == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let branch = format!("{indent}{turn}");
        let name = match count {
            None => {
                let below = node.path.relative_to(around);
                below.map_or_else(|| node.path.to_string(), |below| escape_for_display(below.as_os_str()))
            }
            Some(count) => {
                let text = node.rule.text.as_ref().map(|text| escape_for_display(&text.0)).unwrap_or_default();
                format!("{text} ({count} paths)")
            }
        };
        lines.push(line(branch, name, node));
        children(below, &node.path, depth + 1, &format!("{indent}{bar}"), folding, lines);
    }
}

/// A node with the nodes below it. With a number, the node represents that many matches of one
/// rule.
type TreeItem<'n> = (&'n ShownPath, &'n [ShownPath], Option<usize>);

/// Folds matches of one pattern that have no nodes below them, if they are many.
fn items<'n>(tops: Vec<(&'n ShownPath, &'n [ShownPath])>, folding: Folding) -> Vec<TreeItem<'n>> {
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
    for (node, below) in tops {
        match many.get_mut(&key(node)).filter(|_| may_fold(node, below)) {
            None => items.push((node, below, None)),
            // The first match represents all of them.
            Some(0) => {}
            Some(count) => items.push((node, below, Some(std::mem::take(count)))),
        }
    }
    items
}

fn line(branch: String, name: String, node: &ShownPath) -> TreeLine {
    let mut note = node.rule.origin.to_string();
    if node.placeholder {
        note.push_str(" (placeholder)");
    }
    if node.pinned_for.is_some() {
        note.push_str(" (pinned)");
    }
    TreeLine { branch, name, columns: Some((node.access, note)) }
}

fn counts(nodes: &[ShownPath]) -> String {
    let mut counts: BTreeMap<EffectiveAccess, usize> = BTreeMap::new();
    for node in nodes {
        *counts.entry(node.access).or_default() += 1;
    }
    counts.iter().map(|(access, count)| format!("{count} {access}")).collect::<Vec<_>>().join(", ")
}
