//! Values that keep their versions: fields of a replicated object (paper 000, section 2.3).
//!
//! ```text
//! first | change, change, ...           | now
//! at a moment each                        what methods see
//! ```
//! - M1 *A version per change.* An ordered call that changes the value makes one version, with the
//!   call's place in the order and its time; one that changes nothing makes none. By construction
//!   of [`Changing`]: its end looks at the value.
//! - M2 *Rising.* The moments of versions rise: calls are executed in their order, and times do not
//!   fall along it (`vsync`, K3). An object that was in another group has the past of that one, of
//!   which nothing is later or earlier here: its past begins again, in [`founding`]. In a value
//!   that a method reads from another group's bytes, `record` notices a past later than its call.
//!   Tested by `m2_an_object_of_another_group_has_a_new_past`,
//!   `m2_a_group_that_is_founded_with_an_object_of_another_has_a_past_of_its_own`.
//! - M3 *As it was.* The value at a moment is what it was when the last call up to there had been
//!   executed. By construction of [`Keep::restore`].

use super::handler;
use super::mark::Marked;
use super::moment::{Moment, Version};
use super::shape;
use crate::time::Time;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

thread_local! {
    static IS_FOUNDING: Cell<bool> = const { Cell::new(false) };
}

/// Runs what reads an object with which a group, or a shard, begins: M2, its values have no past.
pub(super) fn founding<T>(read: impl FnOnce() -> T) -> T {
    let _founding = Marked::new(&IS_FOUNDING);
    read()
}

/// The reason why there is no value of a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum HistoryError {
    /// Versions of that time are not kept any longer.
    #[error("pruned: the oldest version that is kept is {} of {}", oldest.version, oldest.time)]
    Pruned {
        /// The oldest one that is.
        oldest: Moment,
    },
}

/// The most versions that are kept of a value, unless it is told otherwise.
pub const VERSIONS_KEPT: usize = 4096;

// ---- how versions are kept ----

/// A way to keep the versions of a `T`: [`Whole`] or [`Deltas`].
pub trait Keep<T>: Clone + fmt::Debug + 'static {
    /// What is kept of a version.
    type Step: Clone + fmt::Debug + Serialize + DeserializeOwned + Send + Sync + 'static;

    /// What leads to `now`, where `last` led to the version before, or was the first value; `None`
    /// if nothing has changed.
    fn step(first: &T, last: Option<&Self::Step>, now: &mut T) -> Option<Self::Step>;

    /// The value after these steps.
    fn restore<'a>(first: &'a T, steps: impl Iterator<Item = &'a Self::Step>) -> Cow<'a, T>
    where
        T: Clone;
}

/// Each version is kept whole.
#[derive(Clone, Copy, Debug)]
pub struct Whole;

impl<T> Keep<T> for Whole
where
    T: Clone + PartialEq + fmt::Debug + Serialize + DeserializeOwned + Send + Sync + 'static,
{
    type Step = T;

    fn step(first: &T, last: Option<&T>, now: &mut T) -> Option<T> {
        (last.unwrap_or(first) != now).then(|| now.clone())
    }

    fn restore<'a>(first: &'a T, steps: impl Iterator<Item = &'a T>) -> Cow<'a, T> {
        Cow::Borrowed(steps.last().unwrap_or(first))
    }
}

/// Of each version what it changed is kept.
#[derive(Clone, Copy, Debug)]
pub struct Deltas;

/// A value that knows what its methods change: for large ones of which each call changes little.
pub trait Delta {
    /// A change.
    type Change: Clone + fmt::Debug + Serialize + DeserializeOwned + Send + Sync + 'static;

    /// What has changed since this was asked last; `None` if nothing has.
    fn take_change(&mut self) -> Option<Self::Change>;

    /// Makes a change again.
    fn redo(&mut self, change: &Self::Change);
}

impl<T: Delta> Keep<T> for Deltas {
    type Step = T::Change;

    fn step(_: &T, _: Option<&T::Change>, now: &mut T) -> Option<T::Change> {
        now.take_change()
    }

