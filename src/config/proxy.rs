//! By which proxy an upstream is reached.
//!
//! The key `proxy` of an upstream wins, and holds for everything that this upstream is asked.
//! Without it, `HTTPS_PROXY` stands in as every other program reads it: for `https` URLs only, and
//! not for the hosts that `NO_PROXY` names. The variables come in as text; nothing here reads the
//! environment, and no message repeats their value, since people put passwords there.

use super::endpoint::{Endpoint, Host, Scheme};
use super::error::Problem;

/// An HTTP proxy that is asked for a tunnel by `CONNECT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Always `http`, always without a path.
    pub endpoint: Endpoint,
    reach: Reach,
}

/// Which endpoints are reached by it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Reach {
    /// The configuration says so.
    All,
    /// By the variables: `https` but for the hosts of this list.
    Https { except: String },
}

impl Proxy {
    /// Reads the key `proxy`.
    pub fn configured(text: &str) -> Result<Proxy, Problem> {
        let (endpoint, reach) = (endpoint(text)?, Reach::All);
        Ok(Proxy { endpoint, reach })
    }

    /// Reads the variables; `https_proxy` may lack its scheme, as it may elsewhere.
    pub fn from_variables(https_proxy: &str, no_proxy: Option<&str>) -> Result<Proxy, Problem> {
        let endpoint = match https_proxy.contains("://") {
            true => endpoint(https_proxy)?,
            false => endpoint(&format!("http://{https_proxy}"))?,
        };
        let except = no_proxy.unwrap_or_default().to_owned();
        let reach = Reach::Https { except };
        Ok(Proxy { endpoint, reach })
    }

    /// Whether `target` is reached by this proxy. Bounded by the length of `NO_PROXY`.
    pub fn leads_to(&self, target: &Endpoint) -> bool {
        match &self.reach {
            Reach::All => true,
            Reach::Https { except } => {
                let mut entries = except.split([',', ' ']).filter(|entry| !entry.is_empty());
                target.scheme == Scheme::Https && !entries.any(|entry| is_named(entry, target))
            }
        }
    }
}

fn endpoint(text: &str) -> Result<Endpoint, Problem> {
    let endpoint = Endpoint::parse(text)?;
    let reason = match endpoint.scheme {
        Scheme::Http if endpoint.prefix.is_empty() => return Ok(endpoint),
        Scheme::Http => "a proxy has no path",
        Scheme::Https => "a proxy is spoken to by `http://`; what goes through it is still TLS",
    };
    Err(Problem::NotAUrl { reason })
}

/// Whether an entry of `NO_PROXY` names the target: `*`, an address, or a domain, which stands for
/// the names below it too; each of the two may have a port.
fn is_named(entry: &str, target: &Endpoint) -> bool {
    if entry == "*" {
        return true;
    }
    let entry = entry.to_ascii_lowercase();
    let is_address = |text: &str| match target.host {
        Host::Address(address) => {
            let bare = text
                .strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']'));
            bare.unwrap_or(text).parse() == Ok(address)
        }
        Host::Name(_) => false,
    };
    let is_name = |text: &str| match &target.host {
        Host::Name(name) => {
            let domain = text.trim_start_matches("*.").trim_start_matches('.');
            let below = name.strip_suffix(domain);
            !domain.is_empty() && below.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        }
        Host::Address(_) => false,
    };
    let is_host = |text: &str| is_address(text) || is_name(text);
    let with_port = entry.rsplit_once(':');
    let is_port = |port: &str| port.parse() == Ok(target.port);
    is_host(&entry) || with_port.is_some_and(|(host, port)| is_port(port) && is_host(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leads(no_proxy: &str, url: &str) -> bool {
        let proxy = Proxy::from_variables("http://proxy:3128", Some(no_proxy)).unwrap();
        proxy.leads_to(&Endpoint::parse(url).unwrap())
    }

    #[test]
    fn variables_speak_of_https_only_and_the_key_of_all() {
        let key = Proxy::configured("http://proxy:3128").unwrap();
        for (url, by_variable) in [("http://gw", false), ("https://gw", true)] {
            assert_eq!(leads("", url), by_variable);
            assert!(key.leads_to(&Endpoint::parse(url).unwrap()));
        }
    }

    #[test]
    fn no_proxy_names_hosts_domains_addresses_and_all() {
        let url = "https://eu-de.apprapp.cloud.ibm.com";
        for named in [
            "*",
            "eu-de.apprapp.cloud.ibm.com",
            "ibm.com",
            ".IBM.com",
            "*.ibm.com",
            "a.example, cloud.ibm.com:443",
        ] {
            assert!(!leads(named, url), "{named}");
        }
        for other in [
            "",
            "bm.com",
            "us.ibm.com",
            "ibm.com:8443",
            ".",
            "ibm.com.evil",
        ] {
            assert!(leads(other, url), "{other}");
        }
        assert!(!leads("10.0.0.7", "https://10.0.0.7:8443"));
        assert!(!leads("[fd00::1]:443,::1", "https://[fd00::1]"));
        assert!(!leads("fd00::1", "https://[fd00::1]"));
        assert!(leads("10.0.0.7", "https://10.0.0.70"));
    }

    #[test]
    fn only_plain_http_proxies_are_taken() {
        assert!(Proxy::from_variables("proxy:3128", None).is_ok());
        for bad in [
            "https://proxy",
            "socks5://proxy",
            "http://user:word@proxy",
            "http://proxy/path",
            "",
        ] {
            assert!(Proxy::configured(bad).is_err(), "{bad}");
            assert!(Proxy::from_variables(bad, None).is_err(), "{bad}");
        }
    }
}
