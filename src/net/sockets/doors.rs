//! Which sockets a relay serves: systemd's, those of the configuration, and the unit's own.
//!
//! Sockets that were passed in stand in place of the configured ones. So a configured address can
//! be set aside, which is said: a gateway that was shut to one address must not be open on all of
//! them unnoticed.
//!
//! In the unit, the admin socket of its runtime directory is there whatever else `admin.listen`
//! names: `systemctl reload` and `staffetta status` ask there.
//!
//! An admin address for which the system has no network at all (the air-gap profile; IPv6 where
//! there is none) is left out: it will not come by trying again, and clients can be served. So the
//! relay starts without whoever wanted to look at it from elsewhere, rather than never. An SDK
//! address is never left out.

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Inherited, Listener, Reach, SocketError};
use crate::config::{Config, Environment, Listen};
use crate::limits::Limits;

/// The listeners, and what an operator should know about them.
#[derive(Debug)]
pub struct Doors {
    /// Not empty.
    pub sdk: Vec<Listener>,
    pub admin: Vec<Listener>,
    /// One line each.
    pub warnings: Vec<String>,
}

impl Doors {
    /// Opens what is configured and was not passed in.
    ///
    /// # Errors
    /// The first address that cannot be opened; trying again may help. Bounded by
    /// `Limits::listeners_max`, and by what was passed in.
    pub fn open(
        config: &Config,
        environment: &Environment,
        inherited: Inherited,
        limits: &Limits,
    ) -> Result<Doors, SocketError> {
        let mut warnings = Vec::new();
        let sdk = match inherited.sdk.is_empty() {
            true => {
                let open = |address| Listener::open(address, Reach::Local, limits);
                config.listen.iter().map(open).collect::<Result<_, _>>()?
            }
            false => {
                warnings.extend(set_aside("$.listen", &config.listen, &inherited.sdk));
                inherited.sdk
            }
        };
        let open = |address: &Listen| Listener::open(address, Reach::Owner, limits);
        let mut admin = inherited.admin;
        if admin.is_empty() {
            for address in config.admin.addresses(environment) {
                admin.extend(unless_hopeless(open(&address), &mut warnings)?);
            }
        } else if let Some(configured) = &config.admin.listen {
            warnings.extend(set_aside("$.admin.listen", configured, &admin));
        }
        if let Some(own) = environment.admin_socket()
            && !admin.iter().any(|have| have.stands_for(&own))
        {
            match open(&own) {
                // Another name of one that is open already, or of another relay's. Nobody else need
                // go without for that, once they have somewhere to ask.
                Err(error) if !admin.is_empty() => warnings.push(format!(
                    "{error}; `staffetta reload` and `status` need --admin"
                )),
                own => admin.push(own?),
            }
        }
        Ok(Doors {
            sdk,
            admin,
            warnings,
        })
    }
}

/// What to say if the sockets that were passed in are not those that the configuration names.
fn set_aside(path: &str, configured: &[Listen], passed: &[Listener]) -> Option<String> {
    let stands_for = |have: &Listener| configured.iter().any(|want| have.stands_for(want));
    let is_served = |want: &&Listen| passed.iter().any(|have| have.stands_for(want));
    let left: Vec<&Listen> = configured.iter().filter(|want| !is_served(want)).collect();
    if left.is_empty() && passed.iter().all(stands_for) {
        return None;
    }
    let not = match left.is_empty() {
        true => String::new(),
        false => format!(", and not {}", listed(&left)),
    };
    Some(format!(
        "systemd's sockets stand in place of {path}: served is {}{not}; `staffetta unit --socket` \
         prints the addresses of $.listen for the socket unit",
        listed(passed)
    ))
}

fn listed(items: &[impl Display]) -> String {
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    items.join(", ")
}

/// None, and a warning, where the system has no such network.
fn unless_hopeless(
    outcome: Result<Listener, SocketError>,
    warnings: &mut Vec<String>,
) -> Result<Option<Listener>, SocketError> {
    match outcome {
        Err(error) if error.is_without_network() => {
            warnings.push(format!("$.admin.listen: {error}; it is left out"));
            Ok(None)
        }
        outcome => outcome.map(Some),
    }
}

impl Listener {
    fn open(address: &Listen, reach: Reach, limits: &Limits) -> Result<Listener, SocketError> {
        match address {
            Listen::Tcp(address) => Listener::tcp(*address, limits),
            Listen::Unix(path) => Listener::unix(path, reach, limits),
        }
    }

