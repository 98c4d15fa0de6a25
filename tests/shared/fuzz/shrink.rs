//! Shrinks a failing program until no smaller program fails, and prints the text of a test.

use super::meaning::Program;
use super::step::{code, index_code, with, Kind, Op, Step};
use crate::shared::array::Array;
use std::fmt::Write as _;

/// The most programs that are tried.
const TRIES: usize = 3000;

/// The size of a program: first its operations, then elements, then parameters and numbers.
type Size = (usize, usize, usize, usize, usize);

/// Returns the smallest program for which `fails` is true. Tries all ways to make a program smaller until none of them fails.
pub async fn shrink(program: Program, mut fails: impl AsyncFnMut(&Program) -> bool) -> Program {
    let mut best = program;
    let mut tries = 0;
    'smaller: loop {
        let now = size(&best);
        for candidate in smaller(&best) {
            let candidate = pruned(candidate);
            let less = size(&candidate).zip(now).is_some_and(|(then, now)| then < now);
            if !less || tries >= TRIES {
                continue;
            }
            tries += 1;
            if fails(&candidate).await {
                best = candidate;
                continue 'smaller;
            }
        }
        return best;
    }
}

/// Returns the size of a program, or `None` if it does not fit together or computes nothing.
fn size(program: &Program) -> Option<Size> {
    let values = program.values(None)?;
    if values.iter().any(|value| value.data.is_empty()) {
        return None;
    }
    let inputs = program.steps.iter().filter(|step| matches!(step.op, Op::Input(_))).count();
    let elements = values.iter().map(|value| value.data.len() + value.shape.len()).sum();
    let axis = |op: &Op| axis_of(&mut op.clone()).map_or(0, |axis| *axis);
    let parameters = program.steps.iter().map(|step| weight(&step.op) + axis(&step.op)).sum();
    let numbers = program.steps.iter().map(|step| match &step.op {
        Op::Input(array) => array.data.iter().map(|&v| number(v)).sum(),
        _ => 0,
    });
    let results = program.results.len();
    Some((program.steps.len() - inputs, results + inputs, elements, parameters, numbers.sum()))
}

/// Ranks 0 before 1, and 1 before other numbers.
fn number(v: f64) -> usize {
    match v {
        0.0 => 0,
        1.0 => 1,
        _ => 2,
    }
}

/// Returns the distance of the parameters from the simplest ones.
fn weight(op: &Op) -> usize {
    let list = |list: &[usize]| list.iter().sum::<usize>();
    let pads = |pads: &[(usize, usize)]| pads.iter().map(|(lo, hi)| lo + hi).sum::<usize>();
    let index = |index: &[i32]| {
        index.len() + index.iter().map(|i| i.unsigned_abs() as usize).sum::<usize>()
    };
    match op {
        Op::Add(v) | Op::Mul(v) | Op::Above(v) => number(*v),
        Op::Choose { below, .. } => *below,
        Op::Reshape(shape) | Op::Expand(shape) => list(shape),
        Op::Permute(order) => order.iter().enumerate().filter(|(i, axis)| i != *axis).count(),
        Op::Slice { start, end, step, .. } => start + end + step,
        Op::Flip(axes) => axes.len(),
        Op::Pad(amounts, value) => pads(amounts) + number(*value),
        Op::PadWith(amounts, _) => pads(amounts),
        Op::Reduce { axes, .. } => axes.len() + list(axes),
        Op::Matmul { turn } => usize::from(turn[0]) + usize::from(turn[1]),
        Op::Conv2d { stride, pads: around, dilation, groups } => {
            list(stride) + pads(around) + list(dilation) + groups
        }
        Op::Pool { size, stride, pads: around, .. } => list(size) + list(stride) + pads(around),
        Op::Take { index: at, .. }
        | Op::IndexAdd { index: at, .. }
        | Op::ScatterAdd { index: at, .. } => index(at),
        Op::TakeAlong { extent, index: at, .. } => extent + index(at),
        Op::Cumsum { exclusive, reverse, .. } => usize::from(*exclusive) + usize::from(*reverse),
        Op::Sort { descending: flag, .. } | Op::Argsort { descending: flag, .. } => {
            usize::from(*flag)
        }
        Op::TopK { k, largest, .. } => k + usize::from(*largest),
        Op::Input(_) | Op::Unary(_) | Op::Binary(_) | Op::Concat(_) | Op::Softmax(_) => 0,
    }
}

