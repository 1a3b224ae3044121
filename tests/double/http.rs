//! HTTP/1.1 as the double needs it: requests read from a blocking stream, answers written to it.
//!
//! A request that breaks the protocol is an error with the words for its 400, because the client
//! under test has to be right, not merely understood.

use std::io::{self, Read, Write};

/// Longest head; the service's own bound is not known.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Longest body: documents of a few megabytes come through the control port.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;
const HEADERS_MAX: usize = 64;

/// A request, whole.
#[derive(Debug)]
pub struct Request {
    pub method: String,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    /// The first header of this name, in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut named = self
            .headers
            .iter()
            .filter(|(key, _)| key.eq_ignore_ascii_case(name));
        named.next().map(|(_, value)| value.as_str())
    }

    /// Whether one of the listed words in this header is `word`, in any case.
    pub fn lists(&self, name: &str, word: &str) -> bool {
        let mut words = self.header(name).unwrap_or_default().split(',');
        words.any(|listed| {
            let (listed, weight) = listed.split_once(';').unwrap_or((listed, ""));
            listed.trim().eq_ignore_ascii_case(word) && weight.trim() != "q=0"
        })
    }

    /// The target in front of its query, cut at slashes and decoded.
    pub fn path(&self) -> Vec<String> {
        let path = self.target.split('?').next().unwrap_or_default();
        path.split('/')
            .skip(1)
            .map(|part| decode(part, false))
            .collect()
    }

    /// The first value of this name in the query, decoded.
    pub fn query(&self, name: &str) -> Option<String> {
        let (_, query) = self.target.split_once('?')?;
        pairs(query)
            .find(|(key, _)| key == name)
            .map(|(_, value)| value)
    }
}

/// The names and values of a query or a form, decoded.
pub fn pairs(text: &str) -> impl Iterator<Item = (String, String)> {
    text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(name, true), decode(value, true))
    })
}

fn decode(text: &str, plus_is_space: bool) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let digits = after
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        (rest, _) = match (first, escaped) {
            (b'%', Some(byte)) => (&after[2..], bytes.push(byte)),
            (b'+', _) if plus_is_space => (after, bytes.push(b' ')),
            _ => (after, bytes.push(*first)),
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What a stream brought and no request has used yet.
#[derive(Default)]
pub struct Reader {
    buffer: Vec<u8>,
}

impl Reader {
    /// The next request; nothing when the peer closed in front of it.
    ///
    /// `InvalidData` tells what is wrong with the request; the stream is of no more use then.
    pub fn next(&mut self, stream: &mut (impl Read + Write)) -> io::Result<Option<Request>> {
        let mut request = loop {
            if let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                let head: Vec<u8> = self.buffer.drain(..end + 4).collect();
                break parse(&head)?;
            }
            if self.buffer.len() > HEAD_BYTES_MAX {
                return Err(invalid("the head is too long"));
            }
            if !self.fill(stream)? {
                let cut = !self.buffer.is_empty();
                return if cut {
                    Err(io::ErrorKind::UnexpectedEof.into())
                } else {
                    Ok(None)
                };
            }
        };
        if request.header("Expect").is_some() {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        request.body = self.body(&request, stream)?;
        Ok(Some(request))
    }

    /// What came behind the last request.
    pub fn into_rest(self) -> Vec<u8> {
        self.buffer
    }

    fn body(&mut self, request: &Request, stream: &mut impl Read) -> io::Result<Vec<u8>> {
        let length = request.header("Content-Length");
        match (request.header("Transfer-Encoding"), length) {
            (Some(_), Some(_)) => Err(invalid("both a length and a transfer coding")),
            (Some("chunked"), None) => self.chunks(stream),
            (Some(_), None) => Err(invalid("a transfer coding that nobody asked for")),
            (None, Some(length)) => {
                let length = length
                    .parse()
                    .map_err(|_| invalid("the length is no number"))?;
                self.exactly(length, stream)
            }
            (None, None) => Ok(Vec::new()),
        }
    }

    fn chunks(&mut self, stream: &mut impl Read) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.line(stream)?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16).map_err(|_| invalid("no chunk size"))?;
            body.extend(self.exactly(size, stream)?);
            if !self.line(stream)?.is_empty() {
                return Err(invalid("a chunk does not end where it should"));
            }
            match size {
                0 => return Ok(body),
                _ if body.len() > BODY_BYTES_MAX => return Err(invalid("the body is too long")),
                _ => {}
            }
        }
    }

    fn line(&mut self, stream: &mut impl Read) -> io::Result<String> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|two| two == b"\r\n") {
                let line: Vec<u8> = self.buffer.drain(..end + 2).collect();
                return Ok(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            if self.buffer.len() > HEAD_BYTES_MAX || !self.fill(stream)? {
                return Err(invalid("a line has no end"));
            }
        }
    }

    fn exactly(&mut self, length: usize, stream: &mut impl Read) -> io::Result<Vec<u8>> {
        if length > BODY_BYTES_MAX {
            return Err(invalid("the body is too long"));
        }
        while self.buffer.len() < length {
            if !self.fill(stream)? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.buffer.drain(..length).collect())
    }

    /// Whether more came.
    fn fill(&mut self, stream: &mut impl Read) -> io::Result<bool> {
        let mut piece = [0; 16 * 1024];
        let length = stream.read(&mut piece)?;
        self.buffer.extend(&piece[..length]);
        Ok(length > 0)
    }
}

