//! Files that look like secrets. `lint` reports those that stay readable, `init` proposes to hide
//! them.
//!
//! The name alone decides if all files of that name hold secrets. If others have the name, too
//! (most `*.pem` files are public certificates), the content decides, for known formats only. No
//! content leaves this module.

use std::ffi::OsStr;
use std::path::Path;

use crate::compile::presets::data::PUBLIC_ENV;
use crate::host::{FileKind, Host};
use crate::policy::AbsPath;

/// The largest file whose content is examined. Keys and credentials are small.
const LARGEST: u64 = 1 << 18;

#[derive(Clone, Copy)]
enum Proof {
    Name,
    /// One of these texts is in the content.
    Any(&'static [&'static str]),
    /// All of these texts are in the content.
    All(&'static [&'static str]),
}

const PRIVATE_KEY: Proof = Proof::Any(&["PRIVATE KEY-----"]);
const NPM_TOKEN: Proof = Proof::Any(&["_authToken=", "_auth=", "_password="]);
const NUGET_PASSWORD: Proof = Proof::Any(&["ClearTextPassword", "\"Password\""]);
const CLUSTER: Proof = Proof::Any(&["client-key-data:", "token:", "password:"]);
const OAUTH: Proof = Proof::Any(&["\"private_key\"", "\"refresh_token\"", "\"client_secret\"", "\"access_token\""]);
const SERVICE_ACCOUNT: Proof = Proof::All(&["\"service_account\"", "\"private_key\""]);
const REGISTRY: Proof = Proof::Any(&["\"auth\":", "\"identitytoken\":"]);

const ENVIRONMENT: &str = "the environment of a deployment";

/// File names, with `*` for the start or the end of a name. The first group that fits counts.
const NAMES: &[(&str, Proof, &[&str])] = &[
    (ENVIRONMENT, Proof::Name, &[".env", ".env.*"]),
    ("a private key of SSH", Proof::Name, &["id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"]),
    ("a private key", PRIVATE_KEY, &["*.pem", "*.key", "*.p8"]),
    ("a private key of PuTTY", Proof::Name, &["*.ppk"]),
    ("a store of private keys", Proof::Name, &["*.p12", "*.pfx", "*.jks"]),
    ("a password store", Proof::Name, &["*.kdbx"]),
    ("the key to a project's credentials", Proof::Name, &["master.key"]),
    ("passwords for remote machines", Proof::Name, &[".netrc"]),
    ("passwords of databases", Proof::Name, &[".pgpass"]),
    ("passwords of a web server", Proof::Name, &[".htpasswd"]),
    ("passwords of git remotes", Proof::Name, &[".git-credentials"]),
    ("a token of Vault", Proof::Name, &[".vault-token"]),
    ("a token of a package registry", NPM_TOKEN, &[".npmrc"]),
    ("a token of a package registry", Proof::Any(&["password"]), &[".pypirc"]),
    ("credentials of a container registry", REGISTRY, &[".dockercfg"]),
    ("credentials of a cluster", CLUSTER, &["kubeconfig", "*.kubeconfig"]),
    ("the state of Terraform, which holds passwords", Proof::Any(&["\"resources\""]), &["*.tfstate"]),
    ("credentials of an application", OAUTH, &["credentials.json", "client_secret*"]),
    ("a token of an application", OAUTH, &["token.json"]),
    ("the key of a service account", SERVICE_ACCOUNT, &["*.json"]),
];

/// The places in the home where tools keep credentials. `@secrets` hides most of them, but may be
/// off. The logins of agents are not here, because agents need them.
const IN_HOME: &[(&str, Proof, &[&str])] = &[
    ("a private key of SSH", Proof::Name, &[".ssh/id_rsa", ".ssh/id_ecdsa", ".ssh/id_ed25519"]),
    ("credentials of AWS", Proof::Name, &[".aws/credentials"]),
    ("credentials of Azure", Proof::Name, &[".azure/msal_token_cache.json"]),
    ("credentials of Google Cloud", Proof::Name, &[".config/gcloud/application_default_credentials.json"]),
    ("credentials of Google Cloud", Proof::Name, &[".config/gcloud/credentials.db"]),
    ("a token of GitHub", Proof::Any(&["oauth_token"]), &[".config/gh/hosts.yml", ".config/hub"]),
    ("a token of GitLab", Proof::Any(&["token:"]), &[".config/glab-cli/config.yml"]),
    ("passwords of git remotes", Proof::Name, &[".config/git/credentials"]),
    ("credentials of a container registry", REGISTRY, &[".config/containers/auth.json", ".docker/config.json"]),
    ("credentials of a cluster", CLUSTER, &[".kube/config"]),
    ("a token of a package registry", Proof::Any(&["token"]), &[".cargo/credentials.toml", ".cargo/credentials"]),
    ("a token of a package registry", Proof::Any(&["_key:"]), &[".gem/credentials"]),
    ("a password of a package registry", Proof::Any(&["://__token__:", "password"]), &[".config/pip/pip.conf"]),
    ("a token of a package registry", Proof::Any(&["oauth", "password", "bearer"]), &[".config/composer/auth.json"]),
    ("a password of a package registry", Proof::Any(&["<password>"]), &[".m2/settings.xml"]),
    ("a password of a package registry", Proof::Any(&["assword=", "oken="]), &[".gradle/gradle.properties"]),
    ("a password of a package registry", NUGET_PASSWORD, &[".nuget/NuGet/NuGet.Config"]),
    ("a token of Terraform", Proof::Any(&["\"token\""]), &[".terraform.d/credentials.tfrc.json"]),
    ("credentials of remote storage", Proof::Any(&["pass =", "token =", "secret"]), &[".config/rclone/rclone.conf"]),
    ("credentials of remote storage", Proof::Any(&["secret_key ="]), &[".s3cfg"]),
    ("credentials of remote storage", Proof::Any(&["secret_access_key", "refresh_token"]), &[".boto"]),
    ("passwords of databases", Proof::Any(&["password"]), &[".my.cnf"]),
    ("a token of Databricks", Proof::Any(&["token"]), &[".databrickscfg"]),
    ("a token of Kaggle", Proof::Any(&["\"key\""]), &[".kaggle/kaggle.json"]),
    ("a token of Hugging Face", Proof::Name, &[".cache/huggingface/token", ".huggingface/token"]),
    ("a token of Fly", Proof::Any(&["access_token:"]), &[".fly/config.yml"]),
    ("a token of DigitalOcean", Proof::Any(&["access-token:"]), &[".config/doctl/config.yaml"]),
    ("credentials of Oracle Cloud", Proof::Any(&["key_file"]), &[".oci/config"]),
];

