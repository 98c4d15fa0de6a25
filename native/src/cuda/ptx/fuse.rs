//! Fusion of products and sums: `a * b + c` becomes one `fma`, which rounds once and takes half of the instructions.
//!
//! A sum is fused if its product has no other use, and both are in one basic block. Operands of the product could otherwise
//! have changed, because registers of joins are written more than once. The product is then dead, and is removed later.

use crate::cuda::ptx::ir::{Inst, Op, Operand, Ty};

/// A product: its operands, the block that it is in, and how often it is used.
#[derive(Clone, Copy, Default)]
struct Product {
    factors: Option<(Ty, Operand, Operand)>,
    block: u32,
    uses: u32,
}

/// Fuses products and sums.
pub fn fuse(insts: &mut [Inst], registers: u32) {
    let mut products = vec![Product::default(); registers as usize];
    for inst in insts.iter() {
        crate::cuda::ptx::clean::reads(inst, &mut |operand| {
            if let Operand::Reg(reg) = operand
                && let Some(product) = products.get_mut(reg.id as usize)
            {
                product.uses += 1;
            }
        });
        if let Inst::Copies(copies) = inst {
            for (_, value) in copies {
                if let Operand::Reg(reg) = value
                    && let Some(product) = products.get_mut(reg.id as usize)
                {
                    product.uses += 1;
                }
            }
        }
    }
    let mut block = 0;
    for inst in insts.iter_mut() {
        match inst {
            Inst::Label(_) | Inst::Copies(_) => block += 1,
            Inst::Pure { op: Op::Mul(ty), dst, args } if ty.is_float() => {
                if let Some(product) = products.get_mut(dst.id as usize) {
                    product.factors = Some((*ty, args[0], args[1]));
                    product.block = block;
                }
            }
            Inst::Pure { op: op @ Op::Add(Ty::F32 | Ty::F16), args, .. } => {
                for (term, other) in [(args[0], args[1]), (args[1], args[0])] {
                    if let Operand::Reg(reg) = term
                        && let Some(product) = products.get(reg.id as usize)
                        && let Some((ty, a, b)) = product.factors
                        && product.uses == 1
                        && product.block == block
                    {
                        *op = Op::Fma(ty);
                        *args = [a, b, other];
                        break;
                    }
                }
            }
            _ => {}
        }
    }
}
