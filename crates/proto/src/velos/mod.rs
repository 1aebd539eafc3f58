//! Velos: one-sided Paxos (paper 001).

pub mod variant;
pub mod word;
