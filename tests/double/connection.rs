//! One connection: request after request, each answered as the stage is set.
//!
//! Everything that spoils an answer on its way out is done here: silence, noise, half a body, a
//! connection that ends without a word. What the answer is was decided in `operations`.

use super::http::{Answer, Reader, Request};
use super::listen::Door;
use super::operations::{self, Outcome};
use super::stage::{Logged, Stage, now_ms};
use super::transport::Transport;
use super::{control, socket};
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::Arc;

/// Bytes that no reader of HTTP takes for an answer.
const NOISE: &[u8] = b"\x16\x03\x00SSH-2.0-not-http\r\n\x00\xff\xfe\r\n\r\n";

/// Serves a connection to its end.
pub fn serve(stage: &Arc<Stage>, id: u64, tcp: Arc<TcpStream>, door: &Door) {
    // A connection that broke has its end in the counts; nobody asks for the words.
    let _ = match door {
        Door::Stage(tls) => {
            Transport::new(tcp, tls.as_ref()).and_then(|transport| play(stage, id, transport))
        }
        Door::Control => {
            Transport::new(tcp, None).and_then(|transport| take_orders(stage, transport))
        }
    };
}

/// The next request; a broken one is answered 400 and is the last.
fn next(reader: &mut Reader, transport: &mut Transport) -> io::Result<Option<Request>> {
    let read = reader.next(transport);
    if let Err(error) = &read
        && error.kind() == io::ErrorKind::InvalidData
    {
        Answer::refusal(400, &error.to_string())
            .with("Connection", "close")
            .write(transport)?;
    }
    read
}

fn take_orders(stage: &Stage, mut transport: Transport) -> io::Result<()> {
    let mut reader = Reader::default();
    while let Some(request) = next(&mut reader, &mut transport)? {
        control::answer(stage, &request).write(&mut transport)?;
        if request.lists("Connection", "close") {
            break;
        }
    }
    Ok(())
}

fn play(stage: &Stage, id: u64, mut transport: Transport) -> io::Result<()> {
    if stage.hold(id) {
        wait_for_end(transport.tcp());
        return Ok(());
    }
    let mut reader = Reader::default();
    while let Some(request) = next(&mut reader, &mut transport)? {
        if stage.hold(id) {
            wait_for_end(transport.tcp());
            return Ok(());
        }
        let (outcome, log) = decide(stage, &request);
        if let Outcome::Upgrade(answer, slot) = outcome {
            // In the list before the 101 is out: a change in between is told, not missed.
            let woken = stage.open_socket(id, &slot)?;
            stage.note(log);
            let run = answer
                .write(&mut transport)
                .and_then(|()| socket::run(stage, id, transport, reader.into_rest(), woken));
            stage.close_socket(id);
            return run;
        }
        stage.note(log);
        if !finish(&request, outcome, &mut transport)? {
            return Ok(());
        }
    }
    Ok(())
}

/// What comes of a request, and its line in the log.
fn decide(stage: &Stage, request: &Request) -> (Outcome, Logged) {
    let (at_ms, authorization) = (now_ms(), operations::authorization(stage, request));
    let outcome = operations::play(stage, request);
    let status = match &outcome {
        Outcome::Answer(answer) | Outcome::Half(answer) | Outcome::Upgrade(answer, _) => {
            answer.status
        }
        Outcome::Silence | Outcome::Noise | Outcome::End => 0,
    };
    let logged = Logged {
        at_ms,
        method: request.method.clone(),
        target: request.target.clone(),
        status,
        user_agent: request.header("User-Agent").map(str::to_owned),
        authorization: authorization.name(),
        config_path: request.header("X-Config-Path").map(str::to_owned),
    };
    (outcome, logged)
}

/// Sends what is to be sent; whether another request may follow.
fn finish(request: &Request, outcome: Outcome, transport: &mut Transport) -> io::Result<bool> {
    match outcome {
        Outcome::Answer(answer) => {
            answer.write(transport)?;
            let ends = answer.headers.iter().any(|(name, value)| {
                name.eq_ignore_ascii_case("Connection") && value.eq_ignore_ascii_case("close")
            });
            return Ok(!ends && !request.lists("Connection", "close"));
        }
        Outcome::Half(answer) => {
            let (head, body) = answer.encode();
            transport.write_all(&head)?;
            transport.write_all(&body[..body.len() / 2])?;
            transport.flush()?;
        }
        Outcome::Noise => {
            transport.write_all(NOISE)?;
            transport.flush()?;
        }
        Outcome::Silence => wait_for_end(transport.tcp()),
        Outcome::End | Outcome::Upgrade(..) => {}
    }
    Ok(false)
}

/// Reads nothing and says nothing until the peer has gone or the connection is cut.
fn wait_for_end(tcp: &TcpStream) {
    let mut waited = [PollFd::new(tcp, PollFlags::RDHUP)];
    // Ends by itself with the connection; an error of the call is an end, too.
    while poll(&mut waited, None) == Err(rustix::io::Errno::INTR) {}
}
