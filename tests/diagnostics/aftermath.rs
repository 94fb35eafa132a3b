//! The report after a run. Everything except the run itself is real here, so that the whole text
//! can be asserted.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};

use agent_sandbox::compile::request::Request;
use agent_sandbox::diagnostic::{Code, Diagnostics};
use agent_sandbox::launch::aftermath::{Gap, RunWatch};
use agent_sandbox::placeholders;
use serde_json::Value;
use sha1::{Digest, Sha1};

use crate::support::{Place, Tree, stderr};
use crate::{one, plain, rendered, tree};

cases! {
    CreatedDuringRun a_created_path_is_named_with_its_rule after(&tree([]), "", |tree| tree.add("home/u/proj/.envrc"));
    // SPEC R1
    CreatedDuringRun several_created_paths_are_named_in_one_finding after(
        &tree(["home/u/.claude/"]),
        "[filesystem]\nexclude = [\"secrets/token\"]\n",
        |tree| {
            for path in ["proj/.envrc", "proj/.mcp.json", ".claude/CLAUDE.md", "proj/secrets/token"] {
                tree.add(&format!("home/u/{path}"));
            }
        },
    );

    // SPEC R1
    CreatedDuringRun a_created_file_of_the_home_is_about_its_program after(
        &tree(["home/u/.claude/"]),
        "",
        |tree| tree.add("home/u/.claude/CLAUDE.md"),
    );

    CommandsChanged values_that_name_commands_are_named_and_not_shown after(
        &tree(["home/u/.claude.json = {\"projects\": {\"/p\": {}}}"]),
        "",
        |tree| {
            let text = r#"{"mcpServers": {"x": {"command": "secret"}}, "projects": {"/p": {"mcpServers": {"y": {}}}}}"#;
            tree.add(&format!("home/u/.claude.json = {text}"));
        },
    );

    RepositoryRepaired a_head_that_is_gone_is_put_back after(&repository(), "", |tree| {
        fs::remove_file(tree.real("home/u/proj/.git/HEAD")).unwrap();
    });
    // SPEC R2
    RepositoryRepaired a_part_that_cannot_be_restored_is_named after(&repository(), "", |tree| {
        fs::rename(tree.real("home/u/proj/.git"), tree.real("home/u/proj/x")).unwrap();
        // The placeholders in `.git` cannot be reached either, and this test is not about them.
        fs::write(tree.real("home/u/proj/.git"), "").unwrap();
    });

    // SPEC R5
    PlantedRepository a_repository_that_names_programs_is_moved_aside after(&repository(), "", |tree| {
        plant(tree, "[core]\n\tfsmonitor = ./evil\n\tbare = false\n[remote \"o\"]\n\turl = ext::sh\n");
    });
    PlantedRepository a_repository_in_a_subfolder_that_names_programs_is_named after(&repository(), "", |tree| {
        plant(tree, "[core]\n\tfsmonitor = ./evil\n");
        fs::remove_file(tree.real("home/u/proj/.git/index")).unwrap();
    });
    // SPEC R12
    HiddenNextTime a_tracked_file_that_the_run_changed_is_named {
        let tree = repository();
        tree.add("home/u/proj/.env.test = A=1");
        index_of(&tree, ".env.test", "A=1");
        after(&tree, "", |tree| tree.add("home/u/proj/.env.test = A=2"))
    };
    // SPEC R13
    NotCheckedOut a_protected_file_of_another_version_is_named {
        let tree = repository();
        tree.add("home/u/proj/.envrc = A=1");
        index_of(&tree, ".envrc", "A=1");
        after(&tree, "", |tree| index_of(tree, ".envrc", "A=2"))
    };
    // SPEC R13
    NotCheckedOut a_file_in_a_protected_folder_of_another_version_is_named {
        let tree = repository();
        tree.add("home/u/proj/.vscode/settings.json = A=1");
        index_of(&tree, ".vscode/settings.json", "A=1");
        after(&tree, "", |tree| index_of(tree, ".vscode/settings.json", "A=2"))
    };
    // SPEC R13
    NotCheckedOut a_file_that_git_could_not_create_in_a_protected_folder_is_named {
        let tree = repository();
        tree.add("home/u/proj/deploy/");
        index_of(&tree, "other", "");
        after(&tree, "[filesystem]\nro = [\"deploy\"]\n", |tree| index_of(tree, "deploy/new", "A=2"))
    };
    // SPEC R13
    NotCheckedOut a_protected_file_that_git_no_longer_tracks_is_named {
        let tree = repository();
        tree.add("home/u/proj/.envrc = A=1");
        index_of(&tree, ".envrc", "A=1");
        after(&tree, "", |tree| index_of(tree, "other", "A=1"))
    };
    // SPEC R17
    LeftUnfinished an_unfinished_operation_of_git_is_named after(&repository(), "", |tree| {
        tree.add("home/u/proj/.git/MERGE_HEAD");
        tree.add("home/u/proj/.git/rebase-merge/git-rebase-todo = exec ./evil");
    });
    // SPEC R17
    LeftUnfinished a_list_of_cherry_picks_is_named after(&repository(), "", |tree| {
        tree.add("home/u/proj/.git/sequencer/todo = pick 0123456 x");
    });
    // SPEC R17
    LeftUnfinished text_instead_of_the_number_of_a_rebase_is_moved_aside after(&repository(), "", |tree| {
        tree.add("home/u/proj/.git/rebase-merge/msgnum = $(evil)");
    });
    // SPEC R17
    LeftUnfinished a_rebase_of_a_linked_worktree_is_named {
        let tree = repository();
        tree.add("home/u/proj/.git/worktrees/w/HEAD = ref: refs/heads/w\n");
        tree.add("home/u/proj/.git/worktrees/w/commondir = ../..\n");
        after(&tree, "", |tree| {
            tree.add("home/u/proj/.git/worktrees/w/rebase-merge/git-rebase-todo = exec ./evil");
        })
    };
    // SPEC R11
    HiddenFromGit a_file_whose_changes_git_does_not_show_is_named after(&repository(), "", |tree| {
        tree.add("home/u/proj/one = evil");
        write_index(tree, 0o100_644, *b"\x80\x03one");
    });
    // SPEC R11
    HiddenFromGit a_missing_file_that_git_status_hides_is_named after(&repository(), "", |tree| {
        write_index(tree, 0o100_644, *b"\x80\x03one");
    });
    // SPEC R16
    HiddenFromGit another_store_of_objects_is_named after(&repository(), "", |tree| {
        tree.add("home/u/proj/.git/objects/info/alternates = /home/u/other/.git/objects");
    });
    // SPEC R16
    PlantedRepository an_index_that_names_a_path_elsewhere_is_moved_aside after(&repository(), "", |tree| {
        write_index(tree, 0o100_644, *b"\x00\x03../");
    });
    // SPEC R16
    PlantedRepository an_index_that_names_a_hidden_file_is_moved_aside {
        let tree = repository();
        tree.add("home/u/proj/.env = A=1");
        after(&tree, "", |tree| index_of(tree, ".env", "A=2"))
    };
    // SPEC R16
    PlantedRepository a_file_that_lets_git_copy_others_is_moved_aside after(&repository(), "", |tree| {
        tree.add("home/u/proj/.git/MERGE_RR = 0123456789012345678901234567890123456789\t../../.bashrc");
    });
    // SPEC R16
    PlantedRepository a_stash_that_a_commit_would_apply_is_moved_aside after(&repository(), "", |tree| {
        tree.add("home/u/proj/.git/MERGE_AUTOSTASH = 0123456789012345678901234567890123456789");
    });
    // SPEC R5
    PlantedRepository an_unclear_index_is_moved_aside after(&repository(), "", |tree| {
        tree.add("home/u/proj/.git/index = DIRC, or so");
    });

    ReplacedDuringRun a_link_on_the_way_hides_no_replacement after(
        &tree(["home/u/proj/kept/secret"]),
        "[filesystem]\nexclude = [\"kept/secret\"]\n",
        |tree| {
            fs::rename(tree.real("home/u/proj/kept"), tree.real("home/u/proj/away")).unwrap();
            symlink("away", tree.real("home/u/proj/kept")).unwrap();
        },
    );
    ReplacedDuringRun a_file_that_the_host_replaced_was_open after(&tree(["home/u/proj/.env = A=1"]), "", |tree| {
        tree.add("home/u/proj/new = A=2");
        fs::rename(tree.real("home/u/proj/new"), tree.real("home/u/proj/.env")).unwrap();
    });

    // SPEC Y4
    ReplacedDuringRun files_that_were_covered_again_are_named with_gaps(&[
        (".env", Gap::Covered),
        (".git/config", Gap::ReadOnly),
        ("settings", Gap::Hidden),
    ]);
    ReplacedDuringRun a_file_that_was_covered_again_is_named with_gaps(&[(".env", Gap::Covered)]);
    // SPEC Y4
    ReplacedDuringRun a_file_that_could_not_be_covered_again_is_named_with_the_reason with_gaps(&[
        (".env", Gap::Open("no space left on device".to_owned())),
    ]);
    NotCoveredAgain without_inotify_files_are_not_covered_again {
        let place = Place::in_tmp();
        let mut command = place.command("unshare");
        let limit = "echo 0 >/proc/sys/user/max_inotify_instances && exec \"$@\"";
        command.args(["--user", "--map-root-user", "sh", "-c", limit, "sh"]).arg(crate::support::binary());
        place.write("home/code/project/.env", "A=1");
        place.write("home/.config/agent-sandbox/config.toml", "[filesystem]\npresets = ['!@all', '@base']\nexclude = ['.env']\n");
        said_by(&place, command.args(["--allow-root", "--", "true"]))
    };

    PlaceholderLeft a_folder_that_was_filled_is_left after(&tree(["home/u/.config/Code/"]), "", |tree| {
        tree.add("home/u/proj/.vscode/settings.json");
    });

    UnshownReport a_report_that_was_never_shown_is_announced unshown();
    ReportNotKept a_report_that_cannot_be_kept_says_where {
        let place = Place::in_tmp();
        place.write(format!("home/{REPORTS}"), "");
        let said = creating(&place, Stdio::piped());
        let (_created, said) = said.split_once("\n\n").unwrap();
        said.to_owned()
    };
    ReportUnreadable reports_that_cannot_be_trusted_are_not_shown {
        let place = Place::in_tmp();
        fs::create_dir_all(place.home().join(REPORTS)).unwrap();
        fs::set_permissions(place.home().join(REPORTS), fs::Permissions::from_mode(0o777)).unwrap();
        place.give_away();
        said_by(&place, place.agent_sandbox().args(["report", "--last"]))
    };

    PlaceholderFailed a_placeholder_that_cannot_be_created_names_its_rule {
        let tree = tree([]);
        let text = "[filesystem]\nro = [{ path = \"a\", if-missing = \"block\" }]\n";
        tree.add(&format!("home/u/proj/.agent-sandbox.toml = {text}"));
        let (compiled, mut diagnostics) = tree.compile("/home/u/proj", &Request::default());
        let compiled = compiled.unwrap();
        let argv = compiled.argv(&crate::support::machine(), &[], &mut diagnostics);
        // The path was free while compiling, and is a link now.
        tree.add("home/u/proj/a -> /home/u/.ssh/x");
        one(placeholders::create_placeholders(&tree.host(), &compiled, &argv).err().unwrap())
    };
}

