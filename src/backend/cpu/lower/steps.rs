//! Conversion of instructions with registers to the steps that a worker runs.

use super::instruction_list::{InstructionList, Key};
use super::plan::{
    Body, Combine, Level, Moves, Register, RoutineOutput, SerialStore, Source, Stage, Step, Target,
    Work,
};
use super::region::Region;
use super::registers::{AllocatedStep, PlacedBody, PlacedStage};
use super::superinstruction::Function;
use super::tiling::{cut, Tiling};
use super::walk::{Order, Walk};
use crate::backend::cpu::math::function;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::{Atom, Counts, Index, Inst, Program, Space, Store, ValueId};
use crate::op::Reduction;
use std::collections::HashMap;

/// The orders in which rows and elements are counted.
pub struct Orders {
    rows: Order,
    elements: Order,
    /// The order of rows without squares.
    plain: Order,
    counts: [usize; 2],
}

impl Orders {
    /// Returns the orders of a region with this tiling.
    pub fn new(space: &Space, region: &Region, tiling: &Tiling) -> Orders {
        let plain = Order::new(&space.dims, 0..space.outer).from(&region.first);
        let rows = match region.squares {
            Some(sides) => plain.clone().squares(sides),
            None => plain.clone(),
        };
        let counts = [tiling.rows, tiling.rows.saturating_mul(tiling.columns)];
        Orders { rows, elements: tiling.elements(space), plain, counts }
    }

    /// Whether consecutive tasks write ascending positions.
    fn ascends(&self, index: &Index, level: Level) -> bool {
        match level {
            Level::Row => Walk::new(index, &self.plain).ascends(),
            _ => self.walk(index, level).ascends(),
        }
    }

    fn walk(&self, index: &Index, level: Level) -> Walk {
        match level {
            Level::Uniform => Walk::strided(index.offset, std::iter::empty()),
            Level::Row => Walk::new(index, &self.rows),
            Level::Element => Walk::new(index, &self.elements),
        }
    }

    fn count(&self, level: Level) -> usize {
        match level {
            Level::Uniform => 1,
            Level::Row => self.counts[0],
            Level::Element => self.counts[1],
        }
    }
}

/// A store's target, its walk in that target, and the target of its positions.
struct StorePlace {
    target: usize,
    walk: Walk,
    positions: Option<usize>,
}

/// The builder of steps.
pub struct Maker<'a> {
    program: &'a Program,
    lists: &'a InstructionList<'a>,
    orders: Orders,
    counts: Counts,
    places: Vec<StorePlace>,
    pub targets: Vec<Target>,
    pub afters: Vec<SerialStore>,
    pub home: Option<RoutineOutput>,
}

