//! Elementwise functions.

use crate::expr::Expr;
use crate::op::{Element, Pointwise};
use std::sync::Arc;

/// An elementwise function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// A row of the pointwise table.
    Row(Pointwise),
    /// A derivative.
    Formula(Expr),
    /// A custom function.
    Element(Arc<Element>),
}

impl Function {
    /// Returns the formula, or `None` for a custom function.
    pub fn formula(&self) -> Option<Expr> {
        match self {
            Function::Row(row) => Some(row.row().expr()),
            Function::Formula(formula) => Some(*formula),
            Function::Element(_) => None,
        }
    }
}
