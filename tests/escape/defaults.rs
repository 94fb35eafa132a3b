//! The protection by built-in presets, without rules of the user.

use crate::outcome::Verdict;
use crate::scene::{CANARY, DEFAULTS, ORIGINAL, Scene, run, words};

for_everybody!("caches-preset": making_settings_that_build_tools_obey, reaching_daemons_of_the_host);
for_everybody!("agents-preset":
    changing_code_that_agents_run,
    making_code_that_agents_load,
    making_programs_in_folders_of_agents,
    changing_programs_that_settings_of_agents_name,
    making_files_that_a_resumed_session_sources,
);
for_everybody!("reports": making_a_file_that_an_agent_prefers);
for_everybody!("caches-apart-preset": changing_another_project_through_a_store);
for_everybody!("git-preset": making_settings_of_a_program_that_reads_git_folders);
for_everybody!("secrets-preset":
    reading_tokens_of_services_on_loopback,
    reading_copies_of_a_hidden_file,
    reading_credentials_from_the_environment,
);

/// Settings that the host's next build obeys. Their folders exist and are writable.
const SETTINGS: &[&str] = &[
    ".cargo/config",
    ".cargo/config.toml",
    ".cargo/env",
    ".gradle/init.d/init.gradle",
    ".gradle/init.gradle",
    ".gradle/init.gradle.kts",
    ".gradle/gradle.properties",
    ".bun/_bun",
];

// SPEC A13
fn making_settings_that_build_tools_obey(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "");
    for folder in [".cargo", ".gradle", ".bun"] {
        scene.write_home(format!("{folder}/cache"), "");
    }
    making(scene, SETTINGS)
}

/// Tries to create missing paths in the home. Placeholders of the run do not count: they are gone
/// after it.
fn making(scene: &Scene, paths: &[&str]) -> Verdict {
    let paths: Vec<_> = paths.iter().map(|path| scene.home().join(path)).collect();
    let ran = scene.attack("write.py", &paths).completed();
    let made: Vec<_> = paths.iter().filter(|path| path.exists()).collect();
    verdict(scene, made.len(), paths.len(), format!("made: {made:?}\n{}", ran.out))
}

/// The product is broken if the attack reaches one path. The control must reach all of them,
/// because a path that needs no mitigation proves nothing.
fn verdict(scene: &Scene, reached: usize, all: usize, what: String) -> Verdict {
    Verdict::broken_if(if scene.is_control() { reached == all } else { reached > 0 }, what)
}

/// Code of agents that the host runs or sources. It exists before the run.
const CODE: &[&str] = &[
    ".claude/shell-snapshots/snapshot-bash-1700000000000-abc.sh",
    ".claude/session-env/session/hook-0.sh",
    ".claude/chrome/chrome-native-host",
    ".claude/plugins/market/plugin/hooks.json",
    ".codex/plugins/cache/plugin/hooks.json",
    ".codex/packages/standalone/codex",
    ".pi/agent/npm/package/index.js",
    ".local/share/opencode/bin/server",
    ".gemini/extensions/extension/gemini-extension.json",
    ".cursor/extensions/extension/index.js",
    ".kimi-code/bin/rg",
];

// SPEC A13
fn changing_code_that_agents_run(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "");
    for path in CODE {
        scene.write_home(path, ORIGINAL);
    }
    let paths: Vec<_> = CODE.iter().map(|path| scene.home().join(path)).collect();
    let ran = scene.attack("write.py", &paths).completed();
    let changed: Vec<_> = paths.iter().filter(|path| scene.changed(path)).collect();
    verdict(scene, changed.len(), paths.len(), format!("changed: {changed:?}\n{}", ran.out))
}

