//! The configuration file.
//!
//! Claims: it is taken or refused with at least one reason, each at a place and on one line; the
//! value of a secret shows in none of them; what is taken has no key twice and keeps its bounds.

use super::tree::Tree;
use staffetta::config::{Config, Environment, SecretSource};
use staffetta::limits::Limits;
use std::collections::BTreeSet;

/// Stands in the corpus wherever a secret may.
const SECRET: &str = "hush-hush";

pub const WORDS: &[&str] = &[
    "\"listen\":\"[::]:1\",",
    "\"unix:/a\"",
    "\"127.0.0.1:7070\"",
    "\"slots\":[],",
    "\"collection\"",
    "\"client_keys\"",
    "\"key\":\"hush-hush\"",
    "\"key_file\":\"${CREDENTIALS_DIRECTORY}/a\"",
    "\"upstream\":{},",
    "\"upstream\":{\"primary\":{\"url\":\"https://a\",\"api_key\":\"hush-hush\"}},",
    "\"limits\":{\"memory\":\"32 MiB\"},",
    "\"start\":\"normal\",",
    "\"ReverseProxy\":{\"Clusters\":{\"c\":{}}},",
    "\"SessionAffinity\":{\"Enabled\":true,\"AffinityKeyName\":\"a\"},",
    "\"Address\":\"http://a\"",
    "\"00:00:01\"",
    "// a\n",
    "/* a */",
    "\"hush-hush\"",
    "{}",
    "[]",
    "null",
    ",",
    "\"*/dev\"",
];

pub fn config(input: &[u8]) {
    let limits = Limits {
        slots_max: 3,
        keys_max: 3,
        ..Limits::PRODUCTION
    };
    let environment = Environment {
        config_directory: "/etc/staffetta".into(),
        ..Environment::default()
    };
    let text = std::str::from_utf8(input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input));
    let tree = text.ok().and_then(|text| Tree::parse(&bare(text)));
    // A path may name any key, an unknown one too.
    let is_key = tree.as_ref().is_some_and(|tree| tree.has_key_with(SECRET));
    let told = |path: &str, message: String| {
        assert!(path.starts_with('$'), "{message}");
        assert!(!message.chars().any(char::is_control), "{message:?}");
        assert!(is_key || !message.contains(SECRET), "{message}");
    };
    match Config::parse(input, &environment, &limits) {
        Ok(config) => {
            assert!(tree.is_some_and(|tree| !tree.has_duplicate()));
            for warning in &config.warnings {
                told(&warning.path, warning.to_string());
            }
            loaded(&config, &limits);
        }
        Err(errors) => {
            assert!(!errors.is_empty(), "refused without a reason");
            for error in &errors {
                told(&error.path, error.to_string());
            }
        }
    }
}

/// The text without comments and trailing commas, a letter at a time.
fn bare(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    let mut kept: Vec<char> = Vec::new();
    let mut at = 0;
    while at < letters.len() {
        let rest = &letters[at..];
        if rest.starts_with(&['/', '/']) {
            at += rest.iter().take_while(|c| !"\r\n".contains(**c)).count();
        } else if let Some(end) = rest.windows(2).skip(2).position(|pair| pair == ['*', '/'])
            && rest.starts_with(&['/', '*'])
        {
            kept.push(' ');
            at += end + 4;
        } else if rest[0] == '"' {
            let mut end = 1;
            while end < rest.len() && rest[end] != '"' {
                end += if rest[end] == '\\' { 2 } else { 1 };
            }
            let end = (end + 1).min(rest.len());
            kept.extend(&rest[..end]);
            at += end;
        } else {
            if rest[0] == ']' || rest[0] == '}' {
                drop_trailing_comma(&mut kept);
            }
            kept.push(rest[0]);
            at += 1;
        }
    }
    kept.into_iter().collect()
}

fn drop_trailing_comma(kept: &mut [char]) {
    let mut solid = (0..kept.len())
        .rev()
        .filter(|at| !kept[*at].is_ascii_whitespace());
    let (comma, value) = (solid.next(), solid.next());
    if let (Some(comma), Some(value)) = (comma, value)
        && kept[comma] == ','
        && !"[{,:".contains(kept[value])
    {
        kept[comma] = ' ';
    }
}

fn loaded(config: &Config, limits: &Limits) {
    assert!(!config.listen.is_empty() && config.listen.len() <= limits.listeners_max);
    assert!(
        config.slots.len() <= limits.slots_max
            && (!config.slots.is_empty() || config.reverse_proxy.is_some()),
        "{:?}",
        config.slots
    );
    let slots: BTreeSet<_> = config.slots.iter().collect();
    assert_eq!(slots.len(), config.slots.len(), "a slot twice");
    assert!(config.client_keys.len() <= limits.keys_max);
    let keys: BTreeSet<_> = config.client_keys.iter().map(|key| &key.id).collect();
    assert_eq!(keys.len(), config.client_keys.len(), "a key twice");
    let connections = config.limits.connections;
    assert!((1..=limits.connections_ceiling).contains(&connections));
    assert!(config.limits.memory_bytes >= limits.memory_bytes_min);
    let proxy = config.reverse_proxy.iter();
    for (proxy, route) in
        proxy.flat_map(|proxy| proxy.routes.iter().map(move |route| (proxy, route)))
    {
        assert!(route.cluster < proxy.clusters.len(), "{route:?}");
    }
    let secrets = config.client_keys.iter().map(|key| &key.secret);
    let upstream = config.upstream.as_ref();
    let api_key = upstream.map(|upstream| &upstream.primary.api_key);
    for secret in secrets.chain(&config.admin.token).chain(api_key) {
        if matches!(secret, SecretSource::Inline(_)) {
            assert!(!format!("{secret:?}").contains(SECRET));
        }
    }
}
