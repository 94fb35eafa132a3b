//! Files, headings and tests that the documents name.

use std::path::Path;

use super::markdown::{anchors, links};
use super::{document, documents, maps, top};

#[test]
fn every_link_leads_somewhere() {
    for (name, text) in documents().into_iter().chain(maps()) {
        for link in links(&text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let folder = Path::new(&name).parent().unwrap();
            let path = if path.is_empty() { name.clone() } else { folder.join(path).to_str().unwrap().to_owned() };
            assert!(!path.starts_with('/') && top().join(&path).exists(), "{name}: `{link}` leads nowhere");
            if !anchor.is_empty() {
                let known = anchors(&document(&path));
                assert!(known.iter().any(|known| known == anchor), "{name}: `{link}`: {path} has {known:?}");
            }
        }
    }
}

/// Drafts of decisions get their number, and their place in the book, when they are accepted.
#[test]
fn every_page_is_in_the_summary_of_the_book() {
    let summary = links(&document("docs/SUMMARY.md"));
    for (name, _) in documents() {
        let Some(page) = name.strip_prefix("docs/") else { continue };
        let is_listed =
            page == "SUMMARY.md" || page.starts_with("adr/draft-") || summary.iter().any(|link| link == page);
        assert!(is_listed, "docs/SUMMARY.md does not list {page}");
    }
}

#[test]
fn every_decision_has_the_number_of_its_file() {
    let index = document("docs/adr/README.md");
    let mut count = 0;
    for (name, text) in documents() {
        let Some(number) =
            name.strip_prefix("docs/adr/").and_then(|name| name.split_once('-')?.0.parse::<usize>().ok())
        else {
            continue;
        };
        let title = text.lines().next().unwrap();
        assert!(title.starts_with(&format!("# {number}. ")), "{name}: {title}");
        for part in ["## Context", "## Decision", "## Consequences"] {
            assert!(text.contains(&format!("\n{part}\n")), "{name} has no `{part}`");
        }
        assert!(index.contains(name.strip_prefix("docs/adr/").unwrap()), "docs/adr/README.md does not list {name}");
        count += 1;
    }
    assert!(count > 25, "{count}");
}
