//! Diagnostics as people read them in a terminal, and as tools read them.

use std::borrow::Cow;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Origin as Location, Padding, Renderer, Snippet};
use serde::Serialize;

use super::{Diagnostic, Diagnostics, Severity};
use crate::policy::{AbsPath, Origin, Place, escape_json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Text {
        color: bool,
    },
    /// One object per line.
    Json,
}

/// The number and length of the diagnostics that are shown as text.
#[derive(Clone, Copy, Debug)]
pub struct RenderLimits {
    pub diagnostics: usize,
    /// The most notes of each diagnostic.
    pub notes: usize,
    /// The most characters of a message or note. The middle of a longer one is left out.
    pub characters: usize,
    /// Says how to see the rest.
    pub rest: &'static str,
}

impl RenderLimits {
    /// The usual limits. Rendering all diagnostics of a file full of mistakes would take minutes.
    const USUAL: Self = Self { diagnostics: 100, notes: 20, rest: "; `--message-format=json` shows all", ..Self::NONE };
    pub const NONE: Self = Self { diagnostics: usize::MAX, notes: usize::MAX, characters: usize::MAX, rest: "" };

    fn more(&self, all: usize, shown: usize) -> Option<String> {
        let more = all.saturating_sub(shown);
        (more > 0).then(|| format!("… and {more} more{}", self.rest))
    }

    /// A message or note as it is shown.
    fn line<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let length = text.chars().count();
        if length <= self.characters {
            return printable(text);
        }
        let part = |skip, take| text.chars().skip(skip).take(take).collect::<String>();
        let (half, left_out) = (self.characters / 2, length - self.characters);
        let shortened = format!("{}…({left_out} characters)…{}", part(0, half), part(half + left_out, length));
        Cow::Owned(printable(&shortened).into_owned())
    }
}

/// Renders `diagnostics` within the usual limits. The text is empty or ends with a line break.
pub fn render(diagnostics: &Diagnostics, format: Format) -> String {
    render_within(diagnostics, format, &RenderLimits::USUAL)
}

/// Renders `diagnostics`. `limits` apply to text only.
pub fn render_within(diagnostics: &Diagnostics, format: Format, limits: &RenderLimits) -> String {
    match format {
        Format::Text { color } => {
            let renderer = if color { Renderer::styled() } else { Renderer::plain() };
            let renderer = renderer.decor_style(DecorStyle::Ascii);
            let shown = diagnostics.iter().take(limits.diagnostics);
            let mut reports: Vec<String> = shown.map(|d| text(d, &renderer, limits) + "\n").collect();
            reports.extend(limits.more(diagnostics.iter().count(), limits.diagnostics).map(|more| more + "\n"));
            reports.join("\n")
        }
        Format::Json => diagnostics.iter().map(|d| json(d) + "\n").collect(),
    }
}

fn text(diagnostic: &Diagnostic, renderer: &Renderer, limits: &RenderLimits) -> String {
    let level = match diagnostic.severity() {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    let title = level.primary_title(limits.line(&diagnostic.message)).id(diagnostic.code.name());
    let mut group = Group::with_title(title);
    if let Some(origin) = &diagnostic.origin {
        match origin.place() {
            Some(place) => group = group.element(snippet(place)),
            None => {
                group = group.element(Location::path(printable(&origin.to_string()).into_owned()));
                if diagnostic.help.is_some() {
                    group = group.element(Padding);
                }
            }
        }
    }
    for note in notes(diagnostic, limits) {
        group = group.element(Level::NOTE.message(note));
    }
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.message(printable(help)));
    }
    let report = renderer.render(&[group]);
    match diagnostic.origin.as_ref().and_then(Origin::place) {
        Some(_) => report,
        // Without a source line, annotate-snippets makes the gutter one column narrower. Indent the
        // lines to the usual width.
        None => report.replace('\n', "\n "),
    }
}

fn notes<'d>(diagnostic: &'d Diagnostic, limits: &RenderLimits) -> impl Iterator<Item = Cow<'d, str>> {
    let rest = limits.more(diagnostic.details.notes.len(), limits.notes).map(Cow::Owned);
    diagnostic.details.notes.iter().take(limits.notes).map(|note| limits.line(note)).chain(rest)
}

/// Shows only the lines of `place`: a file may be long, and each character that is shown is
/// checked.
fn snippet(place: &Place) -> Snippet<'_, annotate_snippets::Annotation<'_>> {
    let text = place.source.text.as_str();
    let start = char_boundary(text, place.span.start);
    let end = char_boundary(text, place.span.end).max(start);
    let first = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let last = text[end..].find('\n').map_or(text.len(), |at| end + at + 1);

    let before = printable(&text[first..start]);
    let marked = printable(&text[start..end]);
    let span = before.len()..before.len() + marked.len();
    let lines = format!("{before}{marked}{}", printable(&text[end..last]));
    Snippet::source(lines)
        .line_start(place.line_column().0)
        .path(printable(&place.source.name))
        .annotation(AnnotationKind::Primary.span(span))
}

