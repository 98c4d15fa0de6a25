//! Which values of a program are computed where, in what order, and in which registers.

use super::function::{binary_cost, unary_cost};
use super::plan::{Level, Register};
use super::superinstruction::{pairs, Superinstruction};
use crate::kernel::{Atom, Index, Inst, Program, Space, ValueId};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Something a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Key {
    Value(ValueId),
    /// A value per row, at each element.
    Expanded(ValueId),
    /// Where a store writes, if values decide it.
    Position(usize),
    Store(usize),
}

/// A step with its registers; those it uses are in the order of the instruction's operands.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub key: Key,
    pub level: Level,
    pub target: Register,
    pub uses: Vec<Register>,
}

/// A reduction with the registers it reads and writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlacedReduce {
    pub value: ValueId,
    pub source: Register,
    pub target: Register,
}

/// See [`super::plan::Stage`].
#[derive(Clone, Debug)]
pub(super) struct PlacedStage {
    pub elements: Vec<Placed>,
    pub reduces: Vec<PlacedReduce>,
    pub rows: Vec<Placed>,
}

/// See [`super::plan::Body`].
#[derive(Clone, Debug)]
pub(super) enum PlacedBody {
    Whole(Vec<Placed>),
    Staged { first: Vec<Placed>, stages: Vec<PlacedStage>, last: Vec<Placed> },
}

/// All steps of a kernel with their registers; see [`super::plan::LoopPlan`].
#[derive(Clone, Debug)]
pub(super) struct Assigned {
    pub uniform: Vec<Placed>,
    pub uniforms: Vec<Register>,
    pub shared: Vec<Register>,
    pub body: PlacedBody,
    pub registers: usize,
}

/// What is known about a program's values.
pub(super) struct InstructionList<'a> {
    program: &'a Program,
    levels: Vec<Level>,
    stages: Vec<u32>,
    store_levels: Vec<Level>,
    /// Instructions that are done along with one that they use.
    pairs: HashMap<ValueId, Superinstruction>,
    /// All that some store needs, in order.
    needed: Vec<Key>,
}

impl<'a> InstructionList<'a> {
    /// Of a program that is well formed.
    pub fn new(space: &Space, program: &'a Program) -> InstructionList<'a> {
        let per_element = program.per_element(space.outer);
        let mut levels: Vec<Level> = Vec::with_capacity(program.insts.len());
        for (inst, &per_element) in program.insts.iter().zip(&per_element) {
            let varies = match inst {
                Inst::Coord(_) | Inst::Accumulator | Inst::Reduce(..) => true,
                Inst::Load { index, .. } => {
                    index.terms.iter().any(|t| matches!(t.0, Atom::Coord(_)))
                }
                _ => false,
            };
            let varies =
                varies || inst.operands().iter().any(|&v| levels[v as usize] > Level::Uniform);
            levels.push(match (per_element, varies) {
                (true, _) => Level::Element,
                (false, true) => Level::Row,
                (false, false) => Level::Uniform,
            });
        }
        let of_atom = |atom: &Atom| match atom {
            Atom::Coord(d) if *d as usize >= space.outer => Level::Element,
            Atom::Coord(_) => Level::Row,
            Atom::Value(v) => levels[*v as usize],
        };
        let store_levels = program.stores.iter().map(|store| {
            let atoms = store.index.terms.iter().map(|t| of_atom(&t.0));
            atoms.fold(levels[store.value as usize].max(Level::Row), Level::max)
        });
        let store_levels = store_levels.collect();
        let stages = program.stages();
        let pairs = pairs(program, &levels);
        let mut lists =
            InstructionList { program, levels, stages, store_levels, pairs, needed: Vec::new() };
        let stores = (0..program.stores.len()).map(Key::Store).collect();
        lists.needed = lists.close(stores, |_| true);
        lists
    }

    /// Whether anything happens per element.
    pub fn per_element(&self) -> bool {
        self.needed.iter().any(|&key| self.level(key) == Level::Element || self.is_reduce(key))
    }

    /// Whether a store happens per element.
    pub fn stores_elements(&self) -> bool {
        self.store_levels.contains(&Level::Element)
    }

    /// The indices of loads and stores per element.
    pub fn touched(&self) -> Vec<&'a Index> {
        let index = |&key: &Key| match key {
            Key::Value(v) => match &self.program.insts[v as usize] {
                Inst::Load { index, .. } => Some(index),
                _ => None,
            },
            Key::Store(s) => Some(&self.program.stores[s].index),
            Key::Expanded(_) | Key::Position(_) => None,
        };
        let elements = self.needed.iter().filter(|&&key| self.level(key) == Level::Element);
        elements.filter_map(index).collect()
    }