/// Removes steps that no result needs.
fn pruned(program: Program) -> Program {
    let Program { kind, steps, results } = program;
    let mut needed = vec![false; steps.len()];
    results.iter().for_each(|&r| needed[r] = true);
    for (number, step) in steps.iter().enumerate().rev() {
        if needed[number] {
            step.of.iter().for_each(|&of| needed[of] = true);
        }
    }
    let place: Vec<usize> = needed
        .iter()
        .scan(0, |next, &needed| {
            *next += usize::from(needed);
            Some(*next - usize::from(needed))
        })
        .collect();
    let moved = |list: &[usize]| list.iter().map(|&n| place[n]).collect::<Vec<_>>();
    let kept = steps.iter().zip(&needed).filter(|(_, needed)| **needed);
    let steps = kept.map(|(step, _)| Step { op: step.op.clone(), of: moved(&step.of) }).collect();
    Program { kind, steps, results: moved(&results) }
}

/// Returns all programs that are smaller by one change, with the largest changes first. Some do not fit together.
fn smaller(program: &Program) -> Vec<Program> {
    let mut all = Vec::new();
    fewer_results(program, &mut all);
    fewer_steps(program, &mut all);
    shorter_axes(program, &mut all);
    simpler_steps(program, &mut all);
    all
}

fn fewer_results(program: &Program, all: &mut Vec<Program>) {
    // Includes steps that no result needs, because running step by step computed them.
    for result in 0..program.steps.len() {
        all.push(Program { results: vec![result], ..program.clone() });
    }
    for number in 0..program.results.len() {
        let mut less = program.clone();
        less.results.remove(number);
        // Replaces the result by one of its operands.
        for &of in &program.steps[program.results[number]].of {
            let mut earlier = program.clone();
            earlier.results[number] = of;
            all.push(earlier);
        }
        if !less.results.is_empty() {
            all.push(less);
        }
    }
}

/// Replaces steps by their operands, and by inputs of the same values.
fn fewer_steps(program: &Program, all: &mut Vec<Program>) {
    let values = program.values(None).expect("the program fits together");
    for (number, step) in program.steps.iter().enumerate().rev() {
        for &of in &step.of {
            let mut without = program.clone();
            for later in &mut without.steps[number + 1..] {
                later.of.iter_mut().filter(|o| **o == number).for_each(|o| *o = of);
            }
            without.results.iter_mut().filter(|r| **r == number).for_each(|r| *r = of);
            all.push(without);
        }
        // The same operation with one tensor as both operands.
        let twice = step.of.len() == 2 && step.of[0] != step.of[1];
        for of in step.of.iter().filter(|_| twice) {
            let mut same = program.clone();
            same.steps[number].of = vec![*of; 2];
            all.push(same);
        }
        if !step.of.is_empty() {
            let mut given = program.clone();
            let rounded = values[number].map(|v| f64::from(v as f32));
            given.steps[number] = Step { op: Op::Input(rounded), of: Vec::new() };
            all.push(given);
        }
    }
}

/// Returns the first or the last elements of an array along each axis.
fn cut(array: &Array<f64>, shape: &[usize], last: bool) -> Array<f64> {
    Array::from_fn(shape, |at| {
        let place = |i: usize| at[i] + if last { array.shape[i] - shape[i] } else { 0 };
        array.at(&(0..at.len()).map(place).collect::<Vec<_>>())
    })
}

fn shorter_axes(program: &Program, all: &mut Vec<Program>) {
    let shorter = |from: usize| [1, 2, from / 2, from - 1].into_iter().filter(move |&to| to < from);
    let mut inputs: Vec<(usize, &Array<f64>)> = Vec::new();
    for (number, step) in program.steps.iter().enumerate() {
        if let Op::Input(array) = &step.op {
            inputs.push((number, array));
        }
    }
    let mut extents: Vec<usize> =
        inputs.iter().flat_map(|(_, array)| array.shape.iter().copied()).collect();
    extents.sort_unstable();
    extents.dedup();
    // Everywhere, and then at one place.
    for &extent in extents.iter().rev() {
        for (to, last) in shorter(extent).flat_map(|to| [(to, false), (to, true)]) {
            let mut less = program.clone();
            less.steps.iter_mut().for_each(|step| change_extent(&mut step.op, (extent, to), last));
            all.push(less);
        }
    }
    let rank = inputs.iter().map(|(_, array)| array.shape.len()).max().unwrap_or(0);
    for axis in 0..rank {
        let mut less = program.clone();
        less.steps.iter_mut().for_each(|step| remove_axis(&mut step.op, axis));
        all.push(less);
    }
    for (number, array) in inputs {
        for (axis, &extent) in array.shape.iter().enumerate() {
            for (to, last) in shorter(extent).flat_map(|to| [(to, false), (to, true)]) {
                let mut less = program.clone();
                less.steps[number].op = Op::Input(cut(array, &with(&array.shape, axis, to), last));
                all.push(less);
            }
            if extent == 1 {
                let mut less = program.clone();
                remove_axis(&mut less.steps[number].op, axis);
                all.push(less);
            }
        }
    }
}

