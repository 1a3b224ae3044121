//! A TLS session on a wire: the library speaks in memory, this moves its records.
//!
//! Owns how much may wait in a session for a wire that takes no more. Each may hold a record; a few
//! at a time may hold a whole document ([`Spare`]), because what leaves in one write wakes its
//! reader once. A session gives its spare room back when its records are out, or with itself, so
//! the count cannot leak.
//!
//! Invariant: bytes that were read before TLS began (`unread`) are the first that TLS sees.

use std::cell::Cell;
use std::io::{self, IoSlice, Read, Write};
use std::rc::Rc;

use rustls::ServerConnection;

use crate::limits::{Limits, TLS_RECORD_BYTES};

use super::Wire;

/// The room that a few sessions share for records that are not out yet.
#[derive(Clone)]
pub struct Spare {
    left: Rc<Cell<usize>>,
    bytes: usize,
}

/// One session's part of it.
struct Taken(Rc<Cell<usize>>);

impl Spare {
    /// The room that the bounds allow.
    pub fn new(limits: &Limits) -> Spare {
        Spare {
            left: Rc::new(Cell::new(limits.tls_spares_max)),
            bytes: limits.tls_spare_records * TLS_RECORD_BYTES,
        }
    }

    fn take(&self) -> Option<Taken> {
        self.left.set(self.left.get().checked_sub(1)?);
        Some(Taken(self.left.clone()))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

/// A session with a client.
pub struct Tls {
    pub session: ServerConnection,
    /// Read from the wire, not yet given to TLS.
    unread: Vec<u8>,
    spare: Spare,
    taken: Option<Taken>,
}

impl Tls {
    /// A session that reads `unread` before what the wire has.
    pub fn new(mut session: ServerConnection, unread: Vec<u8>, spare: Spare) -> Tls {
        session.set_buffer_limit(Some(TLS_RECORD_BYTES));
        Tls {
            session,
            unread,
            spare,
            taken: None,
        }
    }

    /// Reads records once; zero is the wire's end.
    pub fn read(&mut self, wire: &mut Wire) -> io::Result<usize> {
        self.session.read_tls(&mut Records {
            unread: &mut self.unread,
            wire,
        })
    }

    /// Writes as much of `parts` as the session takes now, and sends what the wire takes of it.
    pub fn write(
        &mut self,
        parts: &[IoSlice<'_>],
        wire: &mut Wire,
        has_sent: &mut bool,
    ) -> io::Result<usize> {
        self.flush(wire, has_sent)?;
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length > TLS_RECORD_BYTES {
            self.taken = self.spare.take();
        }
        self.session.set_buffer_limit(Some(match self.taken {
            Some(_) => self.spare.bytes,
            None => TLS_RECORD_BYTES,
        }));
        let written = self.session.writer().write_vectored(parts)?;
        match self.flush(wire, has_sent) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(written),
        }
    }

    /// Sends records until there are none; `WouldBlock` when the wire takes no more.
    pub fn flush(&mut self, wire: &mut Wire, has_sent: &mut bool) -> io::Result<()> {
        while self.session.wants_write() {
            *has_sent |= self.session.write_tls(&mut Outgoing { wire })? > 0;
        }
        self.taken = None;
        Ok(())
    }
}

/// Where TLS reads its records: first what was read before it began, then the wire.
pub struct Records<'a> {
    pub unread: &'a mut Vec<u8>,
    pub wire: &'a mut Wire,
}

impl Read for Records<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.unread.is_empty() {
            return self.wire.read(buffer);
        }
        let count = self.unread.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.unread[..count]);
        self.unread.drain(..count);
        if self.unread.is_empty() {
            *self.unread = Vec::new();
        }
        Ok(count)
    }
}

/// Where TLS sends its records.
pub struct Outgoing<'a> {
    pub wire: &'a mut Wire,
}

