# Runs a command as an ordinary user with a new systemd user manager, both in new namespaces. Only
# root of the machine can do this. The arguments are the user's id and the command. The cgroup is
# removed afterwards.
set -eu
mount --make-rprivate /
all=$(mktemp -d)
mount -t cgroup2 none "$all"
mine=$all/agent-sandbox-test-$$
mkdir "$mine"
echo $$ >"$mine/cgroup.procs"
status=0
unshare --cgroup --mount sh -eu -c '
    uid=$1 && shift
    mount -t tmpfs none /run
    mkdir -p /run/systemd/system /run/systemd/unit-root "/run/user/$uid"
    chown "$uid:$uid" "/run/user/$uid"
    chmod 700 "/run/user/$uid"
    umount -R -l /sys/fs/cgroup
    mount -t cgroup2 none /sys/fs/cgroup
    (cd /sys/fs/cgroup && chown "$uid:$uid" . cgroup.procs cgroup.subtree_control cgroup.threads)
    export XDG_RUNTIME_DIR="/run/user/$uid"
    for manager in /usr/lib/systemd/systemd /lib/systemd/systemd; do
        [ ! -x "$manager" ] || break
    done
    setpriv --reuid "$uid" --regid "$uid" --clear-groups "$manager" --user >/dev/null 2>&1 &
    until [ -S "$XDG_RUNTIME_DIR/systemd/private" ]; do
        kill -0 $! || { echo "the manager did not start" >&2; exit 99; }
        sleep 0.01
    done
    status=0
    setpriv --reuid "$uid" --regid "$uid" --clear-groups "$@" || status=$?
    kill $!
    wait || :
    exit "$status"
' sh "$@" || status=$?
echo $$ >"$all/cgroup.procs"
find "$mine" -depth -type d -exec rmdir {} \;
umount "$all"
rmdir "$all"
exit "$status"
