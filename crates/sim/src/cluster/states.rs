//! The states of members that have executed the same prefix are the same, byte for byte, also the
//! parts that no client reads: expiries, versions, the replies that are kept for a retry.
//!
//! A member that lacks such a part serves for long before anyone notices.

use super::world::World;

impl World {
    /// I10, I19, I21: the first part of a member's state that another one's differs in.
    pub(super) fn differing(&self) -> Option<String> {
        let state = |node: usize| self.members[node].as_ref()?.state();
        let mut seated = self.seated();
        let first = seated.next()?;
        let digests = |node: usize| self.members[node].as_ref().map(|member| member.digests());
        let of_first = digests(first);
        if let Some(node) = self.seated().find(|node| digests(*node) != of_first) {
            return Some(format!(
                "r{first} and r{node} have executed the same, and their partitions, or their \
                 connections, verdicts and checkpoints, differ: {of_first:?}, {:?}",
                digests(node)
            ));
        }
        let one = state(first)?;
        seated.find_map(|node| {
            let detail = one.difference(state(node)?)?;
            Some(format!("r{first} and r{node} have executed the same, and differ: {detail}"))
        })
    }
}
