//! Contracts of protocols, the loops that feed machines, and the types that stand for a network.
//!
//! - A *contract* is a trait of `proto`, implemented there, whose methods change a machine by way
//!   of a host: `&mut self` and a bound that is a host ([`HOSTS`]) both stand in it.
//! - An *engine* is a loop that feeds a machine. Each needs a host to hand to it, so engines are
//!   counted by the types outside of `proto` and of tests that implement a trait of a host.
//! - A *world* is a type that stands for a network. It implements the verbs (`Port`) itself, that
//!   is without a type parameter that is a `Port`, `Relay`, `Fabric` or `Plant`, outside of
//!   `fabric`; or, in tests and in the crates that do not ship, it is a host that is handed
//!   messages, or a `World` of the explorer. One folder counts once.

use super::items::{Item, implementation, module_path};
use crate::tidy::source::has_word;
use std::collections::{BTreeMap, BTreeSet};

/// Crates that test and measure what ships.
const WORKBENCH: [&str; 3] = ["crates/bench/", "crates/model/", "crates/sim/"];

pub(super) fn contracts(items: &[Item<'_>]) -> Vec<String> {
    declared(items).map(Item::place).collect()
}

fn declared<'a>(items: &'a [Item<'a>]) -> impl Iterator<Item = &'a Item<'a>> {
    let is_implemented = |name: &str| {
        let of =
            |item: &Item<'_>| implementation(&item.header).is_some_and(|of| of.of_trait == name);
        items.iter().any(|item| item.keyword == "impl" && is_in_proto(item) && of(item))
    };
    let is_contract = move |item: &&Item<'_>| {
        let says = |word: &str| item.code.iter().any(|line| has_word(line, word));
        let changes = item.code.iter().any(|line| line.contains("&mut self"));
        item.keyword == "trait"
            && is_in_proto(item)
            && !HOSTS.contains(&item.name.as_str())
            && HOSTS.iter().any(|host| says(host))
            && changes
            && is_implemented(&item.name)
    };
    items.iter().filter(is_contract)
}

/// Names of traits that stand for a machine's host: one for each family of protocols.
const HOSTS: [&str; 2] = ["Host", "KeyedHost"];

fn is_in_proto(item: &Item<'_>) -> bool {
    item.file.path.starts_with("crates/proto/src/") && !item.is_test
}

