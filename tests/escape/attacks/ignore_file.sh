# Hides a new file from `git status` by a `.gitignore` that hides itself. $1 names the attack.
case $1 in
root) echo '*' >.gitignore && echo evil >sitecustomize.py ;;
deep) mkdir requests && printf '# tool\n*\n' >requests/.gitignore && echo evil >requests/__init__.py ;;
bracket) printf 'sitecustomize.py\n[.]gitignore\n![x].gitignore\n' >.gitignore && echo evil >sitecustomize.py ;;
changed) echo sitecustomize.py >>.gitignore && echo evil >sitecustomize.py ;;
large) head -c 70000 /dev/zero | tr '\0' '#' >.gitignore && printf '\n*\n' >>.gitignore && echo evil >sitecustomize.py ;;
*) exit 1 ;;
esac
[ -z "$(git status --porcelain)" ] && echo done
