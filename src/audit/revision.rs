//! The project's file at a revision.
//!
//! The settings of a repository can name programs, so this module starts only git commands that
//! read objects. They run without hooks, filters and a pager, with an environment of our own, and
//! without fetching.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use crate::compile::layers::{MAX_CONFIG_BYTES, PROJECT_FILE, Project};
use crate::compile::planted::{may_be_of_project, may_be_planted};
use crate::compile::{self, Request};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, reason};
use crate::host::git::program;
use crate::host::{Host, Session};
use crate::policy::{AbsPath, Source, escape_for_display};
use crate::sys::ablate::{self, Mitigation};
use crate::sys::process::output_within;

/// The time that git may take to read one object.
const PATIENCE: Duration = Duration::from_secs(10);

/// The project's file at `revision`; `None` if there was none.
pub fn source_at(
    host: &Host,
    session: &Session,
    project: &Project,
    revision: &OsStr,
) -> Result<Option<Source>, Diagnostic> {
    let named = format!("git:{}", escape_for_display(revision));
    // Git would read a revision that starts with `-` as an option, and an empty one as the index.
    if revision.is_empty() || revision.as_bytes().starts_with(b"-") {
        return Err(failed(format!("`{named}` names no revision"), "write `git:HEAD`, `git:main` or `git:COMMIT`"));
    }
    let git = RevisionGit { program: find(host, session, project)?, session, host, folder: &project.root };
    let commit: OsString = [revision, OsStr::new("^{commit}")].into_iter().collect();
    let Some(commit) = git.ask(["rev-parse".into(), "--verify".into(), "--quiet".into(), commit])? else {
        if git.ask(["rev-parse".into(), "--git-dir".into()])?.is_none() {
            return Err(failed(
                "git finds no repository that it trusts around the project",
                "name a file instead of a revision, or find the cause with `git status`",
            ));
        }
        return Err(failed(
            format!("`{named}`: the repository of the project has no such revision"),
            "name a branch, a tag or a commit that is there: a shallow clone holds few (`git fetch --depth=1 origin main`)",
        ));
    };
    let commit = OsString::from_vec(commit.trim_ascii_end().to_vec());
    // `100644 blob HASH\tNAME`
    let listed = git.ask(["ls-tree".into(), "-z".into(), commit, "--".into(), PROJECT_FILE.into()])?;
    let Some(listed) = listed else {
        return Err(failed(
            format!("cannot read the files of `{named}`: it is not a single commit, or the repository lacks them"),
            "name another revision, or fetch this one",
        ));
    };
    let mut fields = listed.split(|byte| matches!(byte, b' ' | b'\t'));
    let (Some(mode), Some(b"blob"), Some(blob)) = (fields.next(), fields.next(), fields.next()) else {
        return match listed.is_empty() {
            true => Ok(None),
            false => Err(failed(format!("`{PROJECT_FILE}` is no file at `{named}`"), "name another revision")),
        };
    };
    if mode == b"120000" {
        let message =
            format!("`{PROJECT_FILE}` is a symlink at `{named}`, and its target at that revision is not known");
        return Err(failed(message, "write the policy of that revision to a file, and name the file"));
    }
    let content = git.ask(["cat-file".into(), "blob".into(), OsStr::from_bytes(blob).to_owned()])?;
    let name = format!("{named}:{PROJECT_FILE}");
    let problem = match content.map(String::from_utf8) {
        Some(Ok(text)) if text.len() as u64 <= MAX_CONFIG_BYTES => return Ok(Some(Source::new(name, text))),
        Some(Ok(_)) => "it is too large",
        Some(Err(_)) => "it is not UTF-8",
        None => "the repository lacks its content",
    };
    Err(failed(format!("cannot read `{name}`: {problem}"), "name another revision, or fetch this one"))
}

fn failed(message: impl Into<String>, help: &str) -> Diagnostic {
    Diagnostic::new(Code::NoComparison, message).help(help)
}

/// The user's git, if no command can have written it.
fn find(host: &Host, session: &Session, project: &Project) -> Result<AbsPath, Diagnostic> {
    let usual = compile::compile(host, session, &Request::default(), &mut Diagnostics::default());
    let is_planted = |at: &AbsPath| match &usual {
        Some(usual) => may_be_planted(&usual.plan, project, at),
        None => may_be_of_project(project, at),
    };
    let found = program::find(host, session, |at| !is_planted(at) || ablate::is_off(Mitigation::GitPath));
    // In `/` every git is a part of the project.
    let root = &project.root;
    found.ok_or_else(|| match project.has_unsafe_root() {
        true => Diagnostic::new(
            Code::UnsafeRoot,
            format!("`{root}` is too broad a project: any `git` could be a part of it"),
        )
        .help("start in the folder of one project, or name a file instead of a revision"),
        false => failed("there is no `git` on PATH", "install git, or name a file instead of a revision"),
    })
}

struct RevisionGit<'a> {
    program: AbsPath,
    session: &'a Session,
    host: &'a Host,
    folder: &'a AbsPath,
}

impl RevisionGit<'_> {
    /// The output of git; `None` if it fails.
    fn ask<const N: usize>(&self, words: [OsString; N]) -> Result<Option<Vec<u8>>, Diagnostic> {
        let mut command = program::command(&self.program, self.session, self.host, self.folder);
        command.args(words);
        // A partial clone fetches missing objects by programs that its settings name. The second
        // variable is for git before 2.45.
        command.env("GIT_NO_LAZY_FETCH", "1").env("GIT_ALLOW_PROTOCOL", "none");
        // A FIFO in the repository makes git wait for ever.
        let most = usize::try_from(MAX_CONFIG_BYTES).unwrap_or(usize::MAX);
        let output = output_within(&mut command, PATIENCE, most).map_err(|e| match e.kind() {
            io::ErrorKind::TimedOut => failed(
                format!("git did not answer within {} seconds", PATIENCE.as_secs()),
                "make sure that `.git` holds no FIFO (`find .git -type p`), or name a file instead of a revision",
            ),
            _ => failed(format!("cannot run `{}`: {}", self.program, reason(&e)), "name a file instead of a revision"),
        })?;
        Ok((output.status.success() || output.stdout.len() > most).then_some(output.stdout))
    }
}
