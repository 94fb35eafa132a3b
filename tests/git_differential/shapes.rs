//! The repositories that a user may have before the run.

/// The forms of a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Plain,
    WithoutHooks,
    HooksBehindLink,
    Submodule,
    SubmoduleInSubmodule,
    SubmoduleNeverThere,
    Embedded,
    WorktreeInside,
    WorktreeElsewhere,
    IsWorktree,
    SeparateGitDir,
    SplitIndex,
    NoRepository,
    Several,
}

pub const FUNCTIONS: &str = r#"
made() {
    git init -q -b main "$1"
    echo content >"$1/file"; echo 'file filter=f diff=d merge=m' >"$1/.gitattributes"
    git -C "$1" add . && git -C "$1" commit -qm first
}
library() { made "$HOME/code/library"; }
module() { git -C "$1" -c protocol.file.allow=always submodule --quiet add "$HOME/code/library" "$2" && git -C "$1" commit -qm module; }
"#;

impl Shape {
    pub const ALL: [Self; 14] = [
        Self::Plain,
        Self::WithoutHooks,
        Self::HooksBehindLink,
        Self::Submodule,
        Self::SubmoduleInSubmodule,
        Self::SubmoduleNeverThere,
        Self::Embedded,
        Self::WorktreeInside,
        Self::WorktreeElsewhere,
        Self::IsWorktree,
        Self::SeparateGitDir,
        Self::SplitIndex,
        Self::NoRepository,
        Self::Several,
    ];

    pub fn name(self) -> String {
        format!("{self:?}")
    }

    /// The script that makes this shape in the project, which is an empty folder.
    pub fn script(self) -> &'static str {
        match self {
            Self::Plain => "made .",
            Self::WithoutHooks => "made . && rm -rf .git/hooks .git/info",
            Self::HooksBehindLink => {
                "made . && rm -rf .git/hooks && mkdir -p tools/hooks && ln -s ../tools/hooks .git/hooks"
            }
            Self::Submodule => "library; made . && module . sub",
            Self::SubmoduleInSubmodule => {
                "library; made . && module . sub && module sub deeper && git commit -qam deeper"
            }
            Self::SubmoduleNeverThere => {
                "library; made . && module . sub && git submodule --quiet deinit sub && rm -rf .git/modules"
            }
            Self::Embedded => "made . && made sub && git -c advice.addEmbeddedRepo=false add sub && git commit -qm sub",
            Self::WorktreeInside => {
                "made . && git config extensions.worktreeConfig true && git worktree add -q -b work tree"
            }
            Self::WorktreeElsewhere => "made . && git worktree add -q -b work ../elsewhere",
            Self::IsWorktree => {
                "made ../main && rmdir ../project && git -C ../main config extensions.worktreeConfig true && \
                 git -C ../main worktree add -q -b work ../project"
            }
            Self::SeparateGitDir => "made . && mv .git .bare && echo 'gitdir: ./.bare' >.git",
            Self::SplitIndex => "made . && git update-index --split-index",
            Self::NoRepository => "echo content >file",
            Self::Several => "echo content >file; made sub",
        }
    }

    /// The folders in which the user works with git, below the user's code.
    pub fn folders(self) -> &'static [&'static str] {
        match self {
            Self::Submodule | Self::Embedded => &["project", "project/sub"],
            Self::SubmoduleInSubmodule => &["project", "project/sub", "project/sub/deeper"],
            Self::WorktreeInside => &["project", "project/tree"],
            Self::WorktreeElsewhere => &["project", "elsewhere"],
            Self::IsWorktree => &["project", "main"],
            Self::Several => &["project/sub", "project"],
            _ => &["project"],
        }
    }

    /// Whether the project itself is a repository.
    pub fn has_repository(self) -> bool {
        !matches!(self, Self::NoRepository | Self::Several)
    }
}
