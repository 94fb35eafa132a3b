//! The environment: which variables of the caller a command can read, by any means.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::sandbox::{BASE_ONLY, failed, policy, run, sandbox, shell, succeeded, write};
use crate::support::{Place, binary, model_of_printed, stdout, write_program};

everywhere!(
    variables_that_lead_to_the_host_are_unset,
    no_process_environment_shows_an_unset_variable,
    a_value_of_the_policy_is_in_no_command_line,
    the_runtime_directory_is_the_private_one,
    without_inherit_few_variables_pass_and_tools_run,
    the_command_is_looked_up_in_the_path_that_it_gets,
    the_printed_script_gives_the_environment_of_a_run,
    the_json_form_gives_the_environment_of_a_run_and_of_the_model,
    a_library_of_the_policy_is_not_loaded_into_bwrap,
    a_variable_of_the_loader_reaches_the_command_alone,
    a_preset_sets_variables_for_programs_that_are_here,
);

/// Writes a policy with these lines in `[env]`.
fn env_policy(place: &Place, entries: &str) {
    policy(place, &format!("\n[env]\n{entries}\n"));
}

/// The output of `env -0`, without the variables that shells set.
fn variables(printed: &[u8]) -> BTreeMap<OsString, OsString> {
    let lines = printed.split(|byte| *byte == 0).filter(|line| !line.is_empty());
    let pairs = lines.map(|line| {
        let at = line.iter().position(|byte| *byte == b'=').unwrap();
        (OsStr::from_bytes(&line[..at]).to_owned(), OsStr::from_bytes(&line[at + 1..]).to_owned())
    });
    pairs.filter(|(name, _)| !["_", "SHLVL", "OLDPWD"].iter().any(|made| name == made)).collect()
}