const REPORTS: &str = ".local/state/agent-sandbox/reports";

fn said_by(place: &Place, command: &mut Command) -> String {
    stderr(&command.output().unwrap()).replace(place.path().to_str().unwrap(), "/PLACE")
}

/// Writes an index that has one file with this content.
fn index_of(tree: &Tree, name: &str, content: &str) {
    let id = Sha1::digest(format!("blob {}\0{content}", content.len()));
    let mut index = b"DIRC\0\0\0\x02\0\0\0\x01".to_vec();
    index.extend([0; 24]);
    index.extend(0o100_644_u32.to_be_bytes());
    index.extend([0; 12]);
    index.extend(id);
    index.extend([0, u8::try_from(name.len()).unwrap()]);
    index.extend(name.as_bytes());
    // An entry ends with one to eight zeros, at a multiple of eight.
    index.resize(12 + (index.len() - 12 + 8) / 8 * 8, 0);
    index.extend([0; 20]);
    fs::write(tree.real("home/u/proj/.git/index"), index).unwrap();
}

/// A run whose command creates `.envrc`, which the run reports.
fn creating(place: &Place, said: Stdio) -> String {
    let mut command = place.agent_sandbox();
    let child = command.args(["--", "touch", ".envrc"]).stderr(said).spawn().unwrap();
    stderr(&child.wait_with_output().unwrap()).replace(place.path().to_str().unwrap(), "/PLACE")
}

