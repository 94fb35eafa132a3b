use proptest::prelude::*;

use super::*;
use CredentialFile::{Bundle, Npmrc, Properties, Toml, Urls, Xml, Yarnrc};

/// The copy, or the text itself where nothing had to be removed.
#[track_caller]
fn shown(file: CredentialFile, text: &str) -> String {
    match without_credentials(file, text.as_bytes()) {
        Ok(copy) => copy.map_or_else(|| text.to_owned(), |copy| String::from_utf8(copy).unwrap()),
        Err(unclear) => panic!("{unclear}: {text}"),
    }
}

// SPEC P16
#[test]
fn hosts_of_bundler_are_removed_and_settings_stay() {
    let text = "---\n\
                BUNDLE_PATH: \"vendor/bundle\"\n\
                BUNDLE_GEMS__R__EXAMPLE: \"me:SECRET\"\n\
                BUNDLE_HTTPS://R__EXAMPLE/: \"SECRET\"\n\
                # BUNDLE_OLD__R__EXAMPLE: \"SECRET\"\n\
                BUNDLE_GEM__PUSH_KEY: \"SECRET\"\n\
                BUNDLE_CI__R__EXAMPLE:\n  - SECRET\n\
                BUNDLE_WITHOUT:\n  - test\n\
                BUNDLE_BUILD__NOKOGIRI: \"--use-system-libraries\"\n\
                BUNDLE_TRUST___POLICY: \"HighSecurity\"\n\
                BUNDLE_MIRROR__HTTPS://RUBYGEMS__ORG/: \"https://me:SECRET@m.example\"\n";
    let copy = "---\n\
                BUNDLE_PATH: \"vendor/bundle\"\n\
                BUNDLE_WITHOUT:\n  - test\n\
                BUNDLE_BUILD__NOKOGIRI: \"--use-system-libraries\"\n\
                BUNDLE_TRUST___POLICY: \"HighSecurity\"\n\
                BUNDLE_MIRROR__HTTPS://RUBYGEMS__ORG/: \"https://m.example\"\n";
    assert_eq!(shown(Bundle, text), copy);
    assert!(without_credentials(Bundle, b"BUNDLE_A__B: \"SECRET\nSECRET\"\n").is_err());
}

// SPEC P16
#[test]
fn tokens_of_npm_are_removed_and_settings_stay() {
    let text = "registry=https://r.example/\n\
                //r.example/:_authToken=npm_SECRET\n\
                //r.example/:username=me\n\
                //r.example/:_password = SECRET\r\n\
                _auth=\"SECRET\"\n\
                ; //old.example/:_authToken=SECRET\n\
                key=\"-----BEGIN PRIVATE KEY-----\\nSECRET\\n-----END PRIVATE KEY-----\"\n\
                //r.example/:key = SECRET\n\
                //r.example/:keyfile=/a/key.pem\n\
                always-auth=true\n\
                //ci.example/:_authToken=${NPM_TOKEN}\n\
                @team:registry=https://t.example/";
    let copy = "registry=https://r.example/\n\
                //r.example/:username=me\n\
                \n//r.example/:keyfile=/a/key.pem\n\
                always-auth=true\n\
                //ci.example/:_authToken=${NPM_TOKEN}\n\
                @team:registry=https://t.example/";
    assert_eq!(shown(Npmrc, text), copy);
}

// SPEC P16
#[test]
fn tokens_of_yarn_are_removed_with_all_of_their_lines() {
    let text = "nodeLinker: node-modules\n\
                npmAuthToken: SECRET\n\
                npmScopes:\n  team:\n    npmRegistryServer: \"https://t.example\"\n    \"npmAuthIdent\": \"me:SECRET\"\n\
                npmRegistries:\n  //r.example:\n    npmAuthToken: >-\n      SECRET\n\n      SECRET\n    npmAlwaysAuth: true\n\
                # npmAuthToken: SECRET\n\
                enableTelemetry: false\n";
    let copy = "nodeLinker: node-modules\n\
                npmScopes:\n  team:\n    npmRegistryServer: \"https://t.example\"\n\
                npmRegistries:\n  //r.example:\n    npmAlwaysAuth: true\n\
                enableTelemetry: false\n";
    assert_eq!(shown(Yarnrc, text), copy);
    let references = "npmAuthToken: \"${NPM_TOKEN}\"\nnpmAuthIdent: ${IDENT:-}\n";
    assert_eq!(shown(Yarnrc, references), references);
}

