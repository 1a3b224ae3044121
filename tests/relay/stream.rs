//! The two streams as a client sees them: server-sent events and WebSocket frames.
//!
//! Both readers are strict: an event must be one that a browser dispatches, a frame one that a
//! client must accept (whole, unmasked, no reserved bits).

use crate::client::{Client, Head, Outcome};
use crate::harness::relay::Relay;
use crate::request;
use crate::way::Way;

/// One event of an event stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    pub name: String,
    pub data: String,
    pub id: String,
}

/// An open event stream.
pub struct Events {
    client: Client,
    pub head: Head,
    text: String,
    chunked: bool,
    /// The last `retry:` that came, in milliseconds.
    pub retry_ms: Option<u64>,
    /// Comments that came; the relay's heartbeat is one.
    pub comments: usize,
}

impl Events {
    /// Subscribes to `path`, which must be accepted.
    pub fn subscribe(relay: &Relay, way: Way, path: &str) -> Events {
        let mut client = Client::connect(relay, way);
        client.send(request::with("GET", path, "Accept: text/event-stream\r\n").as_bytes());
        Events::accepted(client).unwrap_or_else(|error| panic!("{path} by {way:?}: {error}"))
    }

    /// The stream that `client` has asked for, if it is accepted.
    pub fn accepted(mut client: Client) -> Outcome<Events> {
        let head = client.head()?;
        if head.status != 200 {
            return Err(format!("status {}", head.status));
        }
        let chunked = head.has("transfer-encoding");
        Ok(Events {
            client,
            head,
            text: String::new(),
            chunked,
            retry_ms: None,
            comments: 0,
        })
    }

    /// The next event; fields that dispatch none are taken note of on the way.
    pub fn next(&mut self) -> Outcome<Event> {
        loop {
            while let Some(end) = self.text.find("\n\n") {
                let block: String = self.text.drain(..end + 2).collect();
                if let Some(event) = self.read_block(&block)? {
                    return Ok(event);
                }
            }
            self.read_piece()?;
        }
    }

    fn read_piece(&mut self) -> Outcome<()> {
        let piece = String::from_utf8(self.piece()?);
        let piece = piece.map_err(|error| format!("not UTF-8: {error}"))?;
        self.text += &piece.replace("\r\n", "\n");
        Ok(())
    }

    /// Waits for the next comment; events on the way are dropped.
    pub fn next_comment(&mut self) -> Outcome<()> {
        let before = self.comments;
        while self.comments == before {
            let Some(end) = self.text.find("\n\n") else {
                self.read_piece()?;
                continue;
            };
            let block: String = self.text.drain(..end + 2).collect();
            self.read_block(&block)?;
        }
        Ok(())
    }

    /// Checks that the stream ends.
    pub fn ends(mut self) -> Outcome<()> {
        match self.piece() {
            Err(error) if error.starts_with("closed") || error.starts_with("end") => Ok(()),
            other => Err(format!("{other:?} instead of the stream's end")),
        }
    }

    fn piece(&mut self) -> Outcome<Vec<u8>> {
        match self.chunked {
            true => self
                .client
                .chunk()?
                .ok_or_else(|| "end of the stream".to_owned()),
            // Close-delimited: whatever comes next, at least a byte.
            false => self.client.take(1),
        }
    }

    fn read_block(&mut self, block: &str) -> Outcome<Option<Event>> {
        let mut event = Event::default();
        let mut data: Vec<&str> = Vec::new();
        for line in block.lines() {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "" => self.comments += usize::from(!line.is_empty()),
                "event" => event.name = value.to_owned(),
                "id" => event.id = value.to_owned(),
                "data" => data.push(value),
                "retry" => self.retry_ms = value.parse().ok(),
                other => return Err(format!("an unknown field {other:?}")),
            }
        }
        event.data = data.join("\n");
        Ok((!event.data.is_empty()).then_some(event))
    }
}

/// One WebSocket frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    Text(String),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    /// Close with its code; 1005 stands for a close without one.
    Close(u16),
}

/// What Go's SDK calls itself: the one kind of client that is told of a change right after its 101.
pub const GO: &str = "User-Agent: appconfiguration-go-sdk/0.5.9\r\n";

