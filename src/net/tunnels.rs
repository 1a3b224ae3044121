//! The names for which the relay answers a `CONNECT` itself.
//!
//! SDKs that are only given a proxy ask it for a tunnel to the service and to its token service.
//! The relay is both, so it ends the tunnel itself: nothing ever leaves the box. The list is exact;
//! a relay that tunnelled to any name would be an open proxy.

use crate::config::Config;

/// The token service's names. The `test` one is what most SDKs use as soon as a service URL is set.
const TOKEN_HOSTS: [&str; 4] = [
    "iam.cloud.ibm.com",
    "private.iam.cloud.ibm.com",
    "iam.test.cloud.ibm.com",
    "private.iam.test.cloud.ibm.com",
];

/// The only port: everything that SDKs tunnel is TLS.
const PORT: &str = "443";

/// Host names, in lower case.
pub struct Tunnels {
    hosts: Vec<String>,
}

impl Tunnels {
    /// The token service, the service of the configured region, and what the operator allows.
    pub fn new(config: &Config) -> Tunnels {
        let mut hosts: Vec<String> = TOKEN_HOSTS.map(str::to_owned).into();
        if let Some(region) = &config.instance.region {
            let host = format!("{region}.apprapp.cloud.ibm.com").to_ascii_lowercase();
            hosts.extend([format!("private.{host}"), host]);
        }
        hosts.extend(
            config
                .connect
                .allow
                .iter()
                .map(|host| host.to_ascii_lowercase()),
        );
        Tunnels { hosts }
    }

    /// Whether `authority` (`host:port`) is on the list.
    pub fn allows(&self, authority: &str) -> bool {
        let Some((host, port)) = authority.rsplit_once(':') else {
            return false;
        };
        port == PORT
            && self
                .hosts
                .iter()
                .any(|allowed| allowed.eq_ignore_ascii_case(host))
    }

    /// The names, for `check` and status.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }
}
