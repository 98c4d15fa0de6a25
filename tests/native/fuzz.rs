//! Tests the fuzzer: shrunk programs are minimal, and printed programs are tests.

#[rustfmt::skip]
mod pasted;

use crate::reference;
use crate::shared::array::Array;
use crate::shared::fuzz::meaning::Program;
use crate::shared::fuzz::shrink::{shrink, text};
use crate::shared::fuzz::step::{Kind, Op, Reduce, Step, BINARY, UNARY};
use crate::shared::fuzz::{failure, generator, told};
use crate::wrapper::{self, Wrapper};
use expect_test::expect_file;
use pollster::block_on;
use std::sync::Arc;
use warpweft::backend::reference::ReferenceBackend;
use warpweft::backend::{Backend, BufferId};
use warpweft::error::Result;
use warpweft::kernel::{Plan, SlotStorage};
use warpweft::tensor::PadMode;

/// Returns programs of a kind that match `wanted`, shrunk while they still match.
fn smallest(kind: Kind, wanted: impl Fn(&Program) -> bool) -> Vec<Program> {
    let programs = (0..300).map(|seed| generator::program(seed, kind)).filter(&wanted);
    let small = programs
        .take(3)
        .map(|program| block_on(shrink(program, async |program: &Program| wanted(program))));
    let small: Vec<Program> = small.collect();
    assert!(!small.is_empty(), "no program is like that");
    small
}

fn input(shape: &[usize], data: &[f64]) -> Step {
    Step { op: Op::Input(Array::new(shape, data.to_vec())), of: Vec::new() }
}

#[test]
fn one_operation_is_what_is_left() {
    let long = |program: &Program| {
        let values = program.values(None).expect("only programs that fit together are asked for");
        let is = |step: &Step| match step.op {
            Op::Softmax(axis) => values[step.of[0]].shape[axis] >= 3,
            _ => false,
        };
        program.steps.iter().any(is)
    };
    let softmax = Step { op: Op::Softmax(0), of: vec![0] };
    for kind in [Kind::Float, Kind::Smooth] {
        for small in smallest(kind, long) {
            let steps = vec![input(&[3], &[0.0; 3]), softmax.clone()];
            assert_eq!(small, Program { kind, steps, results: vec![1] });
        }
    }
}

#[test]
fn what_belongs_together_stays() {
    // A reduction of a concatenation that contains a number of at least 4.
    let joined = |program: &Program| {
        let values = program.values(None).expect("it fits");
        program.steps.iter().any(|step| {
            let of = step.of.first().map(|&of| &program.steps[of].op);
            let reduced = matches!(step.op, Op::Reduce { .. });
            let large = |v: &f64| v.abs() >= 4.0;
            reduced
                && matches!(of, Some(Op::Concat(_)))
                && values[step.of[0]].data.iter().any(large)
        })
    };
    for small in smallest(Kind::Whole, joined) {
        assert_eq!(small.steps.len(), 3, "{}", text(&small));
        let large = |a: &Array<f64>| a.shape == [1] && a.data[0].abs() >= 4.0;
        assert!(matches!(&small.steps[0].op, Op::Input(a) if large(a)), "{}", text(&small));
        assert_eq!(small.steps[1], Step { op: Op::Concat(0), of: vec![0, 0] });
        assert!(matches!(&small.steps[2].op, Op::Reduce { axes, .. } if axes == &[0]));
    }
}

/// A backend that changes the results of batches with a matmul.
struct Spoiled(ReferenceBackend);

impl Wrapper for Spoiled {
    fn inner(&self) -> &dyn Backend {
        &self.0
    }
    fn run(&self, batch: &Arc<Plan>, buffers: &[BufferId], scalars: &[u32]) -> Result<()> {
        self.0.run(batch, buffers, scalars)?;
        let spoils = batch.dispatches.iter().any(|d| d.kernel.kind() == "matmul");
        for (slot, &buffer) in batch.slots.iter().zip(buffers).filter(|_| spoils) {
            if matches!(slot.storage, SlotStorage::Output(_)) {
                self.0.write(buffer, 0, &77.5f32.to_le_bytes())?;
            }
        }
        Ok(())
    }
}

#[test]
fn a_machine_s_fault_is_told_as_a_test() {
    let device = wrapper::device(Spoiled(ReferenceBackend::default()));
    let mut seen = 0;
    for seed in 0..60 {
        let program = generator::program(seed, Kind::Whole);
        let Err(what) = block_on(failure(&device, &program, true)) else { continue };
        let printed = block_on(told(&device, program, what));
        let lines: Vec<&str> = printed.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "    let a0 = device.tensor::<f32>(&[0.0], &[1, 1])?;",
                "    let a1 = a0.matmul(&a0)?;",
                "    Ok(vec![a1])"
            ],
            "{printed}"
        );
        assert!(printed.contains("got 7.75e1, want 0e0"), "{printed}");
        seen += 1;
        if seen == 3 {
            break;
        }
    }
    assert!(seen > 0, "no program has a matrix product");
}

