//! In which registers the values of a program lie, and in what order they are computed.

use super::instruction_list::{InstructionList, Key};
use super::plan::{Level, Register};
use crate::kernel::ValueId;
use std::collections::{HashMap, HashSet};

/// A step with its registers; those it uses are in the order of the instruction's operands.
#[derive(Clone, Debug)]
pub struct Placed {
    pub key: Key,
    pub level: Level,
    pub target: Register,
    pub uses: Vec<Register>,
}

/// A reduction with the registers it reads and writes.
#[derive(Clone, Copy, Debug)]
pub struct PlacedReduce {
    pub value: ValueId,
    pub source: Register,
    pub target: Register,
}

/// See [`super::plan::Stage`].
#[derive(Clone, Debug)]
pub struct PlacedStage {
    pub elements: Vec<Placed>,
    pub reduces: Vec<PlacedReduce>,
    pub rows: Vec<Placed>,
}

/// See [`super::plan::Body`].
#[derive(Clone, Debug)]
pub enum PlacedBody {
    Whole(Vec<Placed>),
    Staged { first: Vec<Placed>, stages: Vec<PlacedStage>, last: Vec<Placed> },
}

/// All steps of a kernel with their registers; see [`super::plan::LoopPlan`].
#[derive(Clone, Debug)]
pub struct Assigned {
    pub uniform: Vec<Placed>,
    pub uniforms: Vec<Register>,
    pub shared: Vec<Register>,
    pub body: PlacedBody,
    pub registers: usize,
}

/// Gives all steps their places. `whole` says that a block has all columns of its rows.
pub fn assign(list: &InstructionList<'_>, whole: bool) -> Assigned {
    let mut registers = Registers { list, held: HashMap::new(), next: 0, most: 0 };
    let uniform = registers.keep(&list.at(|_, level| level == Level::Uniform));
    let uniforms = uniform.iter().map(|p| p.target).collect();
    if whole {
        let steps = registers.reuse(&list.at(|_, level| level > Level::Uniform), &[]).0;
        let body = PlacedBody::Whole(steps);
        let registers = registers.most;
        return Assigned { uniform, uniforms, shared: Vec::new(), body, registers };
    }
    let last_stage = list.stages();
    let mut rows: Vec<Vec<Placed>> = Vec::new();
    let mut reduces: Vec<Vec<ValueId>> = Vec::new();
    for stage in 0..=last_stage {
        let keys = list.at(|key, level| level == Level::Row && list.stage(key) == stage);
        let (made, listed): (Vec<Key>, Vec<Key>) = keys.iter().partition(|&&k| list.is_reduce(k));
        registers.reserve(&made);
        rows.push(registers.keep(&listed));
        let value = |key: Key| if let Key::Value(v) = key { Some(v) } else { None };
        reduces.push(made.into_iter().filter_map(value).collect());
    }
    let expanded = list.needed().iter().filter_map(|key| match key {
        Key::Expanded(v) => registers.held.get(&Key::Value(*v)).copied(),
        _ => None,
    });
    let shared = expanded.collect();
    let mut rows = rows.into_iter();
    let first = rows.next().unwrap_or_default();
    let stages = rows.zip(reduces.iter().skip(1));
    let stages = stages.map(|(rows, reduces)| registers.stage(reduces, rows)).collect();
    let stores = list.at(|key, level| level == Level::Element && matches!(key, Key::Store(_)));
    let last = list.close(stores, |key| list.level(key) == Level::Element);
    let last = registers.reuse(&last, &[]).0;
    let body = PlacedBody::Staged { first, stages, last };
    Assigned { uniform, uniforms, shared, body, registers: registers.most }
}

/// Hands out registers.
struct Registers<'a> {
    list: &'a InstructionList<'a>,
    /// Those that keep their value.
    held: HashMap<Key, Register>,
    /// The first that is not held.
    next: Register,
    /// The number that is enough.
    most: usize,
}

impl Registers<'_> {
    /// Registers of their own for `keys`.
    fn reserve(&mut self, keys: &[Key]) {
        for &key in keys {
            self.held.insert(key, self.next);
            self.next += 1;
        }
        self.most = self.most.max(self.next);
    }

    /// Steps whose values stay.
    fn keep(&mut self, keys: &[Key]) -> Vec<Placed> {
        self.reserve(keys);
        let register = |key: &Key| self.held[key];
        let placed = keys.iter().map(|&key| Placed {
            key,
            level: self.list.level(key),
            target: register(&key),
            uses: self.list.uses(key).iter().map(register).collect(),
        });
        placed.collect()
    }

    /// Steps whose registers are used again after a value's last use; `results` stay to the end of the list, and
    /// their registers are the second result.
    fn reuse(&mut self, keys: &[Key], results: &[Key]) -> (Vec<Placed>, Vec<Register>) {
        let mut last: HashMap<Key, usize> = HashMap::new();
        for (at, &key) in keys.iter().enumerate() {
            last.insert(key, at);
            for used in self.list.uses(key) {
                last.insert(used, at);
            }
        }
        for &key in results {
            last.insert(key, keys.len());
        }
        let mut mine: HashMap<Key, Register> = HashMap::new();
        let (mut free, mut next) = (Vec::new(), self.next);
        let mut placed = Vec::with_capacity(keys.len());
        for (at, &key) in keys.iter().enumerate() {
            let target = free.pop().unwrap_or_else(|| {
                next += 1;
                next - 1
            });
            mine.insert(key, target);
            let uses = self.list.uses(key);
            let register = |key: &Key| mine.get(key).copied().unwrap_or_else(|| self.held[key]);
            let level = self.list.level(key);
            placed.push(Placed { key, level, target, uses: uses.iter().map(register).collect() });
            let done: HashSet<Key> = uses.into_iter().chain([key]).collect();
            let done = done.into_iter().filter(|key| last.get(key) == Some(&at));
            let mut done: Vec<Register> = done.filter_map(|key| mine.get(&key).copied()).collect();
            done.sort_unstable();
            free.extend(done);
        }
        self.most = self.most.max(next);
        let register = |key: &Key| mine.get(key).copied().unwrap_or_else(|| self.held[key]);
        let results = results.iter().map(register).collect();
        (placed, results)
    }

    fn stage(&mut self, reduces: &[ValueId], rows: Vec<Placed>) -> PlacedStage {
        let list = self.list;
        let sources: Vec<Key> = reduces.iter().flat_map(|&v| list.uses(Key::Value(v))).collect();
        let elements = |key: Key| list.level(key) == Level::Element;
        let roots = sources.iter().copied().filter(|&key| elements(key)).collect();
        let needed = list.close(roots, elements);
        let (elements, registers) = self.reuse(&needed, &sources);
        let reduces = reduces.iter().zip(registers).map(|(&value, source)| PlacedReduce {
            value,
            source,
            target: self.held[&Key::Value(value)],
        });
        PlacedStage { elements, reduces: reduces.collect(), rows }
    }
}
