//! A byte stream in memory, for tests of the real tasks without a socket.
//!
//! Owns two bounded buffers, one for each direction, and the wakers that wait on them. It behaves
//! as a socket does at its worst: it takes and gives as few bytes at a time as its [`Manners`] say,
//! and says `WouldBlock` between. Nothing of it is reachable in production, where every wire is a
//! socket.
//!
//! Invariant: whoever is told `WouldBlock` and then polls is woken when that changes.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// How a pipe treats its users.
#[derive(Clone, Copy, Debug)]
pub struct Manners {
    /// Bytes that lie between writer and reader at once.
    pub capacity_bytes: usize,
    /// Bytes that one read or write moves at most.
    pub step_bytes: usize,
}

/// One end.
pub struct End {
    incoming: Rc<RefCell<Lane>>,
    outgoing: Rc<RefCell<Lane>>,
}

struct Lane {
    bytes: VecDeque<u8>,
    manners: Manners,
    ended: bool,
    reset: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// Two ends of one stream.
pub fn pair(manners: Manners) -> (End, End) {
    let lane = || {
        Rc::new(RefCell::new(Lane {
            bytes: VecDeque::new(),
            manners,
            ended: false,
            reset: false,
            reader: None,
            writer: None,
        }))
    };
    let (there, back) = (lane(), lane());
    let near = End {
        incoming: back.clone(),
        outgoing: there.clone(),
    };
    (
        near,
        End {
            incoming: there,
            outgoing: back,
        },
    )
}

impl End {
    /// Reads what is there; zero is the end.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut lane = self.incoming.borrow_mut();
        if lane.reset {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let count = lane
            .bytes
            .len()
            .min(buffer.len())
            .min(lane.manners.step_bytes);
        if count == 0 && !buffer.is_empty() {
            return if lane.ended {
                Ok(0)
            } else {
                Err(io::ErrorKind::WouldBlock.into())
            };
        }
        for (place, byte) in buffer.iter_mut().zip(lane.bytes.drain(..count)) {
            *place = byte;
        }
        lane.wake_writer();
        Ok(count)
    }

    /// Writes what fits.
    pub fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut lane = self.outgoing.borrow_mut();
        if lane.ended || lane.reset {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let room = lane.manners.capacity_bytes.saturating_sub(lane.bytes.len());
        let room = room.min(lane.manners.step_bytes);
        let all: usize = parts.iter().map(|part| part.len()).sum();
        if room == 0 && all > 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        lane.bytes.extend(
            parts
                .iter()
                .flat_map(|part| part.iter().copied())
                .take(room),
        );
        lane.wake_reader();
        Ok(room.min(all))
    }

    /// Ready when a read gives something.
    pub fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut lane = self.incoming.borrow_mut();
        if !lane.bytes.is_empty() || lane.ended || lane.reset {
            return Poll::Ready(Ok(()));
        }
        lane.reader = Some(context.waker().clone());
        Poll::Pending
    }

    /// Ready when a write takes something.
    pub fn poll_writable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut lane = self.outgoing.borrow_mut();
        let room = lane.bytes.len() < lane.manners.capacity_bytes;
        if room || lane.ended || lane.reset {
            return Poll::Ready(Ok(()));
        }
        lane.writer = Some(context.waker().clone());
        Poll::Pending
    }

    /// Ends what this end writes.
    pub fn finish(&mut self) {
        let mut lane = self.outgoing.borrow_mut();
        lane.ended = true;
        lane.wake_reader();
    }

    /// Whether a read would give nothing, not even an end.
    pub fn is_quiet(&self) -> bool {
        let lane = self.incoming.borrow();
        lane.bytes.is_empty() && !lane.ended && !lane.reset
    }

    /// Whether the stream was reset.
    pub fn is_reset(&self) -> bool {
        self.incoming.borrow().reset
    }

    /// Ends what this end reads.
    pub fn end(&mut self) {
        let mut lane = self.incoming.borrow_mut();
        lane.ended = true;
        lane.wake_reader();
        lane.wake_writer();
    }

    /// Ends both directions; what lies in them is lost.
    pub fn reset(&mut self) {
        for lane in [&self.incoming, &self.outgoing] {
            let mut lane = lane.borrow_mut();
            lane.bytes.clear();
            lane.reset = true;
            lane.wake_reader();
            lane.wake_writer();
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.finish();
        let mut lane = self.incoming.borrow_mut();
        lane.ended = true;
        lane.wake_writer();
    }
}

impl Lane {
    fn wake_reader(&mut self) {
        if let Some(waker) = self.reader.take() {
            waker.wake();
        }
    }

    fn wake_writer(&mut self) {
        if let Some(waker) = self.writer.take() {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANNERS: Manners = Manners {
        capacity_bytes: 3,
        step_bytes: 2,
    };

    #[test]
    fn a_pipe_takes_and_gives_a_little_at_a_time() {
        let (mut near, mut far) = pair(MANNERS);
        let parts = [IoSlice::new(b"a"), IoSlice::new(b"bcd")];
        assert_eq!(near.write(&parts).unwrap(), 2);
        assert_eq!(near.write(&[IoSlice::new(b"cd")]).unwrap(), 1);
        let full = near.write(&[IoSlice::new(b"d")]).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        let mut buffer = [0; 8];
        assert_eq!(far.read(&mut buffer).unwrap(), 2);
        assert_eq!(&buffer[..2], b"ab");
    }

    #[test]
    fn the_end_comes_behind_the_bytes() {
        let (mut near, mut far) = pair(MANNERS);
        near.write(&[IoSlice::new(b"a")]).unwrap();
        near.finish();
        let mut buffer = [0; 8];
        assert_eq!(far.read(&mut buffer).unwrap(), 1);
        assert_eq!(far.read(&mut buffer).unwrap(), 0);
    }
}