/// The text that means nothing but that the relay is there.
pub const HEARTBEAT: &str = "test message";

/// An open WebSocket.
pub struct WebSocket {
    pub client: Client,
    pub head: Head,
}

impl WebSocket {
    /// Opens `path` with `more` header lines; the upgrade must be accepted.
    pub fn open(relay: &Relay, way: Way, path: &str, more: &str) -> WebSocket {
        WebSocket::open_with(relay, way, path, more, &[])
    }

    /// As [`WebSocket::open`], with `behind` sent in the same packet as the upgrade.
    pub fn open_with(relay: &Relay, way: Way, path: &str, more: &str, behind: &[u8]) -> WebSocket {
        let mut client = Client::connect(relay, way);
        client.send(&[request::upgrade(path, more).as_bytes(), behind].concat());
        WebSocket::opened(client).unwrap_or_else(|error| panic!("{path} by {way:?}: {error}"))
    }

    /// On a connection on which the upgrade was sent.
    pub fn opened(mut client: Client) -> Outcome<WebSocket> {
        let head = client.head()?;
        match head.status {
            101 => Ok(WebSocket { client, head }),
            status => Err(format!("{status} instead of 101")),
        }
    }

    /// The next frame.
    pub fn next(&mut self) -> Outcome<Frame> {
        let start = self.client.take(2)?;
        if start[0] & 0xf0 != 0x80 || start[1] & 0x80 != 0 {
            return Err(format!("a frame that starts with {start:02x?}"));
        }
        let length = match start[1] {
            126 => self
                .client
                .take(2)?
                .iter()
                .fold(0, |sum, byte| sum << 8 | usize::from(*byte)),
            127 => self
                .client
                .take(8)?
                .iter()
                .fold(0, |sum, byte| sum << 8 | usize::from(*byte)),
            length => usize::from(length),
        };
        let payload = self.client.take(length)?;
        match start[0] & 0x0f {
            0x1 => String::from_utf8(payload)
                .map(Frame::Text)
                .map_err(|error| error.to_string()),
            0x8 => match payload.as_slice() {
                [] => Ok(Frame::Close(1005)),
                [high, low, ..] => Ok(Frame::Close(u16::from_be_bytes([*high, *low]))),
                one => Err(format!("a close of one byte: {one:?}")),
            },
            0x9 => Ok(Frame::Ping(payload)),
            0xa => Ok(Frame::Pong(payload)),
            other => Err(format!("a frame of kind {other:x}")),
        }
    }

    /// The next frame that is neither a heartbeat nor a ping.
    pub fn next_change(&mut self) -> Outcome<Frame> {
        loop {
            match self.next()? {
                Frame::Ping(_) => {}
                Frame::Text(text) if text == HEARTBEAT => {}
                other => return Ok(other),
            }
        }
    }

    /// Takes the change text that comes first on some sockets.
    pub fn told_at_once(mut self) -> WebSocket {
        match self.next() {
            Ok(Frame::Text(text)) if text != HEARTBEAT => self,
            other => panic!("{other:?} instead of a change"),
        }
    }

    /// Sends a whole masked frame of `kind`.
    pub fn send(&mut self, kind: u8, payload: &[u8]) {
        self.client.send(&frame(kind, payload));
    }
}

/// A whole masked frame of `kind` with a payload of at most 65,535 bytes.
pub fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
    let mut bytes = vec![0x80 | kind];
    match u8::try_from(payload.len()) {
        Ok(length) if length < 126 => bytes.push(0x80 | length),
        _ => {
            let length = u16::try_from(payload.len()).expect("a short payload");
            bytes.push(0x80 | 126);
            bytes.extend(length.to_be_bytes());
        }
    }
    bytes.extend(MASK);
    bytes.extend(
        payload
            .iter()
            .zip(MASK.iter().cycle())
            .map(|(byte, mask)| byte ^ mask),
    );
    bytes
}

/// A close code that no SDK takes for its own: those from 4000 to 4499 would stop some for good.
pub fn is_harmless(code: u16) -> bool {
    [1000, 1001, 1002, 1007, 1009, 1011, 1012, 1013].contains(&code)
}
