//! Commands that several partitions execute at once, because the content of one decides the effect
//! on another: RENAME, MSETNX, transactions, calls of a session.
//!
//! A command knows one store. Therefore the keys that it names are lent to an empty store, it is
//! executed there, and they return to their partitions.
//!
//! - U1 the answer and the change are those of one store that holds the keys of all partitions.
//!   Checked against such a store by `tests::u1_partitions_answer_as_one_store`.
//! - U2 nothing is left behind: lent keys return, and a key's version changes exactly when the
//!   command changed the key. By [`Store::take_back`]; test `u2_watched_keys_are_guarded`.
//! - U3 a command of several partitions is executed at one state time, which all of them keep: the
//!   largest of theirs. By `advance`; a key that one command saw expired is not seen again.
//! - U4 the messages that a command publishes keep their order: they are gathered at the lowest of
//!   its partitions. Test `messages_of_one_command_keep_their_order_whatever_their_partitions`.

use super::hash::Partitions;
use super::merge::{self, Merging};
use super::plan::{Map, Shape};
use super::{Part, scan};
use crate::client_sessions::{ClientSessions, ReadJudged};
use crate::command::{Args, CommandSpec, flag, keys_of, resolve};
use crate::entry::command::{Guards, Item, Items};
use crate::entry::{Command, CommandError, SessionCommand};
use crate::exec::keys::copy_target;
use crate::exec::{Call, steps};
use crate::machine;
use crate::reply::{Protocol, Reply};
use crate::script;
use crate::store::{Db, DbKey, Store};
use crate::text;
use base::Rng;

/// The partitions that stand still for one command.
pub(super) struct Together<'a> {
    pub(super) map: Map,
    pub(super) parts: &'a mut [Part],
    /// The partitions that stand still; the others must not be touched.
    pub(super) all: Partitions,
}

