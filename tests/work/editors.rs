//! Editors save a file by renaming a new file over it, or in place. Both work.

use crate::sandbox::write;
use crate::support::Place;
use crate::{inside, need, outside};

for_both!(files_are_saved_by_replacing_them, vim_saves);

fn files_are_saved_by_replacing_them(place: &Place) {
    write(place, "python", "old\n");
    write(place, "sed", "old\n");
    write(place, "move", "old\n");
    inside(
        place,
        "/usr/bin/python3 -c 'import os; open(\"t\", \"w\").write(\"new\\n\"); os.replace(\"t\", \"python\")'
         sed -i s/old/new/ sed
         t=$(mktemp ./XXXXXX); echo new >$t; mv -f $t move",
    );
    assert_eq!(outside(place, "cat python sed move; ls"), "new\nnew\nnew\nmove\npython\nsed\n");
}

fn vim_saves(place: &Place) {
    need("vim");
    for (file, how) in [("replaced", "no"), ("in-place", "yes")] {
        write(place, file, "old\n");
        let set = format!("set writebackup backupcopy={how}");
        inside(place, &format!("vim -u NONE -es -c '{set}' -c '%s/old/new/' -c wq {file}"));
        assert_eq!(outside(place, &format!("cat {file}; ls -A | grep -v {file} || true")).lines().next(), Some("new"));
    }
    assert_eq!(outside(place, "ls -A"), "in-place\nreplaced\n", "no swap file is left");
}
