//! Draws the operations in the history of a tensor as a graph.

mod layout;
mod svg;

use super::Tensor;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::graph::Recorded;
use crate::shape::Shape;
use rustc_hash::FxHashMap;
use std::fmt::Write;

/// The most operations and operands in a drawing.
const MAX_NODES: usize = 500;

/// The operations in the history of a tensor ([`Tensor::graph`]), to be drawn as DOT text for Graphviz or as SVG.
/// (`torchviz` for PyTorch.)
#[derive(Debug)]
pub struct ComputationGraph {
    /// The nodes. Operands come before their users, and the last node is the tensor itself.
    nodes: Vec<Node>,
    of: Tensor,
}

/// A box of the drawing.
#[derive(Debug)]
struct Node {
    name: Option<String>,
    op: &'static str,
    inputs: Vec<usize>,
    shape: Shape,
    dtype: DType,
    value: Option<f64>,
    gradient: Option<f64>,
    /// The tensor, if it is a single number whose value is not known yet.
    number: Option<Tensor>,
}

impl Tensor {
    /// Returns the operations in the history of this tensor. [`Tensor::grad`] explains when history is dropped.
    ///
    /// The drawing shows the names of the tensors in `names`. Nothing is computed, except by
    /// [`ComputationGraph::with_values`].
    ///
    /// # Errors
    /// `Limit` for more than 500 operations and operands; the error that the tensor carries.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, tensor::Variable};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let number = |x: f32| Ok::<_, warpweft::error::Error>(Variable::new(&device.tensor(&[x], &[])?));
    /// let (a, b, c) = (number(2.0)?, number(-3.0)?, number(0.5)?);
    /// let loss = &a * &b + c.value().tanh();
    /// let names = [("a", &a.value()), ("b", &b.value()), ("c", &c.value()), ("loss", &loss)];
    /// let graph = loss.graph(&names)?.with_values().await?;
    /// assert!(graph.dot().contains("a\\nf32 []\\nvalue 2\\ngradient -3"));
    /// assert!(graph.svg().starts_with("<svg")); // `std::fs::write("loss.svg", graph.svg())`
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    pub fn graph(&self, names: &[(&str, &Tensor)]) -> Result<ComputationGraph> {
        let name = "graph";
        let of = self.node()?;
        let mut named = FxHashMap::default();
        for (name, tensor) in names {
            if self.device.is_same(&tensor.device) {
                named.insert(tensor.node()?, name.to_string());
            }
        }
        let leaves = named.keys().copied().collect();
        let unknown =
            |one: &Recorded| one.shape.numel() == 1 && one.number.is_none() && one.has_value;
        let history = self.device.history(of, MAX_NODES, &leaves, unknown).ok_or_else(|| {
            let message = format!(
                "{name}: the drawing must have at most {MAX_NODES} operations and operands, got more"
            );
            Error::new(ErrorKind::Limit, message)
        })?;
        let mut nodes = Vec::with_capacity(history.len());
        for (recorded, held) in history {
            let Recorded { id, name: op, inputs, shape, dtype, number, .. } = recorded;
            let tensor = held.map(|node| Tensor::adopt(&self.device, node));
            let (value, name) = (number, named.get(&id).cloned());
            nodes.push(Node {
                name,
                op,
                inputs,
                shape,
                dtype,
                value,
                gradient: None,
                number: tensor,
            });
        }
        Ok(ComputationGraph { nodes, of: self.clone() })
    }
}