/// Returns a program with a step of every kind.
fn every_step() -> Program {
    let mut steps = vec![input(&[2, 3], &[1.0, -2.0, 3.0, 0.0, 5.0, -1.0])];
    let mut add = |op: Op, of: &[usize]| {
        steps.push(Step { op, of: of.to_vec() });
        steps.len() - 1
    };
    let mut results = Vec::new();
    results.extend((0..UNARY.len()).map(|row| add(Op::Unary(row), &[0])));
    results.extend((0..BINARY.len()).map(|row| add(Op::Binary(row), &[0, 0])));
    let two = [true, false];
    let image = add(Op::Input(Array::new(&[1, 2, 2, 2], (0..8).map(f64::from).collect())), &[]);
    let weight = add(Op::Input(Array::new(&[2, 1, 1, 2], vec![1.0, 2.0, -1.0, 0.5])), &[]);
    let (stride, pads, size) = ([1, 2], [(1, 0), (0, 1)], [2, 2]);
    let (dilation, groups) = ([1, 1], 2);
    results.push(add(Op::Conv2d { stride, pads, dilation, groups }, &[image, weight]));
    results.extend(two.map(|max| add(Op::Pool { max, size, stride, pads }, &[image])));
    results.extend(two.map(|turn| add(Op::Matmul { turn: [turn, !turn] }, &[0, 0])));
    let (axes, index) = (vec![1], vec![0, -1, 1]);
    for op in [Reduce::Sum, Reduce::Mean, Reduce::Max, Reduce::Min] {
        results.extend(two.map(|keep| add(Op::Reduce { op, axes: axes.clone(), keep }, &[0])));
    }
    results.push(add(Op::Reduce { op: Reduce::ArgMax, axes, keep: false }, &[0]));
    let single = [
        Op::Add(2.0),
        Op::Mul(0.5),
        Op::Above(1.0),
        Op::Reshape(vec![3, 2]),
        Op::Permute(vec![1, 0]),
        Op::Expand(vec![2, 2, 3]),
        Op::Slice { axis: 1, start: 0, end: 3, step: 2 },
        Op::Flip(vec![0]),
        Op::Pad(vec![(0, 1), (2, 0)], 2.0),
        Op::PadWith(vec![(0, 1), (2, 0)], PadMode::Reflect),
        Op::Softmax(1),
        Op::Take { axis: 0, index: index.clone() },
        Op::TakeAlong { axis: 1, extent: 2, index: index.clone() },
        Op::Cumsum { axis: 1, exclusive: false, reverse: true },
        Op::Sort { axis: 1, descending: true },
        Op::Argsort { axis: 1, descending: false },
        Op::TopK { axis: 1, k: 2, largest: true },
    ];
    results.extend(single.into_iter().map(|op| add(op, &[0])));
    results.push(add(Op::Choose { axis: 1, below: 1 }, &[0, 0]));
    results.push(add(Op::Concat(1), &[0, 0]));
    results.push(add(Op::IndexAdd { axis: 0, index: index.clone() }, &[0, 0]));
    results.push(add(Op::ScatterAdd { axis: 0, index }, &[0, 0]));
    Program { kind: Kind::Float, steps, results }
}

/// Tests that the printed text compiles, as a part of these tests, and computes what the program computes.
#[test]
fn a_printed_program_is_a_test() {
    let program = every_step();
    let printed = format!(
        "//! What a program is printed as. `UPDATE_EXPECT=1` writes it anew.\n\n\
         use warpweft::device::Device;\nuse warpweft::dtype::DType;\nuse warpweft::error::Result;\n\
         use warpweft::tensor::{{Axes, Conv2dOptions, PadMode, Padding, PoolOptions, Scan, Tensor}};\n\n\
         pub fn pasted(device: &Device) -> Result<Vec<Tensor>> {{\n{}}}\n",
        text(&program)
    );
    expect_file!["fuzz/pasted.rs"].assert_eq(&printed);
    let device = reference::device();
    let tensors = pasted::pasted(&device).expect("all of it can be recorded");
    let values = program.values(None);
    assert_eq!(values, None, "whole and float steps do not go into one program");
    assert_eq!(tensors.len(), program.results.len());
    for (tensor, &step) in tensors.iter().zip(&program.results) {
        let step = &program.steps[step];
        let of: Vec<&Array<f64>> = step
            .of
            .iter()
            .map(|&of| match &program.steps[of].op {
                Op::Input(array) => array,
                _ => unreachable!("all are made of inputs"),
            })
            .collect();
        let kind = step.op.kinds()[0];
        let (want, _) = Program { kind, ..program.clone() }.value(&step.op, &of).expect("it fits");
        let got: Vec<f32> = block_on(tensor.read()).expect("it can be read");
        let near = got.iter().zip(&want.data).all(|(g, w)| (f64::from(*g) - w).abs() < 1e-4);
        assert!(tensor.shape() == want.shape && near, "{step:?}: {got:?} instead of {want:?}");
    }
}