    /// Roughly what an element costs, in additions.
    pub fn cost(&self) -> usize {
        let cost = |&key: &Key| match key {
            Key::Value(v) => match &self.program.insts[v as usize] {
                Inst::Unary(op, _) => unary_cost(*op),
                Inst::Binary(op, ..) => binary_cost(*op),
                _ => 1,
            },
            _ => 1,
        };
        let cost = |key: &Key| match key {
            Key::Value(v) => self.pairs.get(v).map_or_else(|| cost(key), |pair| pair.cost),
            _ => cost(key),
        };
        let varying = self.needed.iter().filter(|&&key| self.level(key) > Level::Uniform);
        varying.map(cost).sum()
    }

    /// What an instruction is done along with.
    pub fn pair(&self, value: ValueId) -> Option<&Superinstruction> {
        self.pairs.get(&value)
    }

    /// Whether some store of `output` alone writes it.
    pub fn sole(&self, output: u32) -> bool {
        self.program.stores.iter().filter(|s| s.output == output).count() == 1
    }

    /// How often a store happens.
    pub fn store_level(&self, store: usize) -> Level {
        self.store_levels[store]
    }

    /// Whether a store's value is made from the routine's result.
    pub fn follows_accumulator(&self, store: usize) -> bool {
        let list = self.close(vec![Key::Store(store)], |_| true);
        let accumulates = |key: &Key| match key {
            Key::Value(v) => self.program.insts[*v as usize] == Inst::Accumulator,
            _ => false,
        };
        list.iter().any(accumulates)
    }

    /// Gives all steps their places. `whole` says that a block has all columns of its rows.
    pub fn assign(&self, whole: bool) -> Assigned {
        let mut registers = Registers { lists: self, held: HashMap::new(), next: 0, most: 0 };
        let uniform = registers.keep(&self.at(|_, level| level == Level::Uniform));
        let uniforms = uniform.iter().map(|p| p.target).collect();
        if whole {
            let list = registers.reuse(&self.at(|_, level| level > Level::Uniform), &[]).0;
            let body = PlacedBody::Whole(list);
            let registers = registers.most;
            return Assigned { uniform, uniforms, shared: Vec::new(), body, registers };
        }
        let last_stage = self.needed.iter().map(|&key| self.stage(key)).max().unwrap_or(0);
        let mut rows: Vec<Vec<Placed>> = Vec::new();
        let mut reduces: Vec<Vec<ValueId>> = Vec::new();
        for stage in 0..=last_stage {
            let keys = self.at(|key, level| level == Level::Row && self.stage(key) == stage);
            let (made, listed): (Vec<Key>, Vec<Key>) =
                keys.iter().partition(|&&k| self.is_reduce(k));
            registers.reserve(&made);
            rows.push(registers.keep(&listed));
            let value = |key: Key| if let Key::Value(v) = key { Some(v) } else { None };
            reduces.push(made.into_iter().filter_map(value).collect());
        }
        let expanded = self.needed.iter().filter_map(|key| match key {
            Key::Expanded(v) => registers.held.get(&Key::Value(*v)).copied(),
            _ => None,
        });
        let shared = expanded.collect();
        let mut rows = rows.into_iter();
        let first = rows.next().unwrap_or_default();
        let stages = rows.zip(reduces.iter().skip(1));
        let stages = stages.map(|(rows, reduces)| registers.stage(reduces, rows)).collect();
        let stores = self.at(|key, level| level == Level::Element && matches!(key, Key::Store(_)));
        let last = self.close(stores, |key| self.level(key) == Level::Element);
        let last = registers.reuse(&last, &[]).0;
        let body = PlacedBody::Staged { first, stages, last };
        Assigned { uniform, uniforms, shared, body, registers: registers.most }
    }

