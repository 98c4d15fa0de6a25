//! Random programs. Each action is tried on the model while the program is generated, so that most of them have an effect.
//!
//! Actions that must fail are included sometimes, because a failed call must change nothing. The last actions read everything.

use super::actions::{
    Action, Binary, Body, Extent, Inner, Slot, Unary, AVERAGES, OPTIMIZERS, PROGRAMS, RATES,
    REFUSALS, SHAPES, STOPPING, TENSORS, VARIABLES,
};
use super::model::{Model, Outcome, Setting};
use super::reference::rules::RULES;

/// Random numbers.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Returns true with a probability of 1 / n.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }
}

const UNARY: [Unary; 27] = [
    Unary::Tanh,
    Unary::Tanh,
    Unary::Square,
    Unary::Square,
    Unary::Relu,
    Unary::Exp,
    Unary::Negate,
    Unary::Halve,
    Unary::Halve,
    Unary::Shift,
    Unary::Sum,
    Unary::Sum,
    Unary::Sum,
    Unary::SumRows,
    Unary::Mean,
    Unary::Transpose,
    Unary::Flatten,
    Unary::FirstRow,
    Unary::LastRow,
    Unary::F16,
    Unary::HalfLine,
    Unary::Dropout,
    Unary::Noise,
    Unary::Detach,
    Unary::Copy,
    Unary::Copy,
    Unary::Shader,
];

const BINARY: [Binary; 9] = [
    Binary::Add,
    Binary::Add,
    Binary::Sub,
    Binary::Mul,
    Binary::Mul,
    Binary::Mul,
    Binary::Matmul,
    Binary::Concat,
    Binary::Element,
];

/// A program that is being generated.
struct Maker {
    random: Random,
    /// Whether there may be a trainer.
    trains: bool,
    /// Whether several ranks perform the program. Then it trains more.
    is_shared: bool,
    model: Model,
    program: Vec<Action>,
}

/// Returns the program of a seed.
pub fn program(seed: u64, setting: Setting) -> Vec<Action> {
    let mut random = Random::new(seed);
    let most = if random.one_in(4) { 90 } else { 40 };
    let length = 8 + random.below(most);
    let is_shared = setting.others > 0;
    let trains = random.one_in(3) || is_shared;
    let model = Model::new(setting);
    let mut maker = Maker { random, trains, is_shared, model, program: Vec::new() };
    for slot in 0..3 {
        let (shape, seed) = (maker.random.below(SHAPES.len()), maker.random.below(50));
        maker.take(Action::Data { to: slot, shape, seed });
    }
    for v in 0..1 + maker.random.below(3) {
        let from = maker.random.below(3);
        maker.take(Action::Variable { v, from });
    }
    while maker.program.len() < length {
        let action = maker.action();
        maker.take(action);
    }
    maker.read_all();
    maker.program
}

impl Maker {
    /// Adds an action to the program if it has an effect.
    fn take(&mut self, action: Action) {
        let mut next = self.model.clone();
        let plan = next.apply(&action);
        match plan.outcome {
            Outcome::Skip => return,
            Outcome::Fails(names) => {
                let rare = if names.is_empty() { 12 } else { 3 };
                let asked = matches!(action, Action::Refused { .. });
                if !asked && !self.random.one_in(rare) {
                    return;
                }
            }
            _ => self.model = next,
        }
        self.program.push(action);
    }

    fn read_all(&mut self) {
        let [tensors, variables, optimizers, ..] = self.model.filled();
        for t in tensors {
            self.take(Action::Read { t });
        }
        for v in variables {
            self.take(Action::Value { v, to: 0 });
            self.take(Action::Read { t: 0 });
            self.take(Action::Gradient { v, to: 0, take: false });
            self.take(Action::Read { t: 0 });
        }
        for o in optimizers {
            self.take(Action::SaveState { o });
        }
        self.take(Action::ReadFlat);
    }

