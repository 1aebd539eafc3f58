//! The properties of atomic multicast (paper 004, sections 2.2.1 and 5.2.2), one file each.

mod agreement;
mod bounded;
mod genuineness;
mod integrity;
mod prefix_order;
mod realtime;
mod relation;
mod rest;
mod snapshots;
mod timestamps;
mod total_order;
mod validity;

use super::history::History;
use std::fmt;

/// A property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Property {
    /// Every living process delivers the messages of a living sender.
    Validity,
    /// A message is delivered once, at its destinations, and only if it was multicast.
    Integrity,
    /// If any process delivered a message, every living destination delivers it.
    Agreement,
    /// The union of all delivery orders has no cycle.
    TotalOrder,
    /// Of two processes one's order of common messages begins with the other's.
    PrefixOrder,
    /// A process that is not addressed takes no step.
    Genuineness,
    /// Delivery orders and real time together have no cycle.
    AtomicGlobalOrder,
    /// Final timestamps are agreed on, rise, and are above the sender's bound.
    Timestamps,
    /// A snapshot at a timestamp has exactly the messages up to it.
    Snapshots,
    /// A message that was delivered everywhere is forgotten.
    Bounded,
    /// A world without work makes no steps.
    Rest,
    /// The machine's own assertions.
    Panic,
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Property::Validity => "validity",
            Property::Integrity => "integrity",
            Property::Agreement => "uniform agreement",
            Property::TotalOrder => "global total order",
            Property::PrefixOrder => "uniform prefix order",
            Property::Genuineness => "genuineness",
            Property::AtomicGlobalOrder => "atomic global order",
            Property::Timestamps => "timestamps",
            Property::Snapshots => "snapshots",
            Property::Bounded => "bounded memory",
            Property::Rest => "rest",
            Property::Panic => "an assertion of the machine",
        })
    }
}

/// A property that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The property.
    pub property: Property,
    /// The event.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.property, self.detail)
    }
}

/// The promises of a run beyond the common properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promised {
    /// Only destinations take part.
    pub genuine: bool,
    /// The order respects real time.
    pub realtime: bool,
}

/// Checks every promised property, cheapest and most telling first.
///
/// # Errors
/// The first that does not hold.
pub fn judge(history: &History, promised: Promised) -> Result<(), Violation> {
    let fail = |property| move |detail| Violation { property, detail };
    integrity::check(history).map_err(fail(Property::Integrity))?;
    prefix_order::check(history).map_err(fail(Property::PrefixOrder))?;
    total_order::check(history).map_err(fail(Property::TotalOrder))?;
    timestamps::check(history).map_err(fail(Property::Timestamps))?;
    snapshots::check(history).map_err(fail(Property::Snapshots))?;
    if promised.realtime {
        realtime::check(history).map_err(fail(Property::AtomicGlobalOrder))?;
    }
    if promised.genuine {
        genuineness::check(history).map_err(fail(Property::Genuineness))?;
    }
    agreement::check(history).map_err(fail(Property::Agreement))?;
    validity::check(history).map_err(fail(Property::Validity))?;
    bounded::check(history).map_err(fail(Property::Bounded))?;
    rest::check(history).map_err(fail(Property::Rest))
}

/// Checks atomic global order alone: for protocols that do not promise it.
///
/// # Errors
/// The cycle.
pub fn judge_realtime(history: &History) -> Result<(), Violation> {
    realtime::check(history)
        .map_err(|detail| Violation { property: Property::AtomicGlobalOrder, detail })
}
