//! Files that the command sees without their credentials, and other files with credentials.

use std::fs;
use std::path::PathBuf;

use crate::outcome::Verdict;
use crate::root::in_a_mount_namespace;
use crate::scene::{CANARY, DEFAULTS, Scene};

everywhere!("secrets-preset": reading_a_token_that_a_copy_leaves_out);
for_everybody!("secrets-preset":
    writing_the_copy_of_a_file,
    reading_tokens_and_histories_in_the_home,
    planting_files_until_there_is_no_copy_left,
);
for_everybody!("own-files": replacing_a_copy_for_the_next_run);
for_everybody!("hard-links": reading_a_token_by_another_name);
with_mounts!("bind-aliases": reading_a_token_through_another_mount);

/// Settings with one credential each.
fn settings(scene: &Scene) -> Vec<PathBuf> {
    scene.policy(DEFAULTS, "");
    let (home, project) = (scene.home(), scene.project());
    let all = [
        (home.join(".npmrc"), format!("registry=https://r.example/\n//r.example/:_authToken={CANARY}\n")),
        (home.join(".yarnrc.yml"), format!("nodeLinker: pnp\nnpmAuthToken: {CANARY}\n")),
        (home.join(".config/pip/pip.conf"), format!("[global]\nindex-url = https://me:{CANARY}@r.example/\n")),
        (home.join(".m2/settings.xml"), format!("<settings><password>{CANARY}</password></settings>")),
        (home.join(".gradle/gradle.properties"), format!("a=b\nsigningPassword={CANARY}\n")),
        (project.join(".npmrc"), format!("save-exact=true\n_auth={CANARY}\n")),
        (project.join("web/.yarnrc.yml"), format!("npmScopes:\n  a:\n    npmAuthIdent: {CANARY}\n")),
        // agent-sandbox cannot parse this file, and therefore hides it.
        (project.join("api/.yarnrc.yml"), format!("npmScopes: {{ a: {{ npmAuthToken: {CANARY} }} }}\n")),
    ];
    for (path, content) in &all {
        scene.place.write(path, content);
    }
    all.map(|(path, _)| path).into()
}

/// The product is broken if the attack reaches one path. The control must reach all of them.
fn verdict(scene: &Scene, reached: usize, all: usize, what: String) -> Verdict {
    Verdict::broken_if(if scene.is_control() { reached >= all } else { reached > 0 }, what)
}

// SPEC A15
fn reading_a_token_that_a_copy_leaves_out(scene: &Scene) -> Verdict {
    let mut paths = settings(scene);
    let all = paths.len();
    // This run makes the copies in the state folder.
    scene.attack("sh", &["-c", "echo done"]).completed();
    let copies = fs::read_dir(scene.home().join(".local/state/agent-sandbox/mounts")).unwrap();
    paths.extend(copies.map(|entry| entry.unwrap().path()));
    let ran = scene.attack("credentials.py", &paths).completed();
    assert!(ran.out.contains("registry=https://r.example/"), "the settings are there: {ran:?}");
    let seen = ran.out.lines().filter(|line| line.contains(CANARY)).count();
    verdict(scene, seen, all, ran.out)
}

// SPEC A15
fn writing_the_copy_of_a_file(scene: &Scene) -> Verdict {
    let paths: Vec<PathBuf> = settings(scene).into_iter().filter(|path| path.starts_with(scene.project())).collect();
    let before: Vec<_> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    let ran = scene.attack("write.py", &paths).completed();
    let changed = paths.iter().zip(before).filter(|(path, before)| fs::read(path).ok().as_ref() != Some(before));
    verdict(scene, changed.count(), paths.len(), ran.out)
}

/// A command that can write to the state folder could change a copy for a later run. Even in the
/// control, the next run shows the right text, because it checks the content of each copy.
// SPEC A15
fn replacing_a_copy_for_the_next_run(scene: &Scene) -> Verdict {
    settings(scene);
    scene.policy(DEFAULTS, "rw = ['~/.local']");
    let npmrc = scene.home().join(".npmrc");
    scene.attack("look.py", &[&npmrc]).completed();
    let copies = fs::read_dir(scene.home().join(".local/state/agent-sandbox/mounts")).unwrap();
    let copies = copies.map(|entry| entry.unwrap().path());
    let copies: Vec<_> = copies.filter_map(|path| Some((path.clone(), fs::read(path).ok()?))).collect();
    assert!(copies.iter().any(|(_, text)| text == b"registry=https://r.example/\n"));
    let paths: Vec<&PathBuf> = copies.iter().map(|(path, _)| path).collect();
    let ran = scene.attack("write.py", &paths).completed();
    let changed = copies.iter().any(|(path, text)| fs::read(path).ok().as_ref() != Some(text));
    let next = scene.attack("look.py", &[&npmrc]).completed();
    assert!(next.out.contains("registry=https://r.example/") && !next.shows_canary(), "{next:?}");
    Verdict::broken_if(changed, ran.out)
}