    fn restore<'a>(first: &'a T, steps: impl Iterator<Item = &'a T::Change>) -> Cow<'a, T>
    where
        T: Clone,
    {
        let mut value = first.clone();
        for step in steps {
            value.redo(step);
            // What is done again is no change of this copy's.
            let _known = value.take_change();
        }
        Cow::Owned(value)
    }
}

// ---- a value with its versions ----

/// The versions of a value.
#[derive(Clone, Debug)]
struct History<T, K: Keep<T>> {
    first: T,
    /// The moment of the first value.
    since: Moment,
    /// A call that changes the value several times makes several, of one moment.
    steps: VecDeque<(Moment, K::Step)>,
    /// The number of moments.
    n_versions: usize,
    n_most: usize,
}

impl<T: Clone, K: Keep<T>> History<T, K> {
    fn new(first: T, since: Moment) -> History<T, K> {
        History { first, since, steps: VecDeque::new(), n_versions: 1, n_most: VERSIONS_KEPT }
    }

    fn latest(&self) -> Moment {
        self.steps.back().map_or(self.since, |(moment, _)| *moment)
    }

    /// M1, M2
    fn record(&mut self, now: &mut T, moment: Moment) {
        let last = self.steps.back().map(|(_, step)| step);
        if let Some(step) = K::step(&self.first, last, now) {
            let latest = self.latest();
            if moment.version < latest.version || moment.time < latest.time {
                self.begin_again(moment.time);
            }
            self.n_versions += usize::from(moment != self.latest());
            self.steps.push_back((moment, step));
            if self.n_versions > self.n_most {
                self.forget(self.n_first().max(1));
            }
        }
    }

    /// M2: forgets the past of another group, before a call of this time.
    fn begin_again(&mut self, time: Time) {
        self.forget(self.steps.len());
        self.since = Moment { version: Version::default(), time: self.since.time.min(time) };
    }

    /// The number of steps that led to the version behind the first one.
    fn n_first(&self) -> usize {
        let first = self.steps.iter().map(|(moment, _)| *moment).find(|one| *one != self.since);
        self.steps.partition_point(|(moment, _)| first.is_some_and(|first| *moment <= first))
    }

    /// Forgets the first `n` steps.
    fn forget(&mut self, n: usize) {
        let first = K::restore(&self.first, self.steps.iter().take(n).map(|(_, step)| step));
        self.first = first.into_owned();
        for (moment, _) in self.steps.drain(..n) {
            self.n_versions -= usize::from(moment != self.since);
            self.since = moment;
        }
    }

    /// M3: the value after the steps up to which `holds`.
    fn find(&self, holds: impl Fn(&Moment) -> bool) -> Result<(Moment, Cow<'_, T>), HistoryError> {
        if !holds(&self.since) {
            return Err(HistoryError::Pruned { oldest: self.since });
        }
        let n = self.steps.partition_point(|(moment, _)| holds(moment));
        let moment = n.checked_sub(1).map_or(self.since, |last| self.steps[last].0);
        Ok((moment, K::restore(&self.first, self.steps.iter().take(n).map(|(_, step)| step))))
    }

    fn moments(&self) -> Vec<Moment> {
        let mut moments = vec![self.since];
        moments.extend(self.steps.iter().map(|(moment, _)| *moment));
        moments.dedup();
        moments
    }
}

/// A value that is being changed. When it is dropped, what has changed is a version.
pub struct Changing<'a, T: Clone, K: Keep<T>> {
    now: &'a mut T,
    history: &'a mut History<T, K>,
}

impl<T: Clone, K: Keep<T>> Deref for Changing<'_, T, K> {
    type Target = T;

    fn deref(&self) -> &T {
        self.now
    }
}

impl<T: Clone, K: Keep<T>> DerefMut for Changing<'_, T, K> {
    fn deref_mut(&mut self) -> &mut T {
        self.now
    }
}

impl<T: Clone, K: Keep<T>> Drop for Changing<'_, T, K> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let moment = handler::moment().unwrap_or_else(|| self.history.latest());
            self.history.record(self.now, moment);
        }
    }
}

impl<T: Clone + fmt::Debug, K: Keep<T>> fmt::Debug for Changing<'_, T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.now.fmt(f)
    }
}

