//! Selects the changes of a copy that may reach the host (SPEC Q4). Every other change stays in the
//! copy.

use std::collections::BTreeSet;

use super::formats::{Entries, Key, KeyChanges, Syntax, Values};
use crate::policy::PrivateFile;
use crate::policy::private::{KeyPattern, LeavingKey, LeavingValue};

/// The longest value that may reach the host, in bytes.
const LONGEST: usize = 1000;

/// Whether this change may reach the host's file, whose entries are `host`. Removing a listed key
/// is harmless, too. A key with several values stays in the copy, because git would be started for
/// each value. A new upstream for a branch that has an upstream stays, too, because it would change
/// where a plain `git push` goes.
pub(super) fn may_leave(file: &PrivateFile, syntax: Syntax, key: &Key, values: &Values, host: &Entries) -> bool {
    let Some(listed) = listed(file, key) else { return false };
    let is_upstream = matches!(listed.value, LeavingValue::Branch | LeavingValue::KnownRemote);
    let is_another = is_upstream && !values.is_empty() && host.contains_key(key);
    values.len() <= 1 && !is_another && values.iter().all(|value| is_harmless(listed.value, syntax, value, host))
}

fn listed(file: &PrivateFile, key: &Key) -> Option<&'static LeavingKey> {
    file.leaving.iter().find(|listed| matches(listed, key))
}

/// Whether a change needs no report: its key is one that agent-sandbox added, or a counter of the
/// program.
pub(super) fn is_unremarkable(file: &PrivateFile, (Key(parts), values): &(Key, Values)) -> bool {
    let is_part = |(part, found): (&&str, &Vec<u8>)| *part == "*" || part.as_bytes() == found.as_slice();
    let is = |key: KeyPattern| key.len() == parts.len() && key.iter().zip(parts).all(is_part);
    let is_value = |value: &str| matches!(values.as_slice(), [found] if found == value.as_bytes());
    file.counters.iter().any(|key| is(key)) || file.inside.iter().any(|own| is(own.key) && is_value(own.value))
}

/// The keys that `copy` must get, if neither it nor the host's file has them.
pub(super) fn missing_inside(file: &PrivateFile, copy: &Entries) -> KeyChanges {
    let own = file.inside.iter().map(|own| {
        let key = Key(own.key.iter().map(|part| part.as_bytes().to_vec()).collect());
        (key, vec![own.value.as_bytes().to_vec()])
    });
    own.filter(|(key, _)| !copy.contains_key(key)).collect()
}

/// Keeps in the copy each change that is only one half of a pair. If the copy also lost keys that
/// are not listed, it was emptied, and the command did not mean to remove the listed keys. A branch
/// to merge means nothing without its remote, and a remote alone would send a plain `git push`
/// elsewhere.
pub(super) fn keep_halves(file: &PrivateFile, leaving: &mut KeyChanges, kept: &mut KeyChanges, host: &Entries) {
    let is_emptied = kept.iter().any(|(key, values)| values.is_empty() && listed(file, key).is_none());
    let together: BTreeSet<Key> = leaving.iter().map(|(key, _)| key.clone()).collect();
    let is_half = |(key, values): &(Key, Values)| match (key.0.as_slice(), values.is_empty()) {
        (_, true) => is_emptied,
        ([section, branch, name], false) if name == b"merge" || name == b"remote" => {
            let other = if name == b"merge" { b"remote".to_vec() } else { b"merge".to_vec() };
            let other = Key(vec![section.clone(), branch.clone(), other]);
            !host.contains_key(&other) && !together.contains(&other)
        }
        _ => false,
    };
    let (halves, whole) = std::mem::take(leaving).into_iter().partition(is_half);
    *leaving = whole;
    kept.extend::<KeyChanges>(halves);
}

fn matches(listed: &LeavingKey, Key(parts): &Key) -> bool {
    let is_part = |(listed, part): (&&str, &Vec<u8>)| match *listed {
        "*" => is_name_of_branch(part),
        listed => listed.as_bytes() == part.as_slice(),
    };
    listed.key.len() == parts.len() && listed.key.iter().zip(parts).all(is_part)
}