// SPEC A15
fn reading_a_token_by_another_name(scene: &Scene) -> Verdict {
    settings(scene);
    let other = scene.project().join("other");
    fs::hard_link(scene.home().join(".npmrc"), &other).unwrap();
    let ran = scene.attack("look.py", &[&other]);
    ran.refused_or_completed("other-names");
    Verdict::broken_if(ran.shows_canary(), ran.err)
}

/// The folder of the file is mounted in a second place.
// SPEC A15
fn reading_a_token_through_another_mount(scene: &Scene) -> Verdict {
    settings(scene);
    let alias = scene.home().join("alias");
    fs::create_dir_all(&alias).unwrap();
    scene.place.give_away();
    let (folder, alias) = (scene.home().join(".config/pip"), alias);
    let [folder, alias] = [&folder, &alias].map(|path| path.to_str().unwrap());
    let ran = in_a_mount_namespace(scene, "host_alias.sh", &[folder, alias], "look.py", &[folder, alias]).completed();
    assert_eq!(ran.out.matches("index-url").count(), 2, "{ran:?}");
    Verdict::broken_if(ran.shows_canary(), ran.out)
}

/// A run makes a limited number of copies, and hides further files.
// SPEC A15
fn planting_files_until_there_is_no_copy_left(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "");
    let plant = "for n in $(seq 40); do mkdir $n; echo _auth=x >$n/.npmrc; done; echo done";
    scene.attack("sh", &["-c", plant]).completed();
    let npmrc = scene.project().join("web/.npmrc");
    scene.write("web/.npmrc", format!("_auth={CANARY}\n"));
    let ran = scene.attack("look.py", &[&npmrc]).completed();
    Verdict::broken_if(ran.shows_canary(), ran.out)
}

/// The home has one file of each kind: shells, databases, clouds, registries, chat, mail, wallets,
/// password managers.
// SPEC A16
fn reading_tokens_and_histories_in_the_home(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "");
    let paths = [
        ".bash_history",
        ".zsh_history",
        ".local/share/fish/fish_history",
        ".python_history",
        ".psql_history",
        ".pgpass",
        ".terraform.d/credentials.tfrc.json",
        ".config/rclone/rclone.conf",
        ".config/doctl/config.yaml",
        ".fly/config.yml",
        ".gem/credentials",
        ".config/composer/auth.json",
        ".config/containers/auth.json",
        ".cache/huggingface/token",
        ".config/Slack/Cookies",
        ".config/Signal/config.json",
        ".config/Bitwarden CLI/data.json",
        ".config/1Password/settings",
        ".bitcoin/wallet.dat",
        ".electrum/wallets/default_wallet",
        ".msmtprc",
        ".local/share/DBeaverData/workspace6/General/.dbeaver/credentials-config.json",
        "Passwords.kdbx",
        "family.kdbx",
        "Desktop/family.kdbx",
        "Dropbox/family.kdbx",
        ".terraformrc",
        ".curlrc",
        ".cf/config.json",
        ".tsh/keys/proxy/me",
        ".chef/me.pem",
        ".minikube/profiles/p/client.key",
        ".gitkraken/profiles/p/profile",
        ".ipython/profile_default/history.sqlite",
        ".config/nushell/history.sqlite3",
        ".sui/sui_config/sui.keystore",
        ".near-credentials/mainnet/me.near.json",
        ".var/app/com.slack.Slack/config/Slack/Cookies",
        "snap/slack/common/Cookies",
    ];
    for path in paths {
        scene.write_home(path, format!("{CANARY}\n"));
    }
    let paths: Vec<_> = paths.iter().map(|path| scene.home().join(path)).collect();
    let ran = scene.attack("look.py", &paths).completed();
    verdict(scene, ran.out.matches(CANARY).count(), paths.len(), ran.out)
}
