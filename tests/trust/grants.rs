use agent_sandbox::compile::request::Request;
use agent_sandbox::diagnostic::Diagnostics;
use agent_sandbox::host::Session;
use agent_sandbox::policy::AbsPath;
use agent_sandbox::trust;

use crate::support::{Tree, session};
use crate::{FILE, compiled, tree, user};

/// The grants of the project's file, as text. Redundant mounts must make no difference to them.
#[track_caller]
fn opened_with(tree: &Tree, cwd: &str, request: &Request) -> Vec<String> {
    let [some, all] = [false, true].map(|no_optimize| {
        let compiled = compiled(tree, cwd, &Request { no_optimize, ..request.clone() });
        let grants = compiled.widening.map(|widening| widening.grants).unwrap_or_default();
        trust::lines(grants.iter().map(trust::Granted::parts))
    });
    assert_eq!(some, all);
    some
}

#[track_caller]
fn assert_opens(tree: &Tree, project: &str, expected: &[&str]) {
    tree.add(&format!("{FILE} = {project}"));
    assert_eq!(opened_with(tree, "/home/u/proj", &Request::default()), expected);
}

// SPEC T2
#[test]
fn a_project_file_that_only_tightens_opens_nothing() {
    for project in [
        "network = false\ndocker = false\n[filesystem]\ntmp = 'private'\n",
        "network = true\n",
        "[filesystem]\nhome = 'private'\n",
        "[filesystem]\nbase = 'minimal'\n",
        "[filesystem]\nbase = 'minimal'\nhome = 'host'\n",
        "[filesystem]\nhome = 'host'\nbase = 'host'\n",
        "[filesystem]\nrw = ['.', 'src', '~/.cache', '~/missing']\n",
        "[filesystem]\nexclude = ['src', '~/data', '**/*.pem']\nro = ['.', '~/data', '~']\n",
        "[filesystem]\npresets = ['!@caches', '@lint/all', '@git-strict']\n",
        "[filesystem]\npresets = ['!@git', '!@agents']\n",
        "[filesystem]\nrw = [{ path = 'build', if-missing = 'create' }]\n",
        "[presets.mine]\nrw = ['~/data']\n",
    ] {
        assert_opens(&tree(), project, &[]);
    }
}

// SPEC Z2
#[test]
fn a_limit_that_is_raised_needs_consent_for_that_much() {
    // A lower limit opens nothing, whether the user has set that limit or not.
    assert_opens(&tree(), "[limits]\ntime = '1h'\nprocesses = 9\ntmp = '4G'\n", &[]);
    assert_opens(&tree(), "[limits]\ntmp = '5G'\n", &["limit `tmp`: raised to 5G (.agent-sandbox.toml:2:7)"]);
    let with_user = || {
        let tree = tree();
        user(&tree, "[limits]\ntime = '30m'\ntmp = '1G'\ncpus = 1.5\n");
        tree
    };
    assert_opens(&with_user(), "[limits]\ntime = '20m'\ntmp = '1G'\ncpus = 1\n", &[]);
    assert_opens(
        &with_user(),
        "[limits]\ntime = '31m'\ntmp = '2G'\ncpus = 1.51\n",
        &[
            "limit `time`: raised to 31m (.agent-sandbox.toml:2:8)",
            "limit `tmp`: raised to 2G (.agent-sandbox.toml:3:7)",
            "limit `cpus`: raised to 1.51 (.agent-sandbox.toml:4:8)",
        ],
    );
}

