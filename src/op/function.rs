//! Functions of elements, as wholes.

use crate::expr::Expr;
use crate::op::{Element, Pointwise};
use std::sync::Arc;

/// A function of elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// A row of the table.
    Row(Pointwise),
    /// A derivative.
    Formula(Expr),
    /// A user's.
    Element(Arc<Element>),
}

impl Function {
    /// The formula it is, unless it is a user's.
    pub fn formula(&self) -> Option<Expr> {
        match self {
            Function::Row(row) => Some(row.row().expr()),
            Function::Formula(formula) => Some(*formula),
            Function::Element(_) => None,
        }
    }
}
