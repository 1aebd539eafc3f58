//! The question of a founder: is there this group already?
//!
//! Two processes that both found a group would each have a view of one, and newcomers would
//! be torn between them. So a founder asks every process that it reaches (`ground`, P1).
//!
//! - F1 *No second group.* A process founds only if every other process that lives, as far as this
//!   host can tell, has answered that it is in no view. Of two founders that meet, the one on the
//!   higher seat gives up. What cannot be reached cannot be asked: a founder that is cut off from
//!   its group founds another one.

use crate::error::Error;
use crate::event::number;
use crate::ground::{Place, Standing, answer};
use base::{Inbox, Rank, SeatSet};
use engine::Ground;
use fabric::Fabric;
use runtime::clock::Clock;
use runtime::{Poller, Ready};
use std::time::Duration;

/// The longest wait for answers: a process over TCP connects again within a second.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// The pause between two questions.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// Asks the processes on the seats of `living`.
pub(crate) fn ask(
    place: &mut Place,
    poller: &mut Poller,
    me: Rank,
    living: &[Rank],
) -> Result<(), Error> {
    place.standing = Standing::Founding;
    let clock = Clock::start();
    let mut open: SeatSet = living.iter().copied().collect();
    let (mut inbox, mut ready) = (Inbox::new(), Vec::<Ready>::new());
    let mut is_met = SeatSet::EMPTY;
    loop {
        place.fabric.prepare_sleep();
        inbox.clear();
        place.poll(&mut inbox);
        for event in inbox.iter() {
            if let base::Event::LinkUp(seat) = event {
                is_met.insert(seat);
            }
            match answer(&event) {
                Some((seat, Standing::Inside(view))) => {
                    return Err(Error::Exists { seat: number(seat), view });
                }
                Some((seat, Standing::Founding)) if seat < me => {
                    return Err(Error::FoundedElsewhere { seat: number(seat) });
                }
                // F1: all have to say so, and silence is no answer.
                Some((seat, Standing::Founding | Standing::Outside)) => {
                    open.remove(seat);
                }
                None => {}
            }
        }
        let Some(first) = open.iter().next() else {
            place.fabric.awake();
            return Ok(());
        };
        if clock.now().0 >= ANSWER_MAX.as_nanos() as u64 {
            return Err(Error::Silent { seat: number(first), span: ANSWER_MAX });
        }
        is_met.intersection(open).iter().for_each(|seat| place.ask(seat));
        place.flush();
        poller.wait(Some(ASK_EVERY), &mut ready).map_err(Error::os("wait for answers"))?;
        place.fabric.awake();
    }
}