impl ComputationGraph {
    /// Adds the value of each single number, and the gradient of the drawn tensor by that number.
    ///
    /// Gradients are added only if the drawn tensor is a single float number. Gradients that would pass a tensor that was
    /// dropped long ago are omitted. All numbers are read in one submission.
    ///
    /// # Errors
    /// The errors of [`Device::read`](crate::device::Device::read).
    pub async fn with_values(mut self) -> Result<ComputationGraph> {
        // The drawing must not change the program, so nodes that it computes keep their history.
        let past = self.of.past()?;
        let open = self.of.device().open(past.iter().filter_map(|x| x.node().ok()));
        let take = |(n, node): (usize, &mut Node)| node.number.take().map(|number| (n, number));
        let numbers: Vec<(usize, Tensor)> =
            self.nodes.iter_mut().enumerate().filter_map(take).collect();
        let mut values = Vec::with_capacity(numbers.len());
        for (n, number) in &numbers {
            values.push((*n, number.cast(DType::F32)?.mul(1)?));
        }
        let by: Vec<&(usize, Tensor)> =
            numbers.iter().filter(|(_, number)| number.dtype().is_float()).collect();
        let mut gradients = Vec::new();
        if self.of.numel() == 1 && self.of.dtype().is_float() && !by.is_empty() {
            let wrt: Vec<&Tensor> = by.iter().map(|(_, number)| number).collect();
            for ((n, _), gradient) in by.iter().zip(self.known_gradients(&wrt)) {
                let Some(gradient) = gradient else { continue };
                gradients.push((*n, gradient.cast(DType::F32)?));
            }
        }
        let all: Vec<&Tensor> = values.iter().chain(&gradients).map(|(_, x)| x).collect();
        let read = self.of.device().read::<f32>(&all);
        self.of.device().keep_open(&open);
        drop((numbers, past));
        let read = read.await?;
        let mut read = read.into_iter().map(|one| one.first().copied().map(f64::from));
        for (n, _) in &values {
            self.nodes[*n].value = read.next().flatten();
        }
        for (n, _) in &gradients {
            self.nodes[*n].gradient = read.next().flatten();
        }
        Ok(self)
    }

    /// Returns the gradient by each tensor, or `None` for those that cannot be computed.
    fn known_gradients(&self, wrt: &[&Tensor]) -> Vec<Option<Tensor>> {
        match self.of.grad(wrt) {
            Ok(all) => all.into_iter().map(Some).collect(),
            Err(_) => wrt.iter().map(|one| self.of.grad(&[one]).ok()?.pop()).collect(),
        }
    }

    /// Returns the graph in the DOT language of Graphviz. Render it with `dot -Tpdf`, for example.
    pub fn dot(&self) -> String {
        let mut text =
            "digraph {\n  rankdir=LR;\n  node [shape=box, fontname=monospace];\n".to_string();
        for (n, node) in self.nodes.iter().enumerate() {
            let mut label = String::new();
            for (i, line) in node.lines().iter().enumerate() {
                label.push_str(if i > 0 { "\\n" } else { "" });
                for c in line.chars().filter(|c| !c.is_control()) {
                    label.push_str(if matches!(c, '"' | '\\') { "\\" } else { "" });
                    label.push(c);
                }
            }
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  n{n} [label=\"{label}\"];");
            for input in &node.inputs {
                let _ = writeln!(text, "  n{input} -> n{n};");
            }
        }
        text.push_str("}\n");
        text
    }
}

impl Node {
    /// Returns the lines of text in the box.
    fn lines(&self) -> Vec<String> {
        let title = match (&self.name, self.inputs.is_empty()) {
            (Some(name), true) => name.clone(),
            (Some(name), false) => format!("{name} = {}", self.op),
            (None, _) => self.op.to_string(),
        };
        let mut lines = vec![title, format!("{} {}", self.dtype, self.shape)];
        lines.extend(self.value.map(|value| format!("value {}", number(value))));
        lines.extend(self.gradient.map(|gradient| format!("gradient {}", number(gradient))));
        lines
    }
}

/// Formats a number with about five digits.
fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        0.0 => "0".to_string(),
        _ if !value.is_finite() => value.to_string(),
        _ if !(1e-3..1e5).contains(&size) => format!("{value:.3e}"),
        _ => format!("{value:.4}").trim_end_matches('0').trim_end_matches('.').to_string(),
    }
}
