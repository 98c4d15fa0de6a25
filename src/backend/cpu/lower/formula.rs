//! Rows of the pointwise table that have a dedicated function.

use crate::backend::cpu::math::function::{binary_cost, map, unary_cost, UnaryFn};
use crate::backend::cpu::math::number::Number;
use crate::dtype::DType;
use crate::kernel::{Builder, Inst};
use crate::op::{formulas, Function, Pointwise};

/// Returns the dedicated function of a row or a derivative, if it has one.
pub fn function(function: &Function) -> Option<UnaryFn> {
    slope(function).or_else(|| whole(function))
}

/// Returns the function of the derivatives that recurrent networks use most.
fn slope(function: &Function) -> Option<UnaryFn> {
    let Function::Formula(formula) = function else { return None };
    macro_rules! slopes {
        ($($row:ident $slope:ident)*) => { $(
            if Pointwise::$row.row().derivative(0) == *formula {
                return Some(|out, x| map::<f32, f32>(out, x, |x| formulas::$slope(Number(x)).0));
            }
        )* };
    }
    slopes!(sigmoid sigmoid_slope tanh tanh_slope);
    None
}

fn whole(function: &Function) -> Option<UnaryFn> {
    macro_rules! rows {
        ($($row:ident)*) => {
            match row_of(function)? {
                $(Pointwise::$row => Some(|out, x| {
                    map::<f32, f32>(out, x, |x| formulas::$row(Number(x)).0)
                }),)*
                _ => None,
            }
        };
    }
    rows!(gelu_tanh gelu erf softplus tanh silu sigmoid)
}

/// Returns the row that a function equals. A derivative can equal a row.
fn row_of(function: &Function) -> Option<Pointwise> {
    match function {
        Function::Row(row) => Some(*row),
        Function::Formula(formula) => {
            [Pointwise::sigmoid].into_iter().find(|row| row.row().expr() == *formula)
        }
        Function::Element(_) => None,
    }
}

/// Returns the approximate cost of a function of one value, in additions.
pub fn cost(function: &Function) -> usize {
    let mut builder = Builder::default();
    let argument = builder.push(Inst::Param { word: 0, dtype: DType::F32 });
    builder.function(function, &[argument], DType::F32);
    let cost = |inst: &Inst| match inst {
        Inst::Unary(op, _) => unary_cost(*op),
        Inst::Binary(op, ..) => binary_cost(*op),
        Inst::Const(_) | Inst::Param { .. } => 0,
        _ => 1,
    };
    builder.finish().insts.iter().map(cost).sum()
}
