//! The command by which the user agrees to the grants of a run.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use crate::compile::Request;
use crate::diagnostic::shell_quote;

/// The command carries the flags of the run, because the grants of a file depend on them.
pub(super) fn command(request: &Request) -> String {
    let mut words: Vec<OsString> = vec!["agent-sandbox".into()];
    if let Some(cwd) = &request.cwd {
        words.extend(flag("-C", cwd.as_os_str()));
    }
    let lists =
        [("--ro", &request.ro), ("--rw", &request.rw), ("--exclude", &request.exclude), ("--preset", &request.presets)];
    for (name, values) in lists {
        words.extend(values.iter().flat_map(|value| flag(name, value)));
    }
    words.extend(request.injections().flat_map(|value| flag("--inject", &value)));
    for (name, value) in [("network", request.network), ("docker", request.docker)] {
        words.extend(value.map(|value| OsString::from(format!("--{name}={value}"))));
    }
    words.extend(request.limits.iter().flat_map(|limit| flag("--limit", OsStr::new(&limit.to_string()))));
    words.extend(request.home.map(|home| OsString::from(format!("--home={home}"))));
    words.extend(request.base.map(|base| OsString::from(format!("--base={base}"))));
    words.push("trust".into());
    let quoted: Vec<String> = words.iter().map(|word| shell_quote(word)).collect();
    quoted.join(" ")
}

/// A flag and its value. A value that begins with `-` is joined to the flag.
fn flag(name: &str, value: &OsStr) -> Vec<OsString> {
    if value.as_bytes().starts_with(b"-") {
        let sign = if name.starts_with("--") { "=" } else { "" };
        return vec![[OsStr::new(name), OsStr::new(sign), value].into_iter().collect()];
    }
    vec![name.into(), value.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::config::{BaseTree, Home};
    use crate::policy::Limit;

    #[test]
    fn the_command_to_type_has_the_flags_that_count() {
        assert_eq!(command(&Request::default()), "agent-sandbox trust");
        let request = Request {
            cwd: Some("a b".into()),
            rw: vec!["-x".into(), "~/data".into()],
            presets: vec!["!@secrets".into()],
            inject: vec![("a".into(), "~/b".into())],
            network: Some(false),
            limits: vec![Limit::processes(9)],
            home: Some(Home::Private),
            base: Some(BaseTree::Minimal),
            no_guard: true,
            ..Request::default()
        };
        let typed = "agent-sandbox -C 'a b' --rw=-x --rw '~/data' --preset '!@secrets' --inject 'a:~/b' \
                     --network=false --limit 'processes=9' --home=private --base=minimal trust";
        assert_eq!(command(&request), typed);
    }
}