    /// Whether this is what `address` asks for; port 0 asks for any.
    fn stands_for(&self, address: &Listen) -> bool {
        match (self, address) {
            (Listener::Tcp(listener), Listen::Tcp(want)) => {
                listener.local_addr().is_ok_and(|have| {
                    // What becomes of it on a box without IPv6.
                    let is_any = want.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED)
                        && have.ip() == IpAddr::V4(Ipv4Addr::UNSPECIFIED);
                    let is_port = want.port() == 0 || want.port() == have.port();
                    is_port && (is_any || want.ip() == have.ip())
                })
            }
            (Listener::Unix(listener), Listen::Unix(want)) => listener
                .local_addr()
                .is_ok_and(|have| have.as_pathname() == Some(want)),
            (Listener::Tcp(_), Listen::Unix(_)) | (Listener::Unix(_), Listen::Tcp(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::disk::scratch::Scratch;
    use rustix::io::Errno;
    use std::path::Path;

    fn config(listen: &str) -> Config {
        let text = format!(
            r#"{{"instance": {{"guid": "g"}}, {listen},
                 "slots": [{{"collection": "c", "environment": "e"}}]}}"#
        );
        Config::parse(text.as_bytes(), &bare(), &Limits::PRODUCTION).unwrap()
    }

    fn bare() -> Environment {
        Environment::default()
    }

    /// With the unit's runtime directory.
    fn unit(directory: &Path) -> Environment {
        Environment::new(Path::new("c.json"), None, directory.to_str())
    }

    fn port() -> Listener {
        Listener::tcp("127.0.0.1:0".parse().unwrap(), &Limits::PRODUCTION).unwrap()
    }

    fn passed(sdk: Vec<Listener>) -> Inherited {
        let admin = Vec::new();
        Inherited { sdk, admin }
    }

    fn open(config: &Config, environment: &Environment, inherited: Inherited) -> Doors {
        Doors::open(config, environment, inherited, &Limits::PRODUCTION).unwrap()
    }

    const ADMIN: &str = r#""admin": {"listen": "127.0.0.1:0"}"#;

    #[test]
    fn addresses_that_systemd_sets_aside_are_named() {
        let socket = port();
        let address = socket.to_string();
        let same = config(&format!(r#""listen": "{address}", {ADMIN}"#));
        let doors = open(&same, &bare(), passed(vec![socket]));
        assert_eq!(doors.warnings, Vec::<String>::new());

        let other = config(&format!(
            r#""listen": ["127.0.0.9:9", "{address}"], {ADMIN}"#
        ));
        let doors = open(&other, &bare(), passed(doors.sdk));
        let [warning] = &doors.warnings[..] else {
            panic!("{:?}", doors.warnings);
        };
        let words = format!("served is {address}, and not 127.0.0.9:9;");
        assert!(warning.contains(&words), "{warning}");

        let (second, first) = (port(), doors.sdk);
        let sockets = first.into_iter().chain([second]).collect();
        let doors = open(&same, &bare(), passed(sockets));
        let more = format!("served is {address}, {};", doors.sdk[1]);
        assert!(doors.warnings[0].contains(&more), "{:?}", doors.warnings);
    }

    #[test]
    fn the_unit_always_has_its_admin_socket() {
        let scratch = Scratch::new("doors-admin");
        let path = scratch.path("admin.sock");
        let own = format!("unix:{}", path.display());
        let environment = unit(path.parent().unwrap());
        let shown = |doors: &Doors| listed(&doors.admin);
        let tcp = config(&format!(r#""listen": "127.0.0.1:0", {ADMIN}"#));
        let doors = open(&tcp, &environment, Inherited::default());
        assert!(shown(&doors).ends_with(&format!(", {own}")), "{doors:?}");
        drop(doors);
        let named = config(&format!(
            r#""listen": "127.0.0.1:0", "admin": {{"listen": "{own}"}}"#
        ));
        let doors = open(&named, &environment, Inherited::default());
        assert_eq!(shown(&doors), own);
        // It may have come from systemd, too.
        let inherited = Inherited {
            sdk: Vec::new(),
            admin: doors.admin,
        };
        assert_eq!(shown(&open(&named, &environment, inherited)), own);
        assert!(!shown(&open(&tcp, &bare(), Inherited::default())).contains("unix"));
    }

    #[test]
    fn an_admin_socket_by_another_name_keeps_nobody_from_starting() {
        let scratch = Scratch::new("doors-link");
        let (run, link) = (scratch.path("run"), scratch.path("link"));
        std::fs::create_dir(&run).unwrap();
        std::os::unix::fs::symlink("run", &link).unwrap();
        let named = format!("unix:{}", link.join("admin.sock").display());
        let config = config(&format!(
            r#""listen": "127.0.0.1:0", "admin": {{"listen": "{named}"}}"#
        ));
        let doors = open(&config, &unit(&run), Inherited::default());
        assert_eq!(listed(&doors.admin), named);
        assert!(doors.warnings[0].contains("--admin"), "{doors:?}");
    }

    #[test]
    fn only_an_admin_address_without_a_network_is_left_out() {
        let failed = |errno: Errno| {
            Err(SocketError {
                step: "open",
                address: "127.0.0.1:7071".to_owned(),
                error: errno.into(),
            })
        };
        let mut warnings = Vec::new();
        let outcome = unless_hopeless(failed(Errno::AFNOSUPPORT), &mut warnings);
        assert!(matches!(outcome, Ok(None)));
        let [warning] = &warnings[..] else {
            panic!("{warnings:?}");
        };
        assert!(warning.contains("127.0.0.1:7071") && warning.contains("air-gap"));
        // Whoever has it may go away; an address may come with DHCP.
        for errno in [Errno::ADDRINUSE, Errno::ADDRNOTAVAIL] {
            assert!(unless_hopeless(failed(errno), &mut warnings).is_err());
        }
        assert_eq!(warnings.len(), 1);
    }
}