/// In the project, the repository could contain the content itself. Outside, an injection replaces
/// the user's own content.
// SPEC J7
#[test]
fn an_injection_is_a_grant_outside_of_the_project() {
    let text = |to: &str| format!("[[inject]]\ntext = 'x'\nto = '{to}'\n");
    assert_opens(&tree(), &text("CLAUDE.md"), &[]);
    let repository = tree();
    repository.add("home/u/proj/.git/config");
    assert_opens(&repository, &text(".git/config"), &[]);
    let elsewhere = "`/home/u/new/x`: the command reads injected content there (.agent-sandbox.toml:3:6)";
    assert_opens(&tree(), &text("~/new/x"), &[elsewhere]);
    // Presets in the file make the compiler resolve the presets again.
    assert_opens(&tree(), &format!("{}[filesystem]\npresets = ['@lint/all']\n", text("~/new/x")), &[elsewhere]);
    let in_tmp = "`/tmp/x`: the command reads injected content there (.agent-sandbox.toml:3:6)";
    assert_opens(&tree(), &text("/tmp/x"), &[in_tmp]);
    // The user's injections are no grants of the file.
    let tree = tree();
    user(&tree, &text("~/new/x"));
    assert_opens(&tree, "[filesystem]\nro = ['src']\n", &[]);
    // This preset injects the user's own instructions.
    tree.add("home/u/.config/agent-sandbox/AGENTS.md");
    tree.add("home/u/.claude/");
    assert_opens(&tree, "[filesystem]\npresets = ['@harness/claude']\n", &[]);
}

/// A preset sets a variable for the copy of Gemini CLI's list of trusted folders.
#[test]
fn the_variable_of_a_private_file_is_no_grant() {
    let tree = tree();
    tree.add("home/u/.gemini/trustedFolders.json = {}");
    tree.add(&format!("{FILE} = [filesystem]\nro = ['src']\n"));
    let session =
        Session { executable: Some(AbsPath::normalize("/usr/bin/agent-sandbox").unwrap()), ..session("/home/u/proj") };
    let judged = trust::compile(&tree.host(), &session, &Request::default(), &mut Diagnostics::default()).unwrap();
    assert!(judged.compiled.environment.var("GEMINI_CLI_TRUSTED_FOLDERS_PATH").is_some());
    let grants: Vec<String> = judged.widening.unwrap().grants.iter().map(ToString::to_string).collect();
    assert_eq!(grants, [""; 0]);
}

// SPEC T1
#[test]
fn an_empty_or_user_named_project_file_is_not_compared() {
    let tree = tree();
    tree.add(&format!("{FILE} = # rw = ['~/data']\n\n"));
    assert!(compiled(&tree, "/home/u/proj", &Request::default()).widening.is_none());
    tree.add(&format!("{FILE} = [filesystem]\nrw = ['~/data']\n"));
    let named = Request { config: Some(".agent-sandbox.toml".into()), ..Request::default() };
    let without = Request { no_project_config: true, ..Request::default() };
    for request in [named, without] {
        assert!(compiled(&tree, "/home/u/proj", &request).widening.is_none());
    }
    assert!(compiled(&tree, "/home/u/proj", &Request::default()).widening.is_some());
}

// SPEC P16
#[test]
fn a_file_that_is_shown_without_its_credentials_opens_with_them() {
    let tree = tree();
    tree.add("home/u/.npmrc = _auth=T0KEN\na=b\n");
    tree.add("home/u/proj/.npmrc = _auth=T0KEN\na=b\n");
    assert_opens(&tree, "[filesystem]\nexclude = ['.npmrc', '~/.npmrc']\n", &[]);
    assert_opens(
        &tree,
        "[filesystem]\nro = ['.npmrc', '~/.npmrc']\n",
        &[
            "`/home/u/.npmrc`: redacted → read-only (.agent-sandbox.toml:2:17)",
            "`/home/u/proj/.npmrc`: redacted → read-only (.agent-sandbox.toml:2:7)",
        ],
    );
    // A preset of the user hides the whole file. Without the preset, the command sees the copy.
    user(&tree, "[presets.mine]\nexclude = ['~/.npmrc']\n[filesystem]\npresets = ['@mine']\n");
    let opened = [
        "preset `@mine`: on → off (.agent-sandbox.toml:2:12)",
        "`/home/u/.npmrc`: hidden → redacted (.agent-sandbox.toml:2:12)",
    ];
    assert_opens(&tree, "[filesystem]\npresets = ['!@mine']\n", &opened);
}

#[test]
fn rw_outside_of_the_project_opens() {
    assert_opens(
        &tree(),
        "[filesystem]\nrw = ['~/data', '.']\n",
        &["`/home/u/data`: read-only → writable (.agent-sandbox.toml:2:7)"],
    );
}

