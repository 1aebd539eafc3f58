//! The nodes of a system, and the places of the members of its groups.
//!
//! - C1 A node hosts at most one member of each group, so (node, group) names a member. Asserted in
//!   [`Places::new`].

use base::{Rank, SeatSet};
use proto::amcast::{GroupId, GroupSet, Layout, Pid};

/// The members' places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    layout: Layout,
    /// The nodes by group and rank.
    nodes_of: Vec<Vec<Rank>>,
    /// The hosted groups by node.
    hosted: Vec<GroupSet>,
}

impl Places {
    /// The members of each group live on these nodes, in the order of their ranks.
    ///
    /// # Panics
    /// If two members of a group are to live on one node (C1).
    pub fn new(n_nodes: usize, nodes_of: Vec<Vec<Rank>>) -> Places {
        for nodes in &nodes_of {
            let set: SeatSet = nodes.iter().copied().collect();
            assert_eq!(set.len(), nodes.len(), "C1: {nodes:?} are the nodes of a group");
        }
        let sizes: Vec<usize> = nodes_of.iter().map(Vec::len).collect();
        let hosts = |node: Rank| {
            let groups = nodes_of.iter().enumerate();
            groups.filter(|(_, on)| on.contains(&node)).map(|(at, _)| GroupId::at(at)).collect()
        };
        let hosted = Rank::all(n_nodes).map(hosts).collect();
        Places { layout: Layout::new(&sizes), nodes_of, hosted }
    }

    /// The groups and their sizes.
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The number of nodes.
    pub fn n_nodes(&self) -> usize {
        self.hosted.len()
    }

    /// The groups that have a member on `node`.
    pub fn hosted(&self, node: Rank) -> GroupSet {
        self.hosted.get(node.index()).copied().unwrap_or_default()
    }

    /// The nodes of `group`, by rank.
    pub fn nodes_of(&self, group: GroupId) -> &[Rank] {
        self.nodes_of.get(group.index()).map_or(&[], Vec::as_slice)
    }

    /// The node of a member, if it exists.
    pub fn node_of(&self, pid: Pid) -> Option<Rank> {
        self.nodes_of(pid.group).get(pid.rank.index()).copied()
    }

    /// The member of `group` on `node` (C1).
    pub fn member(&self, node: Rank, group: GroupId) -> Option<Pid> {
        let at = self.nodes_of(group).iter().position(|on| *on == node)?;
        Some(Pid { group, rank: Rank::at(at) })
    }

    /// Every node that hosts a member of one of `groups`.
    pub fn nodes_of_all(&self, groups: GroupSet) -> SeatSet {
        Rank::all(self.n_nodes()).filter(|node| self.hosted(*node).meets(groups)).collect()
    }
}