/// Code that agents load by themselves, in folders that are missing before the run.
// SPEC A13
fn making_code_that_agents_load(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "");
    for folder in [".claude", ".codex", ".pi/agent", ".gemini/tmp", ".cursor", ".kimi-code", ".aider"] {
        scene.write_home(format!("{folder}/history"), "");
    }
    making(
        scene,
        &[
            ".claude/plugins/plugin/hooks.json",
            ".claude/skills/skill/SKILL.md",
            ".claude/jobs/job.json",
            ".claude/scheduled_tasks.json",
            ".codex/prompts/prompt.md",
            ".claude/daemon.json",
            ".claude/remote-settings.json",
            ".cursor/hooks.json",
            ".cursor/mcp.json",
            ".gemini/trusted_hooks.json",
            ".kimi-code/mcp.json",
            ".kimi-code/plugins/installed.json",
            ".kimi-code/skills/skill/SKILL.md",
            ".pi/agent/mcp.json",
            ".pi/agent/models.json",
            ".pi/agent/settings.json",
            ".gemini/tmp/bin/rg",
            ".pi/agent/bin/fd",
            ".codex/hooks.json",
            ".codex/plugins/cache/plugin/hooks.json",
            ".codex/rules/all.rules",
            ".pi/agent/npm/package/index.js",
            ".pi/agent/skills/skill/SKILL.md",
            ".gemini/extensions/extension/gemini-extension.json",
            ".gemini/skills/skill/SKILL.md",
            ".cursor/permissions.json",
            ".aider/oauth-keys.env",
            ".cursor/plugins/plugin/index.js",
            ".cursor/extensions/extension/index.js",
        ],
    )
}

/// Programs and scripts that agents on the host run, in folders that are missing before the run.
/// A path that the report names existed on the host during the run. opencode's cache is missing in
/// the first run, and exists in the second one.
// SPEC M4, P17, A13
fn making_programs_in_folders_of_agents(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "");
    for folder in [".claude", ".codex", ".gemini/tmp", ".kimi-code", ".local/share/opencode"] {
        scene.write_home(format!("{folder}/history"), "");
    }
    let programs = [
        ".claude/local/claude",
        ".claude/hooks/hook.sh",
        ".claude/chrome/chrome-native-host",
        ".claude/workflows/workflow.js",
        ".claude/routines/routine.md",
        ".codex/packages/standalone/codex",
        ".codex/bin/codex",
        ".codex/hooks/hook.sh",
        ".codex/.env",
        ".gemini/tmp/bin/rg",
        ".kimi-code/bin/rg",
        ".local/share/opencode/bin/server",
        ".cache/opencode/bin/rg",
        ".cache/opencode/node_modules/plugin/index.js",
        ".cache/opencode/packages/plugin/index.js",
    ];
    let paths: Vec<_> = programs.iter().map(|path| scene.home().join(path)).collect();
    let mut said = String::new();
    for _ in 0..2 {
        said += &scene.attack("write.py", &paths).completed().err;
        scene.write_home(".cache/opencode/models.json", "");
    }
    let made: Vec<_> = paths.iter().filter(|path| path.exists()).collect();
    // Rare folders are moved aside when the run ends. The others cannot be created.
    let mut reported = said.lines().filter(|line| line.contains("created-during-run"));
    let is_rare = |line: &str| {
        let folders = [".claude/local", ".claude/hooks", ".claude/chrome", ".claude/workflows", ".claude/routines"];
        let mut rare = folders.iter().chain(&[".codex/bin", ".codex/hooks"]);
        line.contains("; moved aside to ") && rare.any(|folder| line.contains(&format!("/{folder}` (")))
    };
    let is_open = !made.is_empty() || !reported.all(is_rare);
    let is_broken = if scene.is_control() { made.len() == paths.len() } else { is_open };
    Verdict::broken_if(is_broken, format!("made: {made:?}\n{said}"))
}

/// A package manager has hard-linked a file of its store into another project, which is read-only.
// SPEC P14, A18
fn changing_another_project_through_a_store(scene: &Scene) -> Verdict {
    scene.policy("presets = [\"@caches-apart\"]", "");
    let stores = [".cache/uv/archive/module.py", ".local/share/pnpm/store/v10/index.js", ".bun/install/cache/index.js"];
    let linked: Vec<_> = stores.iter().enumerate().map(|(at, _)| scene.home().join(format!("other/{at}"))).collect();
    scene.write_home("other/README", "");
    for (store, linked) in stores.iter().zip(&linked) {
        scene.write_home(store, ORIGINAL);
        std::fs::hard_link(scene.home().join(store), linked).unwrap();
    }
    let paths: Vec<_> = stores.iter().map(|path| scene.home().join(path)).collect();
    let ran = scene.attack("write.py", &paths).completed();
    let changed: Vec<_> = linked.iter().filter(|path| scene.changed(path)).collect();
    verdict(scene, changed.len(), paths.len(), format!("changed: {changed:?}\n{}", ran.out))
}

