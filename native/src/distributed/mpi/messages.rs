//! Messages between ranks about failures. They have a separate group, so that they do not mix with the calls of the world.

use super::raw::{Comm, Request, Result};

/// The most bytes of a message. MPI sends so few at once, and does not wait for the receiver.
const MESSAGE_BYTES: usize = 2048;

/// A message from a rank to all others.
#[derive(Debug)]
pub enum Message {
    /// The world is broken, for this reason.
    Broken(String),
    /// The rank left the world after this many calls.
    Left(u64),
    /// The rank waits in the call with this number. Sent each time that a rank has waited for a while.
    Waiting(u64),
}

/// The messages that a rank sends and receives.
pub struct Messages {
    comm: Comm,
    /// The memory of the request that receives.
    inbox: Vec<u8>,
    receiving: Option<Request>,
    /// The messages in flight with their memory.
    sent: Vec<(Request, Vec<u8>)>,
    /// A rank that has ended, to which nothing is sent.
    ended: Option<usize>,
}

impl Message {
    fn tag(&self) -> i32 {
        match self {
            Message::Broken(_) => 0,
            Message::Left(_) => 1,
            Message::Waiting(_) => 2,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        match self {
            Message::Broken(reason) => reason.as_bytes()[..prefix(reason)].to_vec(),
            Message::Left(number) | Message::Waiting(number) => number.to_le_bytes().to_vec(),
        }
    }

    fn parse(tag: i32, bytes: &[u8]) -> Message {
        let number = || u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        match tag {
            1 => Message::Left(number()),
            2 => Message::Waiting(number()),
            _ => Message::Broken(String::from_utf8_lossy(bytes).into_owned()),
        }
    }
}

/// Returns the length of the longest prefix of a text that fits into a message.
fn prefix(text: &str) -> usize {
    let mut len = text.len().min(MESSAGE_BYTES);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    len
}

impl Messages {
    /// Creates the group. It blocks until every rank has called it.
    pub fn new() -> Result<Messages> {
        let comm = Comm::new()?;
        let mut inbox = vec![0; MESSAGE_BYTES];
        // SAFETY: the memory is accessed only when the request is done. The engine is leaked if it never is.
        let receiving = Some(unsafe { comm.receive(&mut inbox)? });
        Ok(Messages { comm, inbox, receiving, sent: Vec::new(), ended: None })
    }

    /// Sends nothing to this rank from now on.
    pub fn skip(&mut self, ended: usize) {
        self.ended = Some(ended);
    }

    /// Sends a message to all other ranks. An error of MPI is ignored, because then the receiver has no connection.
    pub fn send(&mut self, message: &Message) {
        let (rank, ended) = (self.comm.rank, self.ended);
        for to in (0..self.comm.size).filter(|to| *to != rank && Some(*to) != ended) {
            let bytes = message.bytes();
            // SAFETY: `sent` keeps the memory. The engine is leaked if a request is never done.
            if let Ok(request) = unsafe { self.comm.send(to, message.tag(), &bytes) } {
                self.sent.push((request, bytes));
            }
        }
    }

    /// Returns the next message and its sender.
    pub fn receive(&mut self) -> Option<(usize, Message)> {
        let arrival = self.receiving.as_mut()?.test();
        let arrival = match arrival {
            Ok(arrival) => arrival?,
            Err(_) => {
                // Nothing more is received. The timeout still ends the calls.
                self.receiving = None;
                return None;
            }
        };
        let message = Message::parse(arrival.tag, &self.inbox[..arrival.len.min(MESSAGE_BYTES)]);
        // SAFETY: as in `new`.
        self.receiving = unsafe { self.comm.receive(&mut self.inbox) }.ok();
        Some((arrival.from, message))
    }

    /// Whether all messages were sent.
    pub fn is_sent(&mut self) -> bool {
        self.sent.retain_mut(|(request, _)| matches!(request.test(), Ok(None)));
        self.sent.is_empty()
    }

    /// Ends receiving. MPI can then be closed.
    pub fn close(&mut self) {
        if let Some(request) = self.receiving.take() {
            request.cancel();
        }
    }
}
