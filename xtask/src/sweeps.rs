//! The kinds of simulations, from `xtask/sweeps.toml`.

use anyhow::{Context, Result};
use serde::Deserialize;

/// One kind: see the head of the file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sweep {
    pub(crate) protocol: String,
    pub(crate) seeds: u64,
    #[serde(default)]
    pub(crate) hunts: bool,
    #[serde(default)]
    pub(crate) covers: bool,
    #[serde(default)]
    pub(crate) days: u64,
    #[serde(default)]
    pub(crate) by_itself: bool,
    pub(crate) turns: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    sweep: Vec<Sweep>,
}

/// Every kind, in the order of the file.
///
/// # Errors
/// The file is damaged.
pub(crate) fn all() -> Result<Vec<Sweep>> {
    let table: Table =
        toml::from_str(include_str!("../sweeps.toml")).context("xtask/sweeps.toml is damaged")?;
    Ok(table.sweep)
}

/// A kind's turn among fresh seeds: the protocol, and the words of [`Sweep::turns`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) protocol: String,
    /// Behind each other, with commas; none for the protocol as it is.
    pub(crate) words: Option<String>,
}

/// Every turn of every kind.
///
/// # Errors
/// See [`all`].
pub(crate) fn turns() -> Result<Vec<Turn>> {
    let of = |sweep: Sweep| {
        let Sweep { protocol, turns, .. } = sweep;
        turns.into_iter().map(move |words| Turn {
            protocol: protocol.clone(),
            words: (words != "-").then_some(words),
        })
    };
    Ok(all()?.into_iter().flat_map(of).collect())
}
