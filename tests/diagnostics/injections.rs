//! Injections that are refused, or left out (SPEC J4).

use std::fs;

use agent_sandbox::compile::request::Request;
use agent_sandbox::diagnostic::Code;

use crate::support::Tree;
use crate::{compiled, project, project_with, tree};

cases! {
    InvalidValue an_injection_with_two_contents_is_refused project("[[inject]]\nfrom = \"a\"\ntext = \"b\"\nto = \"c\"\n");
    InvalidValue an_injection_without_content_is_refused project("[[inject]]\nto = \"c\"\n");
    InvalidValue an_injection_without_target_is_refused project("[[inject]]\nfrom = \"a\"\n");
    WrongType injections_are_tables project("inject = \"a:b\"\n");

    // SPEC J4
    InjectionRefused a_source_must_exist inject([], "missing.md", "CLAUDE.md");
    // SPEC J4
    InjectionRefused a_hidden_file_is_no_source inject(["home/u/.ssh/id"], "~/.ssh/id", "notes");
    // SPEC J4
    InjectionRefused a_folder_with_a_hidden_file_is_no_source inject(["home/u/proj/a/sub/.env"], "a", "b");
    InjectionRefused a_file_in_the_private_tmp_is_no_source inject(["tmp/x"], "/tmp/x", "b");
    // SPEC J4
    InjectionRefused a_socket_is_no_source inject(["home/u/proj/a="], "a", "b");
    InjectionRefused a_fifo_is_no_source fifo();
    // SPEC J4
    InjectionRefused a_folder_does_not_cover_a_file inject(["home/u/proj/a/x", "home/u/proj/b"], "a", "b");
    InjectionRefused a_file_does_not_cover_a_folder inject(["home/u/proj/a", "home/u/proj/b/x"], "a", "b");
    InjectionRefused a_folder_is_not_injected_into_itself inject(["home/u/proj/a/x"], "a", "a/b");
    InjectionRefused nothing_is_below_a_file inject(["home/u/proj/a", "home/u/proj/b"], "a", "b/c");
    InjectionRefused the_whole_file_system_is_no_target inject(["home/u/proj/a"], "a", "/.");
    // SPEC J4
    InjectionRefused proc_is_no_target inject(["home/u/proj/a"], "a", "/proc/version");
    InjectionRefused dev_is_no_target inject(["home/u/proj/a"], "a", "/dev/shm/a");
    InjectionRefused our_part_of_run_is_no_target inject(["home/u/proj/a"], "a", "/run/agent-sandbox/plan");
    InjectionRefused the_policy_is_no_target inject(["home/u/proj/a"], "a", ".agent-sandbox.toml");
    // SPEC J4
    InjectionRefused our_state_is_no_target
        inject(["home/u/proj/a", "home/u/.local/state/agent-sandbox/"], "a", "~/.local/state/agent-sandbox/trust/x");
    // SPEC J4
    InjectionRefused a_policy_is_no_target inject(["home/u/proj/a"], "a", "sub/.agent-sandbox.toml");
    InjectionRefused a_git_directory_is_no_target inject(["home/u/proj/a"], "a", "sub/.git");
    InjectionRefused nothing_makes_a_git_directory inject(["home/u/proj/a"], "a", "sub/.git/info/x");
    // SPEC J4
    InjectionRefused a_target_that_gitignore_includes_again_is_refused {
        let tree = Tree::new(["home/u/proj/tracked", "home/u/proj/a", "home/u/proj/sub/x"]);
        tree.track("home/u/proj");
        fs::write(tree.real("home/u/proj/sub/.gitignore"), "*\n!*.md\n").unwrap();
        compiled(&tree, &Request { inject: vec![("a".into(), "sub/CLAUDE.md".into())], ..Request::default() })
    };
    InjectionRefused the_own_part_of_proc_is_no_target inject(["home/u/proj/a"], "a", "/proc/self/x");
    // SPEC J4
    InjectionRefused a_link_into_proc_is_no_target
        inject(["home/u/proj/a", "etc/mtab -> ../proc/self/mounts", "proc/self -> 1"], "a", "/etc/mtab");
    InjectionRefused a_target_in_a_circle_of_links_is_refused inject(["home/u/proj/a", "home/u/proj/b -> c", "home/u/proj/c -> b"], "a", "b");
    InjectionRefused the_list_of_git_is_no_target inject(["home/u/proj/a"], "a", ".git/info/exclude");
    // SPEC J4
    InjectionRefused a_target_through_a_replaceable_link_is_refused
        inject(["home/u/proj/a", "home/u/proj/link -> /home/u/else", "home/u/else/"], "a", "link/b");
    InjectionRefused a_target_that_is_a_replaceable_link_is_refused inject(["home/u/proj/a", "home/u/proj/b -> c", "home/u/proj/c"], "a", "b");
    // SPEC J4
    InjectionRefused a_link_in_a_merged_folder_is_refused
        inject(["home/u/proj/a/x", "home/u/proj/b/x -> ../c", "home/u/proj/c"], "a", "b");
    // SPEC J4
    InjectionRefused two_injections_at_one_target_are_refused
        project_with(["home/u/proj/a"], "[[inject]]\nfrom = \"a\"\nto = \"b\"\n\n[[inject]]\ntext = \"\"\nto = \"./b\"\n");
    // SPEC J4
    InjectionRefused an_injection_inside_another_is_refused project_with(
        ["home/u/proj/a/sub/x"],
        "[[inject]]\nfrom = \"a\"\nto = \"b\"\n\n[[inject]]\ntext = \"\"\nto = \"b/sub/y\"\n",
    );
    // SPEC J4
    InjectionRefused a_target_that_git_tracks_is_refused tracked("CLAUDE.md", false);
    // SPEC J4
    InjectionRefused a_target_that_a_nested_repository_tracks_is_refused tracked("sub/CLAUDE.md", false);
    // SPEC J4
    InjectionRefused a_target_with_an_unclear_index_is_refused tracked("new.md", true);
    InjectionRefused a_path_that_cannot_be_created_is_no_target inject(["home/u/proj/a", "home/u/.local/state"], "a", "b");
    InjectionRefused without_placeholders_the_target_must_exist {
        let tree = tree(["home/u/proj/a"]);
        let inject = vec![("a".into(), "b".into())];
        compiled(&tree, &Request { inject, no_placeholders: true, ..Request::default() })
    };
    // SPEC J2
    OtherNames another_name_of_a_file_under_an_injection_is_refused {
        let tree = tree(["home/u/proj/.env", "home/u/proj/a"]);
        fs::hard_link(tree.real("home/u/proj/.env"), tree.real("home/u/proj/other")).unwrap();
        compiled(&tree, &Request { inject: vec![("a".into(), ".env".into())], ..Request::default() })
    };
    LiteralPath the_home_of_another_user_in_a_source_is_not_expanded inject([], "~nobody/a", "b");
    LiteralPath a_variable_in_a_target_is_not_expanded inject(["home/u/proj/a"], "a", "$HOME/b");

    // SPEC J3
    InjectionSkipped an_empty_folder_injects_nothing inject(["home/u/proj/a/"], "a", "b");
    // SPEC J3
    InjectionSkipped a_large_folder_is_injected_in_part {
        let tree = tree(["home/u/proj/out/"]);
        for number in 0..70 {
            tree.add(&format!("home/u/proj/a/{number:02}"));
        }
        compiled(&tree, &Request { inject: vec![("a".into(), "out".into())], ..Request::default() })
    };
    // SPEC J9
    InjectionSkipped a_harness_leaves_alone_what_git_tracks {
        let tree = tree(["home/u/proj/AGENTS.md", "home/u/proj/CLAUDE.md"]);
        tree.track("home/u/proj");
        fs::remove_file(tree.real("home/u/proj/CLAUDE.md")).unwrap();
        compiled(&tree, &Request { presets: vec!["harness/claude".into()], ..Request::default() })
    };
}

/// A project whose file has one injection.
fn inject<const N: usize>(entries: [&str; N], from: &str, to: &str) -> String {
    project_with(entries, &format!("[[inject]]\nfrom = \"{from}\"\nto = \"{to}\"\n"))
}

fn fifo() -> String {
    let tree = tree([]);
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600));
    rustix::fs::mknodat(rustix::fs::CWD, tree.real("home/u/proj/a"), kind, mode, 0).unwrap();
    compiled(&tree, &Request { inject: vec![("a".into(), "b".into())], ..Request::default() })
}

/// A project with a tracked file, and with a nested repository that has one, too.
fn tracked(to: &str, is_unclear: bool) -> String {
    let tree = Tree::new(["home/u/proj/CLAUDE.md", "home/u/proj/AGENTS.md"]);
    tree.track("home/u/proj");
    tree.add("home/u/proj/sub/CLAUDE.md");
    tree.track("home/u/proj/sub");
    if is_unclear {
        fs::write(tree.real("home/u/proj/.git/index"), "DIRC, and no more").unwrap();
    }
    compiled(&tree, &Request { inject: vec![("AGENTS.md".into(), to.into())], ..Request::default() })
}
