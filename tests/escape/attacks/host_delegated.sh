# Runs a command of an ordinary user below a folder of cgroups that is delegated to the user: for
# root of the machine. The arguments are the user's id and the command. The cgroups are removed
# afterwards.
set -eu
mount --make-rprivate /
all=$(mktemp -d)
mount -t cgroup2 none "$all"
mine=$all/agent-sandbox-test-$$
mkdir "$mine"
status=0
sh -c 'echo $$ >"$1/cgroup.procs" && shift && exec unshare --cgroup --mount sh -eu -c "$@"' sh "$mine" '
    uid=$1 && shift
    umount -R -l /sys/fs/cgroup
    mount -t cgroup2 none /sys/fs/cgroup
    cd /sys/fs/cgroup
    mkdir shell
    echo $$ >shell/cgroup.procs
    for controller in cpu memory; do
        if grep -qw "$controller" cgroup.controllers; then echo "+$controller" >cgroup.subtree_control; fi
    done
    chown "$uid:$uid" . cgroup.procs cgroup.subtree_control cgroup.threads shell shell/cgroup.procs
    cd "$OLDPWD"
    exec setpriv --reuid "$uid" --regid "$uid" --clear-groups "$@"
' sh "$@" || status=$?
# A cgroup of the run that is still here means that the product left something behind.
left=$(find "$mine" -mindepth 1 -type d ! -name shell)
[ -z "$left" ] || { echo "left: $left" >&2; status=99; }
find "$mine" -depth -type d -exec rmdir {} \;
umount "$all"
rmdir "$all"
exit "$status"