impl Write for Outgoing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.wire.write(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.wire.write(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::pipe::{self, End, Manners};
    use crate::net::tls::server_config;
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, ClientConnection, RootCertStore};
    use std::path::Path;
    use std::sync::Arc; // reason: rustls takes its configuration in an Arc
    use std::task::{Context, Waker};

    static DOCUMENT: [u8; 20_000] = [b'x'; 20_000];

    /// A session and its client.
    struct Pair {
        tls: Tls,
        wire: Wire,
        client: ClientConnection,
        far: End,
    }

    impl Pair {
        /// On a wire that takes so much at a time.
        fn new(spare: &Spare, wire_bytes: usize) -> Pair {
            let made = rcgen::generate_simple_self_signed(["r".to_owned()]).unwrap();
            let (cert, key) = (made.cert.pem(), made.signing_key.serialize_pem());
            let path = Path::new("test.pem");
            let config = server_config((path, cert.as_bytes()), (path, key.as_bytes())).unwrap();
            let session = ServerConnection::new(config).unwrap();
            let mut roots = RootCertStore::empty();
            roots.add(made.cert.der().clone()).unwrap();
            let provider = Arc::new(rustls::crypto::ring::default_provider()); // reason: rustls
            let config = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth();
            let name = ServerName::try_from("r").unwrap();
            let client = ClientConnection::new(Arc::new(config), name).unwrap(); // reason: rustls
            let (near, far) = pipe::pair(Manners {
                capacity_bytes: wire_bytes,
                step_bytes: wire_bytes,
            });
            let mut pair = Pair {
                tls: Tls::new(session, Vec::new(), spare.clone()),
                wire: near.into(),
                client,
                far,
            };
            pair.exchange_until(|pair, _| {
                !pair.client.is_handshaking() && !pair.tls.session.is_handshaking()
            });
            pair
        }

        /// Both sides send what they have, and read; what the client read.
        fn exchange(&mut self) -> usize {
            let mut sent = Vec::new();
            self.client.write_tls(&mut sent).unwrap();
            self.far.write(&[IoSlice::new(&sent)]).unwrap();
            let mut context = Context::from_waker(Waker::noop());
            if self.wire.poll_readable(&mut context).is_ready() {
                self.tls.read(&mut self.wire).unwrap();
            }
            self.tls.session.process_new_packets().unwrap();
            let _ = self.tls.flush(&mut self.wire, &mut false);
            let mut records = vec![0; 4096];
            let count = self.far.read(&mut records).unwrap_or(0);
            let (mut records, mut text) = (&records[..count], Vec::new());
            while !records.is_empty() {
                self.client.read_tls(&mut records).unwrap();
                self.client.process_new_packets().unwrap();
                let _ = self.client.reader().read_to_end(&mut text);
            }
            text.len()
        }

        /// Exchanges until `is_so`, which is given what the client has read in all.
        fn exchange_until(&mut self, is_so: impl Fn(&Pair, usize) -> bool) {
            let mut read = 0;
            let done = (0..100).any(|_| {
                read += self.exchange();
                is_so(self, read)
            });
            assert!(done, "{read} bytes came");
        }

        fn write(&mut self, text: &[u8]) -> usize {
            let parts = [IoSlice::new(text)];
            self.tls.write(&parts, &mut self.wire, &mut false).unwrap()
        }
    }

    fn for_one() -> Spare {
        Spare::new(&Limits {
            tls_spares_max: 1,
            ..Limits::PRODUCTION
        })
    }

    #[test]
    fn a_document_is_taken_whole_where_there_is_room_and_in_pieces_elsewhere() {
        let spare = for_one();
        let [mut first, mut second, mut third] = [(); 3].map(|()| Pair::new(&spare, 4096));
        assert_eq!(first.write(&DOCUMENT), DOCUMENT.len());
        assert_eq!(second.write(&DOCUMENT), TLS_RECORD_BYTES);
        first.exchange_until(|_, read| read == DOCUMENT.len());
        assert_eq!(
            third.write(&DOCUMENT),
            DOCUMENT.len(),
            "the first gave it back"
        );
        drop(third);
        second.exchange_until(|pair, _| !pair.tls.session.wants_write());
        assert_eq!(
            second.write(&DOCUMENT),
            DOCUMENT.len(),
            "the third did, at its end"
        );
    }

    #[test]
    fn what_fits_a_record_takes_no_room_even_if_it_waits() {
        let spare = for_one();
        let mut pair = Pair::new(&spare, 4096);
        pair.write(&DOCUMENT[..TLS_RECORD_BYTES]);
        assert!(pair.tls.session.wants_write());
        assert_eq!(spare.left.get(), 1);
    }

    #[test]
    fn a_record_fits_the_place_that_is_counted_for_it() {
        let mut pair = Pair::new(&for_one(), 64 * 1024);
        pair.write(&DOCUMENT);
        let mut records = vec![0; 64 * 1024];
        let count = pair.far.read(&mut records).unwrap();
        let mut rest = &records[..count];
        let mut lengths = Vec::new();
        while let [_, _, _, high, low, ..] = *rest {
            let length = 5 + usize::from(u16::from_be_bytes([high, low]));
            lengths.push(length);
            rest = &rest[length..];
        }
        assert_eq!(lengths.len(), 3, "{lengths:?}");
        assert!(
            lengths.iter().all(|length| *length + 16 <= 8192),
            "{lengths:?}"
        );
    }
}
