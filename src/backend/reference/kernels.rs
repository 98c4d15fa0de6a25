//! The definition of each kernel, as loops around programs.

use super::program::Machine;
use super::run::{Outcome, Run};
use super::scalar::{reduce, Cell};
use crate::alloc::try_vec;
use crate::dtype::DType;
use crate::kernel::{
    Attention, Convolution, Inst, Kernel, Matmul, Operand, Order, PackedMatmul, Program, Space,
};
use crate::op::Reduction;

/// Runs a kernel.
pub fn run(run: &mut Run, kernel: &Kernel) -> Outcome {
    match &*kernel.inlined(&|_| false) {
        Kernel::Shader { .. } => Err("it compiles no shaders".into()),
        Kernel::Loop { space, program } => rows(run, space, program),
        Kernel::Matmul(matmul) => product(run, matmul),
        Kernel::Conv2d(conv) => convolution(run, conv),
        Kernel::Attention(attend) => attention(run, attend),
        Kernel::PackedMatmul(packed) => packed_product(run, packed),
        Kernel::Order(order) => sort(run, order),
    }
}

/// Returns all coordinates below `dims`, row-major.
fn each(dims: &[usize], mut f: impl FnMut(&[usize]) -> Outcome) -> Outcome {
    let mut at = vec![0; dims.len()];
    if dims.contains(&0) {
        return Ok(());
    }
    loop {
        f(&at)?;
        let Some(d) = (0..dims.len()).rev().find(|&d| at[d] + 1 < dims[d]) else { return Ok(()) };
        at[d] += 1;
        at[d + 1..].fill(0);
    }
}

/// Checks that a program is well formed, over a space whose first `outer` dimensions have threads.
fn check(run: &Run, program: &Program, dims: &[usize], outer: usize, epilogue: bool) -> Outcome {
    let space = Space { dims: dims.to_vec(), outer };
    let checked = program.check(&space, run.counts(epilogue));
    checked.map_err(|error| error.message().to_string())
}

/// Returns an empty list with space for a value at each coordinate of `dims`.
fn list<T>(dims: &[usize]) -> Outcome<Vec<T>> {
    let count = dims.iter().try_fold(1usize, |count, &d| count.checked_mul(d));
    try_vec("reference", count.unwrap_or(usize::MAX)).map_err(|error| error.message().to_string())
}

fn rows(run: &mut Run, space: &Space, program: &Program) -> Outcome {
    check(run, program, &space.dims, space.outer, false)?;
    let mut machine = Machine::new(program);
    let per_element = program.per_element(space.outer);
    let (outer, inner) = space.dims.split_at(space.outer);
    each(outer, |row| {
        let mut coords = [row, &vec![0; inner.len()]].concat();
        for (at, inst) in program.insts.iter().enumerate() {
            if let Inst::Reduce(op, of) = *inst {
                machine.reduced[at] = reduced(run, &mut machine, &mut coords, inner, (op, of))?;
            }
        }
        for (number, store) in program.stores.iter().enumerate() {
            let mut values = store.index.values();
            values.push(store.value);
            let needed = machine.needed(values);
            let mut write = |column: &[usize]| {
                coords[outer.len()..].copy_from_slice(column);
                machine.step(run, &coords, None, &needed)?;
                write(run, &machine, &coords, number)
            };
            let varies = store.index.varies(outer.len(), &per_element);
            match varies || per_element[store.value as usize] {
                true => each(inner, write)?,
                false => write(&vec![0; inner.len()])?,
            }
        }
        Ok(())
    })
}

/// Combines a value over all inner coordinates of a row.
fn reduced(
    run: &Run,
    machine: &mut Machine,
    coords: &mut [usize],
    inner: &[usize],
    (op, of): (Reduction, u32),
) -> Outcome<Cell> {
    let needed = machine.needed([of]);
    let outer = coords.len() - inner.len();
    let mut values = Some(list(inner)?);
    each(inner, |column| {
        coords[outer..].copy_from_slice(column);
        machine.step(run, coords, None, &needed)?;
        // A value from outside of a buffer makes the result invalid, so that it must not be used either.
        match (machine.value(of), &mut values) {
            (Some(value), Some(values)) => values.push(value),
            _ => values = None,
        }
        Ok(())
    })?;
    let Some(values) = values else { return Ok(None) };
    let value = reduce(op, machine.program.types[of as usize], &values);
    value.map(Some).ok_or_else(|| format!("{op:?} has no meaning for its operand's type"))
}

/// Performs the program's n-th store.
fn write(run: &mut Run, machine: &Machine, coords: &[usize], store: usize) -> Outcome {
    let store = &machine.program.stores[store];
    let at = machine.position(&store.index, coords);
    run.store(store.output as usize, at, store.dtype, machine.value(store.value))
}

