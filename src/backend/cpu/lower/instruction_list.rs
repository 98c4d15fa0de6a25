//! The values of a program that must be computed: how often, and with which operands.

use super::plan::Level;
use super::superinstruction::{pairs, Superinstruction};
use crate::backend::cpu::math::function::{binary_cost, unary_cost};
use crate::kernel::{Atom, Index, Inst, Program, Space, Store, ValueId};
use std::collections::{BTreeMap, HashMap, HashSet};

/// An operation of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    Value(ValueId),
    /// A value per row, repeated for each element.
    Expanded(ValueId),
    /// The position of a store, if values determine it.
    Position(usize),
    Store(usize),
}

/// The analysis of a program's values.
pub struct InstructionList<'a> {
    program: &'a Program,
    levels: Vec<Level>,
    stages: Vec<u32>,
    store_levels: Vec<Level>,
    /// Instructions that are combined with one that they use.
    pairs: HashMap<ValueId, Superinstruction>,
    /// The last value that is read at the position of a store.
    read_before: ValueId,
    /// Everything that stores need, in order.
    needed: Vec<Key>,
}

impl<'a> InstructionList<'a> {
    /// Analyzes a valid program.
    pub fn new(space: &Space, program: &'a Program) -> InstructionList<'a> {
        let levels = levels(program, space.outer);
        let of_store = |store| store_level(store, space.outer, &levels);
        let store_levels = program.stores.iter().map(of_store).collect();
        let pairs = pairs(program, &levels);
        let stages = program.stages();
        let before = |inst: &Inst| matches!(inst, Inst::LoadOutput { .. });
        let read_before = program.insts.iter().rposition(before).unwrap_or(0) as ValueId;
        let needed = Vec::new();
        let mut list =
            InstructionList { program, levels, stages, store_levels, pairs, read_before, needed };
        let stores = (0..program.stores.len()).map(Key::Store).collect();
        list.needed = list.closure(stores, |_| true);
        list
    }

    /// Whether anything is computed per element.
    pub fn per_element(&self) -> bool {
        self.needed.iter().any(|&key| self.level(key) == Level::Element || self.is_reduce(key))
    }

    /// Returns the indices of loads per element.
    pub fn loads(&self) -> Vec<&'a Index> {
        self.elements(|key| match key {
            Key::Value(v) => match &self.program.insts[v as usize] {
                Inst::Load { index, .. } => Some(index),
                _ => None,
            },
            _ => None,
        })
    }

