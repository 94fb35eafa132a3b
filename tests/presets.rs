//! The access that the built-in presets promise, path by path. These lists do not come from the
//! data of the presets, so a test fails if the data loses an entry.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::path::Path;

use agent_sandbox::compile::own_places::programs::{PROGRAMS, Program};
use agent_sandbox::compile::presets::data::{BuiltinPreset, FileUse, Group, PRESETS, PresetEntry, VariableEffect};
use agent_sandbox::compile::request::Request;
use agent_sandbox::model::ModelView as View;
use agent_sandbox::policy::{Access, IfMissing, Mask};
use support::{Tree, abs, leads_to_copy, model};

/// Paths that are hidden. They are in the project if they do not start with `~/`. A trailing `/`
/// means a directory.
const HIDDEN: &[&str] = &[
    "~/.ssh/",
    "~/.gnupg/",
    "~/.aws/",
    "~/.azure/",
    "~/.kube/",
    "~/.config/gcloud/",
    "~/.config/gh/",
    "~/.docker/config.json",
    "~/.netrc",
    "~/.git-credentials",
    "~/.pypirc",
    "~/.password-store/",
    "~/.config/neonctl/credentials.json",
    "~/.config/neon/credentials.json",
    "~/.config/turso/",
    "~/.config/planetscale/access-token",
    "~/.config/atlascli/",
    "~/.render/cli.yaml",
    "~/.civo.json",
    "~/.config/upctl.yaml",
    "~/.edgerc",
    "~/.okta/",
    "~/.jfrog/",
    "~/.earthly/auth.jwt",
    "~/.gitlab-runner/",
    "~/.zuliprc",
    "~/.luarocks/upload_config.lua",
    "~/.config/aichat/config.yaml",
    "~/.continue/config.yaml",
    "~/.codeium/config.json",
    "~/.pki/nssdb/key4.db",
    "~/.local/share/signal-cli/",
    "~/id_rsa",
    "~/id_ed25519",
    "~/.usqlpass",
    "~/.local/state/bash/history",
    "~/.config/litecli/history",
    "~/.config/scapy/history",
    "~/.local/share/mc/history",
    "~/.local/share/keyrings/",
    "~/.cargo/credentials.toml",
    "~/.mozilla/",
    "~/.config/google-chrome/",
    "~/.config/chromium/",
    "~/.config/BraveSoftware/",
    "~/.local/share/jupyter/runtime/",
    "~/.claude/ide/",
    "~/.config/code-server/",
    "~/.config/syncthing/",
    "~/.local/state/syncthing/",
    "~/.emacs.d/server/",
    "~/.vscode-server/.abc.token",
    "~/.config/JetBrains/IntelliJIdea2025.1/user.token",
    "~/.Xauthority",
    "~/.config/Code/User/History/",
    "~/.cache/JetBrains/IntelliJIdea2025.1/LocalHistory/",
    "~/.vim/undo/",
    "~/.local/state/nvim/undo/",
    ".env",
    ".env~",
    "#.env#",
    ".env-old",
    "..env.kate-swp",
    ".env.local",
    "packages/web/.env.production",
    "~/.config/composer/auth.json",
    "~/.config/github-copilot/apps.json",
    "~/.dbt/profiles.yml",
    "~/.doppler/",
    "~/.erlang.cookie",
    "~/.config/zsh/.zsh_history",
    "~/.config/containers/auth.json",
    "~/.terraform.d/credentials.tfrc.json",
    "~/.config/rclone/",
    "~/.config/doctl/",
    "~/.fly/config.yml",
    "~/.gem/credentials",
    "~/.cache/huggingface/token",
    "~/.pgpass",
    "~/.mylogin.cnf",
    "~/.config/Slack/",
    "~/.config/Signal/",
    "~/.config/discord/",
    "~/.config/1Password/",
    "~/.config/Bitwarden CLI/",
    "~/Passwords.kdbx",
    "~/Desktop/a.kdbx",
    "~/Documents/family.kdbx",
    "~/Downloads/a.kdbx",
    "~/Dropbox/a.kdbx",
    "~/Nextcloud/a.kdbx",
    "~/OneDrive/a.kdbx",
    "~/Sync/a.kdbx",
    "~/.terraformrc",
    "~/.curlrc",
    "~/.cf/config.json",
    "~/.tsh/",
    "~/.chef/",
    "~/.saml2aws",
    "~/.minikube/",
    "~/.config/protonmail/",
    "~/.gitkraken/",
    "~/.ipython/profile_default/history.sqlite",
    "~/.config/nushell/history.sqlite3",
    "~/.sui/sui_config/sui.keystore",
    "~/.near-credentials/",
    "~/.local/share/Daedalus/",
    "~/.walletwasabi/",
    "~/.sparrow/",
    "~/.config/atomic/",
    "~/.var/app/",
    "~/snap/",
    "secrets/team.kdbx",
    "~/.bitcoin/",
    "~/.electrum/",
    "~/.ethereum/",
    "~/.config/solana/id.json",
    "~/.oci/",
    "~/.pulumi/credentials.json",
    "~/.supabase/access-token",
    "~/.railway/config.json",
    "~/.local/share/com.vercel.cli/auth.json",
    "~/.config/.wrangler/config/",
    "~/.config/hub",
    "~/.msmtprc",
    "~/.config/neomutt/",
    "~/.local/share/DBeaverData/",
    "~/.config/JetBrains/DataGrip2025.1/c.kdbx",
    "~/.config/Postman/",
    "~/.config/Insomnia/",
    "~/.bash_history",
    "~/.zsh_history",
    "~/.local/share/fish/fish_history",
    "~/.python_history",
    "~/.node_repl_history",
    "~/.psql_history",
    "~/.mysql_history",
    "~/.sqlite_history",
    "~/.rediscli_history",
    "~/.irb_history",
    "~/.lesshst",
    "~/.viminfo",
    "upper/.ENV",
    "worker/.dev.vars",
];