/// `at`, or the nearest place before it where a character starts.
fn char_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Replaces characters that could control a terminal or change the reading direction. Tabs and line
/// breaks stay.
///
/// annotate-snippets replaces C0 controls and most bidirectional ones in titles, paths and source
/// lines, but not U+0080–U+009F (U+009B starts an escape sequence in xterm), and none in a help
/// text.
fn printable(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_printable) {
        return Cow::Borrowed(text);
    }
    let visible = |c| if is_printable(c) { c } else { picture(c) };
    Cow::Owned(text.replace("\r\n", "\n").chars().map(visible).collect())
}

fn is_printable(c: char) -> bool {
    let turns_direction =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    matches!(c, '\t' | '\n') || !(c.is_control() || turns_direction)
}

/// A visible character to show instead of an invisible one: `␛` for ESC, `�` where Unicode has no
/// picture.
fn picture(c: char) -> char {
    match u32::from(c) {
        code @ 0..0x20 => char::from_u32(0x2400 + code).unwrap_or(char::REPLACEMENT_CHARACTER),
        0x7f => '␡',
        _ => char::REPLACEMENT_CHARACTER,
    }
}

#[derive(Serialize)]
struct Object<'a> {
    severity: Severity,
    code: &'static str,
    message: &'a str,
    #[serde(flatten)]
    place: Option<Lines<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    notes: &'a [String],
    #[serde(skip_serializing_if = "<[AbsPath]>::is_empty")]
    paths: &'a [AbsPath],
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<&'a str>,
}

/// Lines and columns count from 1, and columns count characters. The end is the first character
/// after the marked text.
#[derive(Serialize)]
struct Lines<'a> {
    file: &'a str,
    line: usize,
    column: usize,
    end_line: usize,
    end_column: usize,
}

