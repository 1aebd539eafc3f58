//! The protocol of a cluster, by its name in files and on the command line.

use super::Durability;
use clap::ValueEnum;
use clap::builder::PossibleValue;
use proto::registry::{KeyedProtocol, LogProtocol};
use proto::table::{self, Row};
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

/// The way in which the order is agreed upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum Protocol {
    /// One log of all commands.
    Log(LogProtocol),
    /// Each key by itself.
    Keyed(KeyedProtocol),
    /// Atomic multicast among partitions.
    Primcast,
}

impl Protocol {
    /// The name in files and on the command line.
    pub(crate) fn name(self) -> &'static str {
        self.row().name
    }

    /// The promises of the protocol.
    pub(super) fn row(self) -> &'static Row {
        match self {
            Protocol::Log(log) => log.row(),
            Protocol::Keyed(keyed) => keyed.row(),
            Protocol::Primcast => table::protocol("primcast").expect("the table lists it"),
        }
    }

    /// The durability that is meant where the protocol alone is named: on disk, if it can.
    pub(crate) fn durability(self) -> Durability {
        let on_disk = Durability::DiskQuorum;
        if self.row().durability.contains(&on_disk.name()) {
            on_disk
        } else {
            Durability::MemoryQuorum
        }
    }

    /// Whether members can be replaced while the cluster runs.
    pub(crate) fn members_change(self) -> bool {
        self.row().members_change
    }
}

impl ValueEnum for Protocol {
    fn value_variants<'a>() -> &'a [Protocol] {
        static ALL: LazyLock<Vec<Protocol>> = LazyLock::new(|| {
            let logs = LogProtocol::ALL.iter().copied().map(Protocol::Log);
            let keyed = KeyedProtocol::ALL.iter().copied().map(Protocol::Keyed);
            logs.chain(keyed).chain([Protocol::Primcast]).collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()).help(self.row().summary))
    }
}

impl TryFrom<String> for Protocol {
    type Error = String;

    fn try_from(name: String) -> Result<Protocol, String> {
        let all = Protocol::value_variants();
        all.iter().copied().find(|one| one.name() == name).ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(|one| one.name()).collect();
            format!("there is no protocol {name:?}: say one of {}", names.join(", "))
        })
    }
}

impl From<Protocol> for String {
    fn from(protocol: Protocol) -> String {
        protocol.name().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::registry;

    #[test]
    fn what_can_be_chosen_is_in_the_table_and_the_reverse() {
        let listed: Vec<&str> = registry::rows().map(|row| row.name).collect();
        // What orders partitions stands among the multicasts.
        let (of_partitions, of_logs): (Vec<&str>, Vec<&str>) = Protocol::value_variants()
            .iter()
            .map(|protocol| protocol.name())
            .partition(|name| *name == Protocol::Primcast.name());
        assert_eq!(listed, of_logs);
        assert!(of_partitions.iter().all(|name| table::protocol(name).is_some()));
    }

    #[test]
    fn a_name_leads_to_its_protocol_and_back_and_an_unknown_one_is_answered_with_all() {
        for protocol in Protocol::value_variants() {
            assert_eq!(Protocol::try_from(String::from(*protocol)), Ok(*protocol));
        }
        let text = Protocol::try_from("raft".to_owned()).unwrap_err();
        let names: Vec<&str> = Protocol::value_variants().iter().map(|of| of.name()).collect();
        assert!(text.contains("raft") && text.contains(&names.join(", ")), "{text}");
    }
}