/// Settings with a credential, and the copy without it that the command reads.
const REDACTED: &[(&str, &str, &str)] = &[
    ("~/.npmrc", "a=b\n//r.example/:_authToken=T0KEN\n", "a=b\n"),
    ("web/.npmrc", "_password=T0KEN\na=b\n", "a=b\n"),
    ("~/.config/pnpm/rc", "a=b\n_auth=T0KEN\n", "a=b\n"),
    ("~/.yarnrc.yml", "a: b\nnpmAuthToken: T0KEN\n", "a: b\n"),
    ("web/.yarnrc.yml", "npmScopes:\n  x:\n    npmAuthIdent: T0KEN\n", "npmScopes:\n  x:\n"),
    ("~/.config/pip/pip.conf", "index-url = https://a:T0KEN@r.example", "index-url = https://r.example"),
    ("~/.condarc", "channels: [https://a:T0KEN@c.example]\n", "channels: [https://c.example]\n"),
    ("~/.pip/pip.conf", "index-url = https://T0KEN@r.example", "index-url = https://r.example"),
    ("~/.m2/settings.xml", "<s><id>a</id><password>T0KEN</password></s>", "<s><id>a</id></s>"),
    ("~/.gradle/gradle.properties", "a=b\nsigning.password=T0KEN\n", "a=b\n"),
    (
        "~/.bunfig.toml",
        "a = 1\n[install]\nregistry = { url = \"b\", token = \"T0KEN\" }\n",
        "a = 1\n[install]\nregistry = { url = \"b\"}\n",
    ),
    ("~/.nuget/NuGet/NuGet.Config", "<c><apikeys>T0KEN</apikeys></c>", "<c></c>"),
    (
        "~/.bundle/config",
        "---\nBUNDLE_PATH: \"vendor\"\nBUNDLE_GEMS__R__EXAMPLE: \"a:T0KEN\"\n",
        "---\nBUNDLE_PATH: \"vendor\"\n",
    ),
    ("~/.my.cnf", "[client]\npassword=T0KEN\nhost=a\n", "[client]\nhost=a\n"),
];

