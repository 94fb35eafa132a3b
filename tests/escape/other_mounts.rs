//! Attacks through a second mount of a folder: the host has mounted the home, `/tmp` or `/proc`
//! somewhere else as well.

use std::fs;

use crate::outcome::Verdict;
use crate::root::{in_a_mount_namespace, in_a_mount_namespace_with};
use crate::scene::{BASE_ONLY, CANARY, DEFAULTS, ORIGINAL, Ran, Scene};
use crate::support::write_program;

with_mounts!("bind-aliases":
    connecting_through_another_mount_of_a_private_place,
    connecting_through_another_mount_of_a_folder_in_a_private_place,
    reading_a_private_place_through_another_mount,
    reading_variables_through_another_mount_of_proc,
);

/// The second mount point.
fn alias(scene: &Scene) -> String {
    let alias = scene.place.path().join("alias");
    fs::create_dir_all(&alias).unwrap();
    scene.place.give_away();
    alias.to_str().unwrap().to_owned()
}

/// Attacks a service in each private place. The second mount shows `shown` of the place.
fn for_each_private_place(scene: &Scene, shown: &str, is_broken: fn(&Scene, &str, &str) -> (bool, String)) -> Verdict {
    let alias = alias(scene);
    scene.policy(BASE_ONLY, "");
    let attacks = ["/tmp", "/run", "/dev/shm"].map(|place| is_broken(scene, place, &format!("{place}{shown} {alias}")));
    let reached = attacks.each_ref().map(|(is_broken, _)| *is_broken);
    // Each place must be reached in the control.
    let is_broken = if scene.is_control() { !reached.contains(&false) } else { reached.contains(&true) };
    Verdict::broken_if(is_broken, format!("{reached:?} {attacks:?}"))
}

fn serve(scene: &Scene, place: &str, bind: &str, attack: &str, below: &str) -> Ran {
    let (shown, alias) = bind.split_once(' ').unwrap();
    let target = format!("{alias}{below}");
    in_a_mount_namespace(scene, "host_service.py", &[place, shown, alias], attack, &[&target])
}

// SPEC W1, W3, A9
fn connecting_through_another_mount_of_a_private_place(scene: &Scene) -> Verdict {
    for_each_private_place(scene, "", |scene, place, bind| {
        let ran = serve(scene, place, bind, "connect.py", "/service/socket");
        assert!(ran.says("done"), "{ran:#?}");
        (ran.says("connected"), ran.out)
    })
}

fn connecting_through_another_mount_of_a_folder_in_a_private_place(scene: &Scene) -> Verdict {
    for_each_private_place(scene, "/service", |scene, place, bind| {
        let ran = serve(scene, place, bind, "connect.py", "/socket");
        assert!(ran.says("done"), "{ran:#?}");
        (ran.says("connected"), ran.out)
    })
}

// SPEC D3, W3
fn reading_a_private_place_through_another_mount(scene: &Scene) -> Verdict {
    let alias = alias(scene);
    scene.policy(BASE_ONLY, "");
    let attacks = ["/tmp", "/run"].map(|place| {
        let ran = serve(scene, place, &format!("{place} {alias}"), "look.py", "");
        assert!(ran.says("done"), "{ran:#?}");
        ran.shows_canary()
    });
    let is_broken = if scene.is_control() { !attacks.contains(&false) } else { attacks.contains(&true) };
    Verdict::broken_if(is_broken, format!("{attacks:?}"))
}

// SPEC W3, A10
fn reading_variables_through_another_mount_of_proc(scene: &Scene) -> Verdict {
    let alias = alias(scene);
    scene.policy(BASE_ONLY, "");
    let ran = in_a_mount_namespace(scene, "host_alias.sh", &["/proc", &alias], "environments.py", &[&alias]);
    Verdict::broken_if(ran.shows_canary(), format!("{ran:?}"))
}

