//! The search for an order of one part's operations.
//!
//! Wing and Gong's search with Lowe's memory of visited configurations ("Testing for
//! linearizability", 2017), and four reductions without which a few crashes or fifty clients on one
//! key would make it exponential in practice:
//!
//! - A configuration is (the first unplaced operation in order of answers; those after it that are
//!   placed already; the state; the unknown operations that are placed). All placed ones beyond the
//!   first unplaced were in flight when it was answered, so the description is as short as the
//!   number of clients, whatever the length of the history.
//! - *Observers at once*: an answered operation that changes nothing in any state in which its
//!   answer is right is placed as soon as it fits. Moving it to the front of any successful rest
//!   keeps every other answer and real time.
//! - *Unknown ones last, fewest first*: they never have to be placed, so a configuration is given
//!   up if one that differs only in having used fewer of them was visited.
//! - *Look ahead*: a step that overwrites a value which an unplaced operation still needs, and
//!   which none can make again, is not taken.
//!
//! - I1 The order that is found obeys real time and explains each answer: the caller replays it
//!   with the plain model before it says so (`verdict::replay`).
//! - I2 The result depends on the history and the budget only: no clock, no order of a hash map.
//! - I3 `ahead` is ascending and holds only operations beyond `low`. Asserted where one is made.
//! - I4 Only what cannot succeed is cut: the brute-force twin in the tests agrees.

use crate::compile::{Cell, Compiled, Make, NIL, Unit, ValueId};
use foldhash::fast::FixedState;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::rc::Rc;

/// How much more may be spent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    pub(crate) steps: u64,
    pub(crate) bytes: u64,
}

/// The result of a search.
pub(crate) enum Found {
    /// Indices into the history, in an order that explains them.
    Order(Vec<usize>),
    /// No order explains them.
    Nothing(Stuck),
    /// Not known.
    OutOfSteps,
    /// Not known.
    OutOfBytes,
}

/// How far the best attempts came.
pub(crate) struct Stuck {
    /// Every attempt failed at this operation (by order of answers) or before it.
    pub(crate) at: usize,
    /// What the keys could hold when it was the next that had to be placed.
    pub(crate) states: Vec<Vec<Option<Vec<u8>>>>,
}

const STATES_SHOWN: usize = 6;

/// Operations, as many as clients usually have in flight.
type Ids = SmallVec<[u32; 8]>;

/// A value for each key of the part; that is mostly one.
type State = SmallVec<[ValueId; 2]>;

/// Sets of unknown operations; mostly there is one.
type Sets = SmallVec<[Rc<[u64]>; 1]>;

#[derive(PartialEq, Eq, Hash)]
struct Config {
    low: u32,
    ahead: Ids,
    state: u32,
}

struct Frame {
    config: Rc<Config>,
    used: Rc<[u64]>,
    /// Operations in flight at the answer of `low`, the most promising first.
    candidates: Ids,
    tried: usize,
    /// Length of the trail before the step that led here.
    mark: usize,
}

enum Entered {
    Complete,
    Known,
    New(Frame),
}

/// Whether the search may give up an attempt because of an answer that comes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// For a verdict: much faster.
    Look,
    /// For an explanation: every attempt goes as far as it can.
    Ignore,
}

/// Searches `part`, taking what it spends from `budget`.
pub(crate) fn search(part: Compiled, ahead: Ahead, budget: &mut Budget) -> Found {
    let Some(in_flight) = InFlight::new(&part.done, budget.bytes / 4) else {
        return Found::OutOfBytes;
    };
    Search::new(part, ahead, in_flight).run(budget)
}

/// For each answered operation, those not answered before it that were called before its answer.
struct InFlight {
    starts: Vec<usize>,
    ops: Vec<u32>,
}

