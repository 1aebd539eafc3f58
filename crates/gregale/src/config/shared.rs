//! Settings that all members of a cluster must have alike, beside their protocol and their number.
//!
//! - C1 what a member does with a decided entry depends on the entry, on what came before it, on
//!   the rules by which its version executes (the number of the format of entries), and on these
//!   settings. Members that differ in one would part without a sign, so they refuse each other: the
//!   fabric compares the fingerprint, as a part of the layout, and the rules.
//! - C2 other settings may differ: addresses, directories, limits of clients, the command of a
//!   replicated program (another build of it), and how its copy is watched and confined.
//! - C3 the rules are apart from the settings: a durable member may make new memory under a later
//!   version, and not under another setting.

use super::{Config, Program, SaveBy};
use kv::entry;

impl Config {
    /// These settings, as an operator would compare them.
    pub(crate) fn shared(&self) -> String {
        let mut text = match &self.program {
            Some(program) => program.shared(),
            None => format!("maxmemory = {}", self.maxmemory),
        };
        if let Some(of) = self.partitions {
            text += &format!(", partitions = {}, order = {:?}", of.n, of.order.name());
        }
        text
    }

    /// All that members must have alike (C1), as an operator would compare it.
    pub(crate) fn agreed(&self) -> String {
        match self.rules() {
            0 => self.shared(),
            rules => format!("{}, entries of format {rules}", self.shared()),
        }
    }

    /// The version of the rules by which members execute entries (C3). (A program's have rules of
    /// their own.)
    pub(crate) fn rules(&self) -> u8 {
        if self.program.is_some() { 0 } else { entry::FORMAT }
    }

    /// A number that differs if two members could not work together (C1): the layout of their
    /// memory, and these settings.
    pub(crate) fn fingerprint(&self, layout: u64) -> u64 {
        xxhash_rust::xxh3::xxh3_64(format!("{layout:x} {}", self.shared()).as_bytes())
    }
}

impl Program {
    /// The same of a program.
    pub(crate) fn shared(&self) -> String {
        let Program { order, save, end, chance, time, compare, output, .. } = self;
        // A copy begins with what another one has saved.
        let save = match save {
            Some(SaveBy::Files) => "files",
            Some(SaveBy::Criu) => "processes",
            Some(SaveBy::Resp) | None => "what the program saves",
        };
        format!(
            "program: order = {order:?}, chance = {chance:?}, time = {time:?}, compare = {compare}, \
             output = {output:?}, save = {save:?}, end = {end:?}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Chance, EndBy, InputOrder, Order, Output, Partitioning, Time};
    use super::*;

    fn config() -> Config {
        let text = "cluster = \"x\"\nmember = 1\nstart = \"bootstrap\"\ndirectory = \"/dev/shm/x\"\n\
                    secret_file = \"/x\"\n[[members]]\nid = 1\nclient = \"127.0.0.1:7000\"\n\
                    control = \"127.0.0.1:7200\"\n";
        toml::from_str(text).unwrap()
    }

    fn differs(change: impl Fn(&mut Config), of: &Config) -> bool {
        let mut other = of.clone();
        change(&mut other);
        other.fingerprint(7) != of.fingerprint(7)
    }

    #[test]
    fn c1_settings_by_which_members_would_part_differ() {
        let store = config();
        assert!(differs(|it| it.maxmemory = 1, &store));
        let of = Partitioning { n: 4, order: Order::default() };
        let partitioned = Config { partitions: Some(of), ..config() };
        assert!(differs(|it| it.partitions = None, &partitioned));
        let order = |order| Some(Partitioning { n: 4, order });
        assert!(differs(|it| it.partitions = order(Order::Signals), &partitioned));
        let program = Config { program: Some(Program::of("p {socket}")), ..config() };
        assert!(differs(|it| it.program = None, &program));
        let changes: [fn(&mut Program); 8] = [
            |it| it.order = InputOrder::Loop,
            |it| it.chance = Chance::Kernel,
            |it| it.time = Time::Log,
            |it| it.compare = 5,
            |it| it.output = Output::Strict,
            |it| it.save = Some(SaveBy::Files),
            |it| it.save = Some(SaveBy::Criu),
            |it| it.end = EndBy::Term,
        ];
        for (at, change) in changes.into_iter().enumerate() {
            let of = |it: &mut Config| change(it.program.as_mut().unwrap());
            assert!(differs(of, &program), "change {at}");
        }
        assert_ne!(store.fingerprint(7), store.fingerprint(8));
    }

    #[test]
    fn c3_the_rules_are_apart_from_the_settings() {
        let of = Partitioning { n: 4, order: Order::default() };
        let partitioned = Config { partitions: Some(of), ..config() };
        assert_eq!([config(), partitioned].map(|it| it.rules()), [entry::FORMAT; 2]);
        assert_eq!(config().shared(), format!("maxmemory = {}", config().maxmemory));
        let both = format!("{}, entries of format {}", config().shared(), entry::FORMAT);
        assert_eq!(config().agreed(), both, "an operator is told both");
    }

    #[test]
    fn c2_other_settings_may_differ() {
        let store = config();
        assert!(!differs(|it| it.maxclients = 5, &store));
        assert!(!differs(|it| it.directory = "/dev/shm/y".into(), &store));
        let program = Config { program: Some(Program::of("p {socket}")), ..config() };
        let of = |it: &mut Config| it.program = Some(Program::of("/opt/asan/p {socket}"));
        assert!(!differs(of, &program));
    }
}
