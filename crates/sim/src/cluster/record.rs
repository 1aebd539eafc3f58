//! What the clients of a cluster saw, with the times of it.
//!
//! - H1 what is recorded later has a later time, also within a nanosecond of the world. To the
//!   judges what ends when another begins is in flight together with it, as it has to be where
//!   clocks are coarse. Here it is known which was first: the world is one thread, so an answer
//!   that is recorded before a question was heard before that was asked, by whichever client. By
//!   [`Stamps`].

use check::{CallId, Command, History, Recorder, Reply};

/// Gives times to what is recorded: those of the world, or the next nanosecond that is not taken. A
/// client records less than a hundred things at once, which no bound of a judge is as narrow as.
#[derive(Debug, Default)]
pub(super) struct Stamps {
    last: u64,
}

impl Stamps {
    /// The time of what is recorded next, at `now` of the world (H1).
    pub(super) fn stamp(&mut self, now: u64) -> u64 {
        self.last = now.max(self.last + 1);
        self.last
    }
}

/// A [`Recorder`] that is told the times of the world.
#[derive(Debug, Default)]
pub(super) struct Record {
    recorder: Recorder,
    stamps: Stamps,
}

impl Record {
    /// As [`Recorder::call`].
    pub(super) fn call(&mut self, client: u64, now: u64, commands: Vec<Command>) -> CallId {
        self.recorder.call(client, self.stamps.stamp(now), commands)
    }

    /// As [`Recorder::answered`].
    pub(super) fn answered(&mut self, call: CallId, now: u64, replies: Vec<Reply>) {
        self.recorder.answered(call, self.stamps.stamp(now), replies);
    }

    /// As [`Recorder::failed`].
    pub(super) fn failed(&mut self, call: CallId, now: u64) {
        self.recorder.failed(call, self.stamps.stamp(now));
    }

    /// What was recorded.
    pub(super) fn finish(self) -> History {
        self.recorder.finish()
    }
}

#[cfg(test)]
mod tests {
    use crate::checks::linearizable::check_history;
    use crate::cluster::calls::Calls;
    use crate::cluster::client::Client;
    use crate::cluster::expiry::Act;
    use crate::cluster::kinds::{Protocol, Replicas};
    use crate::cluster::leases::Leases;
    use crate::cluster::own::Owns;
    use crate::cluster::scripts::Scripts;
    use crate::cluster::several::Several;
    use crate::cluster::talk::{Ask, Talk};
    use crate::cluster::times::Times;
    use crate::cluster::waits::Waits;
    use crate::cluster::wipes::Wipes;
    use base::Rng;

    fn talk() -> Talk {
        let protocol = Protocol::Partitions(Replicas::InMemory);
        let wipes = Wipes::draw(1, false);
        let leases = Leases::draw(1, true, true);
        let owns = Owns::draw(1, protocol, &wipes);
        let first = (leases, owns, Calls::draw(1, false, 1), Waits::draw(1, false, 3));
        let several = Several::draw(1, protocol);
        let second = (several, Scripts::draw(1, false, 1), wipes, Times::draw(1, false));
        Talk::new(Rng::new(1), first, second, true, (1, 0), 4, 8)
    }

    /// Sends each request when the one before is answered, in the nanosecond of its answer.
    fn talked(talks: Vec<(Ask, &[u8])>) -> Talk {
        let (mut talk, mut client) = (talk(), Client::new(1));
        for (n, (ask, answer)) in talks.into_iter().enumerate() {
            let at = n as u64 * 10;
            client.send(ask, at, &mut talk);
            assert_eq!(client.hear(answer, at + 10, &mut talk), Ok(()));
        }
        talk
    }

    #[test]
    fn h1_a_question_in_the_nanosecond_of_an_answer_comes_after_it() {
        let (key, value) = (b"k".to_vec(), b"v".to_vec());
        let judged = |seen: &[u8]| {
            let set = Ask::set(key.clone(), value.clone());
            let talk = talked(vec![(set, b"+OK\r\n"), (Ask::get(key.clone()), seen)]);
            check_history(&talk.recorder.finish())
        };
        assert!(judged(b"$1\r\nv\r\n").is_ok());
        assert!(judged(b"$-1\r\n").is_err(), "a stale read");
    }

    #[test]
    fn h1_so_it_does_about_a_key_that_expires() {
        let judged = |seen: &[u8]| {
            let set = |value| (Ask::Lease(1, Act::Set { value, ttl_ms: 500 }), &b"+OK\r\n"[..]);
            talked(vec![set(1), set(2), (Ask::Lease(1, Act::Get), seen)]).leases.check()
        };
        assert!(judged(b"$1\r\n2\r\n").is_ok());
        assert!(judged(b"$1\r\n1\r\n").is_err(), "E2");
        let seen = [(Ask::Lease(1, Act::Get), &b"$-1\r\n"[..])];
        let back = (Ask::Lease(1, Act::Ttl), &b":9\r\n"[..]);
        let set = (Ask::Lease(1, Act::Set { value: 1, ttl_ms: 500 }), &b"+OK\r\n"[..]);
        let talks = [set].into_iter().chain(seen).chain([back]).collect();
        assert!(talked(talks).leases.check().is_err(), "E1");
    }
}