impl InFlight {
    fn new(done: &[Unit], bytes_max: u64) -> Option<InFlight> {
        let mut by_call: Vec<u32> = (0..done.len() as u32).collect();
        by_call.sort_by_key(|&n| (done[n as usize].invoke_ns, n));
        let mut calls = by_call.into_iter().peekable();
        let mut active: Vec<u32> = Vec::new();
        let mut flights = InFlight { starts: vec![0], ops: vec![] };
        for (low, unit) in done.iter().enumerate() {
            while let Some(call) =
                calls.next_if(|&n| done[n as usize].invoke_ns <= unit.complete_ns)
            {
                let at = active.partition_point(|&n| n < call);
                active.insert(at, call);
            }
            let passed = active.partition_point(|&n| (n as usize) < low);
            active.drain(..passed);
            flights.ops.extend_from_slice(&active);
            flights.starts.push(flights.ops.len());
            if flights.ops.len() as u64 * 4 > bytes_max {
                return None;
            }
        }
        Some(flights)
    }

    fn at(&self, low: usize) -> &[u32] {
        &self.ops[self.starts[low]..self.starts[low + 1]]
    }
}

/// Unplaced operations around one value of one key.
#[derive(Clone, Copy, Default)]
struct Left {
    needing: u32,
    making: u32,
}

struct Search {
    part: Compiled,
    look_ahead: Ahead,
    in_flight: InFlight,
    states: Vec<State>,
    state_ids: HashMap<State, u32, FixedState>,
    /// Only looked up, never iterated (I2). The lists hold no set that contains another of theirs.
    visited: HashMap<Rc<Config>, Sets, FixedState>,
    visited_bytes: u64,
    /// Placed operations in order: answered ones below `done.len()`, unknown ones after that.
    trail: Vec<u32>,
    /// By key and value: what is unplaced. Only looked up, never iterated (I2).
    left: HashMap<Cell, Left, FixedState>,
    /// By key: unplaced operations that may leave anything.
    wild_left: Vec<u32>,
    deepest: usize,
    deepest_states: Vec<u32>,
}

impl Search {
    fn new(part: Compiled, look_ahead: Ahead, in_flight: InFlight) -> Search {
        let mut search = Search {
            states: vec![],
            state_ids: HashMap::with_hasher(FixedState::default()),
            visited: HashMap::with_hasher(FixedState::default()),
            visited_bytes: 0,
            trail: Vec::with_capacity(part.done.len()),
            left: HashMap::with_hasher(FixedState::default()),
            wild_left: vec![0; part.keys],
            deepest: 0,
            deepest_states: vec![],
            part,
            look_ahead,
            in_flight,
        };
        for id in 0..search.part.done.len() + search.part.maybe.len() {
            search.count(id, true);
        }
        search
    }

    fn run(mut self, budget: &mut Budget) -> Found {
        let initial = State::from_elem(NIL, self.part.keys);
        if self.waits_in_vain() {
            let initial = self.state_id(initial);
            self.deepest_states.push(initial);
            return Found::Nothing(self.stuck());
        }
        let used: Rc<[u64]> = vec![0; self.part.maybe.len().div_ceil(64)].into();
        let initial = self.state_id(initial);
        let mut stack = match self.enter(0, Ids::new(), initial, used, 0) {
            Entered::Complete => return Found::Order(self.order()),
            Entered::Known => return Found::Nothing(self.stuck()),
            Entered::New(frame) => vec![frame],
        };
        while let Some(frame) = stack.last_mut() {
            let Some(id) = self.next_candidate(frame) else {
                let mark = frame.mark;
                stack.pop();
                self.rewind(mark);
                continue;
            };
            if budget.steps == 0 {
                return Found::OutOfSteps;
            }
            budget.steps -= 1;
            if self.bytes() > budget.bytes {
                return Found::OutOfBytes;
            }
            let Some(state) = self.transition(frame.config.state, id) else { continue };
            let mark = self.trail.len();
            self.place(id);
            if self.is_doomed(frame.config.state, state) {
                self.rewind(mark);
                continue;
            }
            let (low, mut ahead) = (frame.config.low as usize, frame.config.ahead.clone());
            let mut used = frame.used.clone();
            if id < self.part.done.len() {
                insert(&mut ahead, id as u32);
            } else {
                let at = id - self.part.done.len();
                let mut more = used.to_vec();
                more[at / 64] |= 1 << (at % 64);
                used = more.into();
            }
            match self.enter(low, ahead, state, used, mark) {
                Entered::Complete => return Found::Order(self.order()),
                Entered::Known => self.rewind(mark),
                Entered::New(frame) => stack.push(frame),
            }
        }
        Found::Nothing(self.stuck())
    }