macro_rules! versioned {
    ($(#[$docs:meta])* $name:ident) => {
        $(#[$docs])*
        #[derive(Clone, Debug)]
        pub struct $name<T: Clone, K: Keep<T> = Whole> {
            now: T,
            history: History<T, K>,
        }

        impl<T: Clone, K: Keep<T>> $name<T, K> {
            /// A value whose first version this is.
            pub fn new(mut value: T) -> Self {
                // What has changed before is no change of the first version.
                let _known = K::step(&value.clone(), None, &mut value);
                let history = History::new(value.clone(), handler::moment().unwrap_or_default());
                Self { now: value, history }
            }

            /// The same, of which at most so many versions are kept; [`VERSIONS_KEPT`] otherwise.
            #[must_use]
            pub fn keep(mut self, n_versions: usize) -> Self {
                self.history.n_most = n_versions.max(1);
                self
            }

            /// The value, to be changed by an ordered method: a version, if something changes.
            pub fn change(&mut self) -> Changing<'_, T, K> {
                Changing { now: &mut self.now, history: &mut self.history }
            }

            /// The place and the time of the last version.
            pub fn latest(&self) -> Moment {
                self.history.latest()
            }

            /// The places and times of all versions that are kept, the oldest first.
            pub fn moments(&self) -> Vec<Moment> {
                self.history.moments()
            }

            /// The value as it was at a time. Whether calls with that time or earlier ones are
            /// still to come, a `#[temporal]` query knows.
            ///
            /// # Errors
            /// [`HistoryError::Pruned`].
            pub fn at(&self, time: Time) -> Result<Cow<'_, T>, HistoryError> {
                self.history.find(|moment| moment.time <= time).map(|(_, value)| value)
            }

            /// The value as a version left it.
            ///
            /// # Errors
            /// [`HistoryError::Pruned`].
            pub fn at_version(&self, version: Version) -> Result<Cow<'_, T>, HistoryError> {
                self.history.find(|moment| moment.version <= version).map(|(_, value)| value)
            }

            /// The place and the time of the version that the value had at a time.
            ///
            /// # Errors
            /// [`HistoryError::Pruned`].
            pub fn moment_at(&self, time: Time) -> Result<Moment, HistoryError> {
                self.history.find(|moment| moment.time <= time).map(|(moment, _)| moment)
            }

            /// Forgets the versions that are not needed to tell what the value was at `time` or
            /// later. (In an ordered method: all copies forget the same.)
            pub fn prune(&mut self, time: Time) {
                let steps = &self.history.steps;
                let n = steps.partition_point(|(moment, _)| moment.time <= time);
                if n > 0 {
                    self.history.forget(n);
                }
            }
        }

        impl<T: Clone, K: Keep<T>> Deref for $name<T, K> {
            type Target = T;

            fn deref(&self) -> &T {
                &self.now
            }
        }

        impl<T: Clone + Default, K: Keep<T>> Default for $name<T, K> {
            fn default() -> Self {
                Self::new(T::default())
            }
        }
    };
}

versioned! {
    /// A field of a replicated object that keeps its versions, as part of the object's state: a
    /// newcomer is given them, and a durable group has them again after the death of all its
    /// processes.
    ///
    /// Methods see the value by `Deref`; an ordered method changes it by [`Persistent::change`].
    /// The second parameter says whether versions are kept whole or as changes.
    ///
    /// ```
    /// use group::{Persistent, Time};
    ///
    /// let mut stock = Persistent::<u32>::new(5);
    /// *stock.change() += 3;
    /// assert_eq!((*stock, stock.at(Time::now())?.into_owned()), (8, 8));
    /// # Ok::<(), group::HistoryError>(())
    /// ```
    Persistent
}

versioned! {
    /// The same, of which only the last version is part of the object's state: a newcomer, and a
    /// process that comes back, begins with that one. **Copies differ in what they keep**, so no
    /// ordered method may look at earlier versions.
    Volatile
}

