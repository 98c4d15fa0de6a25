//! Actions, the elements of random programs. They are plain data with small numbers, so that a program can be printed, replayed
//! and shrunk.
//!
//! Tensors, variables, optimizers and so on are in numbered slots. An action on an empty slot does nothing. An action that
//! fills a slot drops the previous contents. Any part of a program is therefore a program.

use std::fmt;

/// The number of a slot.
pub type Slot = usize;

pub const TENSORS: usize = 8;
pub const VARIABLES: usize = 5;
pub const OPTIMIZERS: usize = 2;
pub const PROGRAMS: usize = 2;
pub const AVERAGES: usize = 2;

/// The shapes of data.
pub const SHAPES: [&[usize]; 5] = [&[], &[3], &[2, 3], &[3, 3], &[1]];

/// Learning rates that are set. A step rejects the last one.
pub const RATES: [f64; 4] = [0.0, 0.125, 0.03125, -1.0];

/// The epochs of a trainer, the examples of its data, and the size of a batch.
pub const EPOCHS: u64 = 3;
pub const EXAMPLES: usize = 7;
pub const SIZE: usize = 3;

/// Early stopping by the mean loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stopping {
    pub patience: u64,
    pub min_delta: f64,
    /// Whether larger losses are better. Losses mostly fall, so training then stops early.
    pub is_max: bool,
    pub restores_best: bool,
}

/// The ways to end a trainer.
pub const STOPPING: [Option<Stopping>; 5] = [
    None,
    Some(Stopping { patience: 1, min_delta: 0.0, is_max: true, restores_best: true }),
    Some(Stopping { patience: 2, min_delta: 0.0, is_max: true, restores_best: true }),
    Some(Stopping { patience: 1, min_delta: 0.125, is_max: false, restores_best: true }),
    Some(Stopping { patience: 1, min_delta: 0.0, is_max: true, restores_best: false }),
];

/// The number of ways to clip gradients: none, by norm, by value.
pub const CLIPS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unary {
    Tanh,
    Square,
    Relu,
    /// `tanh` and then `exp`, so that values stay small.
    Exp,
    Negate,
    Halve,
    Shift,
    Sum,
    SumRows,
    Mean,
    Transpose,
    Flatten,
    FirstRow,
    LastRow,
    F16,
    /// Arithmetic in `f16`, `x / 2 + 1 / 4`.
    HalfLine,
    /// Dropout with probability 1 / 2, whose seed the generator draws.
    Dropout,
    /// Adds uniform numbers from -1 to 1, whose seed the generator draws.
    Noise,
    Detach,
    Copy,
    /// A user's shader that squares.
    Shader,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binary {
    Add,
    Sub,
    Mul,
    Matmul,
    Concat,
    /// A user's element function, `a * a * b`.
    Element,
}

/// An operation inside a program or a checkpoint. Its operands are indices in the list of inputs, captured tensors, variables
/// and earlier operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Inner {
    One(Unary, usize),
    Two(Binary, usize, usize),
}

/// The computation of a program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Body {
    /// Tensors that the program captures when it is compiled.
    pub captured: Vec<Slot>,
    /// Variables whose values are read inside.
    pub variables: Vec<Slot>,
    pub operations: Vec<Inner>,
    /// Indices in the list of operands.
    pub results: Vec<usize>,
    /// A variable, and the operand that each run assigns to it.
    pub assigns: Option<(Slot, usize)>,
}

/// A call that must fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Integers for a variable of floats.
    AssignIntegers,
    AssignFromOtherDevice,
    AssignSliceOutside,
    GradOfIntegers,
    GradOfSeveral,
    /// The second parameter has integers. The first must keep its optimizer.
    OptimizerOfIntegers,
    OptimizerOfNothing,
    /// A rule with an invalid number.
    OptimizerOfNonsense,
    GroupOfNonsense,
    MinimizeConstant,
    AccumulateConstant,
    StateWithoutSteps,
    StateWithSurplus,
    FlattenTwice,
    AverageOfNonsense,
    LoadNonsense,
}

