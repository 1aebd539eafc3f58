//! The figures of a keyspace in partitions.

use super::state::{Holding, Holds};

/// One partition, as a process sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionFigures {
    /// The partition.
    pub id: usize,
    /// The member that leads it; 0 if none is known.
    pub leader: u16,
    /// Messages executed here.
    pub executed: u64,
    /// Keys.
    pub keys: u64,
}

/// The partitions' part of INFO.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// The sum of all partitions.
    pub(super) sum: Holding,
    /// The name of the order of commands.
    pub(super) order: &'static str,
    /// Each partition.
    pub(super) partitions: Vec<PartitionFigures>,
}

impl Holds for Held {
    fn holding(&self) -> Holding {
        self.sum
    }

    fn describe(&self) -> String {
        let mut text = format!(
            "gregale_partitions:{}\r\ngregale_order:{}\r\n",
            self.partitions.len(),
            self.order
        );
        for PartitionFigures { id, leader, executed, keys } in &self.partitions {
            text += &format!(
                "gregale_partition{id}:leader={leader},keys={keys},executed={executed}\r\n"
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_tells_of_each_partition() {
        let partitions = vec![PartitionFigures { id: 0, leader: 2, executed: 7, keys: 3 }];
        let held = Held { order: "signals", partitions, ..Held::default() };
        let text = held.describe();
        assert!(text.contains("gregale_partitions:1\r\ngregale_order:signals\r\n"), "{text}");
        assert!(text.ends_with("gregale_partition0:leader=2,keys=3,executed=7\r\n"), "{text}");
    }
}
