//! The fate of own messages that many later ones have followed (W2, `span.rs`).

use super::Node;
use crate::multicast::application::Application;
use crate::multicast::bugs::Bug;
use crate::multicast::world::Named;
use base::Rank;
use proto::amcast::{GroupSet, MessageId, Multicast};
use proto::planted::Planting;

impl<M: Multicast, A: Application, P: Planting<Bug>> Node<M, A, P> {
    /// Keeps in `named` the messages that the member of their group here has delivered.
    fn keep_delivered(&self, named: &mut Named) {
        let member = self.member_of[named.group.index()];
        let machine = member.map(|at| &self.members[usize::from(at)].machine);
        let sender = named.sender;
        let has = |sequence: u64| {
            let id = MessageId { sender, sequence };
            machine.is_some_and(|machine| machine.has_delivered(id))
        };
        named.sequences.retain(|sequence| has(*sequence));
    }

    /// Asks about own messages that many later ones have followed (W2).
    pub(super) fn look_behind(&mut self) {
        let oldest = self.desk.own.next_to_ask(self.desk.now);
        let (me, sender) = (self.world.me, self.desk.sender());
        let left = oldest.iter().fold(GroupSet::EMPTY, |all, (_, left)| all.union(*left));
        for group in left.iter() {
            let waits = oldest.iter().filter(|(_, left)| left.contains(group));
            let sequences = waits.map(|(sequence, _)| *sequence).collect();
            let mut named = Named { group, sender, sequences };
            if self.world.places.hosted(me).contains(group) {
                self.keep_delivered(&mut named);
                self.desk.own.settle(sender, &named.sequences, group);
            } else {
                self.world.ask(&named);
            }
        }
    }

    /// Answers such a question of another node.
    pub(super) fn on_ask(&mut self, from: Rank, mut named: Named) {
        self.keep_delivered(&mut named);
        self.world.answer(from, &named);
    }

    /// Handles the answer of a member of another group.
    pub(super) fn on_has(&mut self, named: &Named) {
        self.desk.own.settle(named.sender, &named.sequences, named.group);
        let now = self.desk.now;
        if let Some(span) = self.desk.own.span.as_mut().filter(|_| !named.sequences.is_empty()) {
            span.ask_more(now);
        }
    }
}