pub const REFUSALS: [Refusal; 16] = [
    Refusal::AssignIntegers,
    Refusal::AssignFromOtherDevice,
    Refusal::AssignSliceOutside,
    Refusal::GradOfIntegers,
    Refusal::GradOfSeveral,
    Refusal::OptimizerOfIntegers,
    Refusal::OptimizerOfNothing,
    Refusal::OptimizerOfNonsense,
    Refusal::GroupOfNonsense,
    Refusal::MinimizeConstant,
    Refusal::AccumulateConstant,
    Refusal::StateWithoutSteps,
    Refusal::StateWithSurplus,
    Refusal::FlattenTwice,
    Refusal::AverageOfNonsense,
    Refusal::LoadNonsense,
];

/// An extent of an input of a program.
pub type Extent = Option<usize>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    Data {
        to: Slot,
        shape: usize,
        seed: usize,
    },
    Unary {
        op: Unary,
        a: Slot,
        to: Slot,
    },
    Binary {
        op: Binary,
        a: Slot,
        b: Slot,
        to: Slot,
    },
    Where {
        condition: Slot,
        a: Slot,
        b: Slot,
        to: Slot,
    },
    /// Copies a tensor to another device and back.
    Away {
        a: Slot,
        to: Slot,
    },
    Checkpoint {
        a: Slot,
        body: Body,
        to: Slot,
    },
    /// Moves the generator to a position in its sequence.
    SetDrawn {
        drawn: u32,
    },
    Drop {
        t: Slot,
    },
    Read {
        t: Slot,
    },
    ReadPart {
        t: Slot,
        start: usize,
        len: usize,
    },
    Run {
        t: Slot,
    },
    RunBatch {
        a: Slot,
        b: Slot,
    },
    ReadTogether {
        a: Slot,
        b: Slot,
    },
    Flush,
    Eager {
        on: bool,
    },
    FindNonFinite {
        t: Slot,
    },
    /// Computes a logarithm of 0 from a tensor, and searches twice for the cause of the non-finite value.
    Blame {
        t: Slot,
        read: bool,
    },
    Variable {
        v: Slot,
        from: Slot,
    },
    Value {
        v: Slot,
        to: Slot,
    },
    Assign {
        v: Slot,
        from: Slot,
    },
    AssignSlice {
        v: Slot,
        start: usize,
        from: Slot,
    },
    Swap {
        v: Slot,
        w: Slot,
    },
    DropVariable {
        v: Slot,
    },
    Flatten {
        variables: Vec<Slot>,
    },
    ReadFlat,
    AssignFlat {
        from: Slot,
    },
    Grad {
        of: Slot,
        wrt: Vec<Slot>,
        to: Slot,
    },
    GradByVariable {
        of: Slot,
        v: Slot,
        to: Slot,
    },
    Vjp {
        of: Slot,
        seed: Slot,
        wrt: Slot,
        to: Slot,
    },
    Backward {
        of: Slot,
        variables: Vec<Slot>,
    },
    Gradient {
        v: Slot,
        to: Slot,
        take: bool,
    },
    Optimizer {
        o: Slot,
        rule: usize,
        clip: usize,
        scaled: bool,
        variables: Vec<Slot>,
    },
    AddGroup {
        o: Slot,
        rule: usize,
        variables: Vec<Slot>,
    },
    Minimize {
        o: Slot,
        loss: Slot,
    },
    /// A loss that is infinite, with infinite gradients.
    MinimizeInfinite {
        o: Slot,
        loss: Slot,
    },
    Accumulate {
        o: Slot,
        loss: Slot,
    },
    Step {
        o: Slot,
    },
    SetRate {
        o: Slot,
        rate: usize,
    },
    ScheduleRate {
        o: Slot,
        rate: usize,
    },
    SaveState {
        o: Slot,
    },
    LoadState {
        o: Slot,
    },
    DropOptimizer {
        o: Slot,
    },
    Average {
        a: Slot,
        o: Slot,
    },
    UpdateAverage {
        a: Slot,
    },
    SwapAverage {
        a: Slot,
    },
    Compile {
        p: Slot,
        named: bool,
        /// Whether the program runs inside another one, which is what `p` is.
        nested: bool,
        inputs: Vec<Vec<Extent>>,
        body: Body,
    },
    RunProgram {
        p: Slot,
        inputs: Vec<Slot>,
        to: Slot,
    },
    /// A call that must fail and change nothing.
    Refused {
        what: Refusal,
        t: Slot,
        v: Slot,
        o: Slot,
    },
    Trainer {
        rule: usize,
        scaled: bool,
        /// An index in [`STOPPING`].
        stopping: usize,
    },
    NextStep,
    OwnStep {
        seed: usize,
    },
    Evaluate,
    Save,
    Load,
    /// Saves, takes steps, loads, and takes the steps again, which must give the same bits.
    Replay {
        steps: usize,
    },
    /// An action with a memory limit so low that submissions fail.
    Starved(Box<Action>),
    Profiled(Box<Action>),
}