#[test]
fn a_token_of_yarn_whose_end_is_not_clear_is_refused() {
    for text in [
        "npmScopes: { team: { npmAuthToken: SECRET } }\n",
        "x: &token SECRET\nnpmAuthToken: *token\n",
        "? npmAuthToken\n: SECRET\n",
        "npmAuthToken: \"SECRET\nSECRET\"\n",
    ] {
        assert_eq!(without_credentials(Yarnrc, text.as_bytes()), Err(Unclear::Syntax), "{text}");
    }
}

// SPEC P16
#[test]
fn credentials_in_urls_are_removed_and_the_urls_stay() {
    for (text, copy) in [
        ("index-url = https://me:SECRET@r.example/simple", "index-url = https://r.example/simple"),
        (
            "extra-index-url = https://SECRET@r.example/a http://r.example",
            "extra-index-url = https://r.example/a http://r.example",
        ),
        ("x = https://me:SE@CRET@r.example", "x = https://r.example"),
        ("x = https\\://me\\:SECRET@r.example", "x = https\\://r.example"),
        ("x = ftp://me:SECRET@r.example", "x = ftp://r.example"),
        ("x = https:/me:SECRET@r.example", "x = https:/r.example"),
        ("x = HTTPS:me:SECRET@r.example", "x = HTTPS:r.example"),
        ("x = http:\\/\\/me:SECRET@r.example", "x = http:\\/\\/r.example"),
        ("x = \"https://me:SEC RET@r.example/\"", "x = \"https://r.example/\""),
        ("proxy = me:SECRET@proxy:3128", "proxy = proxy:3128"),
        ("https_proxy=\"me:SECRET@proxy:3128\"\r\n", "https_proxy=\"proxy:3128\"\r\n"),
    ] {
        assert_eq!(shown(Urls, text), copy);
    }
    for text in [
        "index-url = https://${USER}:${PASS}@r.example/simple",
        "x = ssh://git@r.example/a",
        "x = https://r.example/@team/a:b@c",
        "proxy = git@proxy:3128",
        "proxy = ${USER}:${PASS}@proxy",
        "no_proxy = a:1, b@c",
        "x: me:you@r.example",
        "http: me@r.example",
        "x = a://",
    ] {
        assert_eq!(without_credentials(Urls, text.as_bytes()), Ok(None), "{text}");
    }
}

// SPEC P16
#[test]
fn elements_of_maven_and_nuget_that_hold_credentials_are_removed() {
    let maven = "<?xml version=\"1.0\"?>\n<settings a=\"x > y\">\n<!-- <password>SECRET</password> -->\n<!-- mirrors -->\n\
                 <servers><server><id>r</id><username>me</username><password>SECRET<b/></password>\
                 <passphrase ><![CDATA[SECRET</passphrase>]]></passphrase><PrivateKey>SECRET</PrivateKey>\
                 <configuration><httpHeaders><property><value>SECRET</value></property></httpHeaders></configuration>\
                 </server></servers>\n<mirror><url>https://me:SECRET@r.example/</url></mirror><password/>\n</settings>\n";
    let copy = "<?xml version=\"1.0\"?>\n<settings a=\"x > y\">\n\n<!-- mirrors -->\n\
                <servers><server><id>r</id><username>me</username><configuration></configuration>\
                </server></servers>\n<mirror><url>https://r.example/</url></mirror>\n</settings>\n";
    assert_eq!(shown(Xml, maven), copy);
    let nuget = "<configuration><packageSources><add key=\"r\" value=\"https://r.example\" /></packageSources>\
                 <packageSourceCredentials><r><add key=\"ClearTextPassword\" value=\"SECRET\" /></r></packageSourceCredentials>\
                 <config><add key=\"http_proxy.password\" value=\"SECRET\" /></config></configuration>";
    let copy = "<configuration><packageSources><add key=\"r\" value=\"https://r.example\" /></packageSources>\
                <config></config></configuration>";
    assert_eq!(shown(Xml, nuget), copy);
}

#[test]
fn xml_that_is_not_understood_is_refused() {
    for text in [
        "<settings><password>SECRET</settings>",
        "<settings>",
        "</settings>",
        "<!DOCTYPE s [<!ENTITY p \"SECRET\">]><s>&p;</s>",
        "<!-- <password>",
        "<a b=\"",
        "<>SECRET</>",
    ] {
        assert_eq!(without_credentials(Xml, text.as_bytes()), Err(Unclear::Syntax), "{text}");
    }
}