const WRITABLE: &[&str] = &[
    "src/",
    "~/.cache/",
    "~/.npm/",
    "~/.bun/",
    "~/go/",
    "~/.cargo/",
    "~/.rustup/",
    "~/.gradle/",
    "~/.m2/repository/",
    "~/.m2/wrapper/",
    "~/.m2/build-cache/",
    "~/.m2/mvnd/",
    "~/.local/share/pnpm/store/",
    "~/.claude/",
    "~/.claude.json",
    "~/.codex/",
    "~/.pi/",
    "~/.local/share/opencode/",
    "~/.gemini/",
    "~/.local/share/amp/",
    "~/.cursor/",
    "~/.local/share/goose/",
    "~/.aider/",
    "~/.kimi-code/",
    ".git/objects/",
    ".jj/repo/store/x",
    ".env.example",
    ".env.sample",
    ".env.template",
    ".env-example",
    ".environment",
    "node_modules/x/.env",
];

/// Folders that are empty and writable inside, whatever files the host has in them.
const OWN: &[&str] = &[
    "~/.claude/session-env/",
    "~/.claude/shell-snapshots/",
    "~/.codex/.tmp/",
    "~/.codex/shell_snapshots/",
    "~/.codex/tmp/",
    "~/.gradle/daemon/",
    "~/.m2/mvnd/registry/",
];

const READ_ONLY: &[&str] = &[
    "~/.claude/chrome/",
    "~/.aider/oauth-keys.env",
    "~/.cursor/permissions.json",
    "~/.cursor/projects/p/mcp-approvals.json",
    "~/.cursor/projects/p/.workspace-trusted",
    "~/.cache/antidote/",
    "~/.cache/carapace/init.nu",
    ".irbrc",
    ".pdbrc",
    ".github/hooks/",
    ".roo/mcp.json",
    "~/notes",
    "~/.bashrc",
    "~/.profile",
    "~/.gitconfig",
    "~/.npmrc",
    "~/.local/bin/",
    "~/.config/systemd/",
    "~/.config/autostart/",
    "~/.cargo/bin/",
    "~/.cargo/config.toml",
    "~/.cargo/env",
    "~/go/bin/",
    "~/.bun/bin/",
    "~/.rustup/toolchains/",
    "~/.gradle/init.d/",
    "~/.m2/",
    "~/.m2/settings.xml",
    "~/.m2/extensions.xml",
    "~/.m2/maven.properties",
    "~/.local/share/pnpm/pnpm",
    "~/.claude/settings.json",
    "~/.claude/hooks/",
    "~/.claude/plugins/",
    "~/.codex/config.toml",
    "~/.codex/hooks.json",
    "~/.codex/environments.toml",
    "~/.codex/automations/",
    "~/.codex/rules/",
    "~/.pi/agent/settings.json",
    "~/.pi/agent/extensions/",
    "~/.config/opencode/",
    "~/.gemini/settings.json",
    "~/.gemini/extensions/",
    "~/.config/amp/",
    "~/.cursor/mcp.json",
    "~/.cursor/hooks.json",
    "~/.kimi-code/config.toml",
    "~/.kimi-code/mcp.json",
    "~/.kimi-code/plugins/",
    "~/.kimi-code/skills/",
    "~/.pi/agent/mcp.json",
    "~/.pi/agent/AGENTS.override.md",
    ".kimi-code/",
    "~/.config/goose/config.yaml",
    "~/.aider.conf.yml",
    ".git/config",
    ".git/config.worktree",
    ".git/hooks/",
    ".git/info/attributes",
    ".git/modules/lib/config",
    ".git/modules/lib/hooks/",
    ".vscode/",
    ".idea/",
    ".devcontainer/",
    ".envrc",
    ".mise.toml",
    ".mcp.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".cursor/",
    ".codex/",
    ".gitmodules",
    ".husky/",
    ".hg/hgrc",
    ".jj/repo/config.toml",
    ".sl/config",
    ".helix/",
    ".direnv/flake-profile.rc",
    "team.code-workspace",
    "mise.toml",
    "mise.ci.toml",
    ".miserc.toml",
    "prek.toml",
    "hk.pkl",
    "captainhook.json",
    ".lefthook-local.toml",
    ".config/lefthook.json",
    "_darcs/prefs/defaults",
    ".project",
    ".github/extensions/",
    "~/.cache/copilot/pkg/",
    "~/.gemini/GEMINI.md",
    "~/.local/share/goose/schedule.json",
    ".Rprofile",
    ".kiro/",
    ".qwen/",
    "crush.json",
    "~/.codex/plugins/",
    "~/.codex/packages/",
    "~/.pi/agent/npm/",
    "~/.claude/local/",
    "~/.gemini/config/",
    "~/.gemini/antigravity/skills/",
    "~/.gemini/antigravity-cli/settings.json",
    "~/.cursor/sandbox.json",
    ".hg/requires",
    ".kilocode/",
    ".windsurf/",
    "bin/activate-hermit",
    "~/.cache/oh-my-posh/init.sh",
    "~/.cache/prezto/",
    "~/.cache/.bun/bin/",
    "~/.cache/fish/",
    "~/.cache/zsh/",
    "~/.cache/node/corepack/",
];