with_mounts!("bind-aliases":
    starting_in_another_mount_of_the_home,
    starting_around_another_mount_of_the_home,
    writing_through_another_mount_in_an_open_folder,
    creating_a_blocked_file_through_another_mount,
    choosing_the_policy_through_another_mount,
    reading_copies_and_reports_through_another_mount,
    reading_an_injected_file_through_another_mount,
    planting_a_bwrap_in_another_mount_of_the_project,
    planting_a_git_in_another_mount_of_the_project,
);

/// Mounts the home at `alias` as well, and attacks.
fn with_second_home(scene: &Scene, alias: &str, flags: &[&str], attack: &str, arguments: &[&str]) -> Ran {
    let home = scene.home();
    in_a_mount_namespace_with(scene, "host_alias.sh", &[home.to_str().unwrap(), alias], &[], flags, attack, arguments)
}

/// Whether the command changed `.bashrc` of the home, if the run was not refused as too broad.
fn changing_bashrc(scene: &Scene, alias: &str, flags: &[&str]) -> Verdict {
    scene.write_home(".bashrc", ORIGINAL);
    scene.policy(DEFAULTS, "");
    let ran = with_second_home(scene, alias, flags, "write.py", &[&format!("{alias}/.bashrc")]);
    ran.refused_or_completed("too broad");
    Verdict::broken_if(scene.changed(scene.home().join(".bashrc")), format!("{ran:?}"))
}

// SPEC L6, A3
fn starting_in_another_mount_of_the_home(scene: &Scene) -> Verdict {
    let alias = alias(scene);
    changing_bashrc(scene, &alias, &["--cwd", &alias])
}

fn starting_around_another_mount_of_the_home(scene: &Scene) -> Verdict {
    scene.mkdir("copy");
    changing_bashrc(scene, scene.project().join("copy").to_str().unwrap(), &[])
}

// SPEC W3, A13
fn writing_through_another_mount_in_an_open_folder(scene: &Scene) -> Verdict {
    let alias = alias(scene);
    changing_bashrc(scene, &alias, &["--rw", &alias])
}

// SPEC W3, M4, A2
fn creating_a_blocked_file_through_another_mount(scene: &Scene) -> Verdict {
    let alias = alias(scene);
    scene.host(&["git", "init", "-q", "."]);
    scene.policy(DEFAULTS, "ro = [{ path = '~/tool/settings', if-missing = 'block' }]");
    // By its own name, the first file is in a writable folder, and the second one is not.
    let files = ["code/project/.git/commondir", "tool/settings"];
    let paths = files.map(|file| format!("{alias}/{file}"));
    let ran = with_second_home(scene, &alias, &["--rw", &alias], "write.py", &paths.each_ref().map(String::as_str));
    // A repository that leads elsewhere is moved aside.
    let exists = |file: &str| scene.home().join(file).exists();
    let created = files.map(|file| exists(file) || exists(&file.replace(".git/", ".git.held/")));
    let is_broken = if scene.is_control() { !created.contains(&false) } else { created.contains(&true) };
    Verdict::broken_if(is_broken, format!("{created:?} {:?}", ran.completed()))
}

// SPEC D6, W3, A3
fn choosing_the_policy_through_another_mount(scene: &Scene) -> Verdict {
    let alias = alias(scene);
    let settings = scene.home().join(".config/agent-sandbox/config.toml");
    let path = format!("{alias}/.config/agent-sandbox/config.toml");
    let ran = with_second_home(scene, &alias, &["--rw", &alias], "write.py", &[&path]).completed();
    Verdict::broken_if(settings.exists(), format!("{ran:?}"))
}

// SPEC Q6, W3, A12
fn reading_copies_and_reports_through_another_mount(scene: &Scene) -> Verdict {
    let alias = alias(scene);
    let records = ["private/p/copies/c", "reports/p/r"].map(|path| format!(".local/state/agent-sandbox/{path}"));
    for path in &records {
        scene.write_home(path, CANARY);
    }
    scene.policy(DEFAULTS, "");
    let paths = records.map(|path| format!("{alias}/{path}"));
    let ran = with_second_home(scene, &alias, &[], "look.py", &paths.each_ref().map(String::as_str)).completed();
    let shown = ran.out.matches(CANARY).count();
    Verdict::broken_if(if scene.is_control() { shown == paths.len() } else { shown > 0 }, ran.out)
}

