//! The reach of a glob (G3): a rule for a folder, perhaps a rule that opens a path in it, and a
//! glob that matches a file below.

use std::path::{Path, PathBuf};

use agent_sandbox::compile::request::Request;

use crate::dimensions::{Access, Form, Opened, Order, Prefix};
use crate::expected::{self, Said};
use crate::support::{Tree, abs, model};
use crate::{Table, configure, seen};

const PROJECT: &str = "/home/u/proj";
const FOLDER: &str = "/home/u/proj/in/folder";
const MIDDLE: &str = "/home/u/proj/in/folder/mid";
const BESIDE: &str = "/home/u/proj/in/folder/beside";
const FILE: &str = "/home/u/proj/in/folder/mid/file";
const ROWS: usize =
    Access::ALL.len().pow(2) * Form::ALL.len() * Prefix::ALL.len() * Opened::ALL.len() * Order::ALL.len();

// SPEC G3
#[test]
fn a_glob_and_the_folder_around_what_it_matches() {
    let tree = Tree::new([&FILE[1..], &BESIDE[1..]]);
    let mut table = Table::default();
    for opened in Opened::ALL {
        for prefix in Prefix::ALL {
            for order in Order::ALL {
                for form in Form::ALL {
                    for outer in Access::ALL {
                        for inner in Access::ALL {
                            let case = Case {
                                opened: *opened,
                                prefix: *prefix,
                                order: *order,
                                form: *form,
                                outer: *outer,
                                inner: *inner,
                            };
                            table.row(
                                format_args!(
                                    "folder {outer:7} {form:5} | opened {opened:6} | glob {prefix:5} {order:6} {inner:7}"
                                ),
                                &case.expect(),
                                &case.compile(&tree),
                            );
                        }
                    }
                }
            }
        }
    }
    table.check("reach", ROWS);
}

struct Case {
    opened: Opened,
    prefix: Prefix,
    order: Order,
    form: Form,
    outer: Access,
    inner: Access,
}

impl Case {
    /// The fixed part of the glob, and its text.
    fn glob(&self) -> (&'static str, &'static str) {
        match self.prefix {
            Prefix::Above => ("/home/u/proj/in", "in/**/file"),
            Prefix::At => (FOLDER, "in/folder/**/file"),
            Prefix::Below => (MIDDLE, "in/folder/mid/fil?"),
        }
    }

    fn opened_path(&self) -> Option<&'static str> {
        match self.opened {
            Opened::Nothing => None,
            Opened::OnTheWay => Some(MIDDLE),
            Opened::Beside => Some(BESIDE),
        }
    }

    fn expect(&self) -> String {
        let layers = self.order.layers();
        let said = |access: Access, layer: usize, at: &str, prefix: Option<&str>| Said {
            access,
            layer: layers[layer] as u8,
            names: PathBuf::from(at),
            lands: Some(PathBuf::from(at)),
            prefix: prefix.map(PathBuf::from),
        };
        let mut rules = vec![
            said(self.outer, 0, FOLDER, (self.form == Form::Glob).then_some("/home/u/proj/in")),
            said(self.inner, 1, FILE, Some(self.glob().0)),
        ];
        rules.extend(self.opened_path().map(|path| said(Access::Rw, 0, path, None)));
        shown(|path| expected::access(&rules, Path::new(path)))
    }

    fn compile(&self, tree: &Tree) -> String {
        let [outer_layer, inner_layer] = self.order.layers();
        let outer = if self.form == Form::Glob { "in/fol*" } else { "in/folder" };
        let mut entries =
            vec![(outer_layer, self.outer, outer.to_owned()), (inner_layer, self.inner, self.glob().1.to_owned())];
        entries.extend(self.opened_path().map(|path| (outer_layer, Access::Rw, path.to_owned())));
        configure(tree, &entries);
        let small = compile(tree, false);
        assert_eq!(small, compile(tree, true), "without and with redundant mounts: {entries:?}");
        small
    }
}

fn compile(tree: &Tree, no_optimize: bool) -> String {
    let (compiled, diagnostics) = tree.compile(PROJECT, &Request { no_optimize, ..Request::default() });
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    let model = model(&compiled.unwrap());
    shown(|path| seen(&model, &abs(path)))
}

fn shown(at: impl Fn(&str) -> Access) -> String {
    format!("folder {:7} middle {:7} file {}", at(FOLDER), at(MIDDLE), at(FILE))
}