/// Removes an axis of extent 1 from an operation.
fn remove_axis(op: &mut Op, gone: usize) {
    let lower = |axis: &mut usize| *axis -= usize::from(*axis > gone);
    match op {
        Op::Input(array) if array.shape.get(gone) == Some(&1) => {
            array.shape.remove(gone);
        }
        Op::Reshape(shape) | Op::Expand(shape) if shape.get(gone) == Some(&1) => {
            shape.remove(gone);
        }
        Op::Permute(axes) | Op::Flip(axes) | Op::Reduce { axes, .. } => {
            axes.retain(|&axis| axis != gone);
            axes.iter_mut().for_each(lower);
        }
        Op::Pad(amounts, _) | Op::PadWith(amounts, _) if gone < amounts.len() => {
            amounts.remove(gone);
        }
        op => axis_of(op).into_iter().for_each(lower),
    }
}

/// Returns the axis of a step that has one.
fn axis_of(op: &mut Op) -> Option<&mut usize> {
    match op {
        Op::Choose { axis, .. }
        | Op::Slice { axis, .. }
        | Op::Concat(axis)
        | Op::Softmax(axis)
        | Op::Take { axis, .. }
        | Op::TakeAlong { axis, .. }
        | Op::IndexAdd { axis, .. }
        | Op::ScatterAdd { axis, .. }
        | Op::Cumsum { axis, .. }
        | Op::Sort { axis, .. }
        | Op::Argsort { axis, .. }
        | Op::TopK { axis, .. } => Some(axis),
        _ => None,
    }
}

fn change_extent(op: &mut Op, (from, to): (usize, usize), last: bool) {
    let change = |shape: &mut Vec<usize>| {
        shape.iter_mut().filter(|extent| **extent == from).for_each(|extent| *extent = to);
    };
    match op {
        Op::Input(array) => {
            let mut shape = array.shape.clone();
            change(&mut shape);
            *array = cut(array, &shape, last);
        }
        Op::Reshape(shape) | Op::Expand(shape) => change(shape),
        Op::Slice { end, .. } if *end == from => *end = to,
        Op::TopK { k, .. } if *k == from => *k = to,
        _ => {}
    }
}

/// Returns smaller values for a parameter.
fn less(v: usize) -> impl Iterator<Item = usize> {
    [0, 1, v / 2, v.saturating_sub(1)].into_iter().filter(move |&to| to < v)
}

fn simpler_steps(program: &Program, all: &mut Vec<Program>) {
    for (number, step) in program.steps.iter().enumerate() {
        let mut ops = Vec::new();
        match &step.op {
            Op::Input(array) => simpler_numbers(array, &mut ops),
            op => simpler(op, &mut ops),
        }
        for op in ops {
            let mut other = program.clone();
            other.steps[number].op = op;
            all.push(other);
        }
    }
}

fn simpler_numbers(array: &Array<f64>, ops: &mut Vec<Op>) {
    let half = array.data.len() / 2;
    let fill = |to: f64, places: std::ops::Range<usize>| {
        let mut data = array.data.clone();
        data[places].fill(to);
        Op::Input(Array::new(&array.shape, data))
    };
    for to in [0.0, 1.0] {
        ops.extend([0..2 * half + 1, 0..half, half..array.data.len()].into_iter().map(|places| {
            let end = places.end.min(array.data.len());
            fill(to, places.start..end)
        }));
    }
    for n in 0..array.data.len().min(64) {
        ops.extend([0.0, 1.0].map(|to| fill(to, n..n + 1)));
    }
}