/// Applies the epilogue to `accumulators`, row-major in `dims`, and writes the results.
fn epilogue(run: &mut Run, program: &Program, dims: &[usize], accumulators: &[f64]) -> Outcome {
    check(run, program, dims, dims.len(), true)?;
    let mut machine = Machine::new(program);
    let needed = program.live(&[]);
    let mut accumulators = accumulators.iter();
    each(dims, |coords| {
        let accumulator = accumulators.next().map(|&sum| (sum as f32).to_bits());
        machine.step(run, coords, accumulator, &needed)?;
        (0..program.stores.len()).try_for_each(|store| write(run, &machine, coords, store))
    })
}

/// The values of an operand.
struct Values {
    dims: Vec<usize>,
    /// The values, row-major.
    values: Vec<f64>,
}

impl Values {
    fn at(&self, coords: impl IntoIterator<Item = usize>) -> f64 {
        let place = coords.into_iter().zip(&self.dims).fold(0, |place, (at, dim)| place * dim + at);
        self.values[place]
    }
}

/// Loads all values of an operand with the shape `dims`.
fn values(run: &Run, operand: &Operand, dims: &[usize]) -> Outcome<Values> {
    check(run, &operand.program, dims, dims.len(), false)?;
    let dtype = operand.program.types.get(operand.value as usize);
    let dtype = *dtype.ok_or("an operand without a value")?;
    let mut machine = Machine::new(&operand.program);
    let needed = machine.needed([operand.value]);
    let mut values = list(dims)?;
    each(dims, |coords| {
        machine.step(run, coords, None, &needed)?;
        let bits = machine.value(operand.value).ok_or("an operand outside its buffer")?;
        values.push(match dtype {
            DType::I32 => f64::from(bits as i32),
            DType::U32 => f64::from(bits),
            _ => f64::from(f32::from_bits(bits)),
        });
        Ok(())
    })?;
    Ok(Values { dims: dims.to_vec(), values })
}

fn product(run: &mut Run, matmul: &Matmul) -> Outcome {
    let &Matmul { ref batch, m, n, k, .. } = matmul;
    let with = |rows: usize, columns: usize| [&batch[..], &[rows, columns]].concat();
    let a = values(run, &matmul.a, &with(m, k))?;
    let b = values(run, &matmul.b, &with(k, n))?;
    let mut sums = list(&with(m, n))?;
    each(&with(m, n), |at| {
        let (batch, at) = at.split_at(batch.len());
        let batch = || batch.iter().copied();
        let product = |i: usize| a.at(batch().chain([at[0], i])) * b.at(batch().chain([i, at[1]]));
        sums.push((0..k).map(product).sum());
        Ok(())
    })?;
    epilogue(run, &matmul.epilogue, &with(m, n), &sums)
}

fn packed_product(run: &mut Run, packed: &PackedMatmul) -> Outcome {
    let &PackedMatmul { format, arithmetic, m, n, k, .. } = packed;
    let mut x = values(run, &packed.x, &[m, k])?;
    if arithmetic.rounds(format, m) {
        x.values.chunks_mut(32).for_each(round);
    }
    let words = format.row_words(k);
    let w = values(run, &packed.w, &[n, words])?;
    let w: Vec<u32> = w.values.iter().map(|&word| word as u32).collect();
    let mut sums = list(&[m, n])?;
    each(&[m, n], |at| {
        let row = &w[at[1] * words..][..words];
        let product = |i: usize| x.at([at[0], i]) * f64::from(format.number(row, k, i));
        sums.push((0..k).map(product).sum());
        Ok(())
    })?;
    epilogue(run, &packed.epilogue, &[m, n], &sums)
}

/// Rounds neighbors to integers of 8 bits times a scale, in `f32` ([`PackedArithmetic::Int8`](crate::op::PackedArithmetic)).
fn round(block: &mut [f64]) {
    let largest = block.iter().fold(0f32, |most, &x| most.max((x as f32).abs()));
    let (by, scale) = (127.0 / largest, largest / 127.0);
    for x in block.iter_mut() {
        let integer = (*x as f32 * by).round_ties_even();
        *x = if by.is_finite() { f64::from(integer) * f64::from(scale) } else { *x };
    }
}

