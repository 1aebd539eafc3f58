//! A look at a peer on TCP whose link broke: does anything still listen there?
//!
//! The kernel closes the sockets of a process that dies, so its peers know at once that a link
//! broke, and not why. A connection that is refused says it: the host is there, and the process is
//! not. One that is neither refused nor made says nothing, and the silence decides. (The fabric's
//! sentinel is faster and knows more; it is a process of its own, which a library does not start.)
//!
//! - Q1 *Only a hint.* A refusal may be wrong, by a firewall or since the next process of the seat
//!   begins at this moment; then a member is excluded that need not have been.
//! - Q2 *Bounded.* There is at most one look at a seat at a time, of a few attempts that each have
//!   a deadline.

use crate::board::Board;
use crate::options::Transport;
use base::{Rank, SeatSet};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The longest wait for an answer of a host.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// The pauses between attempts. A process that dies closes one socket after the other, and a peer
/// may be told of the end of a link before the listener is closed.
const PAUSES_MS: [u64; 6] = [1, 5, 20, 50, 100, 200];

/// Whether a connection to `address` is refused, now or soon.
fn is_refused(address: SocketAddr) -> bool {
    PAUSES_MS.into_iter().any(|pause| {
        std::thread::sleep(Duration::from_millis(pause));
        let answer = TcpStream::connect_timeout(&address, ANSWER_MAX);
        answer.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    })
}

/// The looks of one process at its peers.
#[derive(Debug)]
pub(crate) struct Probes {
    /// By seat; empty where peers share memory, and the kernel tells their deaths.
    addresses: Vec<SocketAddr>,
    /// The seats that are being looked at (Q2).
    under_way: Arc<AtomicU64>,
}

impl Probes {
    pub(crate) fn new(transport: &Transport) -> Probes {
        let addresses = match transport {
            Transport::Shm => Vec::new(),
            Transport::Tcp { addresses, .. } => addresses.clone(),
        };
        Probes { addresses, under_way: Arc::default() }
    }

    /// Looks at the peers whose links broke; those that are gone are written on the board as
    /// suspects.
    pub(crate) fn look_at(&self, broken: SeatSet, board: &Arc<Board>) {
        for seat in broken.iter() {
            if let Some(address) = self.addresses.get(seat.index()) {
                self.look(seat, *address, board);
            }
        }
    }

    fn look(&self, seat: Rank, address: SocketAddr, board: &Arc<Board>) {
        let bit = 1 << seat.index();
        // Q2
        if self.under_way.fetch_or(bit, Ordering::SeqCst) & bit != 0 {
            return;
        }
        let (under_way, board) = (Arc::clone(&self.under_way), Arc::clone(board));
        let look = move || {
            if is_refused(address) {
                // Q1
                board.tell(|notes| {
                    notes.suspects.insert(seat);
                });
            }
            under_way.fetch_and(!bit, Ordering::SeqCst);
        };
        let started = std::thread::Builder::new().name("group-probe".into()).spawn(look);
        if started.is_err() {
            // Without a thread the silence decides.
            self.under_way.fetch_and(!bit, Ordering::SeqCst);
        }
    }
}