fn unshown() -> String {
    let place = Place::in_tmp();
    let (reader, gone) = std::io::pipe().unwrap();
    drop(reader);
    creating(&place, gone.into());
    // A report without findings shows only its announcement, whose age must not change meanwhile.
    let kept = fs::read_dir(place.home().join(REPORTS)).unwrap().next().unwrap().unwrap().path();
    let mut report: Value = serde_json::from_slice(&fs::read(&kept).unwrap()).unwrap();
    report["findings"] = Value::Array(Vec::new());
    report["ended"] = (report["ended"].as_u64().unwrap() - 5 * 86_400 - 43_200).into();
    place.write(kept, report.to_string());
    said_by(&place, place.agent_sandbox().args(["--", "true"]))
}

fn repository() -> Tree {
    tree([
        "home/u/proj/.git/HEAD = ref: refs/heads/main\n",
        "home/u/proj/.git/config",
        "home/u/proj/.git/hooks/",
        "home/u/proj/.git/objects/",
        "home/u/proj/.git/refs/",
        "home/u/proj/.git/info/attributes",
        "home/u/proj/.git/info/exclude",
        "home/u/proj/.git/remotes/",
        "home/u/proj/.git/branches/",
        "home/u/proj/.git/config.worktree",
        "home/u/proj/.git/commondir = ./\n",
    ])
}