fn invalid(problem: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

fn parse(head: &[u8]) -> io::Result<Request> {
    let mut fields = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut fields);
    parsed
        .parse(head)
        .map_err(|_| invalid("the head cannot be read"))?;
    if parsed.version != Some(1) {
        return Err(invalid("not HTTP/1.1"));
    }
    let owned = |field: &httparse::Header<'_>| {
        (
            field.name.to_owned(),
            String::from_utf8_lossy(field.value).into_owned(),
        )
    };
    let request = Request {
        method: parsed.method.unwrap_or_default().to_owned(),
        target: parsed.path.unwrap_or_default().to_owned(),
        headers: parsed.headers.iter().map(owned).collect(),
        body: Vec::new(),
    };
    for once in ["Host", "Content-Length", "Authorization"] {
        let named = request
            .headers
            .iter()
            .filter(|(key, _)| key.eq_ignore_ascii_case(once));
        if named.count() > 1 {
            return Err(invalid("a header that may come once came twice"));
        }
    }
    match request.header("Host") {
        Some(_) => Ok(request),
        None => Err(invalid("there is no Host")),
    }
}

/// How a receiver learns where a body ends.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Framing {
    #[default]
    Length,
    Chunks,
}

/// An answer, not yet in bytes.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub framing: Framing,
}

impl Answer {
    /// An answer without a body.
    pub fn new(status: u16) -> Answer {
        Answer {
            status,
            ..Answer::default()
        }
    }

    /// An answer with JSON in it.
    pub fn json(status: u16, body: impl Into<Vec<u8>>) -> Answer {
        let answer = Answer {
            status,
            body: body.into(),
            ..Answer::default()
        };
        answer.with("Content-Type", "application/json")
    }

    /// As the service words a refusal.
    pub fn refusal(status: u16, message: &str) -> Answer {
        let trace = "appconfig-txid-0000000000000000";
        let body = serde_json::json!({ "status_code": status, "message": message, "trace": trace });
        Answer::json(status, body.to_string())
    }

    /// With this header, in place of one of that name.
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Answer {
        self.headers
            .retain(|(key, _)| !key.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// The head, and the body as it goes over the wire.
    pub fn encode(&self) -> (Vec<u8>, Vec<u8>) {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        let has_body = self.status >= 200 && self.status != 204 && self.status != 304;
        match self.framing {
            Framing::Chunks => head += "Transfer-Encoding: chunked\r\n",
            Framing::Length if has_body => {
                head += &format!("Content-Length: {}\r\n", self.body.len());
            }
            Framing::Length => {}
        }
        head += "\r\n";
        (head.into_bytes(), self.encoded_body())
    }

    fn encoded_body(&self) -> Vec<u8> {
        if self.framing == Framing::Length {
            return self.body.clone();
        }
        // Small enough that no receiver gets away with reading one chunk.
        let mut encoded = Vec::new();
        for piece in self.body.chunks(1_000) {
            encoded.extend(format!("{:x}\r\n", piece.len()).into_bytes());
            encoded.extend(piece);
            encoded.extend(b"\r\n");
        }
        encoded.extend(b"0\r\n\r\n");
        encoded
    }

    /// Writes it whole.
    pub fn write(&self, stream: &mut impl Write) -> io::Result<()> {
        let (head, body) = self.encode();
        stream.write_all(&[head, body].concat())?;
        stream.flush()
    }
}

/// The words behind the statuses that tests use.
fn reason(status: u16) -> &'static str {
    match status {
        101 => "Switching Protocols",
        200 => "OK",
        202 => "Accepted",
        302 => "Found",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "As Scripted",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn read(text: &str) -> io::Result<Option<Request>> {
        Reader::default().next(&mut Cursor::new(text.as_bytes().to_vec()))
    }

    #[test]
    fn a_body_by_length_and_one_in_chunks_read_alike() {
        let bodies = [
            "Content-Length: 5\r\n\r\nhello",
            "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;a=b\r\nllo\r\n0\r\n\r\n",
        ];
        for body in bodies {
            let request = read(&format!("POST / HTTP/1.1\r\nHost: a\r\n{body}"));
            let request = request.expect("readable").expect("a request");
            assert_eq!(request.body, b"hello", "{body}");
        }
    }

    #[test]
    fn ambiguous_requests_are_not_understood() {
        let headers = [
            "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: 1\r\nContent-Length: 1\r\n",
            "Transfer-Encoding: gzip\r\n",
            "Host: b\r\n",
        ];
        for header in headers {
            let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{header}\r\nx");
            assert!(read(&text).is_err(), "{header}");
        }
        assert!(read("GET / HTTP/1.1\r\n\r\n").is_err());
    }

    #[test]
    fn a_target_is_cut_before_it_is_decoded() {
        let request = read("GET /a%2Fb/c?x=1%262&y=3 HTTP/1.1\r\nHost: a\r\n\r\n");
        let request = request.expect("readable").expect("a request");
        assert_eq!(request.path(), ["a/b", "c"]);
        assert_eq!(request.query("x").as_deref(), Some("1&2"));
        assert_eq!(request.query("z"), None);
    }

    #[test]
    fn gzip_is_offered_unless_its_weight_is_zero() {
        for (offer, offered) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("gzip;q=0", false),
        ] {
            let text = format!("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {offer}\r\n\r\n");
            let request = read(&text).expect("readable").expect("a request");
            assert_eq!(request.lists("Accept-Encoding", "gzip"), offered, "{offer}");
        }
    }
}
