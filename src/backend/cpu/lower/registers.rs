//! Register allocation: the register of each value of a program, and the order of the steps.

use super::instruction_list::{InstructionList, Key};
use super::plan::{Level, Register};
use crate::kernel::ValueId;
use std::collections::HashMap;

/// A step with its registers. `uses` has the order of the instruction's operands.
#[derive(Clone, Debug)]
pub struct AllocatedStep {
    pub key: Key,
    pub level: Level,
    pub target: Register,
    pub uses: Vec<Register>,
}

/// A reduction with the registers it reads and writes.
#[derive(Clone, Debug)]
pub struct PlacedReduce {
    pub value: ValueId,
    /// One register, or two whose products are summed.
    pub sources: Vec<Register>,
    pub target: Register,
}

/// A stage with registers (see [`super::plan::Stage`]).
#[derive(Clone, Debug)]
pub struct PlacedStage {
    pub elements: Vec<AllocatedStep>,
    pub reduces: Vec<PlacedReduce>,
    pub rows: Vec<AllocatedStep>,
}

/// A body with registers (see [`super::plan::Body`]).
#[derive(Clone, Debug)]
pub enum PlacedBody {
    Whole(Vec<AllocatedStep>),
    Staged { first: Vec<AllocatedStep>, stages: Vec<PlacedStage>, last: Vec<AllocatedStep> },
}

/// All steps of a kernel with their registers (see [`super::plan::LoopPlan`]).
#[derive(Clone, Debug)]
pub struct Assigned {
    pub uniform: Vec<AllocatedStep>,
    pub uniforms: Vec<Register>,
    pub shared: Vec<Register>,
    pub body: PlacedBody,
    pub registers: usize,
}

/// Assigns registers to all steps. `whole` is whether a block has all columns of its rows.
pub fn assign(list: &InstructionList<'_>, whole: bool) -> Assigned {
    let mut registers = Registers { list, held: HashMap::new(), next: 0, most: 0 };
    let uniform = registers.keep(&list.at(|_, level| level == Level::Uniform));
    let (body, shared) = match whole {
        true => (registers.whole(), Vec::new()),
        false => registers.staged(),
    };
    let uniforms = uniform.iter().map(|placed| placed.target).collect();
    Assigned { uniform, uniforms, shared, body, registers: registers.most }
}

/// The register allocator.
struct Registers<'a> {
    list: &'a InstructionList<'a>,
    /// The registers that keep their value.
    held: HashMap<Key, Register>,
    /// The first register that is not held.
    next: Register,
    /// The number of registers that are needed.
    most: usize,
}

impl Registers<'_> {
    /// Reserves separate registers for `keys`.
    fn reserve(&mut self, keys: impl Iterator<Item = Key>) {
        for key in keys {
            self.held.insert(key, self.next);
            self.next += 1;
        }
        self.most = self.most.max(self.next);
    }

    /// Returns steps whose values are kept.
    fn keep(&mut self, keys: &[Key]) -> Vec<AllocatedStep> {
        self.reserve(keys.iter().copied());
        let register = |key: &Key| self.held[key];
        let placed = keys.iter().map(|&key| AllocatedStep {
            key,
            level: self.list.level(key),
            target: register(&key),
            uses: self.list.uses(key).iter().map(register).collect(),
        });
        placed.collect()
    }

    /// Allocates one list of all steps, which reuse registers.
    fn whole(&mut self) -> PlacedBody {
        let keys = self.list.at(|_, level| level > Level::Uniform);
        PlacedBody::Whole(self.reuse(&keys, &[]).0)
    }

    /// Allocates a list for each stage, and the registers of values per row that elements use. Values per row are kept for
    /// all stages. Values per element are recomputed in each stage that needs them.
    fn staged(&mut self) -> (PlacedBody, Vec<Register>) {
        let list = self.list;
        let mut rows = Vec::new();
        for stage in 0..=list.last_stage() {
            let reductions = list.reductions(stage);
            self.reserve(reductions.iter().map(|&v| Key::Value(v)));
            rows.push((reductions, self.keep(&list.rows(stage))));
        }
        let held = |v: ValueId| self.held.get(&Key::Value(v)).copied();
        let shared = list.expanded().filter_map(held).collect();
        let mut rows = rows.into_iter();
        // The steps before all reductions.
        let first = rows.next().map_or_else(Vec::new, |(_, rows)| rows);
        let stages = rows.map(|(reductions, rows)| self.stage(&reductions, rows)).collect();
        let of_elements = |key: Key| list.level(key) == Level::Element;
        let stores = list.at(|key, _| of_elements(key) && matches!(key, Key::Store(_)));
        let last = self.reuse(&list.closure(stores, of_elements), &[]).0;
        (PlacedBody::Staged { first, stages, last }, shared)
    }

    /// Allocates a pass over the elements for these reductions, followed by `rows`.
    fn stage(&mut self, reductions: &[ValueId], rows: Vec<AllocatedStep>) -> PlacedStage {
        let list = self.list;
        let of_elements = |key: Key| list.level(key) == Level::Element;
        let sources = reductions.iter().flat_map(|&v| list.uses(Key::Value(v)));
        let sources: Vec<Key> = sources.collect();
        let roots = sources.iter().copied().filter(|&key| of_elements(key)).collect();
        let (elements, registers) = self.reuse(&list.closure(roots, of_elements), &sources);
        let mut registers = registers.into_iter();
        let reduces = reductions.iter().map(|&value| PlacedReduce {
            value,
            sources: registers.by_ref().take(list.uses(Key::Value(value)).len()).collect(),
            target: self.held[&Key::Value(value)],
        });
        PlacedStage { elements, reduces: reduces.collect(), rows }
    }

    /// Allocates steps that reuse registers after a value's last use. `results` are kept until the end of the list, and the
    /// second result has their registers.
    fn reuse(&mut self, keys: &[Key], results: &[Key]) -> (Vec<AllocatedStep>, Vec<Register>) {
        let last = self.last_uses(keys, results);
        let mut mine: HashMap<Key, Register> = HashMap::new();
        let (mut free, mut next) = (Vec::new(), self.next);
        let mut placed = Vec::with_capacity(keys.len());
        for (at, &key) in keys.iter().enumerate() {
            let target = free.pop().unwrap_or_else(|| {
                next += 1;
                next - 1
            });
            mine.insert(key, target);
            let used = self.list.uses(key);
            let uses = used.iter().map(|key| self.register(key, &mine)).collect();
            placed.push(AllocatedStep { key, level: self.list.level(key), target, uses });
            let done = used.iter().chain([&key]).filter(|key| last[*key] == at);
            let mut done: Vec<Register> = done.filter_map(|key| mine.get(key).copied()).collect();
            // An operand that is used twice is freed once.
            done.sort_unstable();
            done.dedup();
            free.extend(done);
        }
        self.most = self.most.max(next);
        let results = results.iter().map(|key| self.register(key, &mine)).collect();
        (placed, results)
    }

    /// Returns the last use of each key in a list. Results are used after the list.
    fn last_uses(&self, keys: &[Key], results: &[Key]) -> HashMap<Key, usize> {
        let mut last = HashMap::new();
        for (at, &key) in keys.iter().enumerate() {
            last.insert(key, at);
            last.extend(self.list.uses(key).into_iter().map(|used| (used, at)));
        }
        last.extend(results.iter().map(|&key| (key, keys.len())));
        last
    }

    /// Returns the register of a key of this list, or of a kept key.
    fn register(&self, key: &Key, mine: &HashMap<Key, Register>) -> Register {
        mine.get(key).copied().unwrap_or_else(|| self.held[key])
    }
}