/// Creates a repository with these settings, and names it in the index.
fn plant(tree: &Tree, settings: &str) {
    tree.add("home/u/proj/new/.git/HEAD = ref: refs/heads/main\n");
    tree.add("home/u/proj/new/.git/objects/");
    fs::write(tree.real("home/u/proj/new/.git/config"), settings).unwrap();
    write_index(tree, 0o160_000, *b"\0\x03new");
}

/// Writes an index with one entry: its mode, its flags and its name of three letters.
fn write_index(tree: &Tree, mode: u32, flags_and_name: [u8; 5]) {
    let mut index = b"DIRC\0\0\0\x02\0\0\0\x01".to_vec();
    index.extend([0; 24]);
    index.extend(mode.to_be_bytes());
    index.extend([0; 32]);
    index.extend(flags_and_name);
    index.resize(12 + 72, 0);
    index.extend([0; 20]);
    fs::write(tree.real("home/u/proj/.git/index"), index).unwrap();
}

/// The report after a run in which the supervisor saw these files replaced.
fn with_gaps(gaps: &[(&str, Gap)]) -> String {
    let tree = tree([]);
    let compiled = plain(&tree);
    let mut watch = RunWatch::start(&tree.host(), &compiled, None);
    let at = |path: &str| crate::support::abs("/home/u/proj").join(path);
    watch.gaps = gaps.iter().map(|(path, gap)| (at(path), gap.clone())).collect();
    let mut said = Diagnostics::default();
    watch.finish(&tree.host(), &compiled, &mut said);
    rendered(&said)
}

/// The report if `change` happens between start and end.
fn after(tree: &Tree, text: &str, change: impl FnOnce(&Tree)) -> String {
    tree.add(&format!("home/u/proj/.agent-sandbox.toml = {text}"));
    let (compiled, diagnostics) = tree.compile("/home/u/proj", &Request::default());
    assert!(diagnostics.is_empty(), "{}", rendered(&diagnostics));
    let compiled = compiled.unwrap();
    let argv = compiled.argv(&crate::support::machine(), &[], &mut Diagnostics::default());
    let host = tree.host();
    let active = placeholders::create_placeholders(&host, &compiled, &argv).unwrap();
    let mut watch = RunWatch::start(&host, &compiled, None);
    change(tree);
    let mut said = active.finish();
    watch.finish(&host, &compiled, &mut said);
    rendered(&said)
}