impl Together<'_> {
    /// Brings all of them to the latest time of one of them (U3).
    pub(super) fn advance(&mut self, stamp_ms: u64) {
        let times = self.all.iter().map(|at| self.parts[at].store.now_ms());
        let now_ms = times.fold(stamp_ms, u64::max);
        for at in self.all.iter() {
            self.parts[at].advance(now_ms);
        }
    }

    /// Executes the command and appends exactly one reply.
    pub(super) fn execute(&mut self, command: &[u8], seed: u64, reply: &mut Reply) {
        match Command::decode(command) {
            Ok(Command::Session(command)) => self.session(command, seed, reply),
            Ok(Command::Versions { db, keys }) => self.versions(db, &keys, reply),
            other => self.plain(other, seed, reply),
        }
    }

    fn session(&mut self, command: SessionCommand<'_>, seed: u64, reply: &mut Reply) {
        let home = match command {
            // The command was sent to one partition, which is its home.
            SessionCommand::Open => self.all.lowest().unwrap_or_default(),
            SessionCommand::Resume(id) | SessionCommand::End(id) => self.map.home_of(id),
            SessionCommand::Call { id, .. } | SessionCommand::Read { id, .. } => {
                self.map.home_of(id)
            }
        };
        if !self.all.contains(home) {
            return reply.error(text::MALFORMED);
        }
        // The sessions leave the part while its stores are in use.
        let mut clients = std::mem::take(&mut self.parts[home].clients);
        self.in_session(&mut clients, home, command, seed, reply);
        self.parts[home].clients = clients;
    }

    fn in_session(
        &mut self,
        clients: &mut ClientSessions,
        home: usize,
        command: SessionCommand<'_>,
        seed: u64,
        reply: &mut Reply,
    ) {
        let now_ms = self.parts[home].store.now_ms();
        if let SessionCommand::Read { id, number, command } = command {
            return match clients.judge_read(id, number, now_ms) {
                ReadJudged::Good => self.plain(Command::decode(command), seed, reply),
                ReadJudged::Gap(next) => machine::session::gap(next, reply),
                // Time has just been advanced, so no key is about to expire.
                ReadJudged::NeedsTick | ReadJudged::NoSession => reply.error(text::NO_SESSION),
            };
        }
        let n = self.map.n as u64;
        let run = |command: &[u8], reply: &mut Reply| {
            self.plain(Command::decode(command), seed, reply);
        };
        let place = machine::session::Place { now_ms, modulus: n, residue: home as u64 };
        machine::session::execute(place, clients, command, reply, run);
    }

    fn versions(&mut self, db: Db, keys: &Args<'_>, reply: &mut Reply) {
        reply.set_protocol(Protocol::Resp2);
        reply.array(keys.len());
        keys.iter().for_each(|key| reply.integer(self.version(DbKey { db, key }) as i64));
    }

    fn version(&self, key: DbKey<'_>) -> u64 {
        self.parts[self.map.partition_of(key.key)].store.version(key)
    }

    fn plain(&mut self, command: Result<Command<'_>, CommandError>, seed: u64, reply: &mut Reply) {
        match command {
            Ok(Command::Plain { db, protocol, args }) => {
                reply.set_protocol(protocol);
                self.args(db, &args, seed, reply);
            }
            Ok(Command::Transaction { db, protocol, guards, items }) => {
                reply.set_protocol(protocol);
                self.transaction(db, guards, items, seed, reply);
            }
            Ok(Command::Versions { .. } | Command::Session(_)) | Err(_) => {
                reply.set_protocol(Protocol::Resp2);
                reply.error(text::MALFORMED);
            }
        }
    }

    fn transaction(
        &mut self,
        mut db: Db,
        mut guards: Guards<'_>,
        items: Items<'_>,
        seed: u64,
        reply: &mut Reply,
    ) {
        if !guards.all(|(key, version)| self.version(key) == version) {
            return reply.null_array();
        }
        if self.is_too_full_for(items.clone()) {
            return reply.error(text::OUT_OF_MEMORY_IN_EXEC);
        }
        self.admit_growth(true);
        reply.array(items.len());
        for (at, item) in items.enumerate() {
            match item {
                Item::Execute(args) if machine::select(&args, &mut db, reply) => {}
                Item::Execute(args) => {
                    self.args(db, &args, seed.rotate_left(32) ^ at as u64, reply);
                }
                Item::Answered(answer) => reply.raw(answer),
            }
        }
        self.admit_growth(false);
    }

    /// Whether a step that may grow concerns a partition that is over the limit.
    fn is_too_full_for(&self, mut items: Items<'_>) -> bool {
        let is_over = |at: usize| self.parts[at].store.is_over_memory();
        self.all.iter().any(is_over)
            && items.any(|item| match &item {
                Item::Execute(args) if item.grows() => {
                    self.map.shape_of_args(args).partitions().iter().any(is_over)
                }
                Item::Execute(_) | Item::Answered(_) => false,
            })
    }

    fn admit_growth(&mut self, admits: bool) {
        for at in self.all.iter() {
            self.parts[at].store.admit_growth(admits);
        }
    }

    fn args(&mut self, db: Db, args: &Args<'_>, seed: u64, reply: &mut Reply) {
        let Some(spec) = resolve(args, reply) else { return };
        let shape = self.map.shape_of(spec, args);
        let outside = shape.partitions().iter().any(|at| !self.all.contains(at));
        if !spec.is_for_store() || outside {
            return reply.error(text::MALFORMED);
        }
        match shape {
            Shape::One(at) => {
                let own = Own { map: self.map, at };
                own.execute(&mut self.parts[at].store, db, spec, args, seed, reply);
                self.gather(at);
            }
            Shape::Each(each, how) => {
                if !steps::begins(reply) {
                    return;
                }
                let (mut merging, mut taken_by_all, mut n_bytes) = (Merging::new(how, each), 0, 0);
                for at in each.iter() {
                    let piece = merge::piece(&self.map, spec, args, at);
                    let (answer, taken) = reply.of_part(|reply| {
                        self.parts[at].store.execute(db, spec, &piece, seed, reply);
                    });
                    taken_by_all += taken;
                    n_bytes += answer.len();
                    merging.add(at, &answer, &merge::places(&self.map, spec, args, at));
                }
                reply.pay_steps(taken_by_all);
                // The answer may be left out of the reply, and is made nevertheless.
                steps::has_copied(n_bytes, reply);
                merging.put(reply);
            }
            Shape::Together(_) if spec.name == "randomkey" => {
                self.random_key(db, spec, args, seed, reply)
            }
            Shape::Together(each) => self.lend_and_execute(db, each, spec, args, seed, reply),
        }
    }

    /// Puts what partition `at` has published behind what the others have, at the lowest (U4).
    fn gather(&mut self, at: usize) {
        let lowest = self.all.lowest().unwrap_or(at);
        if at != lowest {
            let mut published = std::mem::take(self.parts[at].store.published_mut());
            self.parts[lowest].store.published_mut().append(&mut published);
        }
    }

    /// Each key of any partition is as likely as with one store: a partition's chance is its share.
    fn random_key(
        &self,
        db: Db,
        spec: &'static CommandSpec,
        args: &Args<'_>,
        seed: u64,
        reply: &mut Reply,
    ) {
        let len = |at: usize| self.parts[at].store.len_of(db) as u64;
        let total: u64 = (0..self.map.n).map(len).sum();
        let mut left = Rng::new(seed).below(total.max(1));
        let mut first = 0;
        while first + 1 < self.map.n && left >= len(first) {
            left -= len(first);
            first += 1;
        }
        if !steps::begins(reply) {
            return;
        }
        let (mut picked, mut taken_by_all) = (None, 0);
        // All keys that remain in a partition may be expired: then the next partition is tried.
        for at in (0..self.map.n).map(|step| (first + step) % self.map.n) {
            let (answer, taken) = reply.of_part(|reply| {
                self.parts[at].store.query(db, spec, args, seed, reply);
            });
            taken_by_all += taken;
            if answer.starts_with(b"$") && !answer.starts_with(b"$-") {
                picked = Some(answer);
                break;
            }
        }
        reply.pay_steps(taken_by_all);
        match picked {
            Some(answer) => reply.raw(&answer),
            None => reply.null(),
        }
    }

    fn lend_and_execute(
        &mut self,
        db: Db,
        each: Partitions,
        spec: &'static CommandSpec,
        args: &Args<'_>,
        seed: u64,
        reply: &mut Reply,
    ) {
        let over = |at: usize| self.parts[at].store.is_over_memory();
        if spec.is(flag::DENYOOM) && each.iter().any(over) {
            return reply.error(text::OUT_OF_MEMORY);
        }
        let Ok(keys) = keys_of(spec, args) else { return reply.error(text::MALFORMED) };
        let mut keys: Vec<DbKey<'_>> = keys.map(|at| DbKey { db, key: args[at] }).collect();
        if spec.name == "copy"
            && let Some(db) = copy_target(&args[3..])
        {
            keys.push(DbKey { db, key: args[2] });
        }
        keys.sort_unstable();
        keys.dedup();
        let lowest = self.all.lowest().unwrap_or_default();
        let mut lent = Vec::with_capacity(keys.len());
        let mut present = Vec::with_capacity(keys.len());
        for &key in &keys {
            let store = &mut self.parts[self.map.partition_of(key.key)].store;
            let entry = store.lend(key);
            present.push(entry.is_some());
            lent.extend(entry.map(|entry| (key.db, entry)));
        }
        let mut table = Store::of_loans(self.parts[lowest].store.now_ms(), lent);
        if script::is_script(spec) {
            self.script(each, &Call { spec, db, args, seed }, &mut table, reply);
        } else {
            table.execute(db, spec, args, seed, reply);
        }
        for (key, was_there) in keys.into_iter().zip(present) {
            let store = &mut self.parts[self.map.partition_of(key.key)].store;
            store.take_back(key, was_there, &mut table);
        }
        self.parts[lowest].store.published_mut().append(table.published_mut());
        assert!(table.is_empty(), "U2: a command touches the keys that it names");
    }
}

