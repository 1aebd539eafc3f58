//! Posting: verbs to peers become frames, verbs on the own region are performed at once.

use super::link::Expected;
use super::peer::State;
use super::provider::TcpFabric;
use super::status::LinkError;
use super::wire::{self, Request};
use super::{MESSAGES_BYTES_MAX, RELAYED_BYTES_MAX};
use base::verb::Unsupported;
use base::{At, Event, Outcome, Parcel, Port, Rank, Token};

impl TcpFabric {
    #[track_caller]
    fn inside(&self, at: At, n_words: usize) {
        let region_words = self.memory.words.n_words();
        assert!(
            at.0 as usize + n_words <= region_words as usize,
            "{n_words} words at {}, outside regions of {region_words} words",
            at.0
        );
    }

    /// Appends a frame for `to`. A link that breaks is completed by the next poll.
    fn post(
        &mut self,
        to: Rank,
        signalled: Option<(Token, Expected)>,
        put: impl FnOnce(&mut Vec<u8>, Option<Request>),
    ) {
        match &mut self.peers[to.index()].state {
            State::Up(link) if link.announced => {
                if let Err(error) = link.post(signalled, put) {
                    self.lose_now(to, error);
                }
            }
            State::Own => unreachable!("verbs to the own region are performed at once"),
            // L5: an unannounced link does not count yet.
            State::Up(_) | State::Awaited | State::Retrying(_) | State::Opening(_) => {
                if let Some((token, _)) = signalled {
                    let outcome = Outcome::Unknown;
                    self.ready.push(Event::Completed { from: to, token, outcome });
                }
            }
        }
    }

    /// Gives up the link to `rank` outside of a poll.
    fn lose_now(&mut self, rank: Rank, error: LinkError) {
        let mut ready = std::mem::take(&mut self.ready);
        self.lose(rank, error, &mut ready);
        self.ready = ready;
    }

    fn own(&mut self, token: Option<Token>, outcome: Outcome<'_>) {
        if let Some(token) = token {
            self.ready.push(Event::Completed { from: self.local.me, token, outcome });
        }
    }
}

impl Port for TcpFabric {
    #[inline]
    fn load(&self, at: At) -> u64 {
        self.memory.words.load(at.0)
    }

    #[inline]
    fn load_into(&self, at: At, words: &mut [u64]) {
        self.memory.words.load_into(at.0, words);
    }

    #[inline]
    fn store(&mut self, at: At, word: u64) {
        self.memory.words.store(at.0, word);
    }

    fn write(&mut self, to: Rank, at: At, words: &[u64], token: Option<Token>) {
        if to == self.local.me {
            self.memory.words.write_words(at.0, words);
            return self.own(token, Outcome::Written);
        }
        self.inside(at, words.len());
        let signalled = token.map(|token| (token, Expected::Written));
        self.post(to, signalled, |out, request| wire::put_write(out, at, words, request));
    }

    fn read(&mut self, to: Rank, at: At, n_words: usize, token: Token) {
        self.inside(at, n_words);
        if to == self.local.me {
            let words = &self.memory.words;
            self.ready.push_read(to, token, n_words, |out| words.load_into(at.0, out));
            return;
        }
        self.post(to, Some((token, Expected::Words(n_words))), |out, request| {
            let request = request.expect("a signalled verb is given a number");
            wire::put_read(out, at, n_words, request);
        });
    }

    fn cas(&mut self, to: Rank, at: At, expected: u64, desired: u64, token: Option<Token>) {
        if to == self.local.me {
            let before = self.memory.words.cas(at.0, expected, desired);
            return self.own(token, Outcome::Before(before));
        }
        self.inside(at, 1);
        let signalled = token.map(|token| (token, Expected::Before));
        self.post(to, signalled, |out, request| {
            wire::put_cas(out, at, expected, desired, request);
        });
    }

    fn fetch_add(&mut self, to: Rank, at: At, add: u64, token: Option<Token>) {
        if to == self.local.me {
            let before = self.memory.words.fetch_add(at.0, add);
            return self.own(token, Outcome::Before(before));
        }
        self.inside(at, 1);
        let signalled = token.map(|token| (token, Expected::Before));
        self.post(to, signalled, |out, request| wire::put_fetch_add(out, at, add, request));
    }

    fn send(&mut self, to: Rank, message: &[u8]) -> bool {
        if to == self.local.me {
            self.ready.push(Event::Message { from: to, bytes: message });
            return true;
        }
        if let State::Up(link) = &self.peers[to.index()].state
            && link.output.pending() + message.len() > MESSAGES_BYTES_MAX
        {
            return false;
        }
        // Without a link the message is lost, as it would be a moment after being sent (T7): the
        // poster gets `LinkDown`, or has got it.
        self.post(to, None, |out, _| wire::put_message(out, message));
        true
    }

    /// Any frame on its way wakes the peer anyway.
    fn wake(&mut self, to: Rank) {
        if let State::Up(link) = &self.peers[to.index()].state
            && link.output.pending() == 0
        {
            self.post(to, None, |out, _| wire::put_wake(out));
        }
    }

    fn has_parcels(&self) -> bool {
        true
    }

    fn put_parcel(&mut self, to: Rank, at: At, parcel: &Parcel) {
        assert!(to != self.local.me, "a parcel goes to a peer");
        self.inside(at, 1);
        if let State::Up(link) = &mut self.peers[to.index()].state
            && link.announced
            && let Err(error) = link.put_parcel(at, parcel)
        {
            self.lose_now(to, error);
        }
    }

    /// (Without a link there is nothing that it would have to wait for.)
    fn has_room(&self, to: Rank, n_bytes: usize) -> bool {
        match &self.peers[to.index()].state {
            State::Up(link) => {
                let pending = link.output.pending();
                pending == 0 || pending + n_bytes <= RELAYED_BYTES_MAX
            }
            _ => true,
        }
    }

    fn take_parcel(&mut self, from: Rank, at: At) -> Option<Parcel> {
        self.memory.parcels.take(from, at)
    }

    fn permit_writer(&mut self, from: At, writer: Option<Rank>) -> Result<(), Unsupported> {
        self.memory.permitted = writer.map(|writer| (from, writer));
        Ok(())
    }
}