fn convolution(run: &mut Run, conv: &Convolution) -> Outcome {
    let Convolution { params, batch, channels, height, width, out, kernel, .. } = conv;
    let groups = params.groups;
    if groups == 0 || !channels.is_multiple_of(groups) || !out.is_multiple_of(groups) {
        return Err(format!("channels do not divide by {groups}"));
    }
    let group = channels / groups;
    let x = values(run, &conv.x, &[*batch, *channels, *height, *width])?;
    let w = values(run, &conv.w, &[*out, group, kernel[0], kernel[1]])?;
    let dims = [*batch, *out, conv.out_height, conv.out_width];
    let mut sums = list(&dims)?;
    each(&dims, |at| {
        let first = at[1] / (out / groups) * group;
        let mut sum = 0.0;
        each(&[group, kernel[0], kernel[1]], |tap| {
            // The position in the input, unless it is in the padding.
            let place = |axis: usize, extent: usize| {
                let padded =
                    at[2 + axis] * params.stride[axis] + tap[1 + axis] * params.dilation[axis];
                padded.checked_sub(params.padding[axis].0).filter(|&place| place < extent)
            };
            if let (Some(row), Some(column)) = (place(0, *height), place(1, *width)) {
                let weight = w.at([at[1], tap[0], tap[1], tap[2]]);
                sum += x.at([at[0], first + tap[0], row, column]) * weight;
            }
            Ok(())
        })?;
        sums.push(sum);
        Ok(())
    })?;
    epilogue(run, &conv.epilogue, &dims, &sums)
}

fn attention(run: &mut Run, a: &Attention) -> Outcome {
    if a.kv_heads == 0 || !a.heads.is_multiple_of(a.kv_heads) {
        return Err(format!("{} heads over {}", a.heads, a.kv_heads));
    }
    let q = values(run, &a.q, &[a.batch, a.heads, a.queries, a.head_size])?;
    let k = values(run, &a.k, &[a.batch, a.kv_heads, a.keys, a.head_size])?;
    let v = values(run, &a.v, &[a.batch, a.kv_heads, a.keys, a.value_size])?;
    let scale = values(run, &a.scale, &[])?.at([]);
    let length = match &a.length {
        Some(length) => values(run, length, &[])?.at([]) as usize,
        None => a.keys,
    };
    let length = length.min(a.keys);
    let all_scores = [a.batch, a.heads, a.queries, a.keys];
    let mask = a.mask.as_ref().map(|mask| values(run, mask, &all_scores)).transpose()?;
    let mut results = list(&[a.batch, a.heads, a.queries, a.value_size])?;
    each(&[a.batch, a.heads, a.queries], |at| {
        let &[batch, head, query] = at else { return Ok(()) };
        let kv_head = head / (a.heads / a.kv_heads);
        let score = |key: usize| {
            // The last query has the position of the last key in use.
            let (own, other) = (query + length, key + a.queries);
            let far = a.window.is_some_and(|window| own.abs_diff(other) >= window);
            if far || a.causal && other > own {
                return f64::NEG_INFINITY;
            }
            let product = |d: usize| q.at([batch, head, query, d]) * k.at([batch, kv_head, key, d]);
            let masked = mask.as_ref().map_or(0.0, |mask| mask.at([batch, head, query, key]));
            (0..a.head_size).map(product).sum::<f64>() * scale + masked
        };
        let scores: Vec<f64> = (0..length).map(score).collect();
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weight = |score: &f64| if max == f64::NEG_INFINITY { 0.0 } else { (score - max).exp() };
        let weights: Vec<f64> = scores.iter().map(weight).collect();
        let total: f64 = weights.iter().sum();
        for d in 0..a.value_size {
            let part = |(key, weight): (usize, &f64)| weight * v.at([batch, kv_head, key, d]);
            let sum: f64 = weights.iter().enumerate().map(part).sum();
            results.push(if total == 0.0 { 0.0 } else { sum / total });
        }
        Ok(())
    })?;
    epilogue(run, &a.epilogue, &[a.batch, a.heads, a.queries, a.value_size], &results)
}

fn sort(run: &mut Run, order: &Order) -> Outcome {
    let &Order { rows, count, most, descending, dtype } = order;
    if most > count {
        return Err(format!("the first {most} of {count}"));
    }
    for row in 0..rows {
        let mut values = list(&[count])?;
        for at in 0..count {
            let bits = run.load(0, Some((row * count + at) as i64), dtype);
            values.push(dtype.compute().number(bits.ok_or("a row outside its buffer")?));
        }
        let compare = |&a: &usize, &b: &usize| {
            let (a, b): (f64, f64) = (values[a], values[b]);
            let numbers = if descending { b.partial_cmp(&a) } else { a.partial_cmp(&b) };
            numbers.unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
        };
        let mut positions: Vec<usize> = (0..count).collect();
        positions.sort_by(compare);
        for (n, &position) in positions[..most].iter().enumerate() {
            run.store(0, Some((row * most + n) as i64), DType::I32, Some(position as u32))?;
        }
    }
    Ok(())
}