const LINT: &[&str] = &[
    "eslint.config.js",
    ".eslintrc.json",
    "packages/web/.prettierrc.json",
    "biome.json",
    ".prettierrc",
    ".golangci.yml",
    "ruff.toml",
    "pyrightconfig.json",
    "mypy.ini",
    "clippy.toml",
    "crates/a/rustfmt.toml",
    "deny.toml",
    ".editorconfig",
];

fn written(path: &str) -> String {
    match path.strip_prefix("~/") {
        Some(rest) => format!("/home/u/{rest}"),
        None => format!("/home/u/proj/{path}"),
    }
}

fn tree() -> Tree {
    let tree = Tree::new(["home/u/proj/.git/HEAD = ref: refs/heads/main\n", "home/u/proj/.git/refs/heads/"]);
    for path in [HIDDEN, WRITABLE, OWN, READ_ONLY, LINT].concat() {
        tree.add(&written(path)[1..]);
    }
    tree
}

fn assert_all(paths: &[&str], request: &Request, what: &str, is: impl Fn(&View) -> bool) {
    let (compiled, diagnostics) = tree().compile("/home/u/proj", request);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    let model = model(&compiled.unwrap());
    for path in paths {
        let view = model.view(&abs(written(path)));
        assert!(is(&view), "{path} is not {what}: {view:?}");
    }
}

// SPEC P1
#[test]
fn secrets_are_hidden_by_default() {
    assert_all(HIDDEN, &Request::default(), "hidden", |view| {
        matches!(view, View::MaskedFile | View::Data | View::Fresh { mode: 0, writable: false })
    });
}

// SPEC P16
#[test]
fn settings_are_read_without_their_credentials_by_default() {
    let tree = tree();
    for (path, text, _) in REDACTED {
        tree.add(&format!("{} = {text}", &written(path)[1..]));
    }
    let (compiled, diagnostics) = tree.compile("/home/u/proj", &Request::default());
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    let model = model(&compiled.unwrap());
    for (path, _, copy) in REDACTED {
        let path = abs(written(path));
        assert_eq!(model.view(&path), View::Data, "{path}");
        assert_eq!(String::from_utf8_lossy(model.content(&path).unwrap()), *copy, "{path}");
    }
}

/// A preset's copy never beats an `exclude`, neither by precedence nor through a link.
// SPEC P16
#[test]
fn a_copy_is_shown_only_where_no_other_rule_hides_the_file() {
    let cases = [
        ("exclude = ['~/.config/pip/pip.conf']", false),
        ("exclude = ['~/.config/pip/*']", false),
        ("exclude = ['~/.config/pip']", false),
        ("exclude = ['~/.c*']", false),
        ("exclude = ['link']", false),
        ("exclude = ['~/.config']\nro = ['~/.config/pip']", true),
        ("ro = ['~/.config/pip']\nrw = ['~/.config']", true),
    ];
    for (rules, is_shown) in cases {
        let tree = Tree::new([
            "home/u/.config/pip/pip.conf = index-url = https://me:T0KEN@r.example",
            "home/u/proj/link -> /home/u/.config/pip/pip.conf",
        ]);
        tree.add(&format!("home/u/.config/agent-sandbox/config.toml = [filesystem]\n{rules}\n"));
        for no_optimize in [false, true] {
            let request = Request { no_optimize, ..Request::default() };
            let (compiled, diagnostics) = tree.compile("/home/u/proj", &request);
            assert!(!diagnostics.has_errors(), "{rules}: {diagnostics:?}");
            let view = model(&compiled.unwrap()).view(&abs("/home/u/.config/pip/pip.conf"));
            let shown = view == View::Data;
            assert!(shown || matches!(view, View::MaskedFile | View::Unreachable { .. }), "{rules}: {view:?}");
            assert_eq!(shown, is_shown, "{rules}");
        }
    }
}

