//! The `gregale` command.
fn main() {}