#[test]
fn a_project_file_can_open_single_paths_that_a_preset_hides() {
    assert_opens(
        &tree(),
        "[filesystem]\nro = ['.env']\nrw = ['~/.ssh/id_ed25519']\n",
        &[
            "`/home/u/.ssh/id_ed25519`: hidden → writable (.agent-sandbox.toml:3:7)",
            "`/home/u/proj/.env`: hidden → read-only (.agent-sandbox.toml:2:7)",
        ],
    );
}

#[test]
fn ro_inside_a_users_exclude_re_opens() {
    let tree = tree();
    user(&tree, "[filesystem]\nexclude = ['~/vault']\n");
    assert_opens(
        &tree,
        "[filesystem]\nro = ['~/vault/pub']\n",
        &["`/home/u/vault/pub`: hidden → read-only (.agent-sandbox.toml:2:7)"],
    );
}

/// A built-in preset's `ro` shows no path that the user excludes (SPEC P12), whichever layer names
/// the preset. A `ro` of the project's file does, even for a path that a preset also names.
// SPEC P12
#[test]
fn ro_of_a_preset_opens_nothing_and_that_of_the_project_does() {
    let tree = tree();
    tree.add("home/u/.bashrc");
    tree.add("home/u/vault/pub/.eslintrc");
    user(&tree, "[filesystem]\npresets = ['!@autorun']\nexclude = ['~']\n");
    assert_opens(&tree, "[filesystem]\npresets = ['@autorun', '@lint/all']\n", &[]);
    for shown in ["~/.bashrc", "~/.bash*"] {
        assert_opens(
            &tree,
            &format!("[filesystem]\npresets = ['@autorun']\nro = ['{shown}']\n"),
            &["`/home/u/.bashrc`: hidden → read-only (.agent-sandbox.toml:3:7)"],
        );
    }
}

#[test]
fn a_grant_for_a_folder_covers_equal_grants_below_it() {
    let tree = tree();
    user(&tree, "[filesystem]\nexclude = ['~/data/key']\nro = ['~/data/sub']\n");
    assert_opens(
        &tree,
        "[filesystem]\nrw = ['~/data', '~/data/sub', '~/data/sub/file', '~/data/key']\n",
        &[
            "`/home/u/data`: read-only → writable (.agent-sandbox.toml:2:7)",
            "`/home/u/data/key`: hidden → writable (.agent-sandbox.toml:2:50)",
        ],
    );
}

// SPEC T2
#[test]
fn a_rule_that_loses_opens_nothing() {
    let tree = tree();
    user(&tree, "[filesystem]\nro = ['~/data/sub']\nexclude = ['~/vault']\n");
    // An exact name beats a glob, and a glob does not reach into an excluded folder.
    assert_opens(&tree, "[filesystem]\nrw = ['~/dat[a]/su?']\nro = ['~/**/pub']\n", &[]);
    tree.add(&format!("{FILE} = [filesystem]\nrw = ['~/data']\n"));
    let flags = Request { ro: vec!["/home/u/data".into()], ..Request::default() };
    assert_eq!(opened_with(&tree, "/home/u/proj", &flags), [""; 0]);
}

#[test]
fn a_path_opened_by_a_flag_is_not_a_grant_of_the_project_file() {
    let tree = tree();
    tree.add(&format!("{FILE} = [filesystem]\nrw = ['~/data', '~/vault']\n"));
    let flags = Request { rw: vec!["/home/u/data".into()], ..Request::default() };
    let opened = opened_with(&tree, "/home/u/proj", &flags);
    assert_eq!(opened, ["`/home/u/vault`: read-only → writable (.agent-sandbox.toml:2:17)"]);
}

#[test]
fn a_preset_opens_what_its_rules_open() {
    let tree = tree();
    user(&tree, "[presets.theirs]\nrw = ['~/vault']\n");
    assert_opens(
        &tree,
        "[filesystem]\npresets = ['@mine', '@theirs']\n[presets.mine]\nrw = ['~/data']\n",
        &[
            "`/home/u/data`: read-only → writable (.agent-sandbox.toml:4:7)",
            "`/home/u/vault`: read-only → writable (.agent-sandbox.toml:2:21)",
        ],
    );
}