impl<'a> Maker<'a> {
    /// Creates the builder for a program over `rows` outer coordinates.
    pub fn new(
        program: &'a Program,
        lists: &'a InstructionList<'a>,
        orders: Orders,
        counts: Counts,
        rows: usize,
    ) -> Maker<'a> {
        let (mut targets, mut afters, mut places) = (Vec::new(), Vec::new(), Vec::new());
        let mut home = None;
        let by_value =
            |store: &Store| store.index.terms.iter().any(|t| matches!(t.0, Atom::Value(_)));
        let divides = |(number, store): (usize, &Store)| {
            !by_value(store) && orders.ascends(&store.index, lists.store_level(number))
        };
        // The target of each output whose stores are all divided between tasks.
        let mut known: HashMap<u32, usize> = HashMap::new();
        for (number, store) in program.stores.iter().enumerate() {
            let level = lists.store_level(number);
            let walk = orders.walk(&store.index, level);
            let dtype = store.dtype;
            let output = store.output as usize;
            let target = targets.len();
            let sole = lists.sole(store.output);
            let mut all = program.stores.iter().enumerate().filter(|s| s.1.output == store.output);
            if all.all(|s| divides(s) && (sole || lists.store_level(s.0) == Level::Row)) {
                let offset = walk.offset_if_contiguous(rows).filter(|_| sole);
                let words = dtype.size() == size_of::<u32>();
                if let (None, Level::Row, true, Some(offset)) = (home, level, words, offset) {
                    let found = RoutineOutput { target, output, offset };
                    home = lists.follows_accumulator(number).then_some(found);
                }
                let target = *known.entry(store.output).or_insert(target);
                if target == targets.len() {
                    let output = Some((output, dtype));
                    targets.push(Target { output, level, walks: Vec::new() });
                }
                targets[target].walks.push(walk.clone());
                places.push(StorePlace { target, walk, positions: None });
                continue;
            }
            let beside = Walk::strided(0, std::iter::once((orders.count(level), 1)));
            let aside = || Target { output: None, level, walks: vec![beside.clone()] };
            targets.push(aside());
            if by_value(store) {
                targets.push(aside());
            }
            let positions = by_value(store).then_some(target + 1);
            afters.push(SerialStore { output, dtype, values: target, positions, walk });
            places.push(StorePlace { target, walk: beside, positions });
        }
        Maker { program, lists, orders, counts, places, targets, afters, home }
    }

    /// Whether tasks of `task` rows write ascending ranges, even into outputs with several stores.
    pub fn is_divided(&self, rows: usize, task: usize) -> bool {
        let mut shared = self.targets.iter().filter(|target| target.walks.len() > 1);
        shared.all(|target| {
            let mut end = i64::MIN;
            cut(rows, task).into_iter().all(|(first, past)| {
                let (first, past) = target.range(first, past);
                std::mem::replace(&mut end, past) <= first
            })
        })
    }

    /// Whether an epilogue leaves the routine's result unchanged.
    pub fn identity(&self) -> bool {
        let inst = |store: &Store| &self.program.insts[store.value as usize];
        match &self.program.stores[..] {
            [store] => self.home.is_some() && *inst(store) == Inst::Accumulator,
            _ => false,
        }
    }

    /// Converts all lists.
    pub fn body(&self, body: PlacedBody) -> Result<Body> {
        Ok(match body {
            PlacedBody::Whole(list) => Body::Whole(self.steps(&list)?),
            PlacedBody::Staged { first, stages, last } => Body::Staged {
                first: self.steps(&first)?,
                stages: stages.iter().map(|stage| self.stage(stage)).collect::<Result<_>>()?,
                last: self.steps(&last)?,
            },
        })
    }

    fn stage(&self, stage: &PlacedStage) -> Result<Stage> {
        let combines = stage.reduces.iter().filter_map(|placed| {
            let Inst::Reduce(op, x) = self.program.insts[placed.value as usize] else {
                return None;
            };
            let (source, target) = (Source::new(&placed.sources), placed.target);
            Some(Combine { op, dtype: self.program.types[x as usize], source, target })
        });
        Ok(Stage {
            elements: self.steps(&stage.elements)?,
            combines: combines.collect(),
            rows: self.steps(&stage.rows)?,
        })
    }

    /// Converts a list.
    pub fn steps(&self, list: &[AllocatedStep]) -> Result<Vec<Step>> {
        let step = |placed: &AllocatedStep| {
            let work = match placed.key {
                Key::Value(v) => self.value(v, placed)?,
                Key::Expanded(_) => Work::Expand(placed.uses[0]),
                Key::Position(s) => {
                    let index = &self.program.stores[s].index;
                    let walk = self.orders.walk(index, placed.level);
                    Work::Position { walk, terms: terms(index, &placed.uses) }
                }
                Key::Store(s) => {
                    let StorePlace { target, walk, .. } = &self.places[s];
                    Work::Store(*target, walk.clone(), placed.uses[0])
                }
            };
            Ok(Step { level: placed.level, target: placed.target, work })
        };
        let mut steps = Vec::with_capacity(list.len());
        for placed in list {
            steps.push(step(placed)?);
            // A position is stored to its temporary buffer as soon as it is known.
            if let Key::Position(s) = placed.key {
                let StorePlace { target, walk, positions } = &self.places[s];
                let to = positions.unwrap_or(*target);
                let work = Work::Store(to, walk.clone(), placed.target);
                steps.push(Step { level: placed.level, target: placed.target, work });
            }
        }
        Ok(steps)
    }

    fn value(&self, value: ValueId, placed: &AllocatedStep) -> Result<Work> {
        let inst = &self.program.insts[value as usize];
        let (uses, level) = (&placed.uses, placed.level);
        if let Some(pair) = self.lists.pair(value) {
            return Ok(match (pair.function, &uses[..]) {
                (Function::Whole(f), &[x]) => Work::Unary(f, x),
                (Function::Ternary(f), &[x, y, z]) => Work::Ternary(f, [x, y, z]),
                (Function::Choice(f), &[x, y, a, b]) => Work::Choice(f, [x, y, a, b]),
                (Function::SumOfProducts, all) => {
                    Work::Reduce(Reduction::Sum, DType::F32, Source::new(all))
                }
                _ => unreachable!("a pair uses as much as its function takes"),
            });
        }
        let dtype = |v: ValueId| self.program.types[v as usize];
        let unknown = || {
            let message = format!("cpu: {inst:?} is not supported for the dtype of its operands");
            Error::new(ErrorKind::Unsupported, message)
        };
        Ok(match inst {
            Inst::Const(constant) => Work::Word(constant.bits),
            Inst::Param { word, .. } => Work::Param(*word as usize),
            Inst::Coord(d) => {
                let index = Index { offset: 0, terms: vec![(Atom::Coord(*d), 1)] };
                Work::Coordinate(self.orders.walk(&index, level))
            }
            Inst::Load { input, index, dtype } => {
                let moves = moves(self.program, index);
                Work::Load {
                    input: *input as usize,
                    walk: self.orders.walk(index, level),
                    dtype: *dtype,
                    terms: if moves.is_some() { Vec::new() } else { terms(index, uses) },
                    moves: moves.unwrap_or_default(),
                }
            }
            Inst::LoadOutput { output, .. } => {
                let (store, _) = self.program.store_to(*output).ok_or_else(unknown)?;
                let StorePlace { target, walk, .. } = &self.places[store];
                Work::LoadOutput(*target, walk.clone())
            }
            Inst::Accumulator => match self.home {
                Some(home) => {
                    let walk = self.targets[home.target].walks[0].clone();
                    Work::LoadOutput(home.target, walk)
                }
                None => Work::Load {
                    input: self.counts.inputs,
                    walk: Walk::strided(0, std::iter::once((self.orders.count(level), 1))),
                    dtype: DType::F32,
                    terms: Vec::new(),
                    moves: Vec::new(),
                },
            },
            Inst::Unary(op, x) => {
                Work::Unary(function::unary(*op, dtype(*x)).ok_or_else(unknown)?, uses[0])
            }
            Inst::Binary(op, x, _) => {
                let f = function::binary(*op, dtype(*x)).ok_or_else(unknown)?;
                Work::Binary(f, uses[0], uses[1])
            }
            Inst::Select(..) => Work::Select(uses[0], uses[1], uses[2]),
            Inst::Cast(to, x) => Work::Unary(function::cast(dtype(*x), *to), uses[0]),
            Inst::Bitcast(..) => Work::Unary(function::bitcast(), uses[0]),
            Inst::Reduce(op, x) => Work::Reduce(*op, dtype(*x), Source::new(uses)),
            Inst::Call(..) => return Err(unknown()),
        })
    }
}

/// Returns the params that move a view, with their strides. Returns `None` if the index has other values.
pub fn moves(program: &Program, index: &Index) -> Option<Moves> {
    let mut moves = Vec::new();
    for &(atom, stride) in &index.terms {
        match atom {
            Atom::Coord(_) => {}
            Atom::Value(v) => match program.insts.get(v as usize)? {
                Inst::Param { word, .. } => moves.push((*word as usize, stride)),
                _ => return None,
            },
        }
    }
    Some(moves)
}

fn terms(index: &Index, registers: &[Register]) -> Vec<(Register, i64)> {
    let by_value = index.terms.iter().filter(|t| matches!(t.0, Atom::Value(_)));
    by_value.zip(registers).map(|(term, &register)| (register, term.1)).collect()
}
