//! A client of the relay that reads what it gets, and nothing more.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::destination::read_chunk;
use crate::harness::PATIENCE;

/// One connection.
pub struct Client {
    pub reader: BufReader<TcpStream>,
}

/// An answer whose content was read.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case.
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    /// The values of a field, in their order.
    pub fn fields(&self, name: &str) -> Vec<&str> {
        let fields = self.fields.iter().filter(|(other, _)| other == name);
        fields.map(|(_, value)| value.as_str()).collect()
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    /// `name=value` of the only `Set-Cookie`.
    pub fn cookie(&self) -> String {
        let cookies = self.fields("set-cookie");
        assert_eq!(cookies.len(), 1, "{self:?}");
        cookies[0].split(';').next().expect("a value").to_owned()
    }
}

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        let socket = TcpStream::connect(address).expect("the relay listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("not zero");
        socket.set_write_timeout(Some(PATIENCE)).expect("not zero");
        socket.set_nodelay(true).expect("a TCP socket");
        Client {
            reader: BufReader::new(socket),
        }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        let sent = self.reader.get_mut().write_all(bytes);
        sent.expect("the relay takes a request");
    }

    /// Sends a GET, with a cookie if there is one, and reads the answer.
    pub fn get(&mut self, path: &str, cookie: Option<&str>) -> Answer {
        let cookie = cookie.map_or(String::new(), |cookie| format!("Cookie: {cookie}\r\n"));
        self.send(format!("GET {path} HTTP/1.1\r\nHost: relay\r\n{cookie}\r\n").as_bytes());
        self.read("GET")
    }

    /// Reads an answer to a request of `method`.
    pub fn read(&mut self, method: &str) -> Answer {
        let mut answer = self.read_head();
        let length = answer.fields("content-length").first().copied();
        let length = length.map(|text| text.parse::<usize>().expect("a length"));
        let is_bare = method == "HEAD" || matches!(answer.status, 101 | 204 | 304);
        if is_bare {
            return answer;
        }
        match length {
            Some(length) => {
                let mut body = vec![0; length];
                self.reader
                    .read_exact(&mut body)
                    .expect("the whole content");
                answer.body = body;
            }
            None => {
                assert_eq!(
                    answer.fields("transfer-encoding"),
                    ["chunked"],
                    "{answer:?}"
                );
                while let Some(chunk) = self.chunk() {
                    answer.body.extend_from_slice(&chunk);
                }
            }
        }
        answer
    }

    /// The next chunk; `None` at the end.
    pub fn chunk(&mut self) -> Option<Vec<u8>> {
        let chunk = read_chunk(&mut self.reader).expect("a whole chunk");
        (!chunk.is_empty()).then_some(chunk)
    }

    pub fn read_head(&mut self) -> Answer {
        let mut line = || {
            let mut line = String::new();
            self.reader.read_line(&mut line).expect("a line");
            let line = line.strip_suffix("\r\n").map(str::to_owned);
            line.expect("an answer, and not the end of the connection")
        };
        let status_line = line();
        let status = status_line.get(9..12).and_then(|text| text.parse().ok());
        let mut fields = Vec::new();
        loop {
            let line = line();
            let Some((name, value)) = line.split_once(": ") else {
                assert_eq!(line, "");
                break;
            };
            fields.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        Answer {
            status: status.unwrap_or_else(|| panic!("{status_line}")),
            fields,
            body: Vec::new(),
        }
    }

    /// Everything up to the end of the connection.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        // A reset is an end too; what came before it is there.
        if let Err(error) = self.reader.read_to_end(&mut rest) {
            assert_ne!(error.kind(), ErrorKind::WouldBlock, "no end in time");
        }
        rest
    }
}
