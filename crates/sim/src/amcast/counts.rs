//! The cases that a sweep has reached: one that reaches nothing finds nothing.

/// The numbers of interesting cases that were reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Processes that died.
    pub crashes: u64,
    /// Of them primaries.
    pub crashes_of_primaries: u64,
    /// A process became primary that was not.
    pub new_primaries: u64,
    /// Two primaries of one group at once.
    pub two_primaries: u64,
    /// Processes that came back from their disks.
    pub restarts: u64,
    /// All processes lost power at once.
    pub power_cuts: u64,
    /// Processes stopped for a while.
    pub pauses: u64,
    /// Links cut for a while.
    pub cuts: u64,
    /// Senders that died half way.
    pub broken_senders: u64,
    /// Wire messages.
    pub sent: u64,
    /// Deliveries.
    pub delivered: u64,
    /// Messages to several groups.
    pub global: u64,
    /// States that were handed over to members that had fallen behind.
    pub states: u64,
    /// Pairs of messages that two processes delivered in different orders, since they commute.
    pub commuted: u64,
    /// Snapshots at a timestamp.
    pub snapshots: u64,
    /// Snapshots that came too late.
    pub snapshots_refused: u64,
    /// What became of members.
    pub changes: Changes,
}

/// The numbers of changes of members, and of what they met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Processes that began on the seat of one that had lost its memory.
    pub newcomers: u64,
    /// Epochs that began with other members than the one before.
    pub made: u64,
    /// Seats that lost their member that way.
    pub removals: u64,
    /// Of them seats of processes that lived.
    pub removals_of_living: u64,
    /// Seats that got a member.
    pub additions: u64,
    /// Members that were replaced after they had died as primaries.
    pub primaries_replaced: u64,
    /// Changes while messages to the group were under way.
    pub amid_messages: u64,
    /// Processes that learned that they were no longer members.
    pub parted: u64,
}

impl Counts {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Counts) {
        let of = &mut self.changes;
        let pairs = [
            (&mut self.crashes, other.crashes),
            (&mut self.crashes_of_primaries, other.crashes_of_primaries),
            (&mut self.new_primaries, other.new_primaries),
            (&mut self.two_primaries, other.two_primaries),
            (&mut self.restarts, other.restarts),
            (&mut self.power_cuts, other.power_cuts),
            (&mut self.pauses, other.pauses),
            (&mut self.cuts, other.cuts),
            (&mut self.broken_senders, other.broken_senders),
            (&mut self.sent, other.sent),
            (&mut self.delivered, other.delivered),
            (&mut self.global, other.global),
            (&mut self.states, other.states),
            (&mut self.commuted, other.commuted),
            (&mut self.snapshots, other.snapshots),
            (&mut self.snapshots_refused, other.snapshots_refused),
            (&mut of.newcomers, other.changes.newcomers),
            (&mut of.made, other.changes.made),
            (&mut of.removals, other.changes.removals),
            (&mut of.removals_of_living, other.changes.removals_of_living),
            (&mut of.additions, other.changes.additions),
            (&mut of.primaries_replaced, other.changes.primaries_replaced),
            (&mut of.amid_messages, other.changes.amid_messages),
            (&mut of.parted, other.changes.parted),
        ];
        pairs.into_iter().for_each(|(sum, more)| *sum += more);
    }
}
