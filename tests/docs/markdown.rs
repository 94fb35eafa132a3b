//! Parses the parts of Markdown that the documents use.

/// A fenced block.
pub struct Block {
    /// The word after the fence: `toml`, `text`.
    pub language: String,
    pub text: String,
    /// The line of the opening fence, from 1.
    pub line: usize,
}

struct Line<'t> {
    text: &'t str,
    /// The opening fence of the block around this line: its line number, and the word after it.
    fence: Option<(usize, &'t str)>,
}

/// Every line but the fences themselves.
fn lines(text: &str) -> Vec<Line<'_>> {
    let mut fence = None;
    let mut lines = Vec::new();
    for (index, text) in text.lines().enumerate() {
        match text.trim_start().strip_prefix("```") {
            Some(language) if fence.is_none() => fence = Some((index + 1, language.trim())),
            Some(_) => fence = None,
            None => lines.push(Line { text, fence }),
        }
    }
    assert!(fence.is_none(), "a fence is left open: {fence:?}");
    lines
}

pub fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for line in lines(text) {
        let Some((at, language)) = line.fence else { continue };
        if blocks.last().is_none_or(|block| block.line != at) {
            blocks.push(Block { language: language.to_owned(), text: String::new(), line: at });
        }
        let block = blocks.last_mut().unwrap();
        block.text.push_str(line.text);
        block.text.push('\n');
    }
    blocks
}

fn outside_of_blocks(text: &str) -> Vec<&str> {
    lines(text).into_iter().filter(|line| line.fence.is_none()).map(|line| line.text).collect()
}

/// The text outside of blocks and code spans.
fn prose(text: &str) -> String {
    let without_code = |line: &str| line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    outside_of_blocks(text).into_iter().map(|line| without_code(line) + "\n").collect()
}

/// The targets of `[text](target)`.
pub fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    prose.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next()).map(str::to_owned).collect()
}

/// The anchors that headings get: lower case, spaces as `-`, punctuation gone.
pub fn anchors(text: &str) -> Vec<String> {
    let headings = outside_of_blocks(text).into_iter().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The texts between backticks.
pub fn code_spans(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).collect()
}

#[test]
fn blocks_links_and_anchors_are_found() {
    let text = "# A `b`: C\n[x](y.md#a) `[no](no.md)`\n```toml\na = 1\n[no](no)\n```\n\n  ```\n  z\n  ```\n[last](z)\n";
    let found: Vec<(String, String, usize)> = blocks(text).into_iter().map(|b| (b.language, b.text, b.line)).collect();
    assert_eq!(found, [("toml".into(), "a = 1\n[no](no)\n".into(), 3), (String::new(), "  z\n".into(), 8)]);
    assert_eq!(links(text), ["y.md#a", "z"]);
    assert_eq!(anchors(text), ["a-b-c"]);
    assert_eq!(code_spans("a `b` c `d: e`"), ["b", "d: e"]);
}