    /// Places what can be placed without loss, and asks whether the result is new.
    fn enter(
        &mut self,
        mut low: usize,
        mut ahead: Ids,
        state: u32,
        used: Rc<[u64]>,
        mark: usize,
    ) -> Entered {
        let done = self.part.done.len();
        loop {
            while ahead.first() == Some(&(low as u32)) {
                ahead.remove(0);
                low += 1;
            }
            if low == done {
                return Entered::Complete;
            }
            let before = low;
            let flights = self.in_flight.starts[low]..self.in_flight.starts[low + 1];
            for at in flights {
                let id = self.in_flight.ops[at];
                if self.part.done[id as usize].observer
                    && ahead.binary_search(&id).is_err()
                    && self.transition(state, id as usize) == Some(state)
                {
                    self.place(id as usize);
                    insert(&mut ahead, id);
                }
            }
            // Only if the next that must be placed was placed are there new ones in flight.
            if ahead.first() != Some(&(before as u32)) {
                break;
            }
        }
        assert!(ahead.iter().all(|&id| id as usize > low), "I3: {ahead:?} beyond {low}");
        if low > self.deepest {
            self.deepest = low;
            self.deepest_states.clear();
        }
        if low == self.deepest
            && self.deepest_states.len() < STATES_SHOWN
            && !self.deepest_states.contains(&state)
        {
            self.deepest_states.push(state);
        }
        let config = Rc::new(Config { low: low as u32, ahead, state });
        if !self.is_new(&config, &used) {
            return Entered::Known;
        }
        let candidates = self.candidates(&config);
        Entered::New(Frame { config, used, candidates, tried: 0, mark })
    }

    /// Whether no configuration was visited that is this one with fewer unknown operations used.
    fn is_new(&mut self, config: &Rc<Config>, used: &Rc<[u64]>) -> bool {
        if let Some(sets) = self.visited.get_mut(config) {
            let within = |a: &[u64], b: &[u64]| a.iter().zip(b).all(|(a, b)| a & !b == 0);
            if sets.iter().any(|set| within(set, used)) {
                return false;
            }
            sets.retain(|set| !within(used, set));
            sets.push(used.clone());
            self.visited_bytes += 24 + 8 * used.len() as u64;
        } else {
            self.visited_bytes += 128 + 4 * config.ahead.len() as u64 + 8 * used.len() as u64;
            self.visited.insert(config.clone(), Sets::from_buf([used.clone()]));
        }
        true
    }

    /// In order of answers, but those that make what the first one needs come before all.
    fn candidates(&self, config: &Config) -> Ids {
        let done = &self.part.done;
        let state = &self.states[config.state as usize];
        let wanted: SmallVec<[(u32, Make); 1]> = done[config.low as usize]
            .needs
            .iter()
            .filter(|(key, value)| state[*key as usize] != *value)
            .map(|(key, value)| (*key, Make::Value(*value)))
            .collect();
        let mut candidates: Ids = self
            .in_flight
            .at(config.low as usize)
            .iter()
            .copied()
            .filter(|id| config.ahead.binary_search(id).is_err())
            .collect();
        if !wanted.is_empty() {
            let makes_it =
                |id: &u32| done[*id as usize].makes.iter().any(|make| wanted.contains(make));
            candidates.sort_by_key(|id| !makes_it(id));
        }
        candidates
    }

    fn next_candidate(&self, frame: &mut Frame) -> Option<usize> {
        if let Some(id) = frame.candidates.get(frame.tried) {
            frame.tried += 1;
            return Some(*id as usize);
        }
        let done = self.part.done.len();
        let until = self.part.done[frame.config.low as usize].complete_ns;
        let is_used = |at: usize| frame.used[at / 64] & (1 << (at % 64)) != 0;
        loop {
            let at = frame.tried - frame.candidates.len();
            let unit = self.part.maybe.get(at)?;
            if unit.invoke_ns > until {
                return None;
            }
            frame.tried += 1;
            let twin_waits = self.part.twin_before[at].is_some_and(|twin| !is_used(twin as usize));
            if !is_used(at) && !twin_waits {
                return Some(done + at);
            }
        }
    }

