//! Lowering of routines: the programs of their operands, and their sizes.

use super::context::{Context, LowerError};
use super::index::broadcast;
use crate::kernel::{self, Convolution, Index, Kernel, Matmul, Operand, PackedMatmul, Program};
use crate::op::{Attention, Conv2d, Op, Routine};
use crate::shape::Shape;

/// Lowers a routine to a kernel. `epilogue` is the elementwise program on its result.
pub fn routine_kernel(
    context: &mut Context,
    node: usize,
    epilogue: Program,
) -> Result<Kernel, LowerError> {
    let traced = &context.trace.nodes[node];
    let Op::Routine(routine) = traced.op else { unreachable!("only routines have accumulators") };
    let inputs = &traced.inputs;
    let mut shapes = Vec::with_capacity(inputs.len());
    for &input in inputs {
        shapes.push(context.trace.nodes[input].shape);
    }
    match routine {
        Routine::Matmul => matmul(context, inputs, &shapes, &traced.shape, epilogue),
        Routine::Conv2d(params) => {
            conv2d(context, params, inputs, &shapes, &traced.shape, epilogue)
        }
        Routine::Attention(params) => attention(context, params, inputs, &shapes, epilogue),
        Routine::PackedMatmul { format, arithmetic } => Ok(Kernel::PackedMatmul(PackedMatmul {
            format,
            arithmetic,
            m: shapes[0][0],
            n: shapes[1][0],
            k: shapes[0][1],
            x: whole(context, inputs[0], &shapes[0])?,
            w: whole(context, inputs[1], &shapes[1])?,
            epilogue,
        })),
        Routine::Unpack { .. } => unreachable!("plans have its meaning in its place"),
    }
}

fn matmul(
    context: &mut Context,
    inputs: &[usize],
    shapes: &[Shape],
    result: &Shape,
    epilogue: Program,
) -> Result<Kernel, LowerError> {
    let batch = result[..result.rank() - 2].to_vec();
    let (m, n) = (result[result.rank() - 2], result[result.rank() - 1]);
    let k = shapes[0][shapes[0].rank() - 1];
    let mut operand = |i: usize, last: [usize; 2]| {
        let dims = [&batch[..], &last].concat();
        let all = Index::coordinates(dims.len());
        context.operand(inputs[i], &dims, &broadcast(&all, &shapes[i]))
    };
    let a = operand(0, [m, k])?;
    let b = operand(1, [k, n])?;
    Ok(Kernel::Matmul(Matmul { batch, m, n, k, a, b, epilogue }))
}

fn whole(context: &mut Context, node: usize, shape: &Shape) -> Result<Operand, LowerError> {
    let all = Index::coordinates(shape.rank());
    context.operand(node, shape, &broadcast(&all, shape))
}

fn conv2d(
    context: &mut Context,
    params: Conv2d,
    inputs: &[usize],
    shapes: &[Shape],
    result: &Shape,
    epilogue: Program,
) -> Result<Kernel, LowerError> {
    let x = whole(context, inputs[0], &shapes[0])?;
    let w = whole(context, inputs[1], &shapes[1])?;
    Ok(Kernel::Conv2d(Convolution {
        params,
        batch: shapes[0][0],
        channels: shapes[0][1],
        height: shapes[0][2],
        width: shapes[0][3],
        out: shapes[1][0],
        kernel: [shapes[1][2], shapes[1][3]],
        out_height: result[2],
        out_width: result[3],
        x,
        w,
        epilogue,
    }))
}

fn attention(
    context: &mut Context,
    params: Attention,
    inputs: &[usize],
    shapes: &[Shape],
    epilogue: Program,
) -> Result<Kernel, LowerError> {
    let (q, k, v) = (&shapes[0], &shapes[1], &shapes[2]);
    let scores = [q[0], q[1], q[2], k[2]];
    let mask = match params.mask {
        true => {
            let all = Index::coordinates(4);
            let coords = broadcast(&all, &shapes[4]);
            Some(context.operand(inputs[4], &scores, &coords)?)
        }
        false => None,
    };
    Ok(Kernel::Attention(Box::new(kernel::Attention {
        causal: params.causal,
        window: params.window,
        batch: q[0],
        heads: q[1],
        kv_heads: k[1],
        queries: q[2],
        keys: k[2],
        head_size: q[3],
        value_size: v[3],
        q: whole(context, inputs[0], q)?,
        k: whole(context, inputs[1], k)?,
        v: whole(context, inputs[2], v)?,
        mask,
        scale: context.operand(inputs[3], &[], &[])?,
        length: match params.length {
            true => Some(context.operand(inputs[inputs.len() - 1], &[], &[])?),
            false => None,
        },
        epilogue,
    })))
}
