//! The pictures agree with their sources: the recording with a real run, the pipeline with its
//! graph. `docs/images/render` draws both anew.

use std::fs;

use super::console::{as_ada, run};
use super::support::{Place, require_bwrap};
use super::{document, top};

/// The home and the project that `docs/images/record.py` makes.
fn recorded() -> Place {
    let place = Place::outside_tmp();
    for (file, text) in [
        (".ssh/id_ed25519", "key\n"),
        ("code/project/.env", "PASSWORD=1\n"),
        ("code/project/main.rs", "fn main() {}\n"),
        ("code/project/Makefile", "all:\n"),
    ] {
        place.write(format!("home/{file}"), text);
    }
    let made = place.command("git").args(["init", "-q"]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    place.write("home/code/project/.git/hooks/pre-commit", "#!/bin/sh\n");
    place
}

/// The text of each line of the recording, without its spaces between colours.
fn lines_of_recording() -> Vec<String> {
    let picture = fs::read_to_string(top().join("docs/images/first-minute.svg")).unwrap();
    let groups = picture.split("<g ").skip(1).map(|group| group.split("</g>").next().unwrap());
    groups.map(|group| texts(group).concat()).collect()
}

/// The contents of the `<text>` elements.
fn texts(svg: &str) -> Vec<String> {
    let elements = svg.split("<text ").skip(1).filter_map(|element| element.split_once('>'));
    elements.map(|(_, rest)| plain(rest.split("</text>").next().unwrap())).collect()
}

fn plain(escaped: &str) -> String {
    let escapes = [
        ("&#45;", "-"),
        ("&#39;", "'"),
        ("&#x27;", "'"),
        ("&quot;", "\""),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&amp;", "&"),
    ];
    escapes.into_iter().fold(escaped.to_owned(), |text, (escape, character)| text.replace(escape, character))
}

/// The text without spaces, which depend on the width of a terminal, and with `N` for each number,
/// because the number of mounts depends on the machine.
fn normalized(text: &str) -> String {
    let digits_as_n = |c: char| if c.is_ascii_digit() { 'N' } else { c };
    let mut normal: String = text.chars().filter(|c| !c.is_whitespace()).map(digits_as_n).collect();
    while normal.contains("NN") {
        normal = normal.replace("NN", "N");
    }
    normal
}

#[test]
fn the_recording_shows_what_its_commands_print() {
    require_bwrap();
    let place = recorded();
    let mut compared = 0;
    let lines = lines_of_recording();
    let mut lines = lines.iter().filter(|line| !line.starts_with("# ")).peekable();
    while let Some(command) = lines.next() {
        let command = command.strip_prefix("$ ").unwrap_or_else(|| panic!("`{command}` is no command"));
        let mut shown = String::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with("$ ")) {
            shown.push_str(line);
        }
        let printed = as_ada(&place, &run(&place, command));
        // The recording leaves out the end of a long answer.
        assert!(!shown.is_empty(), "`{command}` shows nothing");
        assert!(
            normalized(&printed).starts_with(&normalized(&shown)),
            "`{command}` prints:\n{printed}\nRun docs/images/render."
        );
        compared += 1;
    }
    assert_eq!(compared, 4);
}

#[test]
fn the_picture_of_the_pipeline_has_the_labels_of_its_source() {
    let source = document("docs/images/pipeline.dot");
    let labels = source.split("label=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let mut labels: Vec<&str> = labels.flat_map(|label| label.split("\\n")).collect();
    let mut drawn = texts(&document("docs/images/pipeline.svg"));
    labels.sort_unstable();
    drawn.sort_unstable();
    assert!(labels.len() > 20);
    assert_eq!(drawn, labels, "run docs/images/render");
}
