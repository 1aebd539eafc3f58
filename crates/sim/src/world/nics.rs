//! Verbs on their way through NICs, where that has costs, and the room for messages.

use crate::costs::UNSENT;
use crate::link::Verb;
use crate::queue::Happening;
use crate::world::net::Net;

impl Net {
    /// Whether a flow has room for one more message (`Link::has_room`).
    pub(crate) fn has_room(&self, from: usize, to: usize, n_most: usize) -> bool {
        self.links[self.link_index(from, to)].has_room(n_most, self.weather.n_messages_max)
    }

    /// A verb waits until the NIC of `from` has sent it (`costs`).
    pub(crate) fn wait_for_nic(&mut self, from: usize, index: usize, n_words: u32) {
        let now = self.now();
        let costs = self.costs.as_mut().expect("a verb is unsent where there are costs");
        if let Some(at) = costs.post(from, index, 8 * u64::from(n_words), now) {
            self.queue.push(at, Happening::Left(from as u16));
        }
    }

    /// A piece of a verb has left `from`: a verb that has left as a whole travels.
    pub(crate) fn on_left(&mut self, from: usize) {
        let now = self.now();
        let Some(costs) = &mut self.costs else { return };
        let (left, latency_ns) = (costs.on_left(from, now), costs.latency_ns());
        if let Some(at) = left.next_at {
            self.queue.push(at, Happening::Left(from as u16));
        }
        let Some(index) = left.link else { return };
        let verbs = &mut self.links[index].verbs;
        let n_sent = verbs.partition_point(|verb| verb.arrives_at != UNSENT);
        // (A link that has broken since has nothing unsent.)
        let Some(verb) = verbs.get_mut(n_sent) else { return };
        verb.arrives_at = now + latency_ns;
        if n_sent == 0 {
            self.arm_verb(index, now + latency_ns);
        }
    }

    /// Whether the bytes of a verb that has come are in the memory of its receiver; otherwise the
    /// link continues when they are.
    pub(crate) fn is_received(&mut self, index: usize, verb: Verb) -> bool {
        let (from, to) = self.ends(index);
        let now = self.now();
        let Some(costs) = self.costs.as_mut().filter(|_| from != to && !verb.is_here) else {
            return true;
        };
        let at = costs.receive(to, 8 * u64::from(verb.n_words), now);
        if let Some(first) = self.links[index].verbs.front_mut() {
            (first.is_here, first.arrives_at) = (true, at);
        }
        at <= now
    }
}