fn fits(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => name.ends_with(end) && name != end,
        (None, Some(start)) => name.starts_with(start) && !PUBLIC_ENV.contains(&name),
        (None, None) => name == pattern,
    }
}

impl Proof {
    fn holds(self, host: &Host, path: &AbsPath) -> bool {
        // The command runs with our rights, so it cannot read a file that we cannot read.
        let content = || host.read_regular(path, LARGEST).ok().flatten();
        let has = |content: &[u8], part: &str| content.windows(part.len()).any(|window| window == part.as_bytes());
        match self {
            Proof::Name => true,
            Proof::Any(parts) => content().is_some_and(|content| parts.iter().any(|part| has(&content, part))),
            Proof::All(parts) => content().is_some_and(|content| parts.iter().all(|part| has(&content, part))),
        }
    }
}

/// The kind of secret that the regular file at `path` looks like, and whether `@secrets` hides
/// files of this name. `path` contains no symlinks.
pub(crate) fn looks_like(host: &Host, path: &AbsPath) -> Option<(&'static str, bool)> {
    let name = path.file_name().and_then(OsStr::to_str)?;
    let is_like = |(_, proof, patterns): &&(&str, Proof, &[&str])| {
        patterns.iter().any(|pattern| fits(pattern, name)) && proof.holds(host, path)
    };
    let (like, ..) = NAMES.iter().find(is_like)?;
    Some((like, *like == ENVIRONMENT))
}

/// The secrets in well-known places of the home and in the home itself, each with its kind.
pub(crate) fn in_home(host: &Host, home: &AbsPath) -> Vec<(AbsPath, &'static str)> {
    let existing = |name: &Path| Some(host.resolve_from(home, name).ok().filter(|found| found.kind.is_some())?.path);
    let known = IN_HOME.iter().flat_map(|(like, proof, places)| {
        let found = places.iter().filter_map(|place| existing(place.as_ref()));
        found.filter(|path| proof.holds(host, path)).map(|path| (path, *like))
    });
    let entries = host.read_dir(home).unwrap_or_default();
    let files = entries.into_iter().filter(|entry| entry.kind == FileKind::File && !entry.is_socket);
    let beside = files.filter_map(|entry| {
        let path = existing(entry.name.as_ref())?;
        let (like, _) = looks_like(host, &path)?;
        Some((path, like))
    });
    let mut all: Vec<(AbsPath, &str)> = known.chain(beside).collect();
    all.sort();
    all.dedup_by(|a, b| a.0 == b.0);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn like(name: &str, content: &str) -> Option<&'static str> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(name), content).unwrap();
        looks_like(&Host::at(folder.path()), &AbsPath::root().child(name)).map(|(like, _)| like)
    }

    #[test]
    fn a_name_that_only_secrets_have_is_enough() {
        for name in
            [".env", ".env.local", "id_rsa", "id_ed25519", ".netrc", "store.p12", "passwords.kdbx", "master.key"]
        {
            assert!(like(name, "").is_some(), "{name}");
        }
        for name in [".env.example", "env", "id_rsa.pub", "main.rs", ".p12", "environment.env.md"] {
            assert_eq!(like(name, "anything"), None, "{name}");
        }
    }

    // SPEC N6
    #[test]
    fn a_certificate_is_no_key() {
        assert_eq!(like("ca.pem", "-----BEGIN CERTIFICATE-----\nMIIB"), None);
        let key = ["-----BEGIN RSA PRIVATE", " KEY-----\nMIIB"].concat();
        assert_eq!(like("server.pem", &key), Some("a private key"));
        assert_eq!(like("slides.key", "PK\u{3}\u{4}"), None, "a presentation");
    }

    #[test]
    fn settings_without_a_token_are_no_secret() {
        assert_eq!(like(".npmrc", "registry=https://registry.example/\n"), None);
        assert!(like(".npmrc", "//registry.example/:_authToken=x\n").is_some());
        assert_eq!(like("package.json", "{\"name\": \"service_account\"}"), None);
        assert!(like("robot.json", "{\"type\": \"service_account\", \"private_key\": \"x\"}").is_some());
        assert_eq!(like("kubeconfig", "apiVersion: v1\nclusters: []\n"), None);
        assert!(like("kubeconfig", "users:\n- user:\n    client-key-data: eA==\n").is_some());
    }
}