/// lazygit runs the commands that `.git/lazygit.yml` names.
// SPEC A13
fn making_settings_of_a_program_that_reads_git_folders(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "");
    scene.write_home(".config/lazygit/config.yml", "");
    scene.host(&["git", "init", "-q", "."]);
    let path = scene.project().join(".git/lazygit.yml");
    let ran = scene.attack("write.py", &[&path]).completed();
    Verdict::broken_if(path.exists(), ran.out)
}

/// A command with the network can connect to services on loopback, so the token must be hidden.
// SPEC A17
fn reading_tokens_of_services_on_loopback(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "");
    let tokens = [
        ".local/share/jupyter/runtime/jpserver-1.json",
        ".claude/ide/40000.lock",
        ".config/code-server/config.yaml",
        ".config/syncthing/config.xml",
        ".local/state/syncthing/config.xml",
        ".emacs.d/server/server",
        ".vscode-server/.abc.token",
        ".config/JetBrains/IntelliJIdea2025.1/user.web.token",
        ".Xauthority",
        ".config/pulse/cookie",
    ];
    reading_in_home(scene, &tokens)
}

fn reading_in_home(scene: &Scene, paths: &[&str]) -> Verdict {
    for path in paths {
        scene.write_home(path, format!("{CANARY}\n"));
    }
    let paths: Vec<_> = paths.iter().map(|path| scene.home().join(path)).collect();
    let ran = scene.attack("look.py", &paths).completed();
    verdict(scene, ran.out.matches(CANARY).count(), paths.len(), ran.out)
}

/// Editors and people leave copies of `.env` beside it, and editors keep histories in the home.
// SPEC A17
fn reading_copies_of_a_hidden_file(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "");
    let copies = [".env~", "#.env#", ".env.swp", ".env-old", ".env_2024", ".env.bak", "..env.kate-swp", "sub/.env.un~"];
    for copy in copies {
        scene.write(copy, format!("{CANARY}\n"));
    }
    let seen = scene.attack("look.py", &["."]).completed().out.matches(CANARY).count();
    let beside = verdict(scene, seen, copies.len(), format!("{seen} copies in the project"));
    let histories = [
        ".config/Code/User/History/1a2b/abcd.env",
        ".config/Code/Backups/1/file/copy",
        ".cache/JetBrains/IntelliJIdea2025.1/LocalHistory/changes.storageData",
        ".local/state/nvim/undo/%home%u%project%.env",
        ".vim/undo/%home%u%project%.env",
        ".emacs.d/auto-save-list/.saves-1",
    ];
    let is_broken = |verdict: &Verdict| matches!(verdict, Verdict::Broken(_));
    let in_home = reading_in_home(scene, &histories);
    let both = [is_broken(&beside), is_broken(&in_home)];
    let broken = if scene.is_control() { both == [true; 2] } else { both != [false; 2] };
    Verdict::broken_if(broken, format!("{beside}\n{in_home}"))
}

/// The attack reads the environment of a developer or a CI job. Only the keys of agents pass.
// SPEC E11, A10
fn reading_credentials_from_the_environment(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "");
    let mut command = scene.product();
    for name in [
        "SECRET_KEY",
        "PRIVATE_KEY",
        "ACCESS_KEY",
        "APIKEY",
        "ENCRYPTION_KEY",
        "CI_JOB_JWT",
        "STRIPE_KEY",
        "GITHUB_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "DB_PASSWORD",
        "STRIPE_API_KEY",
        "CLIENT_SECRET",
        "PGPASSWORD",
        "SECRET",
        "PASS",
        "PASSWD",
        "CREDENTIALS",
        "Db_Password",
        "TF_VAR_secret",
    ] {
        command.env(name, CANARY);
    }
    command.env("ANTHROPIC_API_KEY", "key-of-the-agent").arg("--");
    words::<&str>(&mut command, "environment.py", &[]);
    let ran = run(command).completed();
    assert!(ran.out.contains("key-of-the-agent"), "{ran:?}");
    Verdict::broken_if(ran.shows_canary(), ran.out)
}

