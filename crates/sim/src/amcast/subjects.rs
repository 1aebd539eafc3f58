//! What is simulated of atomic multicast: every protocol of the registry under each of its options,
//! and once more with disks, and with members that change, where it has these.

use super::Config;
use proto::amcast::linear::Rule;
use proto::registry::{MulticastProtocol, Variant};
use std::sync::LazyLock;

/// A protocol under some of its options, in a world that fits them.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The name on the command line and in reports.
    pub name: String,
    /// The description, in a sentence.
    pub text: String,
    /// The protocol.
    pub protocol: MulticastProtocol,
    /// Whether it is simulated under any rule for real time that the caller names.
    pub takes_rule: bool,
    rule: Rule,
    commutes: bool,
    /// Whether processes lose power and come back from their disks.
    recovers: bool,
    /// Whether groups change their members.
    changes_members: bool,
}

/// Every one, in the order of the registry.
pub fn subjects() -> &'static [Subject] {
    static ALL: LazyLock<Vec<Subject>> = LazyLock::new(|| {
        MulticastProtocol::ALL.iter().flat_map(|protocol| Subject::all_of(*protocol)).collect()
    });
    &ALL
}

impl Subject {
    fn all_of(protocol: MulticastProtocol) -> Vec<Subject> {
        let variants: Vec<Variant> = MulticastProtocol::variants()
            .filter(|(of, _)| *of == protocol)
            .map(|(_, variant)| variant)
            .collect();
        let can = protocol.abilities();
        // Rules are tried on what is named after them, if something is.
        let has_rule = |variant: &Variant| variant.rule != Rule::Plain;
        let is_for_rules = |variant: &Variant| {
            can.takes_rules
                && !variant.commutes
                && (has_rule(variant) || !variants.iter().any(has_rule))
        };
        let of_variant = |variant: &Variant| Subject {
            name: variant.row.name.to_owned(),
            text: variant.row.summary.to_owned(),
            protocol,
            takes_rule: is_for_rules(variant),
            rule: variant.rule,
            commutes: variant.commutes,
            recovers: false,
            changes_members: false,
        };
        let also = |suffix: &str, text: &str| Subject {
            name: format!("{}-{suffix}", protocol.name()),
            text: format!("{}, whose {text}", protocol.name()),
            protocol,
            takes_rule: can.takes_rules,
            rule: Rule::Plain,
            commutes: false,
            recovers: false,
            changes_members: false,
        };
        let mut all: Vec<Subject> = variants.iter().map(of_variant).collect();
        if can.recovers {
            let stable = also("stable", "processes lose power and come back from their disks");
            all.push(Subject { recovers: true, ..stable });
        }
        if can.changes_members {
            let members = also("members", "groups change their members");
            all.push(Subject { changes_members: true, ..members });
        }
        all
    }

    /// The settings of its seeds, under this rule instead of its own.
    pub fn config(&self, rule: Option<Rule>) -> Config {
        Config {
            rule: rule.unwrap_or(self.rule),
            commutes: self.commutes,
            snapshots: !self.recovers,
            recovers: self.recovers,
            changes_members: self.changes_members,
            ..Config::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_differ_and_only_what_takes_rules_is_asked_for_one() {
        let names: BTreeSet<&str> = subjects().iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names.len(), subjects().len());
        for one in subjects() {
            assert!(!one.takes_rule || one.protocol.abilities().takes_rules, "{}", one.name);
        }
        let primcast = subjects().iter().find(|one| one.name == "primcast").expect("it is there");
        assert!(!primcast.takes_rule, "primcast-linearizable takes its rules");
    }
}
