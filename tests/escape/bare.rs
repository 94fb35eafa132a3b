//! Makes git on the host ignore the repository in `.git`, and use a repository of the attacker in
//! the project itself.

use crate::git::{identify, repository, with_submodule};
use crate::nested::with_an_embedded_repository;
use crate::outcome::Verdict;
use crate::scene::{DEFAULTS, Scene};

macro_rules! ways {
    ($($attack:ident = $way:literal),+ $(,)?) => { $(
        fn $attack(scene: &Scene) -> Verdict {
            repository(scene);
            then_look(scene, $way)
        }
    )+ };
}

for_everybody!("head-restore":
    // SPEC A11
    planting_a_bare_repository,
    with_the_head_moved,
    with_nonsense_for_a_head,
    with_an_empty_head,
    with_a_head_that_leads_out_of_refs,
    with_a_folder_for_a_head,
    with_a_link_for_a_head,
    without_objects,
    with_a_file_for_objects,
    without_refs,
    with_a_link_for_refs,
);

// These attack a repository inside of the project.
for_everybody!("head-restore":
    // SPEC R2
    in_a_submodule,
    in_a_submodule_without_objects,
    // SPEC R2
    in_one_of_several_repositories,
    in_one_of_several_repositories_without_refs,
    // SPEC R2
    taking_a_submodule_apart,
);
for_everybody!("nested-repositories":
    // SPEC R11
    in_a_repository_that_nothing_names_without_a_report,
    // SPEC R11
    in_a_submodule_that_is_left_whole_without_a_report,
);

// Modes do not keep root from reading.
for_user!("head-restore":
    with_a_head_that_cannot_be_read,
    // SPEC R2
    with_the_head_removed_for_good,
    with_refs_removed_for_good,
);

// The search for symlinks also restores the modes, so the control needs both.
for_user!("head-restore,git-links":
    with_objects_closed,
    with_refs_closed,
);

// Moving the index aside also restores the modes of the repository.
for_user!("head-restore,nested-repositories": with_all_of_it_closed);

ways!(
    planting_a_bare_repository = "removed",
    with_the_head_moved = "moved",
    with_nonsense_for_a_head = "nonsense",
    with_an_empty_head = "emptied",
    with_a_head_that_leads_out_of_refs = "outside-of-refs",
    with_a_folder_for_a_head = "folder",
    with_a_link_for_a_head = "link",
    without_objects = "without-objects",
    with_a_file_for_objects = "file-for-objects",
    without_refs = "without-refs",
    with_a_link_for_refs = "link-for-refs",
    with_the_head_removed_for_good = "removed-and-closed",
    with_refs_removed_for_good = "without-refs-and-closed",
    with_a_head_that_cannot_be_read = "unreadable",
    with_objects_closed = "closed-objects",
    with_refs_closed = "closed-refs",
    // SPEC A11
    with_all_of_it_closed = "closed",
);

fn then_look(scene: &Scene, way: &str) -> Verdict {
    then_look_in(scene, ".", way)
}

fn then_look_in(scene: &Scene, folder: &str, way: &str) -> Verdict {
    let pwned = scene.home().join("pwned");
    let ran = scene.attack("bare.sh", &[way, folder]).completed();
    let mut said = ran.err;
    for words in [&["status"][..], &["diff"], &["add", "file"]] {
        said += &scene.try_host(&[&["git", "-C", folder], words].concat()).err;
    }
    Verdict::broken_if(pwned.exists(), said)
}

macro_rules! ways_in {
    ($prepare:ident: $($attack:ident = $way:literal),+ $(,)?) => { $(
        fn $attack(scene: &Scene) -> Verdict {
            $prepare(scene);
            then_look_in(scene, "sub", $way)
        }
    )+ };
}

ways_in!(with_an_embedded_repository: in_a_submodule = "removed", in_a_submodule_without_objects = "without-objects");
ways_in!(several_repositories:
    in_one_of_several_repositories = "removed",
    in_one_of_several_repositories_without_refs = "without-refs",
);

pub fn several_repositories(scene: &Scene) {
    scene.policy(DEFAULTS, "");
    identify(scene);
    embedded(scene);
}

pub fn embedded(scene: &Scene) {
    scene.host(&["git", "init", "-q", "sub"]);
    scene.host(&["git", "-C", "sub", "commit", "--allow-empty", "-qm", "first"]);
}

/// The user's submodule must work as before, with all of its refs.
fn taking_a_submodule_apart(scene: &Scene) -> Verdict {
    with_submodule(scene);
    let before = scene.host(&["git", "-C", "sub", "for-each-ref"]);
    let said = scene.attack("bare.sh", &["module"]).completed().err;
    let after = scene.try_host(&["git", "-C", "sub", "for-each-ref"]).out;
    assert!(!before.is_empty());
    Verdict::broken_if(before != after, said)
}

fn in_a_repository_that_nothing_names_without_a_report(scene: &Scene) -> Verdict {
    repository(scene);
    embedded(scene);
    let said = scene.attack("bare.sh", &["removed", "sub"]).completed().err;
    Verdict::broken_if(!said.contains("the repository `sub` has, since this run, a bare repository beside"), said)
}

fn in_a_submodule_that_is_left_whole_without_a_report(scene: &Scene) -> Verdict {
    with_an_embedded_repository(scene);
    let said = scene.attack("bare.sh", &["left", "sub"]).completed().err;
    Verdict::broken_if(!said.contains("/sub` looks like a bare repository"), said)
}