/// Names of protocols: the folders of the machines that implement a contract.
pub(super) fn protocols(items: &[Item<'_>]) -> BTreeSet<String> {
    let names: BTreeSet<&str> = declared(items).map(|item| item.name.as_str()).collect();
    let mut found = BTreeSet::new();
    for item in items.iter().filter(|item| item.keyword == "impl" && is_in_proto(item)) {
        let is_machine =
            implementation(&item.header).is_some_and(|of| names.contains(of.of_trait.as_str()));
        let folder =
            item.file.path.rsplit_once('/').and_then(|(folder, _)| folder.rsplit('/').next());
        found.extend(folder.filter(|_| is_machine).map(str::to_owned));
    }
    found
}

pub(super) fn engines(items: &[Item<'_>]) -> Vec<String> {
    let is_host = |item: &&Item<'_>| {
        item.keyword == "impl"
            && !item.is_test
            && !item.file.path.starts_with("crates/proto/")
            && implementation(&item.header).is_some_and(|of| HOSTS.contains(&of.of_trait.as_str()))
    };
    items.iter().filter(is_host).map(Item::place).collect()
}

/// (worlds outside of tests, those in tests), each with its types.
pub(super) fn worlds(items: &[Item<'_>]) -> (Vec<String>, Vec<String>) {
    let mut found: BTreeMap<(bool, &str), BTreeSet<String>> = BTreeMap::new();
    for item in items.iter().filter(|item| item.keyword == "impl") {
        let Some(of) = implementation(&item.header) else { continue };
        let path = item.file.path.as_str();
        let hands_on =
            ["Port", "Relay", "Fabric", "Plant"].iter().any(|bound| has_word(&of.bounds, bound));
        let is_made_up = item.is_test || WORKBENCH.iter().any(|dir| path.starts_with(dir));
        let stands_for_network = match of.of_trait.as_str() {
            "Port" => !path.starts_with("crates/fabric/") && !hands_on,
            host if HOSTS.contains(&host) => is_made_up && of.trait_with_generics.ends_with('>'),
            "World" => is_made_up,
            _ => false,
        };
        if stands_for_network {
            let folder = path.rsplit_once('/').map_or(path, |(folder, _)| folder);
            found.entry((item.is_test, folder)).or_default().insert(item.path());
        }
    }
    let tell = |folder: &str, types: &BTreeSet<String>| {
        let types: Vec<&str> = types.iter().map(String::as_str).collect();
        format!("{}: {}", module_path(folder), types.join(", "))
    };
    let of_kind = |wanted: bool| {
        let of_kind = found.iter().filter(|((is_test, _), _)| *is_test == wanted);
        of_kind.map(|((_, folder), types)| tell(folder, types)).collect()
    };
    (of_kind(false), of_kind(true))
}

#[cfg(test)]
mod tests {
    use super::super::items;
    use super::*;
    use crate::tidy::Tree;

    const PROTO: (&str, &str) = (
        "crates/proto/src/lib.rs",
        "//! P.\npub trait Host: Port {\n    fn deliver(&mut self);\n}\n\
         pub trait Machine {\n    fn step<H: Host>(&mut self, host: &mut H);\n}\n\
         pub trait Unused {\n    fn step<H: Host>(&mut self, host: &mut H);\n}\n\
         pub trait Disk {\n    fn sync(&mut self);\n}\n",
    );
    const VELOS: (&str, &str) = (
        "crates/proto/src/velos/mod.rs",
        "//! V.\nimpl<V: Variant> Machine for Velos<V> {\n}\nimpl Disk for Velos<u8> {\n}\n",
    );

    #[test]
    fn a_contract_is_a_trait_that_machines_implement() {
        let tree = Tree::made_up(&[PROTO, VELOS]);
        let items = items::all(&tree);
        assert_eq!(contracts(&items), ["proto::Machine (crates/proto/src/lib.rs:5)"]);
        assert_eq!(protocols(&items), BTreeSet::from(["velos".to_owned()]));
    }

    #[test]
    fn canary_a_second_contract_and_a_second_engine_are_counted() {
        let amcast = (
            "crates/proto/src/amcast.rs",
            "//! A.\npub trait Multicast {\n    fn on(&mut self, host: &mut impl Host<u8>);\n}\n\
             impl Multicast for Skeen {\n}\n",
        );
        let loops = (
            "crates/bench/src/member.rs",
            "//! B.\nimpl<F: Fabric> Port for Member<F> {\n}\nimpl<F: Fabric> Host for Member<F> {\n}\n",
        );
        let engine =
            ("crates/engine/src/host.rs", "//! E.\nimpl<P: Plant> Host for State<P> {\n}\n");
        let tree = Tree::made_up(&[PROTO, VELOS, amcast, loops, engine]);
        let items = items::all(&tree);
        assert_eq!(contracts(&items).len(), 2);
        assert_eq!(engines(&items).len(), 2);
        let (worlds, of_tests) = worlds(&items);
        assert!(worlds.is_empty() && of_tests.is_empty(), "{worlds:?}: both only hand on");
    }

    #[test]
    fn canary_what_answers_verbs_itself_is_a_world() {
        let tree = Tree::made_up(&[
            ("crates/sim/src/node.rs", "//! S.\nimpl Port for Node<'_> {\n}\n"),
            ("crates/sim/src/amcast/out.rs", "//! S.\nimpl<W: Wire> Host<W> for Outbox<W> {\n}\n"),
            ("crates/proto/src/mu/tests.rs", "//! T.\nimpl Port for View<'_> {\n}\n"),
            ("crates/fabric/src/shm.rs", "//! F.\nimpl Port for Shm {\n}\n"),
            ("crates/multicast/src/world.rs", "//! M.\nimpl<W: Wire> Host<W> for Stage<W> {\n}\n"),
        ]);
        let (worlds, of_tests) = worlds(&items::all(&tree));
        assert_eq!(worlds, ["sim: sim::node::Node", "sim::amcast: sim::amcast::out::Outbox"]);
        assert_eq!(of_tests, ["proto::mu: proto::mu::tests::View"]);
    }
}