/// Programs in the agents' own folders, and the settings of the host that name each.
// SPEC P18, A13
fn changing_programs_that_settings_of_agents_name(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "");
    let home = scene.home();
    let home = home.display();
    let settings = [
        (
            ".claude/settings.json",
            format!(
                r#"{{ "statusLine": {{ "command": "~/.claude/tools/line.sh" }}, "hooks": {{ "Stop": [{{ "hooks": [
                {{ "command": "python3 {home}/.claude/tools/hook.py >> ~/.claude/out.sh" }},
                {{ "command": "cd \"$HOME/.claude/my tools\" && ./run" }}] }}] }} }}"#
            ),
        ),
        (
            ".claude.json",
            r#"{ "mcpServers": { "x": { "command": "node", "args": ["mcp.js"], "cwd": "~/.claude/servers" } } }"#
                .to_owned(),
        ),
        (".codex/config.toml", "notify = [\"python3\", \"~/.codex/helpers/notify.py\"]\n".to_owned()),
        (".aider.conf.yml", "lint-cmd: python ~/.aider/lint.py\n".to_owned()),
    ];
    for (path, text) in settings {
        scene.write_home(path, text);
    }
    let programs = [
        ".claude/tools/line.sh",
        ".claude/tools/hook.py",
        ".claude/my tools/run",
        ".claude/servers/mcp.js",
        ".codex/helpers/notify.py",
        ".aider/lint.py",
    ];
    // The hook writes this file, so the file stays writable.
    let output = scene.home().join(".claude/out.sh");
    scene.write_home(&output, ORIGINAL);
    for path in programs {
        scene.write_home(path, ORIGINAL);
    }
    let paths: Vec<_> = programs.iter().map(|path| scene.home().join(path)).collect();
    let ran = scene.attack("write.py", &[&paths[..], std::slice::from_ref(&output)].concat()).completed();
    assert!(scene.changed(&output), "{ran:#?}");
    let changed: Vec<_> = paths.iter().filter(|path| scene.changed(path)).collect();
    verdict(scene, changed.len(), paths.len(), format!("changed: {changed:?}\n{}", ran.out))
}

/// `claude --resume` sources the variables and the snapshot of the session. Both folders are
/// missing at the start.
// SPEC P17, A13
fn making_files_that_a_resumed_session_sources(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "");
    scene.write_home(".claude/history", "");
    let made = [".claude/session-env/new/hook-0.sh", ".claude/shell-snapshots/snapshot-bash-1-a.sh"];
    let made: Vec<_> = made.iter().map(|path| scene.home().join(path)).collect();
    // The agent inside can read the files that it has written.
    let write = "for f; do mkdir -p \"${f%/*}\" && echo x >\"$f\" && cat \"$f\" || exit; done; echo done";
    let mut command = scene.product();
    command.args(["--", "sh", "-c", write, "sh"]).args(&made);
    let ran = run(command).completed();
    assert!(ran.out.starts_with("x\nx\n"), "{ran:#?}");
    let made: Vec<_> = made.iter().filter(|path| path.exists()).collect();
    verdict(scene, made.len(), 2, format!("made: {made:?}"))
}

/// Claude Code takes `.config.json` instead of `~/.claude.json` as soon as it exists, and Gemini
/// CLI its own `.env` instead of `~/.env`.
// SPEC A13
fn making_a_file_that_an_agent_prefers(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "");
    let files = [".claude/.config.json", ".gemini/.env"].map(|path| scene.home().join(path));
    for file in &files {
        scene.write_home(file.with_file_name("history"), "");
    }
    let ran = scene.attack("write.py", &files).completed();
    let is_said = ran.err.contains("warning[created-during-run]") && ran.err.matches("moved aside to").count() == 2;
    let left = files.iter().filter(|file| file.exists()).count();
    Verdict::broken_if(if scene.is_control() { left == 2 } else { left > 0 || !is_said }, ran.err)
}

/// With the port and the token of a daemon outside, a command can make the daemon run a build on
/// the host.
// SPEC P17, A13
fn reaching_daemons_of_the_host(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "");
    reading_in_home(
        scene,
        &[
            ".gradle/daemon/8.5/registry.bin",
            ".m2/mvnd/registry/1.0/registry.bin",
            ".cache/bazel/_bazel_u/0123/server/request_cookie",
        ],
    )
}
