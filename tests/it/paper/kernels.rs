//! Kernels in their plainest form: loops around programs.

use super::program::{reduce, stored, Machine};
use super::Run;
use warpweft::dtype::DType;
use warpweft::kernel::{Attend, Convolution, Inst, Kernel, Matmul, Operand, Program, Space};

pub fn run(run: &mut Run, kernel: &Kernel) -> Result<(), String> {
    match kernel {
        Kernel::Loop { space, program } => rows(run, space, program),
        Kernel::Matmul(matmul) => product(run, matmul),
        Kernel::Conv2d(conv) => convolution(run, conv),
        Kernel::Attention(attend) => attention(run, attend),
    }
}

/// All coordinates below `dims`, row-major.
fn each(dims: &[usize], mut f: impl FnMut(&[usize]) -> Result<(), String>) -> Result<(), String> {
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

fn rows(run: &mut Run, space: &Space, program: &Program) -> Result<(), String> {
    let mut machine = Machine::new(program);
    let per_element = program.per_element(space.outer);
    let inner = &space.dims[space.outer..];
    let reductions: Vec<(usize, _, _)> = program
        .insts
        .iter()
        .enumerate()
        .filter_map(|(at, inst)| match inst {
            Inst::Reduce(op, of) => Some((at, *op, *of)),
            _ => None,
        })
        .collect();
    each(&space.dims[..space.outer], |row| {
        let mut coords = row.to_vec();
        coords.resize(space.dims.len(), 0);
        for &(at, op, of) in &reductions {
            let needed = machine.needed([of]);
            let mut cells = Some(Vec::new());
            each(inner, |column| {
                coords[space.outer..].copy_from_slice(column);
                machine.step(run, &coords, 0.0, &needed)?;
                // One from outside makes the whole mean nothing: it, too, may only be thrown away.
                match (machine.value(of), &mut cells) {
                    (Some(cell), Some(cells)) => cells.push(cell),
                    _ => cells = None,
                }
                Ok(())
            })?;
            machine.reduced[at] = cells.map(|c| reduce(op, program.types[of as usize], &c));
        }
        for (number, store) in program.stores.iter().enumerate() {
            let mut values = store.index.values();
            values.push(store.value);
            let needed = machine.needed(values);
            if per_element[store.value as usize] {
                each(inner, |column| {
                    coords[space.outer..].copy_from_slice(column);
                    machine.step(run, &coords, 0.0, &needed)?;
                    write(run, &machine, &coords, number)
                })?;
            } else {
                coords[space.outer..].fill(0);
                machine.step(run, &coords, 0.0, &needed)?;
                write(run, &machine, &coords, number)?;
            }
        }
        Ok(())
    })
}

/// Performs the program's n-th store; each element is written once.
fn write(run: &mut Run, machine: &Machine, coords: &[usize], store: usize) -> Result<(), String> {
    let store = &machine.program.stores[store];
    let bits = machine.value(store.value).ok_or("a store of what lies outside a buffer")?;
    let at = machine.position(&store.index, coords).and_then(|at| usize::try_from(at).ok());
    let at = at.ok_or("a store before its buffer")?;
    let size = store.dtype.size();
    let output = store.output as usize;
    let bytes = run.outputs[output].get_mut(at * size..(at + 1) * size);
    bytes.ok_or("a store behind its buffer")?.copy_from_slice(&stored(bits, store.dtype));
    let seen = &mut run.written[output][at * size];
    *seen += 1;
    if *seen > 1 {
        return Err(format!("element {at} of output {output} is written twice"));
    }
    Ok(())
}

/// Writes what the epilogue makes of `accumulators`, row-major in `dims`.
fn epilogue(
    run: &mut Run,
    program: &Program,
    dims: &[usize],
    accumulators: &[f64],
) -> Result<(), String> {
    let mut machine = Machine::new(program);
    let needed = machine.needed(program.stores.iter().map(|s| s.value));
    let mut next = accumulators.iter();
    each(dims, |coords| {
        let accumulator = *next.next().ok_or("fewer results than coordinates")? as f32;
        machine.step(run, coords, accumulator, &needed)?;
        (0..program.stores.len()).try_for_each(|store| write(run, &machine, coords, store))
    })
}

/// All values of an operand, row-major in `dims`.
fn values(run: &Run, operand: &Operand, dims: &[usize]) -> Result<Vec<f64>, String> {
    let mut machine = Machine::new(&operand.program);
    let needed = machine.needed([operand.value]);
    let mut values = Vec::new();
    each(dims, |coords| {
        machine.step(run, coords, 0.0, &needed)?;
        let bits = machine.value(operand.value).ok_or("an operand outside its buffer")?;
        values.push(match operand.program.types[operand.value as usize] {
            DType::I32 => f64::from(bits as i32),
            _ => f64::from(f32::from_bits(bits)),
        });
        Ok(())
    })?;
    Ok(values)
}

fn product(run: &mut Run, matmul: &Matmul) -> Result<(), String> {
    let Matmul { batch, m, n, k, .. } = matmul;
    let (m, n, k) = (*m, *n, *k);
    let a = values(run, &matmul.a, &[&batch[..], &[m, k]].concat())?;
    let b = values(run, &matmul.b, &[&batch[..], &[k, n]].concat())?;
    let count: usize = batch.iter().product();
    let mut sums = vec![0.0; count * m * n];
    for (row, sums) in sums.chunks_exact_mut(n.max(1)).enumerate() {
        let b = &b[row / m * k * n..];
        for (i, &a) in a[row * k..][..k].iter().enumerate() {
            sums.iter_mut().zip(&b[i * n..]).for_each(|(sum, b)| *sum += a * b);
        }
    }
    epilogue(run, &matmul.epilogue, &[&batch[..], &[m, n]].concat(), &sums)
}

fn convolution(run: &mut Run, conv: &Convolution) -> Result<(), String> {
    let Convolution { params, batch, channels, height, width, out, kernel, .. } = conv;
    let group = channels / params.groups;
    let x = values(run, &conv.x, &[*batch, *channels, *height, *width])?;
    let w = values(run, &conv.w, &[*out, group, kernel[0], kernel[1]])?;
    let dims = [*batch, *out, conv.out_height, conv.out_width];
    let mut sums = Vec::new();
    each(&dims, |at| {
        let first = at[1] / (out / params.groups) * group;
        let mut sum = 0.0;
        each(&[group, kernel[0], kernel[1]], |tap| {
            let place = |i: usize| {
                let padded = at[2 + i] * params.stride[i] + tap[1 + i] * params.dilation[i];
                padded.checked_sub(params.padding[i].0)
            };
            if let (Some(y), Some(column)) = (place(0), place(1)) {
                if y < *height && column < *width {
                    let from = ((at[0] * channels + first + tap[0]) * height + y) * width + column;
                    let weight = (at[1] * group + tap[0]) * kernel[0] + tap[1];
                    sum += x[from] * w[weight * kernel[1] + tap[2]];
                }
            }
            Ok(())
        })?;
        sums.push(sum);
        Ok(())
    })?;
    epilogue(run, &conv.epilogue, &dims, &sums)
}

fn attention(run: &mut Run, a: &Attend) -> Result<(), String> {
    let q = values(run, &a.q, &[a.batch, a.heads, a.queries, a.head_size])?;
    let k = values(run, &a.k, &[a.batch, a.kv_heads, a.keys, a.head_size])?;
    let v = values(run, &a.v, &[a.batch, a.kv_heads, a.keys, a.value_size])?;
    let scale = values(run, &a.scale, &[])?[0];
    let length = match &a.length {
        Some(length) => values(run, length, &[])?[0] as usize,
        None => a.keys,
    };
    let scores = [a.batch, a.heads, a.queries, a.keys];
    let mask = a.mask.as_ref().map(|mask| values(run, mask, &scores)).transpose()?;
    let mut results = Vec::new();
    each(&[a.batch, a.heads, a.queries], |at| {
        let kv = at[0] * a.kv_heads + at[1] / (a.heads / a.kv_heads);
        let row = (at[0] * a.heads + at[1]) * a.queries + at[2];
        let score = |key: usize| {
            let (own, key_place) = (at[2] + length, key + a.queries);
            let far = a.window.is_some_and(|window| own.abs_diff(key_place) >= window);
            if far || a.causal && key_place > own {
                return f64::NEG_INFINITY;
            }
            let pairs = (0..a.head_size)
                .map(|d| q[row * a.head_size + d] * k[(kv * a.keys + key) * a.head_size + d]);
            let masked = mask.as_ref().map_or(0.0, |mask| mask[row * a.keys + key]);
            pairs.sum::<f64>() * scale + masked
        };
        let scores: Vec<f64> = (0..length).map(score).collect();
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores
            .iter()
            .map(|s| if max == f64::NEG_INFINITY { 0.0 } else { (s - max).exp() })
            .collect();
        let total: f64 = weights.iter().sum();
        for d in 0..a.value_size {
            let value = |key: usize| v[(kv * a.keys + key) * a.value_size + d];
            let sum: f64 = (0..length).map(|key| weights[key] * value(key)).sum();
            results.push(if total == 0.0 { 0.0 } else { sum / total });
        }
        Ok(())
    })?;
    epilogue(run, &a.epilogue, &[a.batch, a.heads, a.queries, a.value_size], &results)
}
