//! Keys and credentials of command-line tools, cloud providers, registries and version control.

use super::super::{Group, exclude, group, redacted, ro};
use crate::policy::CredentialFile::{Bundle, Npmrc, Properties, Toml, Urls, Xml, Yarnrc};

pub(super) const CREDENTIALS: &[Group] = &[
    // Files that name the registry or the proxy that a build needs, besides credentials.
    group(
        "npm",
        "npmrc(5): `_authToken`, `_auth` and `_password` of a registry",
        &[redacted("~/.npmrc", Npmrc), redacted("**/.npmrc", Npmrc)],
    ),
    group(
        "pnpm",
        "pnpm, \"Authentication Settings\": the rc file and auth.ini",
        &[redacted("~/.config/pnpm/rc", Npmrc), redacted("~/.config/pnpm/auth.ini", Npmrc)],
    ),
    group(
        "Yarn",
        "Yarn, \"Settings (.yarnrc.yml)\": npmAuthToken and npmAuthIdent",
        &[redacted("~/.yarnrc.yml", Yarnrc), redacted("**/.yarnrc.yml", Yarnrc)],
    ),
    group("Yarn", "Yarn 1, \"yarnrc\": it takes the settings of npmrc", &[redacted("~/.yarnrc", Npmrc)]),
    group(
        "Bun",
        "Bun, \"bunfig.toml\": token and password of `install.registry`",
        &[redacted("~/.bunfig.toml", Toml), redacted("**/bunfig.toml", Toml)],
    ),
    group(
        "pip",
        "pip, \"Configuration\" and \"Authentication\": credentials in URLs",
        &[redacted("~/.config/pip/pip.conf", Urls), redacted("~/.pip/pip.conf", Urls), redacted("/etc/pip.conf", Urls)],
    ),
    group("uv", "uv, \"Package indexes\": credentials in URLs", &[redacted("~/.config/uv/uv.toml", Urls)]),
    group(
        "conda",
        "conda, \"Using the .condarc conda configuration file\": credentials in URLs of channels and proxies",
        &[redacted("~/.condarc", Urls)],
    ),
    group(
        "GitHub Copilot",
        "GitHub Copilot plugins: OAuth tokens in `hosts.json` and `apps.json`",
        &[exclude("~/.config/github-copilot/*.json")],
    ),
    group("dbt", "dbt, \"profiles.yml\": passwords of warehouses", &[exclude("~/.dbt/profiles.yml")]),
    group("Doppler", "Doppler CLI, `.doppler.yaml`: tokens", &[exclude("~/.doppler")]),
    group("Erlang", "Erlang, \"Distributed Erlang\": the cookie of nodes", &[exclude("~/.erlang.cookie")]),
    group(
        "R",
        "R, `?Startup`: people keep tokens in the user's `.Renviron`",
        &[exclude("~/.Renviron").reads_as_empty()],
    ),
    group(
        "Maven",
        "Maven, \"Settings Reference\": password, passphrase, httpHeaders",
        &[redacted("~/.m2/settings.xml", Xml)],
    ),
    group(
        "Gradle",
        "Gradle, \"Build Environment\": credentials are project properties",
        &[redacted("~/.gradle/gradle.properties", Properties)],
    ),
    group(
        "NuGet",
        "NuGet, \"nuget.config reference\": packageSourceCredentials, apikeys",
        &[redacted("~/.nuget/NuGet/NuGet.Config", Xml), redacted("~/.config/NuGet/NuGet.Config", Xml)],
    ),
    group(
        "Cargo",
        "The Cargo Book, \"Configuration\": `registry.token` and `registries.<name>.token`",
        &[redacted("~/.cargo/config.toml", Toml), redacted("~/.cargo/config", Toml)],
    ),
    group("Nix", "nix.conf(5): access-tokens", &[redacted("~/.config/nix/nix.conf", Properties)]),
    group("MySQL", "MySQL Reference Manual, \"Using Option Files\": password", &[redacted("~/.my.cnf", Properties)]),
    group(
        "Sentry CLI",
        "Sentry CLI, \"Configuration\": `auth.token` in .sentryclirc",
        &[redacted("~/.sentryclirc", Properties)],
    ),
    group("Bundler", "bundle-config(1), \"CREDENTIALS FOR GEM SOURCES\"", &[redacted("~/.bundle/config", Bundle)]),
    group("Wget", "Wget, \"Wgetrc Commands\": password", &[redacted("~/.wgetrc", Properties)]),
    group("OpenSSH", "ssh(1), FILES: private keys", &[exclude("~/.ssh")]),
    group("GnuPG", "gpg(1), FILES: private keys and the agent's sockets", &[exclude("~/.gnupg")]),
    group("SOPS", "SOPS, README: age keys in `sops/age/keys.txt`", &[exclude("~/.config/sops")]),
    group("AWS CLI", "AWS CLI, \"Configuration and credential file settings\"", &[exclude("~/.aws")]),
    group("Azure CLI", "Azure CLI, \"Configuration\": the token cache is in `~/.azure`", &[exclude("~/.azure")]),
    group("kubectl", "Kubernetes, \"Organizing Cluster Access Using kubeconfig Files\"", &[exclude("~/.kube")]),
    group("Google Cloud CLI", "gcloud, `gcloud topic configurations`", &[exclude("~/.config/gcloud")]),
    group("Vault", "Vault, \"Token helpers\"", &[exclude("~/.vault-token")]),
    group("Cloud Foundry CLI", "cf, `cf help`, CF_HOME: tokens", &[exclude("~/.cf/config.json").reads_as("{}\n")]),
    group("Teleport", "tsh, \"TELEPORT_HOME\": keys and certificates of the session", &[exclude("~/.tsh")]),
    group("Chef", "Chef, \"Set up knife\": keys of clients, and credentials", &[exclude("~/.chef")]),
    group("saml2aws", "saml2aws, README, \"Configuring IDP Accounts\"", &[exclude("~/.saml2aws")]),
    group(
        "minikube",
        "minikube, \"Certificates\": keys of the authority and of clients, in the folder of each profile",
        &[exclude("~/.minikube")],
    ),
    group(
        "git",
        "git-credential-store(1), FILES",
        &[exclude("~/.git-credentials"), exclude("~/.config/git/credentials")],
    ),
    group("GitHub CLI", "gh, `gh help environment`: `hosts.yml` holds tokens", &[exclude("~/.config/gh")]),
    group("GitLab CLI", "glab, \"Configuration\": `config.yml` holds tokens", &[exclude("~/.config/glab-cli")]),
    // These files of registries are hidden, but not their folders: `~/.docker` also contains
    // contexts and plugins, and `~/.cargo` the cache. The files read as empty, because cargo and
    // twine stop at a file that they may not open, and docker complains. A JSON file reads as an
    // empty object.
    group("curl, ftp", "netrc(5)", &[exclude("~/.netrc").reads_as_empty()]),
    // curl goes on without a file that it may not open.
    group("curl", "curl(1), --config and --user: passwords in the default file", &[exclude("~/.curlrc")]),
    group("Docker", "docker(1), \"Configuration files\": auths", &[exclude("~/.docker/config.json").reads_as("{}\n")]),
    group("twine", "Python Packaging User Guide, \"The .pypirc file\"", &[exclude("~/.pypirc").reads_as_empty()]),
    group(
        "Cargo",
        "The Cargo Book, \"Cargo Home\": credentials.toml",
        &[exclude("~/.cargo/credentials.toml").reads_as_empty(), exclude("~/.cargo/credentials").reads_as_empty()],
    ),
    group("pass", "pass(1), FILES", &[exclude("~/.password-store")]),
    group("GNOME Keyring", "gnome-keyring: keyring files", &[exclude("~/.local/share/keyrings")]),
    group("KWallet", "kwalletd: wallet files", &[exclude("~/.local/share/kwalletd")]),
    group("1Password CLI", "op, \"Configuration directories\"", &[exclude("~/.config/op")]),
    group("podman, skopeo", "containers-auth.json(5)", &[exclude("~/.config/containers/auth.json").reads_as("{}\n")]),
    group(
        "Helm",
        "Helm, \"helm registry login\": HELM_REGISTRY_CONFIG",
        &[exclude("~/.config/helm/registry/config.json").reads_as("{}\n")],
    ),
    group(
        "uv",
        "uv, \"uv auth login\": the plain text store",
        &[exclude("~/.local/share/uv/credentials/credentials.toml").reads_as(
            "credential = []
",
        )],
    ),
    group(
        "Poetry",
        "Poetry, \"Repositories\", \"Configuring credentials\": auth.toml",
        &[exclude("~/.config/pypoetry/auth.toml").reads_as_empty()],
    ),
    group(
        "RubyGems",
        "RubyGems Guides, \"API key scopes\": the credentials file",
        &[exclude("~/.gem/credentials"), exclude("~/.local/share/gem/credentials")],
    ),
    group(
        "Composer",
        "Composer, \"Authentication for privately hosted packages\": auth.json",
        &[exclude("~/.composer/auth.json").reads_as("{}\n"), exclude("~/.config/composer/auth.json").reads_as("{}\n")],
    ),
    group(
        "Maven",
        "Maven, \"Password Encryption\": the master password",
        &[exclude("~/.m2/settings-security.xml"), exclude("~/.m2/settings-security4.xml")],
    ),
    group(
        "Gradle",
        "Develocity, \"Gradle Plugin User Manual\": keys.properties",
        &[
            exclude("~/.gradle/develocity/keys.properties").reads_as_empty(),
            exclude("~/.gradle/enterprise/keys.properties").reads_as_empty(),
        ],
    ),
    group(
        "sbt, Coursier",
        "sbt, \"Publishing\", \"Credentials\"; Coursier, \"Credentials\"",
        &[
            exclude("~/.sbt/.credentials").reads_as_empty(),
            exclude("~/.ivy2/.credentials").reads_as_empty(),
            exclude("~/.config/coursier/credentials.properties").reads_as_empty(),
        ],
    ),
    group(
        "Hex",
        "Hex, `mix hex.user`: keys are in hex.config",
        &[exclude("~/.hex/hex.config"), exclude("~/.config/hex/hex.config")],
    ),
    group(
        "Dart pub",
        "Dart, \"dart pub token\": tokens of package servers",
        &[
            exclude("~/.config/dart/pub-tokens.json").reads_as(
                "{\"version\":1,\"hosted\":[]}
",
            ),
            exclude("~/.config/dart/pub-credentials.json"),
            exclude("~/.pub-cache/credentials.json"),
        ],
    ),
    group(
        "Conan",
        "Conan 2, \"credentials.json\"",
        &[exclude("~/.conan2/credentials.json").reads_as(
            "{\"credentials\":[]}
",
        )],
    ),
    group("CPAN", "CPAN::Uploader: .pause", &[exclude("~/.pause")]),
    group("Hackage", "cabal-install, \"cabal upload\": the file of credentials", &[exclude("~/.hackage")]),
    group(
        "Anaconda",
        "anaconda-client: tokens are in its data folder",
        &[exclude("~/.config/binstar"), exclude("~/.local/share/binstar")],
    ),
    group(
        "Terraform",
        "Terraform, \"terraform login\": credentials.tfrc.json",
        &[exclude("~/.terraform.d/credentials.tfrc.json").reads_as("{}\n")],
    ),
    // Terraform 1.11 stops at a file that it may not open.
    group(
        "Terraform",
        "Terraform, \"CLI Configuration File\": tokens in `credentials` blocks",
        &[exclude("~/.terraformrc").reads_as_empty()],
    ),
    group(
        "Pulumi",
        "Pulumi, \"pulumi login\": credentials.json",
        &[exclude("~/.pulumi/credentials.json").reads_as("{}\n")],
    ),
    group(
        "Ansible",
        "Ansible, \"Managing vault passwords\": the usual password files",
        &[exclude("~/.vault_pass.txt"), exclude("~/.vault_pass")],
    ),
    group("Oracle Cloud CLI", "OCI, \"SDK and CLI Configuration File\"", &[exclude("~/.oci")]),
    group("IBM Cloud CLI", "ibmcloud, `ibmcloud config`: sessions are in ~/.bluemix", &[exclude("~/.bluemix")]),
    group("Alibaba Cloud CLI", "aliyun, \"Configure credentials\": config.json", &[exclude("~/.aliyun")]),
    group("Hetzner Cloud CLI", "hcloud, \"Configuring hcloud\": cli.toml", &[exclude("~/.config/hcloud")]),
    group("Linode CLI", "linode-cli, \"Configuration\"", &[exclude("~/.config/linode-cli"), exclude("~/.linode-cli")]),
    group("doctl", "doctl, README: config.yaml holds the access token", &[exclude("~/.config/doctl")]),
    group("Scaleway CLI", "scw, \"Configuration file\"", &[exclude("~/.config/scw")]),
    group(
        "OpenStack",
        "openstacksdk, \"Configuring OpenStack SDK Applications\": clouds.yaml, secure.yaml",
        &[exclude("~/.config/openstack")],
    ),
    group("Vultr CLI", "vultr-cli, README", &[exclude("~/.vultr-cli.yaml")]),
    group("flyctl", "flyctl: the access token is in config.yml", &[exclude("~/.fly/config.yml")]),
    group("Heroku CLI", "Heroku, \"Heroku CLI Authentication\"", &[exclude("~/.local/share/heroku")]),
    group(
        "Vercel CLI",
        "Vercel, \"Global Configuration\": auth.json",
        &[exclude("~/.local/share/com.vercel.cli/auth.json").reads_as("{}\n"), exclude("~/.vercel")],
    ),
    group(
        "Netlify CLI",
        "Netlify, \"Get started with Netlify CLI\": config.json",
        &[exclude("~/.config/netlify/config.json").reads_as("{}\n"), exclude("~/.netlify")],
    ),
    group(
        "Supabase CLI",
        "Supabase, \"supabase login\": the token without a keyring",
        &[exclude("~/.supabase/access-token")],
    ),
    group(
        "Wrangler",
        "Wrangler: tokens of `wrangler login`",
        &[exclude("~/.config/.wrangler/config"), exclude("~/.wrangler/config")],
    ),
    group(
        "cloudflared",
        "Cloudflare, \"Tunnel permissions\": cert.pem and tunnel credentials",
        &[exclude("~/.cloudflared")],
    ),
    group(
        "Neon CLI",
        "Neon, \"neon login\": credentials.json",
        &[exclude("~/.config/neonctl/credentials.json"), exclude("~/.config/neon/credentials.json")],
    ),
    group("Turso CLI", "Turso, `turso auth login`: settings.json holds the token", &[exclude("~/.config/turso")]),
    group(
        "PlanetScale CLI",
        "pscale, `pscale auth login`: the file of the token",
        &[exclude("~/.config/planetscale/access-token")],
    ),
    group("Twilio CLI", "Twilio, \"Profiles\": API keys", &[exclude("~/.twilio-cli/config.json").reads_as("{}\n")]),
    group("Atlas CLI", "Atlas CLI, \"Save Connection Settings\": config.toml", &[exclude("~/.config/atlascli")]),
    group("Render CLI", "Render, `render login`: cli.yaml holds the key", &[exclude("~/.render/cli.yaml")]),
    group("Civo CLI", "Civo, Terraform provider, \"Configuration\": .civo.json", &[exclude("~/.civo.json")]),
    group(
        "upctl",
        "UpCloud, upctl, \"Configure credentials\"",
        &[exclude("~/.config/upctl.yaml"), exclude("~/.upctl.yaml"), exclude("~/.upctl")],
    ),
    group("Akamai", "Akamai, \"Create authentication credentials\": .edgerc", &[exclude("~/.edgerc")]),
    group("Okta", "okta-aws-cli, README, \"Configuration\"; Okta SDKs: okta.yaml", &[exclude("~/.okta")]),
    group("JFrog CLI", "JFrog, \"JFrog CLI Environment Variables\": JFROG_CLI_HOME_DIR", &[exclude("~/.jfrog")]),
    group(
        "Earthly",
        "Earthly, `earthly account login`; \"Earthly configuration\": passwords of git",
        &[exclude("~/.earthly/auth.*"), exclude("~/.earthly/config.yml").reads_as_empty()],
    ),
    group(
        "GitLab Runner",
        "GitLab Runner, \"Advanced configuration\": tokens in config.toml",
        &[exclude("~/.gitlab-runner")],
    ),
    group(
        "Zulip",
        "Zulip, \"Configuring the Python bindings\": .zuliprc",
        &[exclude("~/.zuliprc"), exclude("~/zuliprc")],
    ),
    group(
        "LuaRocks",
        "luarocks, `luarocks upload --api-key`: the file of the key",
        &[exclude("~/.luarocks/upload_config.lua")],
    ),
    group(
        "AIChat, Continue, Codeium",
        "AIChat, config.example.yaml; Continue, \"config.yaml Reference\"; codeium.vim, README: API keys",
        &[
            exclude("~/.config/aichat/config.yaml"),
            exclude("~/.config/aichat/.env"),
            exclude("~/.continue/config.yaml"),
            exclude("~/.continue/config.json"),
            exclude("~/.continue/.env"),
            exclude("~/.codeium/config.json"),
        ],
    ),
    group(
        "NSS",
        "NSS, \"NSS Shared DB\": keys of client certificates",
        &[exclude("~/.pki/nssdb/key4.db"), exclude("~/.pki/nssdb/key3.db")],
    ),
    group(
        "OpenSSH",
        "ssh-keygen(1), FILES: keys with the usual names, which lie in the home itself",
        &[
            exclude("~/id_rsa"),
            exclude("~/id_dsa"),
            exclude("~/id_ecdsa"),
            exclude("~/id_ecdsa_sk"),
            exclude("~/id_ed25519"),
            exclude("~/id_ed25519_sk"),
        ],
    ),
    group("Railway CLI", "Railway, \"railway login\": config.json", &[exclude("~/.railway/config.json")]),
    group(
        "Firebase CLI",
        "firebase-tools: tokens of `firebase login`",
        &[exclude("~/.config/configstore/firebase-tools.json").reads_as("{}\n")],
    ),
    group("Expo", "Expo CLI: state.json holds the session", &[exclude("~/.expo/state.json").reads_as("{}\n")]),
    group("Stripe CLI", "Stripe, \"Stripe CLI keys\": config.toml", &[exclude("~/.config/stripe")]),
    group(
        "ngrok",
        "ngrok, \"Agent Configuration File\": authtoken",
        &[exclude("~/.config/ngrok"), exclude("~/.ngrok2")],
    ),
    group("Databricks CLI", "Databricks, \"Configuration profiles\": .databrickscfg", &[exclude("~/.databrickscfg")]),
    group(
        "Snowflake",
        "SnowSQL, \"Configuring SnowSQL\"; Snowflake CLI, \"connections.toml\"",
        &[exclude("~/.snowsql"), exclude("~/.snowflake")],
    ),
    group("gsutil", "gsutil, \"Credential types\": .boto", &[exclude("~/.boto"), exclude("~/.gsutil")]),
    group(
        "S3 clients",
        "s3cmd(1), s3fs(1), \"MinIO Client\": files of keys",
        &[exclude("~/.s3cfg"), exclude("~/.passwd-s3fs"), exclude("~/.mc/config.json")],
    ),
    group(
        "rclone",
        "rclone, \"Configuration\": rclone.conf",
        &[exclude("~/.config/rclone"), exclude("~/.rclone.conf")],
    ),
    group("Argo CD CLI", "argocd, \"argocd login\": the session", &[exclude("~/.config/argocd"), exclude("~/.argocd")]),
    group("Rancher CLI", "Rancher, \"CLI\": cli2.json", &[exclude("~/.rancher")]),
    group("talosctl", "Talos, \"talosconfig\"", &[exclude("~/.talos")]),
    group(
        "CircleCI, Travis CI",
        "\"CircleCI local CLI\": cli.yml; travis, README: config.yml",
        &[exclude("~/.circleci/cli.yml").reads_as_empty(), exclude("~/.travis/config.yml")],
    ),
    group(
        "Hugging Face",
        "huggingface_hub, \"Environment variables\": HF_TOKEN_PATH",
        &[
            exclude("~/.cache/huggingface/token").reads_as_empty(),
            exclude("~/.cache/huggingface/stored_tokens").reads_as_empty(),
            exclude("~/.huggingface/token").reads_as_empty(),
        ],
    ),
    group("Kaggle", "Kaggle API, README: kaggle.json", &[exclude("~/.kaggle"), exclude("~/.config/kaggle")]),
    group("Modal", "Modal, \"modal.config\": token_secret", &[exclude("~/.modal.toml").reads_as_empty()]),
    group(
        "llm",
        "llm, \"API key management\": keys.json",
        &[exclude("~/.config/io.datasette.llm/keys.json").reads_as("{}\n")],
    ),
    group("Ollama", "Ollama, FAQ: the key that signs for ollama.com", &[exclude("~/.ollama/id_ed25519")]),
    group(
        "git",
        "gitcredentials(7), git-credential-cache(1), \"Git Credential Manager\": credential stores",
        &[
            exclude("~/.git-credential-cache"),
            exclude("~/.cache/git/credential"),
            // git outside gives passwords to the process that listens there.
            ro("~/.cache/git/credential").moved_aside(),
            exclude("~/.gcm"),
            exclude("~/.gitcookies"),
        ],
    ),
    group(
        "hub, tea",
        "hub(1), \"Configuration\"; Gitea, tea: config files hold tokens",
        &[exclude("~/.config/hub"), exclude("~/.config/tea")],
    ),
    group("Subversion", "Version Control with Subversion, \"Caching credentials\"", &[exclude("~/.subversion/auth")]),
    group("Arcanist", "Phabricator, \"Arcanist User Guide\": .arcrc", &[exclude("~/.arcrc")]),
    group("Emacs", "Emacs auth-source: .authinfo", &[exclude("~/.authinfo"), exclude("~/.authinfo.gpg")]),
    // libpq warns at each start about a file that is no plain file.
    group("PostgreSQL", "PostgreSQL, \"The Password File\"", &[exclude("~/.pgpass").reads_as_empty()]),
    group("usql", "usql, README, \"Passwords\": .usqlpass", &[exclude("~/.usqlpass")]),
    group("MySQL", "MySQL Reference Manual, \"mysql_config_editor\"", &[exclude("~/.mylogin.cnf")]),
    group(
        "Cassandra",
        "cqlsh: [authentication] in cqlshrc and credentials",
        &[exclude("~/.cassandra/credentials"), exclude("~/.cassandra/cqlshrc")],
    ),
    group("PuTTY", "PuTTY User Manual: keys and sessions on Unix", &[exclude("~/.putty")]),
    group("step", "step, \"step path\": keys and certificates", &[exclude("~/.step")]),
    group("minisign", "minisign(1): the secret key", &[exclude("~/.minisign")]),
    group(
        "mkcert, Caddy",
        "mkcert, README; Caddy, \"Automatic HTTPS\": the key of the local authority",
        &[exclude("~/.local/share/mkcert/rootCA-key.pem"), exclude("~/.local/share/caddy/pki")],
    ),
    group("Android", "adb: the key by which devices know this machine", &[exclude("~/.android/adbkey")]),
    group(
        "systemd",
        "systemd.exec(5), \"Credentials\": stores of the user",
        &[exclude("~/.config/credstore"), exclude("~/.config/credstore.encrypted")],
    ),
    group(
        "OpenVPN, WireGuard",
        "NetworkManager-openvpn: imported keys; wg-quick(8), openvpn(8): files that people keep",
        &[
            exclude("~/.cert"),
            exclude("~/.config/wireguard"),
            exclude("~/.wireguard"),
            exclude("~/.config/openvpn"),
            exclude("~/.openvpn"),
        ],
    ),
    group(
        ".NET",
        "ASP.NET Core, \"Safe storage of app secrets in development\"",
        &[exclude("~/.microsoft/usersecrets")],
    ),
    group(
        "davfs2, SMB",
        "davfs2.conf(5): secrets; mount.cifs(8): credentials",
        &[exclude("~/.davfs2/secrets"), exclude("~/.smbcredentials")],
    ),
    group("BorgBackup", "Borg, \"Files and directories\": keys", &[exclude("~/.config/borg/keys")]),
    group("Kopia", "Kopia, \"Command-line\": the password of the repository", &[exclude("~/.config/kopia")]),
    group(
        "HTTPie",
        "HTTPie, \"Sessions\": headers and cookies",
        &[exclude("~/.config/httpie/sessions"), exclude("~/.httpie/sessions")],
    ),
    group("VNC", "vncpasswd(1)", &[exclude("~/.vnc/passwd"), exclude("~/.config/tigervnc/passwd")]),
    group("eCryptfs", "ecryptfs(7): the wrapped passphrase", &[exclude("~/.ecryptfs")]),
    group(
        "Keybase",
        "Keybase: session and device keys",
        &[exclude("~/.config/keybase"), exclude("~/.local/share/keybase")],
    ),
];
