//! The released key-value door of a simulated member, with a note of what its clients were told.
//!
//! - T1 everything reaches the released door unchanged. By delegation.

use super::waits::Waited;
use base::{Instant, Prefix, Rank};
use engine::{Answer, Application, Asker, Changed, Desk, Door, Performed, ReadAnswer, Stats, View};
use kv::door::{self, Facts, Outside, Pipes, RespDoor, Serves};

/// The process around a door: it passes reports on to the supervisor.
#[derive(Debug, Default)]
pub(super) struct Around {
    /// The seats on which a new incarnation is to begin.
    pub(super) renewals: Vec<Rank>,
    pub(super) bug: Option<door::Bug>,
}

impl Outside for Around {
    fn info(&mut self, _: &Facts<'_>, _: &[&str]) -> String {
        String::new()
    }

    fn ask_status(&mut self, _: Asker) {}

    fn renew(&mut self, rank: Rank) -> bool {
        self.renewals.push(rank);
        true
    }

    fn has_planted(&self, bug: door::Bug) -> bool {
        self.bug == Some(bug)
    }
}

/// The door of the module's text.
pub(super) struct ToldDoor {
    pub(super) resp: RespDoor<Around, Pipes>,
    /// The prefix that covers the writes which were called executed since it was last taken.
    pub(super) told: Prefix,
    pub(super) waited: Waited,
}

impl ToldDoor {
    pub(super) fn new(resp: RespDoor<Around, Pipes>) -> ToldDoor {
        ToldDoor { resp, told: Prefix::ZERO, waited: Waited::default() }
    }
}

impl<A: Serves> Door<A> for ToldDoor {
    fn applied(&mut self, app: &mut A)
    where
        A: Application,
    {
        self.resp.applied(app);
    }

    fn perform(&mut self, asker: Asker, stamp_ms: u64, app: &mut A, desk: &mut Desk) -> Performed
    where
        A: Application,
    {
        self.resp.perform(asker, stamp_ms, app, desk)
    }

    fn describe_read(&mut self, asker: Asker, out: &mut Vec<u8>) {
        Door::<A>::describe_read(&mut self.resp, asker, out);
    }

    fn answer(&mut self, asker: Asker, answer: Answer<'_>, desk: &mut Desk) {
        if let Answer::Executed(slot, _) = answer {
            let through = slot.prefix_through();
            self.told = self.told.max(through);
            self.waited.executed(asker, through);
        }
        Door::<A>::answer(&mut self.resp, asker, answer, desk);
    }

    fn answer_read(&mut self, asker: Asker, answer: ReadAnswer<'_>, desk: &mut Desk) {
        Door::<A>::answer_read(&mut self.resp, asker, answer, desk);
    }

    fn answer_wait(&mut self, asker: Asker, n: usize, desk: &mut Desk) {
        self.waited.answer(asker, n);
        Door::<A>::answer_wait(&mut self.resp, asker, n, desk);
    }

    fn answer_change(&mut self, asker: Asker, changed: Changed, desk: &mut Desk) {
        Door::<A>::answer_change(&mut self.resp, asker, changed, desk);
    }

    fn resume(&mut self, app: &mut A, desk: &mut Desk) -> bool {
        self.resp.resume(app, desk)
    }

    fn flush(&mut self, desk: &mut Desk) {
        Door::<A>::flush(&mut self.resp, desk);
    }

    fn deadline(&self) -> Option<Instant> {
        Door::<A>::deadline(&self.resp)
    }

    fn publish(&mut self, view: &View, stats: &Stats, app: &mut A) {
        self.resp.publish(view, stats, app);
    }
}