    /// Returns the indices of stores per element.
    pub fn stores(&self) -> Vec<&'a Index> {
        self.elements(|key| match key {
            Key::Store(s) => Some(&self.program.stores[s].index),
            _ => None,
        })
    }

    fn elements(&self, index: impl Fn(Key) -> Option<&'a Index>) -> Vec<&'a Index> {
        let elements = self.needed.iter().filter(|&&key| self.level(key) == Level::Element);
        elements.filter_map(|&key| index(key)).collect()
    }

    /// Returns the approximate cost of an element, in additions.
    pub fn cost(&self) -> usize {
        let cost = |&key: &Key| {
            let Key::Value(v) = key else { return 1 };
            if let Some(pair) = self.pair(v) {
                return pair.cost;
            }
            match &self.program.insts[v as usize] {
                Inst::Unary(op, _) => unary_cost(*op),
                Inst::Binary(op, ..) => binary_cost(*op),
                _ => 1,
            }
        };
        let varying = self.needed.iter().filter(|&&key| self.level(key) > Level::Uniform);
        varying.map(cost).sum()
    }

    /// Returns the superinstruction of a value, if it has one.
    pub fn pair(&self, value: ValueId) -> Option<&Superinstruction> {
        self.pairs.get(&value)
    }

    /// Whether only one store writes `output`.
    pub fn sole(&self, output: u32) -> bool {
        self.program.stores.iter().filter(|s| s.output == output).count() == 1
    }

    /// Returns the level of a store.
    pub fn store_level(&self, store: usize) -> Level {
        self.store_levels[store]
    }

    /// Whether a store's value depends on the routine's result.
    pub fn follows_accumulator(&self, store: usize) -> bool {
        let list = self.closure(vec![Key::Store(store)], |_| true);
        let accumulates = |key: &Key| match key {
            Key::Value(v) => self.program.insts[*v as usize] == Inst::Accumulator,
            _ => false,
        };
        list.iter().any(accumulates)
    }

    /// Returns the number of the last stage.
    pub fn last_stage(&self) -> u32 {
        self.needed.iter().map(|&key| self.stage(key)).max().unwrap_or(0)
    }

    /// Returns the reductions of a stage, in order.
    pub fn reductions(&self, stage: u32) -> Vec<ValueId> {
        let reduction = |&key: &Key| match key {
            Key::Value(v) if self.is_reduce(key) && self.stage(key) == stage => Some(v),
            _ => None,
        };
        self.needed.iter().filter_map(reduction).collect()
    }

    /// Returns the other operations per row of a stage, in order.
    pub fn rows(&self, stage: u32) -> Vec<Key> {
        self.at(|key, level| {
            level == Level::Row && self.stage(key) == stage && !self.is_reduce(key)
        })
    }

    /// Returns the values per row that are needed for each element.
    pub fn expanded(&self) -> impl Iterator<Item = ValueId> + '_ {
        self.needed.iter().filter_map(|key| match key {
            Key::Expanded(v) => Some(*v),
            _ => None,
        })
    }

    /// Returns the needed operations that `keep` selects, in order.
    pub fn at(&self, keep: impl Fn(Key, Level) -> bool) -> Vec<Key> {
        self.needed.iter().copied().filter(|&key| keep(key, self.level(key))).collect()
    }

    /// Returns the level of an operation.
    pub fn level(&self, key: Key) -> Level {
        match key {
            Key::Value(v) => self.levels[v as usize],
            Key::Expanded(_) => Level::Element,
            Key::Position(s) | Key::Store(s) => self.store_levels[s],
        }
    }

    /// Whether the operation is a reduction, which reads elements and is computed per row.
    fn is_reduce(&self, key: Key) -> bool {
        match key {
            Key::Value(v) => matches!(self.program.insts[v as usize], Inst::Reduce(..)),
            _ => false,
        }
    }

    /// Returns the number of reductions that precede the operation in sequence.
    fn stage(&self, key: Key) -> u32 {
        match key {
            Key::Value(v) | Key::Expanded(v) => self.stages[v as usize],
            Key::Position(_) | Key::Store(_) => {
                self.uses(key).into_iter().map(|key| self.stage(key)).max().unwrap_or(0)
            }
        }
    }

    /// Returns the operands of `key`, in order.
    pub fn uses(&self, key: Key) -> Vec<Key> {
        let level = if self.is_reduce(key) { Level::Element } else { self.level(key) };
        let at_level = |v: ValueId| match (level, self.levels[v as usize]) {
            (Level::Element, Level::Row) => Key::Expanded(v),
            _ => Key::Value(v),
        };
        match key {
            Key::Value(v) => {
                let operands = match self.pair(v) {
                    Some(pair) => pair.operands.clone(),
                    None => self.program.insts[v as usize].operands(),
                };
                operands.into_iter().map(at_level).collect()
            }
            Key::Expanded(v) => vec![Key::Value(v)],
            Key::Position(s) => self.index_values(s).map(at_level).collect(),
            Key::Store(s) => {
                let value = at_level(self.program.stores[s].value);
                let position = self.index_values(s).next().map(|_| Key::Position(s));
                std::iter::once(value).chain(position).collect()
            }
        }
    }

    fn index_values(&self, store: usize) -> impl Iterator<Item = ValueId> + 'a + use<'a> {
        self.program.stores[store].index.terms.iter().filter_map(|(atom, _)| match atom {
            Atom::Value(v) => Some(*v),
            Atom::Coord(_) => None,
        })
    }

    /// Returns `roots` and everything they need, limited by `keep`. Operands precede their users.
    pub fn closure(&self, roots: Vec<Key>, keep: impl Fn(Key) -> bool) -> Vec<Key> {
        let mut found: HashSet<Key> = roots.iter().copied().collect();
        let mut open = roots;
        let mut ordered = BTreeMap::new();
        while let Some(key) = open.pop() {
            ordered.insert(self.when(key), key);
            for used in self.uses(key) {
                if keep(used) && found.insert(used) {
                    open.push(used);
                }
            }
        }
        ordered.into_values().collect()
    }

    /// Returns a number that is larger than the number of everything `key` needs. A store follows all reads of the elements
    /// that it overwrites.
    fn when(&self, key: Key) -> (ValueId, u8, usize) {
        let store = |s: usize| {
            let value = self.program.stores[s].value.max(self.read_before);
            self.index_values(s).fold(value, ValueId::max)
        };
        match key {
            Key::Value(v) => (v, 0, 0),
            Key::Expanded(v) => (v, 1, 0),
            Key::Position(s) => (store(s), 2, s),
            Key::Store(s) => (store(s), 3, s),
        }
    }
}

/// Returns the level of each value.
fn levels(program: &Program, outer: usize) -> Vec<Level> {
    let mut levels: Vec<Level> = Vec::with_capacity(program.insts.len());
    for (inst, per_element) in program.insts.iter().zip(program.per_element(outer)) {
        levels.push(match per_element {
            true => Level::Element,
            false if varies(inst, &levels) => Level::Row,
            false => Level::Uniform,
        });
    }
    levels
}

/// Whether an instruction has a different result in each row, given the levels of earlier values.
fn varies(inst: &Inst, before: &[Level]) -> bool {
    let coordinate = |term: &(Atom, i64)| matches!(term.0, Atom::Coord(_));
    match inst {
        Inst::Coord(_) | Inst::LoadOutput { .. } | Inst::Accumulator | Inst::Reduce(..) => true,
        Inst::Load { index, .. } if index.terms.iter().any(coordinate) => true,
        _ => inst.operands().iter().any(|&v| before[v as usize] > Level::Uniform),
    }
}

/// Returns the level of a store. It is the highest level of its value and its position, and at least per row.
fn store_level(store: &Store, outer: usize, levels: &[Level]) -> Level {
    let of_atom = |(atom, _): &(Atom, i64)| match *atom {
        Atom::Coord(d) if d as usize >= outer => Level::Element,
        Atom::Coord(_) => Level::Row,
        Atom::Value(v) => levels[v as usize],
    };
    let value = levels[store.value as usize].max(Level::Row);
    store.index.terms.iter().map(of_atom).fold(value, Level::max)
}