    fn unit(&self, id: usize) -> &Unit {
        let done = self.part.done.len();
        if id < done { &self.part.done[id] } else { &self.part.maybe[id - done] }
    }

    /// The state after `id`, or `None` if its answer would have been another one.
    fn transition(&mut self, state: u32, id: usize) -> Option<u32> {
        let done = self.part.done.len();
        let unit = if id < done { &self.part.done[id] } else { &self.part.maybe[id - done] };
        let mut values = self.states[state as usize].clone();
        if !unit.run(&mut values, &mut self.part.values) {
            return None;
        }
        if values == self.states[state as usize] {
            Some(state)
        } else {
            Some(self.state_id(values))
        }
    }

    fn state_id(&mut self, state: State) -> u32 {
        let states = &mut self.states;
        *self.state_ids.entry(state).or_insert_with_key(|state| {
            states.push(state.clone());
            states.len() as u32 - 1
        })
    }

    fn place(&mut self, id: usize) {
        self.trail.push(id as u32);
        self.count(id, false);
    }

    fn rewind(&mut self, mark: usize) {
        while self.trail.len() > mark {
            let Some(id) = self.trail.pop() else { break };
            self.count(id as usize, true);
        }
    }

    /// Keeps the three counts of what is unplaced.
    fn count(&mut self, id: usize, unplaced: bool) {
        let by = |n: &mut u32| *n = if unplaced { *n + 1 } else { *n - 1 };
        let done = self.part.done.len();
        let unit = if id < done { &self.part.done[id] } else { &self.part.maybe[id - done] };
        let left = &mut self.left;
        if id < done {
            unit.needs.iter().for_each(|cell| by(&mut left.entry(*cell).or_default().needing));
        }
        for (key, make) in &unit.makes {
            match make {
                Make::Value(value) => by(&mut left.entry((*key, *value)).or_default().making),
                Make::Anything => by(&mut self.wild_left[*key as usize]),
            }
        }
    }

    /// Whether the step from `old` to `new` removed a value that a later operation needs and no
    /// operation can make again.
    fn is_doomed(&self, old: u32, new: u32) -> bool {
        let (old, new) = (&self.states[old as usize], &self.states[new as usize]);
        (0..self.part.keys)
            .any(|key| old[key] != new[key] && self.is_needed_in_vain((key as u32, old[key])))
    }

    fn is_needed_in_vain(&self, cell: Cell) -> bool {
        self.look_ahead == Ahead::Look
            && self.wild_left[cell.0 as usize] == 0
            && self.left.get(&cell).is_some_and(|left| left.needing > 0 && left.making == 0)
    }

    /// Whether an answer needs a value that is never made: then no order will do.
    fn waits_in_vain(&self) -> bool {
        let mut needs = self.part.done.iter().flat_map(|unit| &unit.needs);
        needs.any(|cell| cell.1 != NIL && self.is_needed_in_vain(*cell))
    }

    fn bytes(&self) -> u64 {
        let states = self.states.len() as u64 * (8 * self.part.keys as u64 + 64);
        let flights = 4 * self.in_flight.ops.len() as u64;
        self.visited_bytes + self.part.values.bytes() + states + flights
    }

    fn order(&self) -> Vec<usize> {
        self.trail.iter().map(|&id| self.unit(id as usize).source).collect()
    }

    fn stuck(&self) -> Stuck {
        let value = |id: &ValueId| self.part.values.get(*id).map(<[u8]>::to_vec);
        let values = |state: &u32| self.states[*state as usize].iter().map(value).collect();
        Stuck { at: self.deepest, states: self.deepest_states.iter().map(values).collect() }
    }
}

/// I3: keeps the order.
fn insert(ahead: &mut Ids, id: u32) {
    let at = ahead.partition_point(|&other| other < id);
    ahead.insert(at, id);
}