fn is_harmless(kind: LeavingValue, syntax: Syntax, value: &[u8], host: &Entries) -> bool {
    let Some(text) = syntax.string(value).filter(|text| text.len() <= LONGEST) else { return false };
    let is_plain = |more: &str| {
        !text.is_empty()
            && text.len() <= 100
            && text.chars().all(|c| c.is_ascii_alphanumeric() || " _:@+()[]-".contains(c) || more.contains(c))
    };
    match kind {
        LeavingValue::Branch => text.strip_prefix("refs/heads/").is_some_and(|name| is_name_of_branch(name.as_bytes())),
        LeavingValue::Rebase => ["true", "false", "merges", "interactive", "m", "i"].contains(&text.as_str()),
        LeavingValue::KnownRemote => {
            let url = Key(vec![b"remote".to_vec(), value.to_vec(), b"url".to_vec()]);
            text != "." && host.contains_key(&url)
        }
        LeavingValue::Text => text.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t')),
        LeavingValue::Name => is_plain(""),
        LeavingValue::Model => is_plain("./") && !text.starts_with(['/', '.', '-']) && !text.contains("//"),
    }
}

/// Whether git accepts `name` as the name of a branch, and no shell or terminal gives a part of it
/// another meaning.
fn is_name_of_branch(name: &[u8]) -> bool {
    let is_safe = |c: char| c.is_alphanumeric() || "._/+@#,=-".contains(c);
    let is_component = |part: &str| !part.is_empty() && !part.starts_with(['.', '-']) && !part.ends_with(".lock");
    std::str::from_utf8(name).is_ok_and(|name| {
        name.len() <= LONGEST
            && name.chars().all(is_safe)
            && name.split('/').all(is_component)
            && !name.contains("..")
            && !name.ends_with('.')
            && name != "@"
    })
}

#[cfg(test)]
mod tests {
    use super::super::formats::tests::key;
    use super::*;
    use crate::compile::presets::data::PRESETS;

    fn git_config() -> &'static PrivateFile {
        let entries = PRESETS.iter().flat_map(|preset| preset.entries());
        entries.filter(|entry| entry.path == "$GIT_COMMON_DIR/config").find_map(|entry| entry.private).unwrap()
    }

    fn leaves(text: &str, value: &str) -> bool {
        let host = Entries::from([(key("remote.origin.url"), vec![b"https://example.org/x".to_vec()])]);
        may_leave(git_config(), Syntax::Git, &key(text), &vec![value.as_bytes().to_vec()], &host)
    }

    #[test]
    fn the_harmless_keys_of_git_reach_the_host() {
        assert!(leaves("branch.main.merge", "refs/heads/main"));
        assert!(leaves("branch.feature/ä-1.merge", "refs/heads/feature/ä-1"));
        assert!(leaves("branch.main.remote", "origin"));
        assert!(leaves("branch.main.rebase", "merges"));
        assert!(leaves("branch.main.description", "two\nlines"));
    }

    // SPEC Q4
    #[test]
    fn no_harmful_value_of_a_listed_key_reaches_the_host() {
        for (name, value) in [
            ("branch.main.merge", "main"),
            ("branch.main.merge", "refs/tags/x"),
            ("branch.main.merge", "refs/heads/../../x"),
            ("branch.main.merge", "refs/heads/-x"),
            ("branch.main.merge", "refs/heads/$(touch x)"),
            ("branch.main.merge", "refs/heads/`x`"),
            ("branch.main.merge", "refs/heads/a b"),
            ("branch.main.merge", "refs/heads/a;b"),
            ("branch.main.merge", "refs/heads/"),
            ("branch.$(x).merge", "refs/heads/x"),
            ("branch.--upload-pack=x.merge", "refs/heads/x"),
            ("branch.main.remote", "."),
            ("branch.main.remote", "planted"),
            ("branch.main.remote", "./planted.git"),
            ("branch.main.remote", "ext::sh -c x"),
            ("branch.main.remote", "https://example.org/x"),
            ("branch.main.rebase", "!sh"),
            ("branch.main.description", "\u{1b}]0;x\u{7}"),
            ("branch.main.pushremote", "origin"),
            ("branch.main.mergeoptions", "-s x"),
            ("branch.autosetupmerge", "always"),
            ("remote.origin.url", "x"),
            ("remote.origin.pushurl", "x"),
            ("core.fsmonitor", "x"),
            ("core.hookspath", "x"),
            ("core.sshcommand", "x"),
            ("core.pager", "x"),
            ("alias.st", "!x"),
            ("include.path", "x"),
            ("url.x.insteadof", "y"),
            ("filter.x.clean", "y"),
            ("credential.helper", "x"),
        ] {
            assert!(!leaves(name, value), "{name} = {value}");
        }
    }

    #[test]
    fn every_listed_key_is_exact_except_a_branch_and_has_a_reason() {
        let entries = PRESETS.iter().flat_map(|preset| preset.entries());
        for listed in entries.filter_map(|entry| entry.private).flat_map(|file| file.leaving) {
            assert!(listed.why.len() > 10, "{:?}", listed.key);
            assert!(!listed.key.contains(&"*") || listed.key[0] == "branch", "{:?}", listed.key);
        }
    }
}
