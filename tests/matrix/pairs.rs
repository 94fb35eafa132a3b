//! Two rules: all accesses, forms, relations and layers, for each kind of target.

use std::path::{Path, PathBuf};

use agent_sandbox::compile::Compiled;
use agent_sandbox::compile::request::Request;
use agent_sandbox::policy::path::AbsPath;
use agent_sandbox::policy::rule::{Exactness, LayerKind};

use crate::dimensions::{Access, Form, Order, Relation, Target};
use crate::expected::{self, Said};
use crate::support::{Tree, abs, model};
use crate::{Table, configure, seen};

const PROJECT: &str = "/home/u/proj";
const TOP: &str = "/home/u/proj/top";
const CHILD: &str = "/home/u/proj/top/child";
const GRANDCHILD: &str = "/home/u/proj/top/mid/grandchild";
const BEHIND_LINK: &str = "/home/u/proj/other/real";

const ROWS: usize = Access::ALL.len().pow(2) * Form::ALL.len().pow(2) * Relation::ALL.len() * Order::ALL.len();

// SPEC G8, D1, D2, M1
#[test]
fn two_rules_for_each_kind_of_target() {
    for target in Target::ALL {
        table(*target).check(&format!("pairs-{target}"), ROWS);
    }
}

/// A rule, from which both the input of the compiler and the expectation are made.
#[derive(Clone, Copy)]
struct Written {
    access: Access,
    form: Form,
    path: &'static str,
    layer: LayerKind,
}

fn table(target: Target) -> Table {
    let tree = tree(target);
    let mut table = Table::default();
    for relation in Relation::ALL {
        for order in Order::ALL {
            for form1 in Form::ALL {
                for form2 in Form::ALL {
                    for access1 in Access::ALL {
                        for access2 in Access::ALL {
                            let paths = paths(*relation);
                            let layers = order.layers();
                            let rules = [
                                Written { access: *access1, form: *form1, path: paths[0], layer: layers[0] },
                                Written { access: *access2, form: *form2, path: paths[1], layer: layers[1] },
                            ];
                            let expected = expect(&rules, target);
                            let actual = compile(&tree, &rules, target);
                            table.row(
                                format_args!(
                                    "1 {access1:7} {form1:5} | 2 {relation:10} {order:6} {access2:7} {form2:5}"
                                ),
                                &expected,
                                &actual,
                            );
                        }
                    }
                }
            }
        }
    }
    table
}

fn paths(relation: Relation) -> [&'static str; 2] {
    match relation {
        Relation::Same => [CHILD, CHILD],
        Relation::Parent => [CHILD, TOP],
        Relation::Child => [TOP, CHILD],
        Relation::Grandchild => [TOP, GRANDCHILD],
    }
}

fn tree(target: Target) -> Tree {
    let tree = Tree::new(["home/u/proj/top/mid/", "home/u/proj/other/real"]);
    for path in [CHILD, GRANDCHILD] {
        let path = &path[1..];
        match target {
            Target::File => tree.add(path),
            Target::Directory => tree.add(&format!("{path}/")),
            Target::Missing => {}
            Target::Symlink => tree.add(&format!("{path} -> {BEHIND_LINK}")),
        }
    }
    tree
}

/// The target of the path of a rule, or the path itself if it is missing.
fn resolved(path: &'static str, target: Target) -> &'static str {
    if target == Target::Symlink && path != TOP { BEHIND_LINK } else { path }
}

fn expect(rules: &[Written; 2], target: Target) -> String {
    let said = rules.map(|rule| {
        let nowhere = match target {
            Target::Missing => rule.path != TOP,
            Target::Symlink => rule.path != TOP && rule.form == Form::Glob && rule.access == Access::Rw,
            Target::File | Target::Directory => false,
        };
        Said {
            access: rule.access,
            layer: u8::from(rule.layer == LayerKind::Project),
            names: PathBuf::from(rule.path),
            lands: (!nowhere).then(|| PathBuf::from(resolved(rule.path, target))),
            prefix: (rule.form == Form::Glob).then(|| PathBuf::from(PROJECT)),
        }
    });
    let at = |path: &'static str| {
        let path = Path::new(resolved(path, target));
        let winner = expected::governing(&said, path);
        let is = [0, 1].map(|rule| winner == Some(&said[rule]));
        (expected::access(&said, path), name(is))
    };
    shown(rules.map(|rule| at(rule.path))) + &said_of_link(rules, &said, target)
}

/// The diagnostics about an exact rule that wins at the target of a link in a writable folder: an
/// error if it opens the target, and otherwise a warning (G8).
fn said_of_link(rules: &[Written; 2], said: &[Said; 2], target: Target) -> String {
    let winner = expected::governing(said, Path::new(BEHIND_LINK)).filter(|_| target == Target::Symlink);
    let through = |(written, said): &(&Written, &Said)| written.path != TOP && Some(*said) == winner;
    let Some((_, rule)) = rules.iter().zip(said).find(through) else { return String::new() };
    // A link does not open a path that another rule hides.
    let is_hidden = said.iter().any(|other| other.access == Access::Exclude && other.lands == rule.lands);
    let opens_hidden = if rule.access == Access::Rw && is_hidden { " | hidden-target" } else { "" };
    let replaceable = expected::access(said, rule.names.parent().unwrap()) == Access::Rw;
    let of_link = match rule.access {
        _ if rule.prefix.is_some() || !replaceable => "",
        Access::Rw => " | writable-link",
        Access::Ro | Access::Exclude => " | replaceable-link",
    };
    format!("{opens_hidden}{of_link}")
}

fn compile(tree: &Tree, rules: &[Written; 2], target: Target) -> String {
    configure_pair(tree, rules);
    let (compiled, diagnostics) = tree.compile(PROJECT, &Request::default());
    let codes: String = diagnostics.iter().map(|diagnostic| format!(" | {}", diagnostic.code.name())).collect();
    let compiled = compiled.unwrap();
    let model = model(&compiled);
    let at = |path: &'static str| {
        let path = abs(resolved(path, target));
        (seen(&model, &path), name(rules.map(|rule| governs(&compiled, &rule, target, &path))))
    };
    shown(rules.map(|rule| at(rule.path))) + &codes
}

/// Whether the decision that governs `path` is this rule.
fn governs(compiled: &Compiled, rule: &Written, target: Target, path: &AbsPath) -> bool {
    let exactness = if rule.form == Form::Glob { Exactness::Glob } else { Exactness::Exact };
    compiled.decisions.governing(path).is_some_and(|(at, decision)| {
        *at == abs(resolved(rule.path, target))
            && decision.access.to_string() == rule.access.to_string()
            && decision.exactness == exactness
            && decision.layer == rule.layer
    })
}

/// The rule or rules that govern a path. Two equal rules cannot be told apart.
fn name(governs: [bool; 2]) -> &'static str {
    match governs {
        [true, true] => "both",
        [true, false] => "1",
        [false, true] => "2",
        [false, false] => "base",
    }
}

fn shown([first, second]: [(Access, &str); 2]) -> String {
    format!("1 {:7} by {:4} | 2 {:7} by {}", first.0, first.1, second.0, second.1)
}

fn configure_pair(tree: &Tree, rules: &[Written; 2]) {
    let entries = rules.map(|rule| {
        let text = match rule.form {
            Form::Exact => rule.path.to_owned(),
            Form::Glob => format!("**/{}", rule.path.rsplit('/').next().unwrap()),
        };
        (rule.layer, rule.access, text)
    });
    configure(tree, &entries);
}