/// What is sent, and written to disks, of a persistent value.
#[derive(Serialize, Deserialize)]
#[serde(bound(serialize = "", deserialize = ""))]
struct Kept<T: Serialize + DeserializeOwned, K: Keep<T>> {
    first: T,
    since: Moment,
    steps: VecDeque<(Moment, K::Step)>,
    n_most: u64,
    #[serde(skip)]
    keep: PhantomData<fn() -> K>,
}

impl<T, K: Keep<T>> Serialize for Persistent<T, K>
where
    T: Clone + Serialize + DeserializeOwned,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let History { first, since, steps, n_most, .. } = self.history.clone();
        let n_most = n_most as u64;
        Kept::<T, K> { first, since, steps, n_most, keep: PhantomData }.serialize(serializer)
    }
}

impl<'de, T, K: Keep<T>> Deserialize<'de> for Persistent<T, K>
where
    T: Clone + Serialize + DeserializeOwned,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Kept { first, since, steps, n_most, .. } = Kept::<T, K>::deserialize(deserializer)?;
        let n_most = usize::try_from(n_most).unwrap_or(usize::MAX);
        // What is made up is no change of anything.
        let steps = if shape::is_traced() { VecDeque::new() } else { steps };
        let mut history = History { first, since, steps, n_versions: 1, n_most };
        history.n_versions = history.moments().len();
        if IS_FOUNDING.get() {
            history.forget(history.steps.len());
            history.since = Moment::default();
        }
        let now = K::restore(&history.first, history.steps.iter().map(|(_, step)| step));
        Ok(Persistent { now: now.into_owned(), history })
    }
}

impl<T: Clone + Serialize, K: Keep<T>> Serialize for Volatile<T, K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (&self.now, self.latest(), self.history.n_most as u64).serialize(serializer)
    }
}