    fn at(&self, keep: impl Fn(Key, Level) -> bool) -> Vec<Key> {
        self.needed.iter().copied().filter(|&key| keep(key, self.level(key))).collect()
    }

    fn level(&self, key: Key) -> Level {
        match key {
            Key::Value(v) => self.levels[v as usize],
            Key::Expanded(_) => Level::Element,
            Key::Position(s) | Key::Store(s) => self.store_levels[s],
        }
    }

    fn is_reduce(&self, key: Key) -> bool {
        match key {
            Key::Value(v) => matches!(self.program.insts[v as usize], Inst::Reduce(..)),
            _ => false,
        }
    }

    fn stage(&self, key: Key) -> u32 {
        match key {
            Key::Value(v) | Key::Expanded(v) => self.stages[v as usize],
            Key::Position(_) | Key::Store(_) => {
                self.uses(key).into_iter().map(|key| self.stage(key)).max().unwrap_or(0)
            }
        }
    }

    /// What `key` needs, in the order of its operands.
    fn uses(&self, key: Key) -> Vec<Key> {
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

    fn index_values(&self, store: usize) -> impl Iterator<Item = ValueId> + 'a {
        self.program.stores[store].index.terms.iter().filter_map(|(atom, _)| match atom {
            Atom::Value(v) => Some(*v),
            Atom::Coord(_) => None,
        })
    }

    /// `roots` and all they need, as far as `keep` goes, in an order in which each follows what it needs.
    fn close(&self, roots: Vec<Key>, keep: impl Fn(Key) -> bool) -> Vec<Key> {
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

    /// A number that is larger than that of everything `key` needs.
    fn when(&self, key: Key) -> (ValueId, u8, usize) {
        let store = |s: usize| {
            let value = self.program.stores[s].value;
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

/// Hands out registers.
struct Registers<'a> {
    lists: &'a InstructionList<'a>,
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
            level: self.lists.level(key),
            target: register(&key),
            uses: self.lists.uses(key).iter().map(register).collect(),
        });
        placed.collect()
    }

    /// Steps whose registers are used again after a value's last use; `results` stay to the end of the list, and
    /// their registers are the second result.
    fn reuse(&mut self, keys: &[Key], results: &[Key]) -> (Vec<Placed>, Vec<Register>) {
        let mut last: HashMap<Key, usize> = HashMap::new();
        for (at, &key) in keys.iter().enumerate() {
            last.insert(key, at);
            for used in self.lists.uses(key) {
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
            let uses = self.lists.uses(key);
            let register = |key: &Key| mine.get(key).copied().unwrap_or_else(|| self.held[key]);
            let level = self.lists.level(key);
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
        let lists = self.lists;
        let sources: Vec<Key> = reduces.iter().flat_map(|&v| lists.uses(Key::Value(v))).collect();
        let elements = |key: Key| lists.level(key) == Level::Element;
        let roots = sources.iter().copied().filter(|&key| elements(key)).collect();
        let list = lists.close(roots, elements);
        let (elements, registers) = self.reuse(&list, &sources);
        let reduces = reduces.iter().zip(registers).map(|(&value, source)| PlacedReduce {
            value,
            source,
            target: self.held[&Key::Value(value)],
        });
        PlacedStage { elements, reduces: reduces.collect(), rows }
    }
}
