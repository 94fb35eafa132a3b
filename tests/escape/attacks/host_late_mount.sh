# The host's part of late_mount.py, in a mount namespace of its own whose mounts are shared, as on
# every machine with systemd. The arguments are the folder to mount on, the project, and the
# launcher.
set -eu
folder=$1 project=$2
shift 2
"$@" &
while [ ! -e "$project/started" ]; do
    kill -0 $! || exit 1
    sleep 0.01
done
mount -t tmpfs -o mode=777 none "$folder"
echo "$CANARY" >"$folder/late"
chmod 644 "$folder/late"
touch "$project/mounted"
wait $!
if [ -e "$folder/planted" ]; then echo "the mount was written"; fi