/// Adds the variants with one simpler parameter.
fn simpler(op: &Op, ops: &mut Vec<Op>) {
    let mut push = |change: &dyn Fn(&mut Op)| {
        let mut changed = op.clone();
        change(&mut changed);
        ops.push(changed);
    };
    let axis = axis_of(&mut op.clone()).map_or(0, |axis| *axis);
    for to in less(axis) {
        push(&|op| axis_of(op).into_iter().for_each(|axis| *axis = to));
    }
    // Changes each number in the parameters alone.
    let count = numbers(&mut op.clone()).len();
    for n in 0..count {
        let now = *numbers(&mut op.clone())[n];
        for to in less(now) {
            push(&|op| *numbers(op)[n] = to);
        }
    }
    match op {
        Op::Add(_) | Op::Mul(_) | Op::Above(_) | Op::Pad(..) => {
            for to in [0.0, 1.0] {
                push(&|op| match op {
                    Op::Add(v) | Op::Mul(v) | Op::Above(v) | Op::Pad(_, v) => *v = to,
                    _ => {}
                });
            }
        }
        Op::Permute(order) => {
            for at in 1..order.len() {
                push(&|op| {
                    if let Op::Permute(order) = op {
                        order.swap(at - 1, at)
                    }
                });
            }
        }
        Op::Flip(axes) | Op::Reduce { axes, .. } if axes.len() > 1 => {
            for at in 0..axes.len() {
                push(&|op| match op {
                    Op::Flip(axes) | Op::Reduce { axes, .. } => drop(axes.remove(at)),
                    _ => {}
                });
            }
        }
        Op::Take { index, .. }
        | Op::TakeAlong { index, .. }
        | Op::IndexAdd { index, .. }
        | Op::ScatterAdd { index, .. } => {
            let all = index.len();
            for at in 0..all {
                push(&|op| _ = index_of(op).remove(at));
                push(&|op| index_of(op)[at] = 0);
            }
        }
        _ => {}
    }
    for n in 0..flags(&mut op.clone()).len() {
        push(&|op| *flags(op)[n] = false);
    }
}

fn index_of(op: &mut Op) -> &mut Vec<i32> {
    match op {
        Op::Take { index, .. }
        | Op::TakeAlong { index, .. }
        | Op::IndexAdd { index, .. }
        | Op::ScatterAdd { index, .. } => index,
        _ => unreachable!("it has no index"),
    }
}

fn flags(op: &mut Op) -> Vec<&mut bool> {
    match op {
        Op::Matmul { turn } => turn.iter_mut().collect(),
        Op::Cumsum { exclusive, reverse, .. } => vec![exclusive, reverse],
        Op::Sort { descending: flag, .. }
        | Op::Argsort { descending: flag, .. }
        | Op::TopK { largest: flag, .. } => vec![flag],
        _ => Vec::new(),
    }
}

fn numbers(op: &mut Op) -> Vec<&mut usize> {
    fn around(pads: &mut [(usize, usize)]) -> impl Iterator<Item = &mut usize> {
        pads.iter_mut().flat_map(|(lo, hi)| [lo, hi])
    }
    match op {
        Op::Choose { below, .. } => vec![below],
        Op::Reshape(shape) | Op::Expand(shape) => shape.iter_mut().collect(),
        Op::Slice { start, end, step, .. } => vec![start, end, step],
        Op::Pad(amounts, _) | Op::PadWith(amounts, _) => around(amounts).collect(),
        Op::Conv2d { stride, pads, dilation, groups } => {
            stride.iter_mut().chain(around(pads)).chain(dilation).chain([groups]).collect()
        }
        Op::Pool { size, stride, pads, .. } => {
            size.iter_mut().chain(stride).chain(around(pads)).collect()
        }
        Op::TakeAlong { extent, .. } => vec![extent],
        Op::TopK { k, .. } => vec![k],
        Op::Reduce { axes, .. } => axes.iter_mut().collect(),
        _ => Vec::new(),
    }
}

/// Returns the program as the text of a test, which returns the tensors that the program reads and any gradients.
pub fn text(program: &Program) -> String {
    let all = program.shapes();
    let mut text = String::new();
    for (number, step) in program.steps.iter().enumerate() {
        let shapes: Vec<&[usize]> = step.of.iter().map(|&of| &all[of][..]).collect();
        if let Some(index) = index_code(&step.op, &shapes) {
            let _ = writeln!(text, "    let i{number} = {index};");
        }
        let _ = writeln!(text, "    let a{number} = {};", code(step, number, &shapes));
    }
    let list = |mark: &str, steps: &[usize]| {
        let lines = steps
            .chunks(16)
            .map(|line| line.iter().map(|n| format!("{mark}a{n}")).collect::<Vec<_>>().join(", "));
        lines.collect::<Vec<_>>().join(",\n        ")
    };
    let results = list("", &program.results);
    match (program.kind, program.results.last()) {
        (Kind::Smooth, Some(last)) => {
            let inputs = list("&", &program.inputs());
            let _ = writeln!(
                text,
                "    let gradients = a{last}.square().sum(&[])?.grad(&[{inputs}])?;"
            );
            let _ = writeln!(text, "    Ok([vec![{results}], gradients].concat())");
        }
        _ => {
            let _ = writeln!(text, "    Ok(vec![{results}])");
        }
    }
    text
}