    /// Returns a slot, mostly a filled one.
    fn filled(&mut self, kind: usize, count: usize) -> Slot {
        let filled = &self.model.filled()[kind];
        match filled.is_empty() || self.random.one_in(40) {
            true => self.random.below(count),
            false => self.random.of(filled),
        }
    }

    fn t(&mut self) -> Slot {
        self.filled(0, TENSORS)
    }

    fn v(&mut self) -> Slot {
        self.filled(1, VARIABLES)
    }

    fn o(&mut self) -> Slot {
        self.filled(2, OPTIMIZERS)
    }

    /// Returns a slot for a result, mostly an empty one.
    fn to(&mut self) -> Slot {
        let filled = self.model.filled();
        let empty: Vec<Slot> = (0..TENSORS).filter(|slot| !filled[0].contains(slot)).collect();
        match empty.is_empty() || self.random.one_in(4) {
            true => self.random.below(TENSORS),
            false => self.random.of(&empty),
        }
    }

    /// Returns distinct variables.
    fn vs(&mut self) -> Vec<Slot> {
        let mut all: Vec<Slot> = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            let v = self.v();
            if !all.contains(&v) || self.random.one_in(30) {
                all.push(v);
            }
        }
        all
    }

    /// Returns a tensor, mostly one that `fits` if there is one.
    fn like(&mut self, fits: impl Fn(&Model, Slot) -> bool) -> Slot {
        let all: Vec<Slot> =
            self.model.filled()[0].iter().copied().filter(|&t| fits(&self.model, t)).collect();
        match all.is_empty() || self.random.one_in(8) {
            true => self.t(),
            false => self.random.of(&all),
        }
    }

    fn action(&mut self) -> Action {
        if self.is_shared && self.random.one_in(3) {
            return self.trainer();
        }
        match self.random.below(100) {
            0..28 => self.operation(),
            28..42 => self.reading(),
            42..58 => self.variable(),
            58..70 => self.gradient(),
            70..84 => self.optimizer(),
            84..92 => self.program(),
            92..96 if self.trains => self.trainer(),
            92..96 => self.operation(),
            _ => self.special(),
        }
    }

    fn trainer(&mut self) -> Action {
        let rule = self.random.below(RULES.len());
        match self.random.below(if self.model.has_trainer() { 16 } else { 1 }) {
            0 => Action::Trainer {
                rule,
                scaled: self.random.one_in(4),
                stopping: self.random.below(STOPPING.len()),
            },
            1..5 => Action::NextStep,
            // Reaches the end of an epoch.
            14..16 => Action::Replay { steps: 3 + self.random.below(6) },
            5..7 => Action::OwnStep { seed: self.random.below(50) },
            7 => Action::Evaluate,
            8..10 => Action::Save,
            10..12 => Action::Load,
            12 => Action::Starved(Box::new(Action::NextStep)),
            _ => Action::Replay { steps: 1 + self.random.below(3) },
        }
    }

    fn operation(&mut self) -> Action {
        match self.random.below(12) {
            0 => Action::Data {
                to: self.to(),
                shape: self.random.below(SHAPES.len()),
                seed: self.random.below(50),
            },
            1..6 => Action::Unary { op: self.random.of(&UNARY), a: self.t(), to: self.to() },
            6..10 => Action::Binary {
                op: self.random.of(&BINARY),
                a: self.t(),
                b: self.t(),
                to: self.to(),
            },
            10 => {
                let (condition, a, b) = (self.t(), self.t(), self.t());
                Action::Where { condition, a, b, to: self.to() }
            }
            _ => Action::Checkpoint { a: self.t(), body: self.body(1, 1), to: self.to() },
        }
    }

    fn reading(&mut self) -> Action {
        match self.random.below(12) {
            0..3 => Action::Read { t: self.t() },
            3 => Action::ReadPart {
                t: self.t(),
                start: self.random.below(9),
                len: self.random.below(9),
            },
            4 => match self.random.below(3) {
                0 => Action::Run { t: self.t() },
                1 => Action::RunBatch { a: self.t(), b: self.t() },
                _ => Action::ReadTogether { a: self.t(), b: self.t() },
            },
            5..7 => Action::Flush,
            7..11 => Action::Drop { t: self.t() },
            _ => Action::Eager { on: self.random.one_in(2) },
        }
    }

    /// Returns a tensor of the shape of a variable.
    fn value_for(&mut self, v: Slot) -> Slot {
        self.like(|model, t| match (model.tensor(t), model.value(v)) {
            (Ok(t), Ok(v)) => t.shape() == v.shape(),
            _ => false,
        })
    }

    fn variable(&mut self) -> Action {
        let v = self.v();
        match self.random.below(20) {
            0..2 => Action::Variable { v: self.random.below(VARIABLES), from: self.t() },
            2..9 => Action::Value { v, to: self.to() },
            9..14 => Action::Assign { v, from: self.value_for(v) },
            14..16 => {
                let from = self.like(|model, t| match (model.tensor(t), model.value(v)) {
                    (Ok(t), Ok(v)) => t.shape().len() == v.shape().len(),
                    _ => false,
                });
                Action::AssignSlice { v, start: self.random.below(2), from }
            }
            16..18 => Action::Swap { v, w: self.v() },
            18 if self.random.one_in(2) => Action::DropVariable { v },
            18 => Action::Flatten { variables: self.vs() },
            _ if self.random.one_in(2) => Action::ReadFlat,
            _ => Action::AssignFlat { from: self.t() },
        }
    }

    /// Returns a tensor that depends on the current value of one of these variables.
    fn loss_of(&mut self, variables: &[Slot]) -> Slot {
        self.like(|model, t| variables.iter().any(|&v| model.depends_on_variable(t, v)))
    }

    fn gradient(&mut self) -> Action {
        match self.random.below(10) {
            0..3 => {
                let of = self.t();
                let wrt = (0..1 + self.random.below(2))
                    .map(|_| self.like(|model, t| model.depends(of, t)))
                    .collect();
                Action::Grad { of, wrt, to: self.to() }
            }
            3..5 => {
                let v = self.v();
                Action::GradByVariable { of: self.loss_of(&[v]), v, to: self.to() }
            }
            5 => {
                let of = self.t();
                let seed = self.like(|model, t| match (model.tensor(t), model.tensor(of)) {
                    (Ok(a), Ok(b)) => a.shape() == b.shape(),
                    _ => false,
                });
                let wrt = self.like(|model, t| model.depends(of, t));
                Action::Vjp { of, seed, wrt, to: self.to() }
            }
            6..9 => {
                let variables = self.vs();
                Action::Backward { of: self.loss_of(&variables), variables }
            }
            _ => Action::Gradient { v: self.v(), to: self.to(), take: self.random.one_in(2) },
        }
    }

    fn optimizer(&mut self) -> Action {
        let o = self.o();
        let rule = self.random.below(RULES.len());
        let parameters = self.model.parameters(o);
        let a = self.filled(4, AVERAGES);
        match self.random.below(26) {
            0..4 => Action::Optimizer {
                o: self.random.below(OPTIMIZERS),
                rule,
                clip: if self.random.one_in(3) { 1 + self.random.below(2) } else { 0 },
                scaled: self.random.one_in(6),
                variables: self.vs(),
            },
            4 => Action::AddGroup { o, rule, variables: self.vs() },
            5..12 => Action::Minimize { o, loss: self.loss_of(&parameters) },
            12 => Action::MinimizeInfinite { o, loss: self.loss_of(&parameters) },
            13..15 => Action::Accumulate { o, loss: self.loss_of(&parameters) },
            15..17 => Action::Step { o },
            17 => {
                let rate = self.random.below(RATES.len());
                let set = self.random.one_in(2);
                if set {
                    Action::SetRate { o, rate }
                } else {
                    Action::ScheduleRate { o, rate }
                }
            }
            18 => Action::SaveState { o },
            19 => Action::LoadState { o },
            20 if self.random.one_in(3) => Action::DropOptimizer { o },
            20..22 => Action::Average { a: self.random.below(AVERAGES), o },
            22..24 => Action::UpdateAverage { a },
            24 => Action::SwapAverage { a },
            _ => Action::Starved(Box::new(Action::Minimize { o, loss: self.loss_of(&parameters) })),
        }
    }

    fn body(&mut self, inputs: usize, results: usize) -> Body {
        let captured: Vec<Slot> = (0..self.random.below(3)).map(|_| self.t()).collect();
        let variables: Vec<Slot> = (0..self.random.below(3)).map(|_| self.v()).collect();
        let mut known = inputs + captured.len() + variables.len();
        let mut operations = Vec::new();
        for _ in 0..self.random.below(5) {
            operations.push(match self.random.one_in(2) {
                true => Inner::One(self.random.of(&UNARY), self.random.below(known)),
                false => Inner::Two(
                    self.random.of(&BINARY),
                    self.random.below(known),
                    self.random.below(known),
                ),
            });
            known += 1;
        }
        // Mostly the last ones.
        let last = |random: &mut Random| match random.one_in(4) {
            true => random.below(known),
            false => known - 1 - random.below(known.min(2)),
        };
        let results = (0..results).map(|_| last(&mut self.random)).collect();
        Body { captured, variables, operations, results, assigns: None }
    }

    fn program(&mut self) -> Action {
        let [.., programs, _] = self.model.filled();
        if programs.is_empty() || self.random.one_in(3) {
            let extents: [&[Extent]; 7] = [
                &[],
                &[Some(3)],
                &[Some(2), Some(3)],
                &[Some(3), Some(3)],
                &[None],
                &[None, Some(3)],
                &[None, None],
            ];
            let named = self.random.one_in(2);
            let choices = if named { 7 } else { 4 };
            let inputs: Vec<Vec<Extent>> = (0..1 + self.random.below(2))
                .map(|_| extents[self.random.below(choices)].to_vec())
                .collect();
            let results = 1 + self.random.below(2);
            let mut body = self.body(inputs.len(), results);
            if self.random.one_in(3) {
                body.assigns = Some((self.v(), self.random.below(8)));
            }
            let nested = self.random.one_in(4);
            return Action::Compile { p: self.random.below(PROGRAMS), named, nested, inputs, body };
        }
        let p = self.filled(3, PROGRAMS);
        let dims = self.model.inputs(p);
        let mut inputs = Vec::new();
        for dims in dims {
            inputs.push(self.like(|model, t| match model.tensor(t) {
                Ok(t) => {
                    t.shape().len() == dims.len()
                        && t.shape().iter().zip(&dims).all(|(x, dim)| dim.is_none_or(|d| d == *x))
                }
                Err(_) => false,
            }));
        }
        Action::RunProgram { p, inputs, to: self.to() }
    }

    fn special(&mut self) -> Action {
        let simple = |maker: &mut Maker| match maker.random.below(5) {
            0 => maker.reading(),
            1 => maker.optimizer(),
            2 => maker.program(),
            3 => maker.variable(),
            _ => maker.gradient(),
        };
        match self.random.below(10) {
            0 => Action::FindNonFinite { t: self.t() },
            1 => Action::Blame { t: self.t(), read: self.random.one_in(2) },
            2 => Action::Away { a: self.t(), to: self.to() },
            9 => Action::SetDrawn { drawn: self.random.below(9) as u32 },
            3..5 => match simple(self) {
                inner @ (Action::Starved(_) | Action::Eager { .. }) => inner,
                inner => Action::Starved(Box::new(inner)),
            },
            5..7 => {
                let (t, v, o) = (self.t(), self.v(), self.o());
                Action::Refused { what: self.random.of(&REFUSALS), t, v, o }
            }
            _ => match simple(self) {
                inner @ (Action::Starved(_) | Action::Profiled(_)) => inner,
                inner => Action::Profiled(Box::new(inner)),
            },
        }
    }
}
