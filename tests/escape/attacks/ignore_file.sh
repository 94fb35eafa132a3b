# Hides a new file from `git status` by a `.gitignore` that hides itself. $1 names the attack.
case $1 in
root) echo '*' >.gitignore && echo evil >sitecustomize.py ;;
deep) mkdir requests && printf '# tool\n*\n' >requests/.gitignore && echo evil >requests/__init__.py ;;
bracket) printf 'sitecustomize.py\n[.]gitignore\n![x].gitignore\n' >.gitignore && echo evil >sitecustomize.py ;;
changed) echo sitecustomize.py >>.gitignore && echo evil >sitecustomize.py ;;
large) head -c 70000 /dev/zero | tr '\0' '#' >.gitignore && printf '\n*\n' >>.gitignore && echo evil >sitecustomize.py ;;
many)
    for number in $(seq 1001); do mkdir -p "n/$number" && : >"n/$number/.gitignore"; done
    git add n && git -c user.name=a -c user.email=a@example.org commit -qm many
    mkdir -p z/z/z && echo '*' >z/z/z/.gitignore && echo evil >z/z/z/__init__.py
    ;;
*) exit 1 ;;
esac
[ -z "$(git status --porcelain)" ] && echo done
