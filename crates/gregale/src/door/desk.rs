//! The runtime's desk as `kv`'s intake, and the runtime's words for those of `kv`.

use base::{Instant, Prefix, Rank};
use kv::door::{self, Intake};
use proto::members::Change;
use runtime::{Answer, Asker, Changed, Desk, NoChange, ReadAnswer, Ready, View};
use std::time::Duration;

/// See the module's text.
pub(super) struct OnDesk<'a>(pub(super) &'a mut Desk);

impl Intake for OnDesk<'_> {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn view(&self) -> door::View {
        view(self.0.view())
    }

    fn applied(&self) -> Prefix {
        self.0.view().applied
    }

    fn data_lost(&self) -> bool {
        self.0.view().data_lost
    }

    fn has_room(&self) -> bool {
        self.0.has_room()
    }

    fn write(&mut self, asker: door::Asker, command: &[u8]) {
        self.0.write(to_runtime(asker), command);
    }

    fn read(&mut self, asker: door::Asker) {
        self.0.read(to_runtime(asker));
    }

    fn wait(
        &mut self,
        asker: door::Asker,
        prefix: Prefix,
        n: usize,
        timeout: Option<Duration>,
    ) -> bool {
        self.0.wait(to_runtime(asker), prefix, n, timeout)
    }

    fn forget_waits(&mut self, connection: u64) {
        self.0.forget_waits(connection);
    }

    fn change(&mut self, asker: door::Asker, change: Change) -> bool {
        self.0.change(to_runtime(asker), change)
    }

    fn renew(&mut self, rank: Rank) {
        self.0.renew(rank);
    }

    fn renewing(&self) -> Option<Rank> {
        self.0.renewing()
    }

    fn charge(&mut self, n_bytes: usize) {
        self.0.charge(n_bytes);
    }
}

fn to_runtime(asker: door::Asker) -> Asker {
    Asker { connection: asker.connection, request: asker.request }
}

pub(super) fn asker(asker: Asker) -> door::Asker {
    door::Asker { connection: asker.connection, request: asker.request }
}

pub(super) fn answer(answer: Answer<'_>) -> door::Answer<'_> {
    match answer {
        Answer::Executed(slot, reply) => door::Answer::Executed(slot, reply),
        Answer::Unknown => door::Answer::Unknown,
    }
}

pub(super) fn read_answer(answer: ReadAnswer<'_>) -> door::ReadAnswer<'_> {
    match answer {
        ReadAnswer::Forwarded(reply) => door::ReadAnswer::Forwarded(reply),
        ReadAnswer::Unavailable => door::ReadAnswer::Unavailable,
    }
}

pub(super) fn changed(changed: Changed) -> door::Changed {
    match changed {
        Changed::Done => door::Changed::Done,
        Changed::Unknown => door::Changed::Unknown,
        Changed::Refused(why) => door::Changed::Refused(match why {
            NoChange::NotLeader => door::NoChange::NotLeader,
            NoChange::UnderWay => door::NoChange::UnderWay,
            NoChange::Learning(rank) => door::NoChange::Learning(rank),
            NoChange::Renewing(rank) => door::NoChange::Renewing(rank),
            NoChange::NoSuchMember => door::NoChange::NoSuchMember,
            NoChange::NoMajority => door::NoChange::NoMajority,
            NoChange::LastVoter => door::NoChange::LastVoter,
            NoChange::Fixed => door::NoChange::Fixed,
        }),
    }
}

pub(super) fn view(view: &View) -> door::View {
    door::View {
        me: view.me,
        role: view.role,
        ballot: view.ballot,
        committed: view.committed,
        applied: view.applied,
        trusted: view.trusted,
        heard: view.heard,
        applied_by: view.applied_by,
        data_lost: view.data_lost,
        configuration: view.configuration,
    }
}

pub(super) fn ready(ready: Ready) -> door::Ready {
    door::Ready { key: ready.key, readable: ready.readable, writable: ready.writable }
}
