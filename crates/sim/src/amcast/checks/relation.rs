//! A relation between things, and a cycle in it.

use std::collections::BTreeMap;

/// Edges between things.
pub(super) struct Relation<T> {
    names: Vec<T>,
    index: BTreeMap<T, usize>,
    next: Vec<Vec<usize>>,
}

impl<T: Copy + Ord> Relation<T> {
    pub(super) fn new() -> Relation<T> {
        Relation { names: Vec::new(), index: BTreeMap::new(), next: Vec::new() }
    }

    fn node(&mut self, name: T) -> usize {
        *self.index.entry(name).or_insert_with(|| {
            self.names.push(name);
            self.next.push(Vec::new());
            self.names.len() - 1
        })
    }

    pub(super) fn relate(&mut self, before: T, after: T) {
        let (before, after) = (self.node(before), self.node(after));
        self.next[before].push(after);
    }

    /// Some cycle, in order.
    pub(super) fn cycle(&self) -> Option<Vec<T>> {
        #[derive(Clone, Copy, PartialEq)]
        enum Colour {
            Unseen,
            OnPath,
            Done,
        }
        let mut colours = vec![Colour::Unseen; self.names.len()];
        // The stack is explicit: histories are long and chains are too.
        let mut path: Vec<(usize, usize)> = Vec::new();
        for root in 0..self.names.len() {
            if colours[root] != Colour::Unseen {
                continue;
            }
            colours[root] = Colour::OnPath;
            path.push((root, 0));
            while let Some((node, at)) = path.last_mut() {
                let Some(&next) = self.next[*node].get(*at) else {
                    colours[*node] = Colour::Done;
                    path.pop();
                    continue;
                };
                *at += 1;
                match colours[next] {
                    Colour::Done => {}
                    Colour::Unseen => {
                        colours[next] = Colour::OnPath;
                        path.push((next, 0));
                    }
                    Colour::OnPath => {
                        let from = path.iter().position(|(node, _)| *node == next);
                        let cycle = &path[from.unwrap_or(0)..];
                        return Some(cycle.iter().map(|(node, _)| self.names[*node]).collect());
                    }
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_is_found_and_a_diamond_is_none() {
        let mut relation = Relation::new();
        for (before, after) in [(1, 2), (1, 3), (2, 4), (3, 4), (4, 5)] {
            relation.relate(before, after);
        }
        assert_eq!(relation.cycle(), None);
        relation.relate(5, 3);
        assert_eq!(relation.cycle(), Some(vec![4, 5, 3]));
    }
}
