//! For tests: a port that only carries messages.

use base::verb::Unsupported;
use base::{At, MAX_MEMBERS, Port, Rank, Token};

#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) sent: [Vec<Vec<u8>>; MAX_MEMBERS],
    /// How many messages fit between two takes.
    pub(crate) room: usize,
}

impl Default for Wire {
    fn default() -> Wire {
        Wire { sent: Default::default(), room: usize::MAX }
    }
}

impl Wire {
    pub(crate) fn take(&mut self, to: Rank) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.sent[to.index()])
    }
}

impl Port for Wire {
    fn load(&self, _: At) -> u64 {
        0
    }
    fn load_into(&self, _: At, _: &mut [u64]) {}
    fn store(&mut self, _: At, _: u64) {}
    fn write(&mut self, _: Rank, _: At, _: &[u64], _: Option<Token>) {}
    fn read(&mut self, _: Rank, _: At, _: usize, _: Token) {}
    fn cas(&mut self, _: Rank, _: At, _: u64, _: u64, _: Option<Token>) {}
    fn fetch_add(&mut self, _: Rank, _: At, _: u64, _: Option<Token>) {}
    fn send(&mut self, to: Rank, message: &[u8]) -> bool {
        let queue = &mut self.sent[to.index()];
        let room = queue.len() < self.room;
        if room {
            queue.push(message.to_vec());
        }
        room
    }
    fn wake(&mut self, _: Rank) {}
    fn permit_writer(&mut self, _: At, _: Option<Rank>) -> Result<(), Unsupported> {
        Ok(())
    }
}