impl Action {
    /// Whether all ranks that train together must perform the action.
    pub fn is_of_trainer(&self) -> bool {
        match self {
            Action::Starved(inner) | Action::Profiled(inner) => inner.is_of_trainer(),
            Action::Refused { what, .. } => *what == Refusal::LoadNonsense,
            Action::Trainer { .. } | Action::OwnStep { .. } | Action::Replay { .. } => true,
            Action::NextStep | Action::Evaluate | Action::Save | Action::Load => true,
            _ => false,
        }
    }

    /// Returns the name of the kind of action. Some similar kinds have the same name.
    pub fn name(&self) -> String {
        let text = format!("{self:?}");
        let end = text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len());
        match self {
            Action::Starved(inner) | Action::Profiled(inner) => inner.name(),
            Action::Unary { op, .. } => format!("{op:?}"),
            Action::Binary { op, .. } => format!("{op:?}"),
            Action::Refused { what, .. } => format!("{what:?}"),
            Action::ReadPart { .. } | Action::ReadTogether { .. } => "Read".to_string(),
            Action::GradByVariable { .. } | Action::Vjp { .. } => "Grad".to_string(),
            Action::MinimizeInfinite { .. } => "Minimize".to_string(),
            _ => text[..end].to_string(),
        }
    }
}

fn slots(letter: char, slots: &[Slot]) -> String {
    let names: Vec<String> = slots.iter().map(|slot| format!("{letter}{slot}")).collect();
    names.join(", ")
}

fn unary(op: Unary, a: &str) -> String {
    match op {
        Unary::Tanh => format!("{a}.tanh()"),
        Unary::Square => format!("{a}.square()"),
        Unary::Relu => format!("{a}.relu()"),
        Unary::Exp => format!("{a}.tanh().exp()"),
        Unary::Negate => format!("{a}.neg()"),
        Unary::Halve => format!("{a}.mul(0.5)"),
        Unary::Shift => format!("{a}.add(0.25)"),
        Unary::Sum => format!("{a}.sum(())"),
        Unary::SumRows => format!("{a}.sum(0)"),
        Unary::Mean => format!("{a}.mean(())"),
        Unary::Transpose => format!("{a}.transpose(0, 1)"),
        Unary::Flatten => format!("{a}.reshape(&[-1])"),
        Unary::FirstRow => format!("{a}.slice(0, 0..1)"),
        Unary::LastRow => format!("{a}.slice(0, -1..)"),
        Unary::F16 => format!("{a}.cast(F16).cast(F32)"),
        Unary::HalfLine => format!("{a}.cast(F16).mul(0.5).add(0.25).cast(F32)"),
        Unary::Dropout => format!("{a}.dropout(0.5, generator.draw())"),
        Unary::Noise => format!("{a}.add(uniform(-1, 1, generator.draw()))"),
        Unary::Detach => format!("{a}.detach()"),
        Unary::Copy => format!("{a}.clone()"),
        Unary::Shader => format!("shader_square({a})"),
    }
}

fn binary(op: Binary, a: &str, b: &str) -> String {
    match op {
        Binary::Add => format!("{a}.add({b})"),
        Binary::Sub => format!("{a}.sub({b})"),
        Binary::Mul => format!("{a}.mul({b})"),
        Binary::Matmul => format!("{a}.matmul({b})"),
        Binary::Concat => format!("concat([{a}, {b}], 0)"),
        Binary::Element => format!("element_aab({a}, {b})"),
    }
}

impl Body {
    /// Returns the program as text, with these names of inputs.
    fn text(&self, inputs: &[String]) -> String {
        let mut names = inputs.to_vec();
        names.extend(self.captured.iter().map(|slot| format!("t{slot}")));
        names.extend(self.variables.iter().map(|slot| format!("v{slot}.value()")));
        let mut lines = Vec::new();
        for operation in &self.operations {
            let made = match *operation {
                Inner::One(op, a) => unary(op, &names[a % names.len()]),
                Inner::Two(op, a, b) => {
                    binary(op, &names[a % names.len()], &names[b % names.len()])
                }
            };
            let name = format!("y{}", lines.len());
            lines.push(format!("let {name} = {made}; "));
            names.push(name);
        }
        if let Some((v, at)) = self.assigns {
            lines.push(format!("v{v}.assign({}); ", names[at % names.len()]));
        }
        let results: Vec<&str> =
            self.results.iter().map(|&at| &names[at % names.len()][..]).collect();
        format!("{}[{}]", lines.concat(), results.join(", "))
    }
}