/// The environment of `env` in the sandbox.
fn inside(command: &mut Command) -> BTreeMap<OsString, OsString> {
    let output = command.args(["--", "env", "-0"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    variables(&output.stdout)
}

/// Variables that a desktop, its terminals and its editors set.
const OF_THE_HOST: [&str; 34] = [
    "ALACRITTY_SOCKET",
    "BW_SESSION",
    "CONTAINER_HOST",
    "CREDENTIALS_DIRECTORY",
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS",
    "DISPLAY",
    "DOCKER_HOST",
    "EMACS_SOCKET_NAME",
    "GIT_ASKPASS",
    "GPG_AGENT_INFO",
    "HYPRLAND_INSTANCE_SIGNATURE",
    "I3SOCK",
    "KITTY_LISTEN_ON",
    "LISTEN_FDS",
    "NIRI_SOCKET",
    "NOTIFY_SOCKET",
    "NVIM",
    "NVIM_LISTEN_ADDRESS",
    "PULSE_SERVER",
    "SESSION_MANAGER",
    "SSH_AGENT_PID",
    "SSH_AUTH_SOCK",
    "STY",
    "SWAYSOCK",
    "TMUX",
    "VSCODE_GIT_ASKPASS_MAIN",
    "VSCODE_IPC_HOOK_CLI",
    "WATCHMAN_SOCK",
    "WAYLAND_DISPLAY",
    "WEZTERM_UNIX_SOCKET",
    "XAUTHORITY",
    "XDG_SESSION_ID",
    "ZELLIJ",
];

// SPEC E4
fn variables_that_lead_to_the_host_are_unset(place: &Place) {
    policy(place, "");
    let found = |place: &Place| {
        let mut command = sandbox(place);
        let names = OF_THE_HOST.iter().chain(&["ANTHROPIC_API_KEY", "CI"]);
        inside(command.envs(names.map(|name| (name, "of-the-caller"))))
    };
    let without = found(place);
    for name in OF_THE_HOST {
        assert!(!without.contains_key(OsStr::new(name)), "{name}");
    }
    for name in ["ANTHROPIC_API_KEY", "CI", "HOME", "PATH", "LANG"] {
        assert!(without.contains_key(OsStr::new(name)), "{name} passes");
    }
    env_policy(place, "pass = ['*']");
    let with = found(place);
    for name in OF_THE_HOST {
        assert_eq!(with.get(OsStr::new(name)), Some(&"of-the-caller".into()), "{name} passes on request");
    }
}

/// The variable is set if uv is on PATH and the caller has no value of its own.
// SPEC P14
fn a_preset_sets_variables_for_programs_that_are_here(place: &Place) {
    let presets = |entries: &str| {
        place.write("home/.config/agent-sandbox/config.toml", format!("[filesystem]\npresets = {entries}\n"));
    };
    presets("[]");
    let get = |command: &mut Command, name: &str| inside(command).get(OsStr::new(name)).cloned();
    assert_eq!(get(&mut sandbox(place), "UV_LINK_MODE"), None);
    for name in ["uv", "pnpm"] {
        place.write(format!("home/bin/{name}"), "#!/bin/sh\n");
        fs::set_permissions(place.home().join("bin").join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let with_programs = || {
        let mut command = sandbox(place);
        command.env("PATH", format!("{}:/usr/bin:/bin", place.home().join("bin").display()));
        command
    };
    assert_eq!(get(&mut with_programs(), "UV_LINK_MODE"), Some("copy".into()));
    assert_eq!(get(with_programs().env("UV_LINK_MODE", "clone"), "UV_LINK_MODE"), Some("clone".into()));
    let store = place.home().join(".local/share/pnpm/store");
    assert_eq!(get(&mut with_programs(), "pnpm_config_store_dir"), Some(store.into()));
    assert_eq!(get(&mut with_programs(), "UV_TOOL_DIR"), Some("/tmp/uv-tools".into()));
    assert_eq!(get(with_programs().env("UV_TOOL_DIR", "/opt/tools"), "UV_TOOL_DIR"), Some("/opt/tools".into()));
    presets("['@caches-apart']");
    assert_eq!(get(&mut sandbox(place), "UV_CACHE_DIR"), Some("/tmp/uv-cache".into()));
    // In a shared `/tmp`, another user may own the folder.
    presets("['@caches-apart']\ntmp = 'host'");
    assert_eq!(get(&mut sandbox(place), "UV_CACHE_DIR"), None);
    assert_eq!(get(&mut with_programs(), "UV_TOOL_DIR"), None);
}

/// `/proc` shows the environment with which each process started, bwrap's own included.
// SPEC E1
fn no_process_environment_shows_an_unset_variable(place: &Place) {
    const LOOK: &str =
        "cat /proc/1/environ /proc/self/environ /proc/$$/environ /proc/*/environ /proc/*/cmdline 2>/dev/null; true";
    let said = |flags: &[&str]| {
        let mut command = sandbox(place);
        command.envs([("AWS_SECRET_ACCESS_KEY", "of-the-caller"), ("AWS_REGION", "of-the-caller")]);
        command.envs([("SSH_AUTH_SOCK", "of-the-caller"), ("KEPT", "seen")]);
        succeeded(command.args(flags).args(["--", "sh", "-c", LOOK]).output().unwrap())
    };
    // The command can read the environment of bwrap's processes only without the guard.
    for (flags, processes) in [(&[][..], 2), (&["--no-guard"], 3)] {
        env_policy(place, "unset = ['AWS_*']\npass = ['AWS_REGION']\nset = { AWS_REGION = 'from-the-policy' }");
        let filtered = said(flags);
        assert!(filtered.matches("KEPT=seen").count() >= processes, "{flags:?} {filtered}");
        assert!(filtered.contains("AWS_REGION=from-the-policy"), "{flags:?} {filtered}");
        assert!(!filtered.contains("of-the-caller") && !filtered.contains("AWS_SECRET"), "{flags:?} {filtered}");
        // The control: a variable that passes is visible, also in bwrap's own environment.
        env_policy(place, "");
        let open = said(flags);
        assert!(open.matches("AWS_SECRET_ACCESS_KEY=of-the-caller").count() >= processes, "{flags:?} {open}");
    }
}

/// The arguments of a process and of all its descendants, seen from the host.
fn command_lines(process: u32) -> Vec<u8> {
    let mut lines = fs::read(format!("/proc/{process}/cmdline")).unwrap();
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap();
    for child in children.split_whitespace() {
        lines.extend(command_lines(child.parse().unwrap()));
    }
    lines
}

// SPEC E1
fn a_value_of_the_policy_is_in_no_command_line(place: &Place) {
    env_policy(place, "set = { TOKEN = 'of-the-policy' }");
    let mut command = sandbox(place);
    command.env("TMPDIR", "/var/tmp").env("CALLER", "of-the-caller");
    let script = "echo $TOKEN $TMPDIR; read line; echo $line";
    let mut child =
        command.args(["--", "sh", "-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "of-the-policy /tmp\n");
    let lines = String::from_utf8_lossy(&command_lines(child.id())).into_owned();
    child.stdin.take().unwrap().write_all(b"end\n").unwrap();
    assert!(child.wait().unwrap().success());
    assert!(lines.contains("bwrap") && lines.contains("__guard") && lines.contains("read line"), "{lines}");
    for hidden in ["of-the-policy", "of-the-caller"] {
        assert!(!lines.contains(hidden), "{hidden}: {lines}");
    }
    // bwrap sets only the variable that marks a sandbox.
    let set: Vec<&str> = lines.split("setenv\0").skip(1).collect();
    assert!(set.iter().all(|after| after.starts_with("AGENT_SANDBOX\0")), "{lines}");
}

// SPEC E6
fn the_runtime_directory_is_the_private_one(place: &Place) {
    policy(place, "");
    place.write("home/runtime/bus", "host");
    let said = succeeded(
        sandbox(place)
            .env("XDG_RUNTIME_DIR", place.home().join("runtime"))
            .args([
                "--",
                "sh",
                "-c",
                "echo $XDG_RUNTIME_DIR && cd $XDG_RUNTIME_DIR && ls -A && stat -c %a:%u . && mkdir x",
            ])
            .output()
            .unwrap(),
    );
    assert_eq!(said, format!("/run/user/{0}\n700:{0}\n", place.uid));
    assert_eq!(shell(place, "echo ${XDG_RUNTIME_DIR-unset}"), "unset\n");
}

// SPEC E5
fn without_inherit_few_variables_pass_and_tools_run(place: &Place) {
    env_policy(place, "inherit = false\npass = ['GIT_*']\nset = { OWN = 'x' }");
    let command = || {
        let mut command = sandbox(place);
        command.envs([("GIT_AUTHOR_NAME", "A Tester"), ("GIT_AUTHOR_EMAIL", "tester@example.org")]);
        command.envs([("GIT_COMMITTER_NAME", "A Tester"), ("GIT_COMMITTER_EMAIL", "tester@example.org")]);
        command.envs([("ANTHROPIC_API_KEY", "secret"), ("CI", "1"), ("LD_LIBRARY_PATH", "/x"), ("TERM", "dumb")]);
        command
    };
    let names: Vec<OsString> =
        inside(&mut command()).into_keys().filter(|name| !name.as_bytes().starts_with(b"GIT_")).collect();
    assert_eq!(names, ["AGENT_SANDBOX", "HOME", "LANG", "OWN", "PATH", "PWD", "TERM"]);
    let script = "git init -q repo && cd repo && echo x >file && git add file && git commit -qm x && git log --format=%an \
                  && python3 -c 'import os; print(os.path.expanduser(\"~\"), len(os.environ))' >/dev/null && ls >/dev/null";
    assert_eq!(succeeded(command().args(["--", "sh", "-ec", script]).output().unwrap()), "A Tester\n");
    // The command needs no variable of the caller, and its PWD is still correct.
    env_policy(place, "unset = ['*']");
    let said = succeeded(command().args(["--", "env"]).output().unwrap());
    let mut said: Vec<&str> = said.lines().collect();
    said.sort_unstable();
    assert_eq!(said, ["AGENT_SANDBOX=1".to_owned(), format!("PWD={}", place.project().display())]);
}

// SPEC E10
fn the_command_is_looked_up_in_the_path_that_it_gets(place: &Place) {
    write_program(&place.project().join("tools/own-tool"), "#!/bin/sh\necho \"$PATH\"\n");
    place.give_away();
    let tools = place.project().join("tools");
    policy(place, "");
    failed(&run(place, &["--", "own-tool"]), 127, "error[command-not-found]");
    env_policy(place, &format!("set = {{ PATH = '{}' }}", tools.display()));
    assert_eq!(succeeded(run(place, &["--", "own-tool"])), format!("{}\n", tools.display()));
    failed(&run(place, &["--", "env"]), 127, "error[command-not-found]: `env` was not found");
    let printed = run(place, &["--print-args=script", "--", "own-tool"]);
    let by_shell = place.command("sh").arg("-c").arg(OsString::from_vec(printed.stdout)).output().unwrap();
    assert_eq!(succeeded(by_shell), format!("{}\n", tools.display()));
}

const POLICIES: [&str; 6] = [
    "",
    "unset = ['CI', 'ODD']",
    "set = { A = \"it's\\n$HOME `x` \\\\ é\", CI = '', UID = '7', 'npm_config_//host/:_authToken' = 'x y' }",
    "inherit = false",
    "inherit = false\npass = ['CI', 'ODD', 'NOT_THERE']\nunset = ['TERM']",
    "inherit = false\npass = ['O*']\nset = { CI = 'policy', A = '$(false)', 'a b' = '1', PATH = '/usr/bin:/bin' }",
];

/// Sets variables of the caller for the entries of all [`POLICIES`].
fn called(command: &mut Command) -> &mut Command {
    command.env("ODD", OsStr::from_bytes(b"\xff odd\n'value' $HOME")).env("EMPTY", "").env("TMPDIR", "/var/tmp");
    command.envs([("CI", "caller"), ("DISPLAY", ":0"), ("SSH_AUTH_SOCK", "/x"), ("TERM", "dumb"), ("pass", "x")])
}

// SPEC E9
fn the_printed_script_gives_the_environment_of_a_run(place: &Place) {
    for entries in POLICIES {
        env_policy(place, entries);
        let direct = inside(called(&mut sandbox(place)));
        let printed =
            called(&mut sandbox(place)).args(["--print-args=script", "--", "env", "-0"]).output().unwrap().stdout;
        for shown in ["caller", "odd"] {
            assert!(!String::from_utf8_lossy(&printed).contains(shown), "no value of the caller: {entries}");
        }
        for shell in ["sh", "bash"] {
            let script = OsString::from_vec(printed.clone());
            let output = called(&mut place.command(shell)).arg("-c").arg(script).output().unwrap();
            assert!(output.status.success(), "{shell}, {entries}: {output:?}");
            assert_eq!(variables(&output.stdout), direct, "{shell}, {entries}");
        }
    }
    // The script does not pass a variable that the caller has set since, and does not change the
    // variables of the shell that reads it.
    env_policy(place, "inherit = false\nset = { CI = 'policy' }");
    let printed = stdout(&sandbox(place).args(["--print-args=script", "--", "env"]).output().unwrap());
    let script = format!("{printed}echo after $CI $LATER");
    let said = succeeded(place.command("sh").env("LATER", "caller").args(["-c", &script]).output().unwrap());
    assert!(said.contains("CI=policy\n") && !said.contains("LATER=") && said.ends_with("after caller\n"), "{said}");
    // Without awk, or without `env`, nothing starts.
    let output = place.command("/bin/sh").env("PATH", "/nowhere").args(["-c", &printed]).output().unwrap();
    assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
    let tools = place.home().join("tools");
    write(place, tools.join("x"), "");
    std::os::unix::fs::symlink("/usr/bin/env", tools.join("env")).unwrap();
    let output = place.command("/bin/sh").env("PATH", &tools).args(["-c", &printed]).output().unwrap();
    assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
}

// SPEC E9
fn the_json_form_gives_the_environment_of_a_run_and_of_the_model(place: &Place) {
    for entries in POLICIES {
        env_policy(place, entries);
        let direct = inside(called(&mut sandbox(place)));
        let printed = called(&mut sandbox(place)).args(["--print-args=json", "--", "env", "-0"]).output().unwrap();
        let printed: Value = serde_json::from_slice(&printed.stdout).unwrap();
        let environment = &printed["environment"];
        let text = |value: &Value| OsString::from(value.as_str().unwrap());
        let names = |key: &str| {
            environment.get(key).map(|names| names.as_array().unwrap().iter().map(text).collect::<Vec<_>>())
        };
        // A program that reads this form would compute the environment like this.
        let mut command = called(&mut place.command("env"))
            .get_envs()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
            .collect::<BTreeMap<OsString, OsString>>();
        match (names("pass"), names("unset")) {
            (Some(pass), None) => command.retain(|name, _| pass.contains(name)),
            (None, Some(unset)) => command.retain(|name, _| !unset.contains(name)),
            both => panic!("neither or both of `pass` and `unset`: {both:?}"),
        }
        let set = environment["set"].as_object().unwrap();
        command.extend(set.iter().map(|(name, value)| (OsString::from(name), text(value))));
        let model = model_of_printed(&printed, |_| true);
        assert_eq!(model.environment(command), direct, "{entries}");
    }
}

/// bwrap and the guard start without the variables of the loader, and the command gets them.
fn a_variable_of_the_loader_reaches_the_command_alone(place: &Place) {
    policy(place, "");
    let script = "tr '\\0' '\\n' </proc/1/environ | grep -c ^LD_; echo $LD_LIBRARY_PATH";
    let output = sandbox(place).env("LD_LIBRARY_PATH", ":/opt/lib").args(["--", "sh", "-c", script]).output().unwrap();
    assert_eq!(succeeded(output), "0\n:/opt/lib\n");
}

/// A library that bwrap loads runs outside of the sandbox.
// SPEC E8
fn a_library_of_the_policy_is_not_loaded_into_bwrap(place: &Place) {
    write(place, ".agent-sandbox.toml", format!("{BASE_ONLY}\n[env]\nset = {{ LD_PRELOAD = './planted.so' }}\n"));
    write(place, "planted.so", "no library");
    failed(&run(place, &["--", "echo", "ran"]), 125, "error[reserved-variable]: `LD_PRELOAD` acts on bwrap as well");
    policy(place, "");
    let said = run(place, &["--", "env", "LD_LIBRARY_PATH=lib", binary().to_str().unwrap(), "--inside"]);
    assert_eq!(stdout(&said), "inside sandbox\n", "the remedy works");
}
