//! A connection's bytes, with TLS or without.
//!
//! The socket itself is shared with the stage's list of connections, so that it can be cut from
//! there, and closes when its thread and the list have both let go of it.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

/// Plain bytes of a shared socket.
pub struct Link(pub Arc<TcpStream>);

impl Read for Link {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self.0).read(buffer)
    }
}

impl Write for Link {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self.0).flush()
    }
}

/// What requests are read from and answers written to.
pub enum Transport {
    Plain(Link),
    Tls(Box<StreamOwned<ServerConnection, Link>>),
}

impl Transport {
    /// A transport that shakes hands when it is first used, if there is to be TLS.
    pub fn new(tcp: Arc<TcpStream>, tls: Option<&Arc<ServerConfig>>) -> io::Result<Transport> {
        let link = Link(tcp);
        let Some(config) = tls else {
            return Ok(Transport::Plain(link));
        };
        let session = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        Ok(Transport::Tls(Box::new(StreamOwned::new(session, link))))
    }

    /// The socket below.
    pub fn tcp(&self) -> &TcpStream {
        match self {
            Transport::Plain(link) => &link.0,
            Transport::Tls(stream) => &stream.sock.0,
        }
    }
}

impl Read for Transport {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(link) => link.read(buffer),
            Transport::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Transport {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(link) => link.write(bytes),
            Transport::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Transport::Plain(link) => link.flush(),
            Transport::Tls(stream) => stream.flush(),
        }
    }
}

/// TLS 1.2 and 1.3 with the certificates of one PEM file and the key of another.
pub fn tls(chain: &Path, key: &Path) -> io::Result<Arc<ServerConfig>> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(chain)
        .map_err(io::Error::other)?
        .collect();
    let chain = chain.map_err(io::Error::other)?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(io::Error::other)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(io::Error::other)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