// SPEC J2, W3, A20
fn reading_an_injected_file_through_another_mount(scene: &Scene) -> Verdict {
    let alias = alias(scene);
    scene.write(".env", CANARY);
    scene.write(".env.sandbox", "KEY=none\n");
    scene.policy(DEFAULTS, "");
    let path = format!("{alias}/code/project/.env");
    let ran = with_second_home(scene, &alias, &["--inject", ".env.sandbox:.env"], "look.py", &[".env", &path]);
    let ran = ran.completed();
    assert!(ran.out.contains("KEY=none"), "{ran:#?}");
    Verdict::broken_if(ran.shows_canary(), ran.out)
}

/// Plants `program` in the project, in a folder that PATH names through the second mount.
fn planting(scene: &Scene, program: &str, flags: &[&str]) -> (bool, Ran) {
    let (alias, home) = (alias(scene), scene.home());
    scene.write_home(".gitconfig", "[user]\nname = a\nemail = a@b\n");
    scene.policy(DEFAULTS, "");
    let pwned = home.join("pwned");
    write_program(&scene.project().join("bin").join(program), &format!("#!/bin/sh\ntouch {}\n", pwned.display()));
    scene.place.give_away();
    let path = [("PATH", format!("{alias}/code/project/bin:/usr/local/bin:/usr/bin:/bin"))];
    let mounted = [home.to_str().unwrap(), &alias];
    let ran = in_a_mount_namespace_with(scene, "host_alias.sh", &mounted, &path, flags, "look.py", &[]);
    (pwned.exists(), ran)
}

// SPEC S2, A26
fn planting_a_bwrap_in_another_mount_of_the_project(scene: &Scene) -> Verdict {
    let (pwned, ran) = planting(scene, "bwrap", &[]);
    assert!(pwned || ran.refused("bwrap"), "{ran:#?}");
    Verdict::broken_if(pwned, ran.err)
}

// SPEC U4, A26
fn planting_a_git_in_another_mount_of_the_project(scene: &Scene) -> Verdict {
    let (pwned, ran) = planting(scene, "git", &["--home", "private"]);
    Verdict::broken_if(pwned, format!("{:?}", ran.completed()))
}

with_mounts!("socket-masks":
    connecting_without_a_warning_to_what_another_mount_namespace_named,
    connecting_to_a_relative_name_that_looks_abstract,
);

/// Attacks a service that is at `name` in `folder` of the home, and was bound as `bound`.
fn connect_to_named(scene: &Scene, bound: &str, point: &str, name: &str) -> Ran {
    scene.policy(BASE_ONLY, "");
    scene.write_home("services/empty", "");
    let folder = if point.is_empty() { scene.home() } else { scene.home().join("services") };
    let target = folder.join(name);
    let arguments = [folder.to_str().unwrap(), bound, point];
    let ran = in_a_mount_namespace(scene, "host_named.py", &arguments, "connect.py", &[target.to_str().unwrap()]);
    assert!(ran.says("done"), "{ran:#?}");
    ran
}

/// No mount can hide this socket, because its path is not known. A warning names it.
// SPEC W1, A9
fn connecting_without_a_warning_to_what_another_mount_namespace_named(scene: &Scene) -> Verdict {
    let ran = connect_to_named(scene, "/mnt/socket", "/mnt", "socket");
    assert!(ran.says("connected"), "{ran:#?}");
    Verdict::broken_if(!ran.err.contains("unplaced-socket") || !ran.err.contains("/mnt/socket"), ran.err)
}

// SPEC W1, A9
fn connecting_to_a_relative_name_that_looks_abstract(scene: &Scene) -> Verdict {
    let ran = connect_to_named(scene, "@socket", "", "@socket");
    Verdict::broken_if(ran.says("connected"), ran.out)
}