// SPEC P16
#[test]
fn properties_with_the_name_of_a_credential_are_removed() {
    let text = "org.gradle.jvmargs=-Xmx2g \\\n  -Dfile.encoding=UTF-8\n\
                ossrhPassword=SECRET\nsigning.keyId : SECRET\ngithub_token SECRET\nAPIKEY=SECRET\n\
                my.apiKey = SECRET \\\n   SECRET\n# oldPassword=SECRET\n# The token is in the environment.\n\
                access-tokens = r.example=SECRET\ntrusted-public-keys = a:b\nrepo=https://me:SECRET@r.example/\n\
                systemProp.https.proxyHost=p.example\npassword1=SECRET\nhttppasswd = SECRET\n\
                header = Authorization: Bearer SECRET\nheader = Cookie: SECRET\nheader = Accept: a\n";
    let copy = "org.gradle.jvmargs=-Xmx2g \\\n  -Dfile.encoding=UTF-8\n\
                # The token is in the environment.\ntrusted-public-keys = a:b\nrepo=https://r.example/\n\
                systemProp.https.proxyHost=p.example\nheader = Accept: a\n";
    assert_eq!(shown(Properties, text), copy);
    let spelled = "p\\u0061ssword=SECRET\n";
    assert_eq!(without_credentials(Properties, spelled.as_bytes()), Err(Unclear::Syntax));
}

// SPEC P16
#[test]
fn keys_of_toml_are_removed_from_tables_of_all_kinds() {
    let text = "# settings\nregistry.token = \"SECRET\"\n# registry.token = \"SECRET\"\n[install]\n\
                registry = { url = \"https://r.example\", token = \"SECRET\" } # ours\n\
                scopes.team = { url = \"https://t.example\", token = \"$NPM_TOKEN\" }\n\
                [registries.private]\nindex = \"https://me:SECRET@r.example\"\ntoken = \"\"\"\nSECRET\"\"\"\n\
                [registry]\nglobal-credential-providers = [\"cargo:token\"]\n";
    let copy = shown(Toml, text.replace("registry.token = \"SECRET\"\n#", "#").as_str());
    assert!(!copy.contains("SECRET"), "{copy}");
    for kept in
        ["# settings", "url = \"https://r.example\"", "# ours", "$NPM_TOKEN", "https://r.example", "cargo:token"]
    {
        assert!(copy.contains(kept), "{kept}: {copy}");
    }
    assert_eq!(shown(Toml, "registry.token = \"SECRET\"\n[build]\njobs = 2\n"), "[build]\njobs = 2\n");
    assert_eq!(without_credentials(Toml, b"[build]\njobs  =  2\n"), Ok(None));
    assert_eq!(without_credentials(Toml, b"token = SECRET\n"), Err(Unclear::Syntax));
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    for file in [Npmrc, Yarnrc, Urls, Toml, Xml, Properties] {
        assert_eq!(without_credentials(file, b"a=\xff\n"), Err(Unclear::NoText));
        assert_eq!(without_credentials(file, b"_\0auth=x\n"), Err(Unclear::NoText));
        assert_eq!(without_credentials(file, b""), Ok(None));
    }
}

fn any_format() -> impl Strategy<Value = CredentialFile> {
    prop_oneof![Just(Npmrc), Just(Yarnrc), Just(Urls), Just(Toml), Just(Xml), Just(Properties)]
}

proptest! {
    /// No text gives a copy that still has credentials.
    // SPEC P16
    #[test]
    fn a_copy_has_nothing_more_to_remove(
        file in any_format(),
        text in "([a-z_:=@/<> \n\\\\\"'#{}$.-]|https://|password|npmAuthToken: |_auth=|<password>|</password>){0,40}",
    ) {
        if let Ok(Some(copy)) = without_credentials(file, text.as_bytes()) {
            prop_assert!(copy.len() < text.len());
            let again = without_credentials(file, &copy);
            prop_assert!(matches!(again, Ok(None)), "{text:?} becomes {:?}, then {again:?}", String::from_utf8(copy));
        }
    }

    #[test]
    fn no_token_survives_among_other_lines(
        before in "[a-z:/.@=\n ]{0,30}", token in "[A-Za-z0-9]{12,20}", after in "[a-z:/.@=\n ]{0,30}",
    ) {
        let npm = format!("{before}\n//r.example/:_authToken={token}\n{after}");
        prop_assert!(!shown(Npmrc, &npm).contains(&token));
        let gradle = format!("{before}\nrepo.password={token}\n{after}");
        prop_assert!(!shown(Properties, &gradle).contains(&token));
        let pip = format!("{before}\nindex-url = https://me:{token}@r.example/simple\n{after}");
        prop_assert!(!shown(Urls, &pip).contains(&token));
        let maven = format!("<s><a>{before}</a><password>{token}</password><a>{after}</a></s>");
        prop_assert!(!shown(Xml, &maven).contains(&token));
    }
}
