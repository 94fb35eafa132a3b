# Two runs work together. One, with `plant` as $2, makes the change that $1 names. The other hides
# the change until the first run has ended, and then puts it back.
wait_for() { until [ -e "$1" ]; do sleep 0.01; done; }
if [ "$2" = plant ]; then
    case $1 in
    submodule)
        git init -q d/e
        git -C d/e commit -q --allow-empty -m first
        printf '[core]\n\tfsmonitor = "touch %s/pwned; false"\n' "$HOME" >>d/e/.git/config
        git checkout -q -b feature
        git update-index --add --cacheinfo "160000,$(git rev-parse HEAD),d/e"
        git commit -qm feature
        git checkout -q main
        ;;
    rebase)
        git commit -q --allow-empty -m second
        GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git rebase -q -i --keep-empty HEAD~1 2>/dev/null
        echo "exec touch $HOME/pwned" >>.git/rebase-merge/git-rebase-todo
        ;;
    link)
        rm -f .git/COMMIT_EDITMSG
        ln -s "$HOME/victim" .git/COMMIT_EDITMSG
        ;;
    rerere) printf '%040d\tfile\0' 1 >.git/MERGE_RR ;;
    mark) git update-index --assume-unchanged file ;;
    bare)
        mkdir -p s/refs s/objects
        echo 'ref: refs/heads/main' >s/HEAD
        printf '[core]\n\tworktree = .\n\tfsmonitor = x\n' >s/config
        ;;
    graft) git rev-parse HEAD >.git/shallow ;;
    esac
    touch planted
    wait_for end-first
else
    case $1 in
    submodule) mv d/e/.git d/e/hidden ;;
    rebase) mv .git/rebase-merge hidden-rebase ;;
    link) mv .git/COMMIT_EDITMSG hidden-link ;;
    rerere) mv .git/MERGE_RR hidden-rerere ;;
    mark) cp .git/index evil && git read-tree HEAD ;;
    bare) mkdir x && mv s x/s ;;
    graft) mv .git/shallow hidden-graft ;;
    esac
    touch hidden
    wait_for end-second
    case $1 in
    submodule) mv d/e/hidden d/e/.git ;;
    mark) cp evil .git/index ;;
    rebase) mv hidden-rebase .git/rebase-merge ;;
    link) mv hidden-link .git/COMMIT_EDITMSG ;;
    rerere) mv hidden-rerere .git/MERGE_RR ;;
    bare) mv x/s s ;;
    graft) mv hidden-graft .git/shallow ;;
    esac
fi
echo done
