//! Products of halves by cooperative matrices.

use crate::codegen::product::Product;
use crate::codegen::slot::Shader;
use crate::codegen::source::Source;
use crate::dtype::DType;
use crate::expr::{Binary, Unary};
use crate::kernel::{class, Inst, Matmul, Operand};

/// Rows and columns of a matrix, as the shader has them.
const SIZE: usize = 8;

const MATMUL_MATRICES: &str = shader!("matmul_matrices");

/// Whether a product is one of halves, and not so narrow that most of a tile would be empty.
pub fn take(matmul: &Matmul) -> bool {
    matmul.m > 16 && matmul.n > 16 && halves(&matmul.a) && halves(&matmul.b)
}

/// Whether all that an operand gives are halves, so that nothing is rounded when they are kept as such.
fn halves(operand: &Operand) -> bool {
    let mut half: Vec<bool> = Vec::with_capacity(operand.program.insts.len());
    for inst in &operand.program.insts {
        let is = |value: u32| half[value as usize];
        let exact = match *inst {
            Inst::Load { dtype, .. } => dtype == DType::F16,
            Inst::Cast(to, _) => to == DType::F16,
            // What is outside of a padded operand.
            Inst::Const(value) => value.dtype == DType::F32 && value.bits == 0,
            Inst::Unary(Unary::Neg | Unary::Abs, x) => is(x),
            Inst::Binary(Binary::Min | Binary::Max, x, y) | Inst::Select(_, x, y) => is(x) && is(y),
            _ => false,
        };
        half.push(exact);
    }
    half[operand.value as usize]
}

/// The text of a product by matrices.
pub fn product(product: Product) -> Source {
    let Product { batch, m, n, k, .. } = product;
    // A workgroup has 32 x 32 or 64 x 64 results.
    let across = if class(batch, m, n) == 0 { 2 } else { 4 };
    let tile = 2 * across * SIZE;
    let mut shader = Shader::new(MATMUL_MATRICES);
    shader.remove("enable ");
    shader.sizes(&[("BATCH", batch.max(1)), ("M", m.max(1)), ("N", n.max(1)), ("K", k)]);
    shader.sizes(&[("LAST_K", k.saturating_sub(1))]);
    shader.constants(&[("ACROSS", across)]);
    shader.choose("A_ALONG_K", product.a_along_k);
    shader.choose("B_ALONG_K", product.b_along_k);
    let groups = batch * m.div_ceil(tile) * n.div_ceil(tile);
    shader.fill(vec![product.a, product.b, product.epilogue], groups as u64)
}