#[test]
fn a_preset_defined_here_and_named_by_a_flag_is_of_this_file() {
    let tree = tree();
    tree.add(&format!("{FILE} = [presets.mine]\nrw = ['~/data']\n"));
    let flags = Request { presets: vec!["mine".into()], ..Request::default() };
    let opened = opened_with(&tree, "/home/u/proj", &flags);
    assert_eq!(opened, ["`/home/u/data`: read-only → writable (.agent-sandbox.toml:2:7)"]);
}

/// Folders of editors in use, which a command cannot create because `@autorun` has placeholders
/// there.
const BLOCKED: [&str; 4] = [".cursor", ".idea", ".vscode", ".zed"];

// SPEC T3
#[test]
fn a_removed_preset_is_named_with_the_paths_that_it_protected() {
    let presets = [
        ("'!@secrets'", 12, ["secrets"].as_slice()),
        ("'!@autorun'", 12, &["autorun"]),
        ("'!@all', '@base'", 12, &["autorun", "secrets"]),
        ("'@base', '!@all'", 21, &["autorun", "secrets"]),
    ];
    for (written, column, taken) in presets {
        let at = format!("(.agent-sandbox.toml:2:{column})");
        let mut expected: Vec<String> = taken.iter().map(|name| format!("preset `@{name}`: on → off {at}")).collect();
        let mut paths = Vec::new();
        if taken.contains(&"secrets") {
            paths.push(format!("`/home/u/.ssh`: hidden → read-only {at}"));
            paths.push(format!("`/home/u/proj/.env`: hidden → writable {at}"));
        }
        if taken.contains(&"autorun") {
            let opened = |name| format!("`/home/u/proj/{name}`: read-only → writable {at}");
            paths.extend(BLOCKED.into_iter().map(opened));
        }
        paths.sort();
        expected.extend(paths);
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        let tree = tree();
        for editor in [".cursor", ".config/JetBrains", ".config/Code", ".config/zed"] {
            tree.add(&format!("home/u/{editor}/"));
        }
        assert_opens(&tree, &format!("[filesystem]\npresets = [{written}]\n"), &expected);
    }
}

#[test]
fn a_project_file_can_remove_a_preset_of_the_user() {
    let tree = tree();
    user(&tree, "[filesystem]\npresets = ['@mine']\n[presets.mine]\nexclude = ['~/vault']\nro = ['src']\n");
    assert_opens(
        &tree,
        "[filesystem]\npresets = ['!@mine']\n",
        &[
            "preset `@mine`: on → off (.agent-sandbox.toml:2:12)",
            "`/home/u/proj/src`: read-only → writable (.agent-sandbox.toml:2:12)",
            "`/home/u/vault`: hidden → read-only (.agent-sandbox.toml:2:12)",
        ],
    );
}

/// Without `@git`, missing paths of the repository that it would block count as opened.
#[test]
fn removing_a_preset_opens_the_paths_that_it_would_block() {
    let tree = tree();
    for entry in ["HEAD = ref: refs/heads/main\n", "objects/", "refs/", "config = "] {
        tree.add(&format!("home/u/proj/.git/{entry}"));
    }
    assert_opens(
        &tree,
        "[filesystem]\npresets = ['!@git']\n",
        &[
            "preset `@git`: on → off (.agent-sandbox.toml:2:12)",
            "`/home/u/proj/.git/branches`: read-only → writable (.agent-sandbox.toml:2:12)",
            "`/home/u/proj/.git/commondir`: read-only → writable (.agent-sandbox.toml:2:12)",
            "`/home/u/proj/.git/config`: read-only → writable (.agent-sandbox.toml:2:12)",
            "`/home/u/proj/.git/config.worktree`: read-only → writable (.agent-sandbox.toml:2:12)",
            "`/home/u/proj/.git/hooks`: read-only → writable (.agent-sandbox.toml:2:12)",
            "`/home/u/proj/.git/info/attributes`: read-only → writable (.agent-sandbox.toml:2:12)",
            "`/home/u/proj/.git/remotes`: read-only → writable (.agent-sandbox.toml:2:12)",
        ],
    );
}

