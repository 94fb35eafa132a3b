//! `@git` and `@git-strict`.
//!
//! `$GIT_DIR` is this worktree's own directory, `$GIT_COMMON_DIR` the one that all worktrees share.
//! In a plain repository they are the same, and only the rules of the second count. Both folders
//! are outside the project in a linked worktree, in a submodule, and where the project is a
//! subdirectory of a repository.

use super::private::GIT_CONFIG;
use super::{BuiltinPreset, group, ro, rw};

const GIT_TOOL: &str = "git";

pub(super) const GIT: BuiltinPreset = BuiltinPreset {
    // A branch may be called `config` or `hooks`. A submodule may be called `logs`, so only a
    // `logs` beside `HEAD` is skipped.
    skip_directories: &["objects", "refs", "logs"],
    skip_beside: Some("HEAD"),
    groups: &[
        // `rebase-merge/git-rebase-todo` stays writable, although it may hold `exec` lines, which
        // `git rebase --continue` runs.
        group(GIT_TOOL, "gitrepository-layout(5)", &[rw("$GIT_DIR"), rw("$GIT_COMMON_DIR")]),
        // A repository that was made without a template has no hooks folder, and the agent could
        // make one.
        group(
            GIT_TOOL,
            "githooks(5): programs that git runs by itself",
            &[
                ro("$GIT_COMMON_DIR/hooks/").with_links().blocked(),
                ro("$GIT_NESTED/hooks/").with_links().blocked(),
                ro("$GIT_COMMON_DIR/modules/**/hooks").with_links(),
                ro("$GIT_COMMON_DIR/worktrees/*/modules/**/hooks").with_links(),
                ro("$GIT_DIR/modules/**/hooks").with_links(),
            ],
        ),
        // git writes these files in daily work: `config`, `remote add`, `branch -m`, `push -u`,
        // `submodule update`.
        group(
            GIT_TOOL,
            "git-config(1): names pagers, drivers, filters, core.hooksPath, core.fsmonitor",
            &[
                ro("$GIT_COMMON_DIR/config").private(&GIT_CONFIG),
                ro("$GIT_COMMON_DIR/config.worktree").blocked().private(&GIT_CONFIG),
                ro("$GIT_DIR/config").private(&GIT_CONFIG),
                ro("$GIT_DIR/config.worktree").blocked().private(&GIT_CONFIG),
                ro("$GIT_NESTED/config").private(&GIT_CONFIG),
                ro("$GIT_NESTED/config.worktree").blocked().private(&GIT_CONFIG),
                // Other worktrees and submodules: git obeys the file after `git sparse-checkout`.
                ro("$GIT_KEPT_WITHIN/config.worktree").blocked().private(&GIT_CONFIG),
                ro("$GIT_COMMON_DIR/worktrees/*/config.worktree").private(&GIT_CONFIG),
                // A submodule's name may hold slashes, so any depth.
                ro("$GIT_COMMON_DIR/modules/**/config").private(&GIT_CONFIG),
                ro("$GIT_COMMON_DIR/modules/**/config.worktree").private(&GIT_CONFIG),
                ro("$GIT_COMMON_DIR/worktrees/*/modules/**/config").private(&GIT_CONFIG),
                ro("$GIT_COMMON_DIR/worktrees/*/modules/**/config.worktree").private(&GIT_CONFIG),
                ro("$GIT_DIR/modules/**/config").private(&GIT_CONFIG),
                ro("$GIT_DIR/modules/**/config.worktree").private(&GIT_CONFIG),
            ],
        ),
        group(
            GIT_TOOL,
            "gitattributes(5): chooses the filter that a file goes through",
            &[
                ro("$GIT_COMMON_DIR/info/attributes").blocked(),
                ro("$GIT_DIR/info/attributes"),
                ro("$GIT_NESTED/info/attributes").blocked(),
                ro("$GIT_COMMON_DIR/modules/**/info/attributes"),
                ro("$GIT_COMMON_DIR/worktrees/*/modules/**/info/attributes"),
                ro("$GIT_DIR/modules/**/info/attributes"),
            ],
        ),
        // A plain repository has no `commondir`, but git obeys one that the agent creates. While
        // the sandbox runs, the placeholder names the directory itself (`./`), which changes
        // nothing.
        group(
            GIT_TOOL,
            "gitrepository-layout(5), commondir: hooks and settings are read from there",
            &[
                ro("$GIT_DIR/commondir"),
                ro("$GIT_COMMON_DIR/commondir").blocked(),
                ro("$GIT_NESTED/commondir").blocked(),
                ro("$GIT_KEPT_WITHIN/commondir").blocked(),
                ro("$GIT_COMMON_DIR/worktrees/*/commondir"),
                ro("$GIT_COMMON_DIR/modules/**/commondir"),
                ro("$GIT_COMMON_DIR/worktrees/*/modules/**/commondir"),
                ro("$GIT_DIR/modules/**/commondir"),
            ],
        ),
        group(
            GIT_TOOL,
            "git-fetch(1), REMOTES: where push and fetch go by a name that no setting has",
            &[
                ro("$GIT_COMMON_DIR/remotes/").blocked(),
                ro("$GIT_COMMON_DIR/branches/").blocked(),
                ro("$GIT_NESTED/remotes/").blocked(),
                ro("$GIT_NESTED/branches/").blocked(),
            ],
        ),
        group(
            GIT_TOOL,
            "gitrepository-layout(5): a `.git` file says where the repository is",
            &[ro("$GIT_POINTER"), ro("$GIT_NESTED_POINTER")],
        ),
        group(
            GIT_TOOL,
            "git-config(1): core.hooksPath and include.path",
            &[ro("$GIT_NAMED_HOOKS").with_links().blocked(), ro("$GIT_INCLUDED").blocked()],
        ),
        group(
            GIT_TOOL,
            "git-push(1): runs the hooks of a remote on this machine, which its settings may name",
            &[
                ro("$GIT_REMOTES/hooks/").with_links().blocked(),
                ro("$GIT_REMOTES/config"),
                ro("$GIT_REMOTES/config.worktree").blocked(),
                ro("$GIT_REMOTES/commondir").blocked(),
            ],
        ),
        group(
            GIT_TOOL,
            "git-config(1): programs in the work tree, such as filter.*.clean",
            &[ro("$GIT_NAMED_PROGRAMS")],
        ),
        group(
            GIT_TOOL,
            "gitrepository-layout(5), worktrees and modules: held as one where a command made thousands",
            &[ro("$GIT_CROWDED")],
        ),
        group(
            "lazygit",
            "lazygit, Config.md: custom commands, read in each repository that it opens",
            &[ro("$GIT_COMMON_DIR/lazygit.yml").in_use(&["~/.config/lazygit", "~/.local/state/lazygit"])],
        ),
    ],
    ..BuiltinPreset::new("git", "the repository is writable, its hooks and settings are not")
};

// A limit: a branch that is only packed has no file of its own. It cannot be deleted, but it can be
// moved, because git writes the new value as a new file beside the current branch's.
pub(super) const GIT_STRICT: BuiltinPreset = BuiltinPreset {
    include: &["git"],
    groups: &[
        // A new value of the current branch is written below `refs` and wins over this file. `git
        // gc` and `git pack-refs` have to run outside.
        group(GIT_TOOL, "git-pack-refs(1): packed branches and tags", &[ro("$GIT_COMMON_DIR/packed-refs")]),
        group(GIT_TOOL, "gitrepository-layout(5), refs: all but the current branch", &[ro("$GIT_OTHER_REFS")]),
    ],
    ..BuiltinPreset::new("git-strict", "as @git, and tags and all branches but the current one are read-only")
};
