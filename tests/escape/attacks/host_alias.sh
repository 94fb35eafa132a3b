# In a mount namespace of its own, binds $1 to $2 and starts the launcher.
set -eu
mount --bind "$1" "$2"
shift 2
exec "$@"