// SPEC T3
#[test]
fn settings_that_the_user_has_off_can_be_turned_on() {
    let tree = tree();
    tree.add("run/systemd/resolve/stub");
    tree.add("etc/resolv.conf -> ../run/systemd/resolve/stub");
    tree.add("var/run/docker.sock");
    user(&tree, "network = false\n");
    assert_opens(
        &tree,
        "network = true\ndocker = true\n[filesystem]\ntmp = 'host'\n",
        &[
            "network: off → on (.agent-sandbox.toml:1:11)",
            "docker: off → on, which is as good as root (.agent-sandbox.toml:2:10)",
            "`/run/systemd/resolve`: hidden → read-only (.agent-sandbox.toml:1:11)",
            "`/tmp`: hidden → writable (.agent-sandbox.toml:4:7)",
            "socket `/var/run/docker.sock`: hidden → can be used (.agent-sandbox.toml:2:10)",
        ],
    );
}

// SPEC O8
#[test]
fn a_project_file_that_opens_the_host_home_or_base_is_reported() {
    let tree = tree();
    tree.add("home/u/.bashrc");
    tree.add("srv/a");
    user(&tree, "[filesystem]\nhome = 'private'\n");
    assert_opens(&tree, "[filesystem]\nhome = 'private'\n", &[]);
    let home = "`/home/u`: hidden → read-only (.agent-sandbox.toml:2:8)";
    assert_opens(&tree, "[filesystem]\nhome = 'host'\n", &[home]);
    assert_opens(
        &tree,
        "[filesystem]\nro = ['~/.bashrc']\n",
        &["`/home/u/.bashrc`: hidden → read-only (.agent-sandbox.toml:2:7)"],
    );
    user(&tree, "[filesystem]\nbase = 'minimal'\n");
    assert_opens(&tree, "[filesystem]\nhome = 'host'\n", &[home]);
    let base = "`/`: hidden → read-only (.agent-sandbox.toml:2:8)";
    assert_opens(&tree, "[filesystem]\nbase = 'host'\n", &[base]);
    assert_opens(&tree, "[filesystem]\nbase = 'host'\nhome = 'private'\n", &[base]);
    assert_opens(&tree, "[filesystem]\nro = ['/srv/a']\n", &["`/srv/a`: hidden → read-only (.agent-sandbox.toml:2:7)"]);
}

/// If a variable of the caller names a folder, a private home shows the folder. A variable of the
/// project's file does not have this effect.
// SPEC O8
#[test]
fn a_variable_of_the_file_shows_no_folder_of_a_private_home() {
    let tree = tree();
    tree.add("home/u/java/bin/java");
    user(&tree, "[filesystem]\nhome = 'private'\n");
    tree.add(&format!("{FILE} = [env]\nset = {{ JAVA_HOME = '/home/u/java' }}\n"));
    let opened = opened_with(&tree, "/home/u/proj", &Request::default());
    assert!(opened.iter().all(|grant| grant.contains("JAVA_HOME")), "{opened:?}");
}

// SPEC U6
#[test]
fn an_identity_of_the_files_own_needs_no_consent() {
    let own = "[git]\nidentity = { name = 'Agent', email = 'agent@localhost' }\n";
    for user_says in ["", "[git]\nidentity = false\n", "[filesystem]\nhome = 'private'\n"] {
        let tree = tree();
        user(&tree, user_says);
        for project in [own, "[git]\nidentity = false\n", "[git]\nidentity = 'host'\n"] {
            assert_opens(&tree, project, &[]);
        }
    }
    assert_opens(
        &tree(),
        &format!("{own}[env]\nset = {{ GIT_AUTHOR_DATE = '0' }}\n"),
        &["variable `GIT_AUTHOR_DATE`: given to the command (.agent-sandbox.toml:4:27)"],
    );
}

