//! How much a sweep has reached: one that reaches nothing finds nothing.

/// How often interesting cases were reached.
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
}

impl Counts {
    /// Adds another run's.
    pub fn add(&mut self, other: &Counts) {
        let pairs = [
            (&mut self.crashes, other.crashes),
            (&mut self.crashes_of_primaries, other.crashes_of_primaries),
            (&mut self.new_primaries, other.new_primaries),
            (&mut self.two_primaries, other.two_primaries),
            (&mut self.pauses, other.pauses),
            (&mut self.cuts, other.cuts),
            (&mut self.broken_senders, other.broken_senders),
            (&mut self.sent, other.sent),
            (&mut self.delivered, other.delivered),
            (&mut self.global, other.global),
            (&mut self.states, other.states),
        ];
        pairs.into_iter().for_each(|(sum, more)| *sum += more);
    }
}
