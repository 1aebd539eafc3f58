//! The question of a founder: is there this group already?
//!
//! Two processes that both found a group would each have a view of one, and newcomers would
//! be torn between them. So a founder asks every process that it reaches (`ground`, P1).
//!
//! - F1 *No second group.* A process founds only if every other process that lives, as far as this
//!   host can tell, has answered that it is in no view. Of two founders that meet, the one on the
//!   higher seat gives up, whichever of them asks: each looks for others once, behind taking its
//!   seat, so at least one sees the other. As soon as one has decided, it says that there is a
//!   group. What cannot be reached cannot be asked: a founder that is cut off from its group founds
//!   another one.

use crate::error::Error;
use crate::event::number;
use crate::ground::{Place, Standing, answer};
use base::{Inbox, Rank, SeatSet};
use engine::Ground;
use fabric::Fabric;
use proto::vsync::ViewId;
use runtime::clock::Clock;
use runtime::{Poller, Ready};
use std::time::Duration;

/// The longest wait for answers: a process over TCP connects again within a second.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// The pause between two questions.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// Asks the processes on the seats of `living`. Behind `Ok` the others are told that this process
/// is in the first view.
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
        // F1
        if let Some(lower) = place.founders.iter().find(|seat| *seat < me) {
            place.flush(); // its answer
            return Err(Error::FoundedElsewhere { seat: number(lower) });
        }
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
            place.standing = Standing::Inside(ViewId::FIRST.0);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::seat::{self, Founds};
    use std::path::Path;

    const SECOND: Rank = Rank::at(1);

    /// A founder that has taken its seat.
    fn founder(directory: &Path, seat: usize) -> Place {
        let options = Options::shm("founding", "sesame", "app 1");
        let directory = directory.join("memory");
        let (_, fabric) =
            seat::take(&Options { seat: Some(seat), directory, ..options }, Founds::Yes)
                .expect("the seat is free");
        Place::new(fabric, None)
    }

    fn directory() -> tempfile::TempDir {
        tempfile::Builder::new().prefix("gregale-group").tempdir_in("/dev/shm").expect("tmpfs")
    }

    /// Asks no process: none was there when this founder looked.
    fn ask_none(place: &mut Place, me: Rank) -> Result<(), Error> {
        ask(place, &mut Poller::new().expect("a poller"), me, &[])
    }

    /// The first founder asks the second one.
    fn ask_second(place: &mut Place) {
        let mut inbox = Inbox::new();
        while !inbox.iter().any(|event| event == base::Event::LinkUp(SECOND)) {
            inbox.clear();
            place.poll(&mut inbox);
        }
        place.ask(SECOND);
        place.flush();
    }

    #[test]
    fn f1_a_founder_that_a_lower_one_asks_gives_up_though_it_asks_nobody() {
        let directory = directory();
        let mut second = founder(directory.path(), 2);
        let mut first = founder(directory.path(), 1);
        ask_second(&mut first);
        let asked = ask_none(&mut second, SECOND);
        assert!(matches!(asked, Err(Error::FoundedElsewhere { seat: 1 })), "{asked:?}");
        let mut inbox = Inbox::new();
        first.poll(&mut inbox);
        let answered = inbox.iter().find_map(|event| answer(&event));
        assert_eq!(answered, Some((SECOND, Standing::Founding)), "the first one may found");
        [first, second].into_iter().for_each(|place| place.fabric.remove().expect("removed"));
    }

    #[test]
    fn f1_a_founder_that_has_decided_says_that_there_is_a_group() {
        let directory = directory();
        let mut second = founder(directory.path(), 2);
        ask_none(&mut second, SECOND).expect("no process is there");
        let mut first = founder(directory.path(), 1);
        ask_second(&mut first);
        second.poll(&mut Inbox::new());
        second.flush();
        let mut inbox = Inbox::new();
        first.poll(&mut inbox);
        let answered = inbox.iter().find_map(|event| answer(&event));
        assert_eq!(answered, Some((SECOND, Standing::Inside(1))));
        [first, second].into_iter().for_each(|place| place.fabric.remove().expect("removed"));
    }
}