fn json(diagnostic: &Diagnostic) -> String {
    let place = diagnostic.origin.as_ref().and_then(Origin::place).map(|place| {
        let (line, column) = place.line_column();
        let (end_line, end_column) = place.end().line_column();
        Lines { file: &place.source.name, line, column, end_line, end_column }
    });
    let object = Object {
        severity: diagnostic.severity(),
        code: diagnostic.code.name(),
        message: &diagnostic.message,
        place,
        origin: diagnostic.origin.as_ref().map(ToString::to_string),
        notes: &diagnostic.details.notes,
        paths: &diagnostic.details.paths,
        help: diagnostic.help.as_deref(),
    };
    escape_json(&serde_json::to_string(&object).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::Code;
    use super::*;
    use crate::policy::origin::Source;

    const PLAIN: Format = Format::Text { color: false };

    /// The place of `marked` in `text`.
    fn place(text: &str, marked: &str) -> Place {
        let start = text.find(marked).unwrap_or_else(|| panic!("{marked:?} is not in {text:?}"));
        let source = Source::new(".agent-sandbox.toml".to_owned(), text.to_owned());
        Place { source: Arc::new(source), span: start..start + marked.len() }
    }

    fn missing(origin: &Origin) -> Diagnostic {
        Diagnostic::new(Code::MissingPath, "`~/x` does not exist").at(origin).help("create it")
    }

    fn rendered(diagnostics: impl IntoIterator<Item = Diagnostic>, format: Format) -> String {
        let mut all = Diagnostics::default();
        diagnostics.into_iter().for_each(|diagnostic| all.push(diagnostic));
        render(&all, format)
    }

    #[test]
    fn no_diagnostics_are_no_text() {
        assert_eq!(rendered([], PLAIN), "");
        assert_eq!(rendered([], Format::Json), "");
    }

    #[test]
    fn a_place_is_shown_with_its_line() {
        let origin = Origin::File(place("[filesystem]\n\nrw = [\"~/x\"]\n", "\"~/x\""));
        let expected = r#"
error[missing-path]: `~/x` does not exist
 --> .agent-sandbox.toml:3:7
  |
3 | rw = ["~/x"]
  |       ^^^^^
  |
  = help: create it
"#;
        assert_eq!(rendered([missing(&origin)], PLAIN), expected[1..]);
    }

    #[test]
    fn diagnostics_without_a_source_line_keep_the_layout() {
        let flag = Origin::Flag { flag: "--ro", value: "~/x".into() };
        let diagnostics = [
            missing(&flag),
            Diagnostic::new(Code::ProtectedPath, "`/etc` is protected").at(&Origin::BuiltIn("our own files")),
            Diagnostic::new(Code::NoHome, "`$HOME` is not set").help("set it"),
            Diagnostic::new(Code::NoDockerSocket, "no socket was found"),
        ];
        let expected = r#"
error[missing-path]: `~/x` does not exist
 --> --ro ~/x
  |
  = help: create it

error[protected-path]: `/etc` is protected
 --> our own files

error[no-home]: `$HOME` is not set
  |
  = help: set it

warning[no-docker-socket]: no socket was found
"#;
        assert_eq!(rendered(diagnostics, PLAIN), expected[1..]);
    }

    #[test]
    fn the_marker_stays_below_what_it_marks() {
        let origin = Origin::File(place("# é\r\nro = ['\t\u{1b}é', 'x'] # y\r\n", "'x'"));
        let expected = "
error[missing-path]: `~/x` does not exist
 --> .agent-sandbox.toml:2:14
  |
2 | ro = ['    ␛é', 'x'] # y
  |                 ^^^
  |
  = help: create it
";
        assert_eq!(rendered([missing(&origin)], PLAIN), expected[1..]);
    }

    #[test]
    fn control_characters_of_an_untrusted_file_are_shown_and_not_sent() {
        let text = "x = 1 # \u{1b}[2J \u{7} \u{7f} \u{9b}2J \u{202e}txt\u{200f}\n";
        let mut place = place(text, "x");
        place.source = Arc::new(Source::new("a\u{9b}b".to_owned(), text.to_owned()));
        let diagnostic = missing(&Origin::File(place)).help("not\u{1b}[2J this\r");
        let expected = "
error[missing-path]: `~/x` does not exist
 --> a�b:1:1
  |
1 | x = 1 # ␛[2J ␇ ␡ �2J �txt�
  | ^
  |
  = help: not␛[2J this␍
";
        assert_eq!(rendered([diagnostic], PLAIN), expected[1..]);
    }

    #[test]
    fn a_place_outside_of_its_text_is_shown_at_the_end() {
        let source = Arc::new(Source::new("f".to_owned(), "é".to_owned()));
        let origin = Origin::File(Place { source, span: 1..99 });
        let said = rendered([missing(&origin)], PLAIN);
        assert!(said.contains("1 | é\n  | ^\n"), "{said}");
    }

    #[test]
    fn colour_does_not_change_the_text() {
        let origin = Origin::File(place("rw = ['x']\n", "'x'"));
        let coloured = rendered([missing(&origin)], Format::Text { color: true });
        assert!(coloured.starts_with("\u{1b}["), "{coloured:?}");
        let mut words = String::new();
        let mut rest = coloured.as_str();
        while let Some((before, sequence)) = rest.split_once("\u{1b}[") {
            words.push_str(before);
            rest = sequence.split_once('m').map_or("", |(_, after)| after);
        }
        words.push_str(rest);
        assert_eq!(words, rendered([missing(&origin)], PLAIN));
    }

    #[test]
    fn a_flood_is_cut_and_counted() {
        let mut diagnostics = Diagnostics::default();
        for index in 0..150 {
            diagnostics.push(Diagnostic::new(Code::InvalidPath, format!("number {index}")));
        }
        let text = render(&diagnostics, Format::Text { color: false });
        assert!(text.contains("number 99\n") && !text.contains("number 100\n"));
        assert!(text.ends_with("\n… and 50 more; `--message-format=json` shows all\n"), "{text}");
        assert_eq!(render(&diagnostics, Format::Json).lines().count(), 150);
    }

    #[test]
    fn json_is_one_object_per_line_without_absent_fields() {
        let origin = Origin::File(place("rw = [\n 'é\n', '''x\ny''']", "'''x\ny'''"));
        let diagnostics = [
            missing(&origin),
            missing(&Origin::Flag { flag: "--ro", value: "~/x".into() }),
            Diagnostic::new(Code::NoDockerSocket, "no \"socket\" \u{1b} \u{9b}"),
        ];
        let expected = r#"
{"severity":"error","code":"missing-path","message":"`~/x` does not exist","file":".agent-sandbox.toml","line":3,"column":4,"end_line":4,"end_column":5,"origin":".agent-sandbox.toml:3:4","help":"create it"}
{"severity":"error","code":"missing-path","message":"`~/x` does not exist","origin":"--ro ~/x","help":"create it"}
{"severity":"warning","code":"no-docker-socket","message":"no \"socket\" \u001b \u009b"}
"#;
        assert_eq!(rendered(diagnostics, Format::Json), expected[1..]);
    }
}
