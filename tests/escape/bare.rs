//! Making git on the host see no repository in `.git`, and one of the attacker's in the project
//! itself.

use crate::git::repository;
use crate::outcome::Verdict;
use crate::scene::Scene;

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

// Root can search and read files that no user may.
for_user!("head-restore":
    with_a_head_that_cannot_be_read,
    // SPEC R2
    with_the_head_removed_for_good,
    with_refs_removed_for_good,
);

// The search for symlinks opens them again, too.
for_user!("head-restore,git-links":
    with_objects_closed,
    with_refs_closed,
);

// Moving the index aside opens the repository again, too.
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
    let pwned = scene.home().join("pwned");
    let ran = scene.attack("bare.sh", &[way]).completed();
    let mut said = ran.err;
    for words in [&["git", "status"][..], &["git", "diff"], &["git", "add", "file"]] {
        said += &scene.try_host(words).err;
    }
    Verdict::broken_if(pwned.exists(), said)
}