impl<'de, T: Clone + Deserialize<'de>, K: Keep<T>> Deserialize<'de> for Volatile<T, K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (now, since, n_most) = <(T, Moment, u64)>::deserialize(deserializer)?;
        let n_most = usize::try_from(n_most).unwrap_or(usize::MAX);
        let since = if IS_FOUNDING.get() { Moment::default() } else { since };
        let history = History { n_most, ..History::new(now.clone(), since) };
        Ok(Volatile { now, history })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::codec::{decode, encode};

    fn moment(n: u64) -> Moment {
        Moment { version: Version { view: 1, sequence: n }, time: Time::from_nanos(10 * n) }
    }

    /// A sum that knows what was added.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Sum {
        total: u64,
        #[serde(skip)]
        added: u64,
    }

    impl Sum {
        fn add(&mut self, n: u64) {
            self.total += n;
            self.added += n;
        }
    }

    impl Delta for Sum {
        type Change = u64;

        fn take_change(&mut self) -> Option<u64> {
            let added = std::mem::take(&mut self.added);
            (added > 0).then_some(added)
        }

        fn redo(&mut self, change: &u64) {
            self.total += change;
        }
    }

    /// Adds numbers at moments; zero changes nothing.
    fn whole(added: &[(u64, u64)]) -> Persistent<u64> {
        let mut value = Persistent::new(0).keep(4);
        for (at, n) in added {
            handler::in_order(moment(*at), || *value.change() += n);
        }
        value
    }

    fn deltas(added: &[(u64, u64)]) -> Persistent<Sum, Deltas> {
        let mut value = Persistent::new(Sum::default()).keep(4);
        for (at, n) in added {
            handler::in_order(moment(*at), || value.change().add(*n));
        }
        value
    }

    const ADDED: [(u64, u64); 4] = [(1, 5), (2, 0), (4, 7), (4, 1)];

    fn at(ns: u64) -> Time {
        Time::from_nanos(ns)
    }

    #[test]
    fn m1_a_call_that_changes_something_makes_one_version() {
        let moments = vec![Moment::default(), moment(1), moment(4)];
        assert_eq!((whole(&ADDED).moments(), *whole(&ADDED)), (moments.clone(), 13));
        assert_eq!((deltas(&ADDED).moments(), deltas(&ADDED).total), (moments, 13));
    }

    #[test]
    fn m3_a_value_is_found_as_it_was_by_time_and_by_version() {
        let (whole, deltas) = (whole(&ADDED), deltas(&ADDED));
        for (ns, expected) in [(0, 0), (9, 0), (10, 5), (39, 5), (40, 13), (99, 13)] {
            assert_eq!(whole.at(at(ns)).map(Cow::into_owned), Ok(expected), "{ns}");
            assert_eq!(deltas.at(at(ns)).map(|sum| sum.total), Ok(expected), "{ns}");
        }
        let version = Version { view: 1, sequence: 3 };
        assert_eq!(whole.at_version(version).map(Cow::into_owned), Ok(5));
        assert_eq!(whole.moment_at(at(39)), Ok(moment(1)));
    }

    #[test]
    fn m1_a_call_that_changes_a_value_several_times_makes_one_version() {
        let mut value = Persistent::new(0).keep(4);
        for at in 1..20 {
            handler::in_order(moment(at), || (0..3).for_each(|_| *value.change() += 1));
        }
        assert_eq!(value.moments(), [16, 17, 18, 19].map(moment), "four are kept");
        assert_eq!(value.at(at(179)).map(Cow::into_owned), Ok(51));
        let there: Persistent<u64> = decode(&encode(&value)).expect("bytes of it");
        let add = |mut value: Persistent<u64>| {
            handler::in_order(moment(20), || *value.change() += 1);
            value.moments()
        };
        assert_eq!(add(there), add(value), "all copies forget the same");
    }

    #[test]
    fn m2_an_object_of_another_group_has_a_new_past() {
        for (sequence, ns) in [(2, 90), (9, 20)] {
            let (mut whole, mut deltas) = (whole(&ADDED), deltas(&ADDED));
            let version = Version { view: 1, sequence };
            let first = Moment { version, time: at(ns) };
            handler::in_order(first, || {
                *whole.change() += 1;
                deltas.change().add(1);
            });
            assert_eq!((*whole, deltas.total), (14, 14));
            assert_eq!((whole.moments()[1..].to_vec(), deltas.moments().len()), (vec![first], 2));
            assert_eq!(whole.at(at(ns)).map(Cow::into_owned), Ok(14));
            let before = Version { view: 1, sequence: 1 };
            assert_eq!(whole.at_version(before).map(Cow::into_owned), Ok(13));
            assert!(deltas.at(at(1)).is_err(), "of the past there nothing is told here");
        }
    }

    #[test]
    fn what_is_pruned_says_so_with_the_oldest() {
        let mut value = whole(&ADDED);
        value.prune(at(10));
        let pruned = Err(HistoryError::Pruned { oldest: moment(1) });
        assert_eq!(value.at(at(9)).map(Cow::into_owned), pruned);
        assert_eq!(value.at(at(10)).map(Cow::into_owned), Ok(5));
        let added: Vec<(u64, u64)> = (1..20).map(|n| (n, 1)).collect();
        for oldest in [whole(&added).moments()[0], deltas(&added).moments()[0]] {
            assert_eq!(oldest, moment(16), "four are kept");
        }
        assert_eq!(deltas(&added).at(at(170)).map(|sum| sum.total), Ok(17));
    }

    #[test]
    fn a_persistent_value_comes_back_with_its_versions_and_a_volatile_one_without() {
        let there: Persistent<u64> = decode(&encode(&whole(&ADDED))).expect("bytes of it");
        assert_eq!((*there, there.moments()), (13, whole(&ADDED).moments()));
        let there: Persistent<Sum, Deltas> = decode(&encode(&deltas(&ADDED))).expect("bytes");
        assert_eq!((there.total, there.moments()), (13, deltas(&ADDED).moments()));
        let mut volatile = Volatile::<u64>::new(0).keep(3);
        for (at, n) in ADDED {
            handler::in_order(moment(at), || *volatile.change() += n);
        }
        assert_eq!(volatile.at(at(10)).map(Cow::into_owned), Ok(5));
        let there: Volatile<u64> = decode(&encode(&volatile)).expect("bytes of it");
        assert_eq!((*there, there.moments()), (13, vec![moment(4)]));
        assert!(there.at(at(10)).is_err());
    }
}