fn dims(inputs: &[Vec<Extent>]) -> String {
    let extent = |extent: &Extent| extent.map_or("n".to_string(), |extent| extent.to_string());
    let input = |dims: &Vec<Extent>| {
        format!("[{}]", dims.iter().map(extent).collect::<Vec<_>>().join(", "))
    };
    inputs.iter().map(input).collect::<Vec<_>>().join(", ")
}

/// Prints one line that resembles Rust.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Data { to, shape, seed } => {
                write!(f, "t{to} = data({:?}, seed {seed})", SHAPES[*shape % SHAPES.len()])
            }
            Action::Unary { op, a, to } => write!(f, "t{to} = {}", unary(*op, &format!("t{a}"))),
            Action::Binary { op, a, b, to } => {
                write!(f, "t{to} = {}", binary(*op, &format!("t{a}"), &format!("t{b}")))
            }
            Action::Where { condition, a, b, to } => {
                write!(f, "t{to} = t{condition}.gt(0).where_cond(t{a}, t{b})")
            }
            Action::Away { a, to } => write!(f, "t{to} = t{a}.to(other).to(device)"),
            Action::Checkpoint { a, body, to } => {
                write!(f, "t{to} = t{a}.checkpoint(|x| {{ {} }})", body.text(&["x".into()]))
            }
            Action::SetDrawn { drawn } => write!(f, "generator.set_drawn({drawn})"),
            Action::Drop { t } => write!(f, "drop(t{t})"),
            Action::Read { t } => write!(f, "t{t}.read()"),
            Action::ReadPart { t, start, len } => {
                write!(f, "t{t}.read_range({start}, {len}), inside")
            }
            Action::Run { t } => write!(f, "t{t}.run()"),
            Action::RunBatch { a, b } => write!(f, "batch of t{a}, t{b}.run()"),
            Action::ReadTogether { a, b } => write!(f, "device.read([t{a}, t{b}])"),
            Action::Flush => write!(f, "device.submit()"),
            Action::Eager { on } => write!(f, "device.run_eagerly({on})"),
            Action::FindNonFinite { t } => write!(f, "t{t}.find_non_finite()"),
            Action::Blame { t, read } => {
                let read = if *read { "y.read(); " } else { "" };
                write!(f, "y = t{t}.mul(0).log().mean(()); {read}y.find_non_finite() twice")
            }
            _ => self.state(f),
        }
    }
}