#[test]
fn a_path_that_another_setting_of_the_file_closes_is_no_opening() {
    let tree = tree();
    tree.add("run/systemd/resolve/stub");
    tree.add("etc/resolv.conf -> ../run/systemd/resolve/stub");
    // Without the file, the network is on, and this folder is visible anyway.
    assert_opens(&tree, "network = false\n[filesystem]\nro = ['/run/systemd/resolve']\n", &[]);
}

// SPEC T3
#[test]
fn a_directory_created_outside_the_project_is_reported() {
    assert_opens(
        &tree(),
        "[filesystem]\nro = [{ path = '~/new/a', if-missing = 'create' }]\nrw = [{ path = '~/new/b', if-missing = 'create' }]\n",
        &[
            "`/home/u/new/a`: missing → created (.agent-sandbox.toml:2:16)",
            "`/home/u/new/b`: missing → created, and writable (.agent-sandbox.toml:3:16)",
        ],
    );
}

#[test]
fn the_folder_of_our_own_state_is_never_part_of_it() {
    let tree = tree();
    tree.add("home/u/.local/state/");
    let opened = "`/home/u/.local/state`: read-only → writable (.agent-sandbox.toml:2:7)";
    assert_opens(&tree, "[filesystem]\nrw = ['~/.local/state']\n", &[opened]);
    let with_another = "[filesystem]\nrw = ['~/.local/state', { path = 'made', if-missing = 'create' }]\n";
    assert_opens(&tree, with_another, &[opened]);
}

/// By SPEC G5, a link in a hidden folder protects no other path. So hiding a folder can open a
/// path.
#[test]
fn hiding_a_folder_opens_the_target_of_a_link_in_it() {
    let tree = tree();
    tree.add("home/u/proj/links/key -> /home/u/data/key");
    user(&tree, "[filesystem]\nexclude = ['**/key']\n");
    for hide in ["links", "link[s]"] {
        assert_opens(
            &tree,
            &format!("[filesystem]\nexclude = ['{hide}']\n"),
            &["`/home/u/data/key`: hidden → read-only (.agent-sandbox.toml:1:1)"],
        );
    }
}

/// The user's rule alone is refused, because a command can replace the link. With the project's
/// file the rule is accepted.
// SPEC T2
#[test]
fn a_rule_refused_without_the_file_does_not_count_as_open() {
    let tree = tree();
    tree.add("home/u/proj/out -> ../other");
    tree.add("home/u/other/");
    user(&tree, "[filesystem]\nrw = ['out']\n");
    assert!(tree.compile("/home/u/proj", &Request::default()).1.has_errors());
    assert_opens(
        &tree,
        "[filesystem]\nro = ['.']\n",
        &["`/home/u/other`: read-only → writable (.agent-sandbox.toml:1:1)"],
    );
}

#[test]
fn a_path_behind_a_refused_link_counts_as_hidden() {
    let tree = tree();
    tree.add("home/u/work/out -> ../.ssh");
    user(&tree, "[filesystem]\nrw = ['~/work/out']\n");
    assert!(tree.compile("/home/u/proj", &Request::default()).1.has_errors());
    let rule = "[filesystem]\nro = ['~/.ssh']\n";
    assert_opens(&tree, rule, &["`/home/u/.ssh`: hidden → read-only (.agent-sandbox.toml:2:7)"]);
}

// SPEC T2
#[test]
fn a_root_that_is_too_broad_does_not_count_as_open() {
    let tree = tree();
    tree.add("opt/data/");
    for root in ["opt", "home/u"] {
        tree.add(&format!("{root}/.agent-sandbox.toml = [filesystem]\npresets = ['!@base']\nrw = ['data']\n"));
        let opened = opened_with(&tree, &format!("/{root}"), &Request::default());
        assert_eq!(opened, [format!("`/{root}/data`: read-only → writable (.agent-sandbox.toml:3:7)")]);
    }
}