/// Only existing files are masked, so an empty home needs no argument.
#[test]
fn nothing_is_mounted_for_credentials_that_do_not_exist() {
    let tree = Tree::new(["home/u/proj/src/"]);
    let only = |presets: &[&str]| {
        let presets = presets.iter().map(Into::into).collect();
        let (compiled, _) = tree.compile("/home/u/proj", &Request { presets, ..Request::default() });
        compiled.unwrap().plan.mounts.len()
    };
    assert_eq!(only(&["!@all", "@base", "@secrets"]), only(&["!@all", "@base"]));
}

// SPEC P1
#[test]
fn paths_that_work_needs_are_writable_by_default() {
    assert_all(WRITABLE, &Request::default(), "writable", |view| matches!(view, View::Host { writable: true, .. }));
}

// SPEC P17
#[test]
fn folders_in_which_processes_meet_are_empty_and_writable_by_default() {
    assert_all(OWN, &Request::default(), "own", |view| matches!(view, View::Fresh { mode: 0o700, writable: true }));
}

// SPEC P1
#[test]
fn paths_that_the_host_obeys_later_are_read_only_by_default() {
    // The command cannot change the host's private file: it has a link to the copy.
    let is_private = |view: &View| matches!(view, View::Symlink { target, .. } if leads_to_copy(target));
    assert_all(READ_ONLY, &Request::default(), "read-only", |view| {
        matches!(view, View::Host { writable: false, .. }) || is_private(view)
    });
    for path in [".git/config", "~/.codex/config.toml", "~/.claude/settings.json", "~/.gemini/settings.json"] {
        assert!(READ_ONLY.contains(&path), "{path}");
    }
    let without = Request { no_guard: true, ..Request::default() };
    let (compiled, _) = tree().compile("/home/u/proj", &without);
    let model = model(&compiled.unwrap());
    for path in READ_ONLY {
        let view = model.view(&abs(written(path)));
        assert!(matches!(view, View::Host { writable: false, .. }), "{path}: {view:?}");
    }
}

#[test]
fn lint_settings_are_read_only_on_request() {
    assert_all(LINT, &Request::default(), "writable", |view| matches!(view, View::Host { writable: true, .. }));
    let request = Request { presets: vec!["@lint/all".into()], ..Request::default() };
    assert_all(LINT, &request, "read-only", |view| matches!(view, View::Host { writable: false, .. }));
}

/// A preset's `ro` shows nothing (SPEC P12), so no preset may use one to re-open a path that a
/// preset excludes.
// SPEC P12
#[test]
fn no_preset_relies_on_a_ro_to_show_what_one_excludes() {
    let of = |access: Access| entries().filter(move |(_, _, entry)| entry.access == access);
    assert!(of(Access::Ro).count() > 300 && of(Access::Exclude).count() > 300);
    for (_, _, shown) in of(Access::Ro) {
        // At the same path, the `exclude` wins, and the `ro` only blocks the path while it is
        // missing.
        let is_around = |hidden: &PresetEntry| {
            let (hidden, shown) = (Path::new(hidden.path), Path::new(shown.path));
            hidden != shown && shown.starts_with(hidden)
        };
        let mut hidden = of(Access::Exclude).filter(|(_, _, hidden)| !hidden.refinements.only_missing);
        let around = hidden.find(|(_, _, hidden)| is_around(hidden));
        assert!(around.is_none(), "`ro` on {}", shown.path);
    }
}