impl Together<'_> {
    /// Executes a script whose keys are on `table`. A script that one of its partitions knows by
    /// its hash is found, and afterwards all of them know it.
    fn script(&mut self, each: Partitions, call: &Call<'_>, table: &mut Store, reply: &mut Reply) {
        let known = script::known_text(call, |sha| {
            each.iter().find_map(|at| self.parts[at].store.scripts().get(sha))
        });
        if let Some(text) = known {
            table.scripts_mut().evaluate(script::sha_of(&text), text);
        }
        table.refuse_growth(each.iter().any(|at| self.parts[at].store.is_over_memory()));
        script::eval_within(table, call, true, reply);
        table.refuse_growth(false);
        for (sha, script) in table.scripts().all() {
            for at in each.iter() {
                self.parts[at].store.scripts_mut().evaluate(*sha, script.text.into());
            }
        }
    }
}

/// One partition of those of a map.
pub(super) struct Own {
    pub(super) map: Map,
    pub(super) at: usize,
}

impl Own {
    /// Executes a command that concerns only this partition, in its `store`.
    pub(super) fn execute(
        &self,
        store: &mut Store,
        db: Db,
        spec: &'static CommandSpec,
        args: &Args<'_>,
        seed: u64,
        reply: &mut Reply,
    ) {
        let call = Call { spec, db, args, seed };
        if script::is_script(spec) {
            script::eval_within(store, &call, true, reply);
        } else if spec.is_write() {
            store.execute(db, spec, args, seed, reply);
        } else {
            self.query(store, store.now_ms(), &call, reply);
        }
    }

    /// The same of a command that only reads, at a time from the store's on.
    pub(super) fn query(&self, store: &Store, unix_ms: u64, call: &Call<'_>, reply: &mut Reply) {
        if call.spec.name != "scan" {
            return store.query_at(unix_ms, call, reply);
        }
        let cursor = scan::own_cursor(call.args[1], self.at);
        let mut args: Args<'_> = call.args.into();
        args[1] = &cursor;
        let own = Call { args: &args, ..*call };
        let (answer, steps) = reply.of_part(|reply| store.query_at(unix_ms, &own, reply));
        reply.take_steps(steps);
        scan::put_answer(&answer, self.at, self.map.n, reply);
    }
}
