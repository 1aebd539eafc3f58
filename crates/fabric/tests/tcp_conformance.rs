//! The tcp provider keeps every promise; some faults must be detected here as on shm.

mod silent_proxy;
mod tcp_support;

use base::Rank;
use fabric::conformance::broken::{Fault, expect_caught};
use fabric::conformance::child::Child;
use fabric::conformance::{self, Group};
use fabric::tcp::TcpFabric;
use silent_proxy::SilentProxy;
use tcp_support::{Place, open, serve_if_child};

fabric::litmus_tests!(TcpGroup::new);

/// The suite on a network that does not tell the accepting side that a connection is over: the new
/// connection is the first sign of it, so that the link breaks and is up again within one poll.
mod over_a_silent_network {
    use super::TcpGroup;

    fabric::litmus_tests!(TcpGroup::over_a_silent_network; a_break_is_a_cut 2);
}

struct TcpGroup {
    place: Place,
    _proxies: Vec<SilentProxy>,
}

impl TcpGroup {
    fn new(members: usize) -> TcpGroup {
        TcpGroup { place: Place::new(members), _proxies: Vec::new() }
    }

    fn over_a_silent_network(members: usize) -> TcpGroup {
        let mut place = Place::new(members);
        let proxies = (0..members).map(|of| SilentProxy::before(&mut place, of)).collect();
        TcpGroup { place, _proxies: proxies }
    }
}

impl Group for TcpGroup {
    type Fabric = TcpFabric;

    fn members(&self) -> usize {
        self.place.addresses.len()
    }

    fn open(&self, me: Rank) -> TcpFabric {
        let me = me.index();
        open(&self.place.setup(me), self.place.listener(me), &self.place.addresses)
    }

    fn withdraw(&self, me: Rank, fabric: TcpFabric) {
        self.place.reincarnate(me.index());
        fabric.remove().unwrap();
    }

    fn spawn(&self, me: Rank) -> Child {
        self.place.spawn(me.index(), "child_process")
    }
}

/// The entry of the litmus tests' child processes; nothing to test otherwise.
#[test]
fn child_process() {
    serve_if_child();
}

macro_rules! canaries {
    ($(
        $name:ident: $fault:ident breaks $promise:literal in $litmus:ident of $members:literal;
    )*) => {$(
        #[test]
        fn $name() {
            let group = || TcpGroup::new($members);
            expect_caught(group, Fault::$fault, $promise, conformance::$litmus);
        }
    )*};
}

// Faults that are likely in a provider with frames, numbers and reconnections.
canaries! {
    the_suite_catches_a_message_that_overtakes: OvertakenWrite breaks "T2" in a_message_arrives_behind_the_writes_before_it of 2;
    the_suite_catches_a_second_completion: CompletedTwice breaks "T4" in every_verb_completes_once_and_in_order of 3;
    the_suite_catches_a_lost_completion: CompletionLost breaks "T4" in every_verb_completes_once_and_in_order of 3;
    the_suite_catches_a_late_effect: TriedAgain breaks "T4" in what_is_unknown_takes_no_effect_later of 2;
    the_suite_catches_an_effect_behind_a_break: TriedAgain breaks "T10" in a_break_is_a_cut of 2;
    the_suite_catches_a_cut_message: MessageCut breaks "T7" in messages_arrive_whole_once_and_in_order of 2;
    the_suite_catches_a_silent_loss: Silent breaks "T8" in the_loss_of_a_member_is_an_event of 3;
}