impl Action {
    /// Prints actions on variables, and gradients.
    fn state(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Variable { v, from } => write!(f, "v{v} = Variable::new(t{from})"),
            Action::Value { v, to } => write!(f, "t{to} = v{v}.value()"),
            Action::Assign { v, from } => write!(f, "v{v}.assign(t{from})"),
            Action::AssignSlice { v, start, from } => {
                write!(f, "v{v}.assign_slice(0, {start}, t{from})")
            }
            Action::Swap { v, w } => {
                write!(f, "(a, b) = (v{v}.value(), v{w}.value()); v{v}.assign(b); v{w}.assign(a)")
            }
            Action::DropVariable { v } => write!(f, "drop(v{v})"),
            Action::Flatten { variables } => {
                write!(f, "flat = Variable::flatten([{}])", slots('v', variables))
            }
            Action::ReadFlat => write!(f, "flat.value().read()"),
            Action::AssignFlat { from } => {
                write!(f, "flat.assign(t{from} repeated to its size, detached)")
            }
            Action::Grad { of, wrt, to } => {
                write!(f, "t{to}.. = t{of}.sum(()).grad([{}])", slots('t', wrt))
            }
            Action::GradByVariable { of, v, to } => {
                write!(f, "t{to} = t{of}.sum(()).grad([v{v}.value()])")
            }
            Action::Vjp { of, seed, wrt, to } => {
                write!(f, "t{to} = t{of}.vjp(t{seed}, [t{wrt}])")
            }
            Action::Backward { of, variables } => {
                write!(f, "t{of}.sum(()).backward([{}])", slots('v', variables))
            }
            Action::Gradient { v, to, take } => {
                let method = if *take { "take_gradient" } else { "gradient" };
                write!(f, "t{to} = v{v}.{method}()")
            }
            _ => self.larger(f),
        }
    }

    /// Prints actions on optimizers, programs and trainers.
    fn larger(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Optimizer { o, rule, clip, scaled, variables } => {
                let clip = ["", ".clip_norm(1.0)", ".clip_value(0.5)"][*clip % CLIPS];
                let scaled = if *scaled { ".mixed_precision()" } else { "" };
                let of = slots('v', variables);
                write!(f, "o{o} = Optimizer::new(RULES[{rule}], [{of}]){clip}{scaled}")
            }
            Action::AddGroup { o, rule, variables } => {
                write!(f, "o{o}.add_group(RULES[{rule}], [{}])", slots('v', variables))
            }
            Action::Minimize { o, loss } => write!(f, "o{o}.minimize(t{loss}.sum(()))"),
            Action::MinimizeInfinite { o, loss } => {
                write!(f, "o{o}.minimize(t{loss}.sum(()).mul(inf))")
            }
            Action::Accumulate { o, loss } => write!(f, "o{o}.accumulate(t{loss}.sum(()))"),
            Action::Step { o } => write!(f, "o{o}.step()"),
            Action::SetRate { o, rate } => write!(f, "o{o}.set_lr({})", RATES[*rate % 4]),
            Action::ScheduleRate { o, rate } => {
                write!(f, "o{o}.schedule_lr({})", RATES[*rate % 4])
            }
            Action::SaveState { o } => write!(f, "state = o{o}.state_dict()"),
            Action::LoadState { o } => write!(f, "o{o}.load_state_dict(state)"),
            Action::DropOptimizer { o } => write!(f, "drop(o{o})"),
            Action::Average { a, o } => write!(f, "a{a} = WeightAverage::new(o{o}, 0.5)"),
            Action::UpdateAverage { a } => write!(f, "a{a}.update()"),
            Action::SwapAverage { a } => write!(f, "a{a}.swap()"),
            Action::Compile { p, named, nested, inputs, body } => {
                let compile = if *named { "compile_dynamic" } else { "compile" };
                let names: Vec<String> = (0..inputs.len()).map(|n| format!("x{n}")).collect();
                let (dims, body) = (dims(inputs), body.text(&names));
                match nested {
                    false => write!(f, "p{p} = {compile}([{dims}], |x| {{ {body} }})"),
                    true => write!(
                        f,
                        "p{p} = {{ inner = {compile}([{dims}], |x| {{ {body} }}); {compile}([{dims}], |x| inner.run(x)) }}"
                    ),
                }
            }
            Action::RunProgram { p, inputs, to } => {
                write!(f, "t{to}.. = p{p}.run([{}])", slots('t', inputs))
            }
            Action::Refused { what, t, v, o } => {
                write!(f, "refused: {what:?} of t{t}, v{v}, o{o}")
            }
            Action::Trainer { rule, scaled, stopping } => {
                let scaled = if *scaled { " in mixed precision" } else { "" };
                let stopping = match stopping % STOPPING.len() {
                    0 => String::new(),
                    n => format!(", STOPPING[{n}]"),
                };
                write!(f, "(v0, v1, v2, o0, trainer) = trainer of RULES[{rule}]{scaled}{stopping}")
            }
            Action::NextStep => write!(f, "trainer.next_step()"),
            Action::OwnStep { seed } => write!(f, "trainer.step(batch of seed {seed})"),
            Action::Evaluate => write!(f, "trainer.evaluate(other batches)"),
            Action::Save => write!(f, "file = trainer.save()"),
            Action::Load => write!(f, "trainer.load(file)"),
            Action::Replay { steps } => {
                write!(f, "save, {steps} steps, load, {steps} steps: the same bits")
            }
            Action::Starved(inner) => write!(f, "without memory: {inner}"),
            Action::Profiled(inner) => write!(f, "profiled: {inner}"),
            _ => unreachable!("it is one of the others"),
        }
    }
}

/// Returns a program as text, with one action per line.
pub fn text(program: &[Action]) -> String {
    program.iter().map(|action| format!("    {action};\n")).collect()
}