// SPEC T1
#[test]
fn a_file_above_the_root_still_forbids_what_it_forbids() {
    let tree = tree();
    tree.add(&format!("{FILE} = network = false\n[filesystem]\nexclude = ['src']\nrw = ['~/data']\n"));
    tree.add("home/u/proj/sub/.agent-sandbox.toml = network = true\n[filesystem]\nrw = ['~/data', '../src', '../src/main.rs']\n");
    assert_eq!(
        opened_with(&tree, "/home/u/proj/sub", &Request::default()),
        [
            "network: off → on (.agent-sandbox.toml:1:11)",
            "`/home/u/data`: read-only → writable (.agent-sandbox.toml:3:7)",
            "`/home/u/proj/src/main.rs`: hidden → writable (.agent-sandbox.toml:3:27)",
        ]
    );
}

/// The policies with and without the file are resolved one after the other, and the machine may
/// change in between.
#[test]
fn a_service_that_starts_meanwhile_is_not_opened_by_the_file() {
    let tree = tree();
    let listening = |path: &str| format!("0000000000000000: 00000002 00000000 00010000 0001 01 1 {path}\n");
    let table = |rows: &[&str]| {
        let rows: String = rows.iter().map(|path| listening(path)).collect();
        tree.add(&format!("proc/net/unix = Num RefCount Protocol Flags Type St Inode Path\n{rows}"));
    };
    tree.add("home/u/.run/agent=");
    tree.add("home/u/.run/new=");
    table(&["/home/u/.run/agent"]);
    tree.add(&format!("{FILE} = sockets = ['~/.run/agent']\n"));
    let compiled = compiled(&tree, "/home/u/proj", &Request::default());
    table(&["/home/u/.run/agent", "/home/u/.run/new"]);
    let widening =
        trust::widening(&tree.host(), &session("/home/u/proj"), &compiled.compiled, &Request::default()).unwrap();
    let grants: Vec<String> = widening.grants.iter().map(ToString::to_string).collect();
    assert_eq!(grants, compiled.widening.unwrap().grants.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert!(matches!(grants.as_slice(), [one] if one.contains("/home/u/.run/agent")), "{grants:?}");
}

/// A visible socket can be used even if it is `ro`, so the grant does not say "read-only".
// SPEC T3
#[test]
fn a_visible_socket_can_be_used() {
    let tree = tree();
    tree.add("home/u/.run/agent=");
    assert_opens(&tree, "sockets = ['~/.run/agent']\n[filesystem]\nexclude = ['~/data']\n", &[]);
    user(&tree, "[filesystem]\nexclude = ['~/.run']\n");
    assert_opens(
        &tree,
        "sockets = ['~/.run/agent']\n[filesystem]\nro = ['~/.run']\n",
        &[
            "`/home/u/.run`: hidden → read-only (.agent-sandbox.toml:3:7)",
            "socket `/home/u/.run/agent`: hidden → can be used (.agent-sandbox.toml:1:12)",
        ],
    );
}

// SPEC E11
#[test]
fn a_variable_that_looks_like_a_credential_needs_consent_to_pass() {
    let opens = |text: &str| {
        let tree = tree();
        tree.add(&format!("{FILE} = {text}"));
        let mut session = session("/home/u/proj");
        for name in ["GITHUB_TOKEN", "OPENAI_API_KEY", "LANG"] {
            session.env.insert(name.into(), "x".into());
        }
        let mut diagnostics = Diagnostics::default();
        let judged = trust::compile(&tree.host(), &session, &Request::default(), &mut diagnostics).unwrap();
        let grants = judged.widening.map(|widening| widening.grants).unwrap_or_default();
        grants.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let token = |at: &str| format!("variable `GITHUB_TOKEN`: given to the command ({at})");
    assert_eq!(opens("[env]\npass = ['GITHUB_TOKEN']\n"), [token(".agent-sandbox.toml:2:9")]);
    assert_eq!(opens("[env]\npass = ['OPENAI_API_KEY', 'LANG']\n"), [""; 0]);
    let without = opens("[filesystem]\npresets = ['!@secrets']\nexclude = ['.env', '~/.ssh']\n");
    assert!(without.iter().any(|grant| grant.contains("`GITHUB_TOKEN`")), "{without:?}");
}