fn entries() -> impl Iterator<Item = (&'static BuiltinPreset, &'static Group, &'static PresetEntry)> {
    let groups = PRESETS.iter().flat_map(|preset| preset.groups.iter().map(move |group| (preset, group)));
    groups.flat_map(|(preset, group)| group.entries.iter().map(move |entry| (preset, group, entry)))
}

/// The snapshot is a table of all defaults for reviewers.
// SPEC P13, O3
#[test]
fn every_entry_names_its_tool_and_its_source() {
    let mut rows = Vec::new();
    for (preset, group, entry) in entries() {
        let access = if entry.private.is_some() { "private".to_owned() } else { entry.access.to_string() };
        let access = if entry.refinements.mask == Mask::Fresh { "own folder".to_owned() } else { access };
        let access = match entry.if_missing {
            IfMissing::Block if !entry.refinements.in_use.is_empty() => format!("{access}, blocked if in use"),
            IfMissing::Block => format!("{access}, blocked"),
            _ => match entry.refinements.mask {
                Mask::Denied | Mask::OwnPlace | Mask::Fresh => access,
                Mask::Reads(text) => format!("{access}, reads {text:?}"),
                Mask::Redacted(file) => format!("{access}, redacted {file:?}"),
            },
        };
        let access = if entry.refinements.with_links { access + ", with links" } else { access };
        rows.push([preset.name, &access, entry.path, group.tool, group.source].map(str::to_owned));
    }
    for (preset, group) in PRESETS.iter().flat_map(|preset| preset.variables.iter().map(move |group| (preset, group))) {
        let effect = match group.effect {
            VariableEffect::Drop => "drop variable",
            VariableEffect::DropWord => "drop variable, any case",
            VariableEffect::Keep => "keep variable",
            VariableEffect::Set { .. } => "set variable",
        };
        for name in group.names {
            let name = match group.effect {
                VariableEffect::Set { value, .. } => format!("{name}={value}"),
                _ => (*name).to_owned(),
            };
            rows.push([preset.name, effect, &name, group.tool, group.source].map(str::to_owned));
        }
    }
    for program in PROGRAMS {
        let Program { name, why, paths, variables } = program;
        assert!(!paths.is_empty() || !variables.is_empty(), "{name}");
        for path in *paths {
            assert!(!path.starts_with(['/', '~']), "{path} is relative to the home");
            rows.push(["(private home)", "ro, shown", &format!("~/{path}"), name, why].map(str::to_owned));
        }
        let variables = variables
            .iter()
            .map(|variable| ["(private home)", "ro, shown", &format!("${variable}"), name, why].map(str::to_owned));
        rows.extend(variables);
    }
    for (preset, group) in PRESETS.iter().flat_map(|preset| preset.injections.iter().map(move |group| (preset, group)))
    {
        for entry in group.entries {
            let unless: String = entry.unless.iter().map(|path| format!(", unless {path}")).collect();
            let paths = format!("{} → {}{unless}", entry.from, entry.to);
            rows.push([preset.name, "inject", &paths, group.tool, group.source].map(str::to_owned));
        }
    }
    for (preset, file) in PRESETS.iter().flat_map(|preset| preset.agent_files.iter().map(move |file| (preset, file))) {
        let effect = match file.used {
            FileUse::ReadOnly { .. } => "names programs",
            FileUse::Mixed { .. } if file.is_preferred => "watched, or moved aside",
            FileUse::Mixed { .. } => "watched",
        };
        rows.push([preset.name, effect, file.path, file.tool, file.source].map(str::to_owned));
    }
    for (preset, known) in
        PRESETS.iter().flat_map(|preset| preset.repositories.iter().map(move |known| (preset, known)))
    {
        rows.push([preset.name, "repositories watched", known.folder, known.tool, known.source].map(str::to_owned));
    }
    rows.sort();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap();
    let widths: Vec<usize> = (0..5).map(width).collect();
    let mut table = String::new();
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        table.push_str(cells.join("  ").trim_end());
        table.push('\n');
    }
    insta::with_settings!({ snapshot_path => "../snapshots/presets", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("table", table);
    });
}
