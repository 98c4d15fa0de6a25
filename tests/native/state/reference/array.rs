//! Arrays of numbers, with the few operations that the tape needs.

use super::number::Number;

/// Numbers in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    pub shape: Vec<usize>,
    pub data: Vec<Number>,
}

/// Returns the number of elements of a shape.
pub fn count(shape: &[usize]) -> usize {
    shape.iter().product()
}

/// Returns the shape that two shapes broadcast to, as in NumPy.
pub fn broadcast(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let extent = |shape: &[usize], axis: usize| match (axis + shape.len()).checked_sub(rank) {
        Some(own) => shape[own],
        None => 1,
    };
    (0..rank)
        .map(|axis| match (extent(a, axis), extent(b, axis)) {
            (x, y) if x == y || y == 1 => Some(x),
            (1, y) => Some(y),
            _ => None,
        })
        .collect()
}

/// Returns the position in an array of `from` that broadcasts to the position `at` in an array of `to`.
fn source(at: usize, from: &[usize], to: &[usize]) -> usize {
    let (mut rest, mut position, mut stride) = (at, 0, 1);
    for axis in (0..to.len()).rev() {
        let index = rest % to[axis];
        rest /= to[axis];
        if let Some(own) = (axis + from.len()).checked_sub(to.len()) {
            position += if from[own] == 1 { 0 } else { index * stride };
            stride *= from[own];
        }
    }
    position
}

impl Array {
    pub fn new(shape: &[usize], data: Vec<Number>) -> Array {
        assert_eq!(count(shape), data.len());
        Array { shape: shape.to_vec(), data }
    }

    pub fn full(shape: &[usize], value: Number) -> Array {
        Array::new(shape, vec![value; count(shape)])
    }

    pub fn zeros(shape: &[usize]) -> Array {
        Array::full(shape, Number::exact(0.0))
    }

    /// Returns a single number that `f32` represents exactly.
    pub fn scalar(value: f64) -> Array {
        Array::full(&[], Number::exact(value))
    }

    pub fn map(&self, f: impl Fn(Number) -> Number) -> Array {
        Array::new(&self.shape, self.data.iter().map(|&x| f(x)).collect())
    }

    /// Combines the elements of two arrays of the same shape.
    pub fn zip(&self, other: &Array, f: impl Fn(Number, Number) -> Number) -> Array {
        assert_eq!(self.shape, other.shape);
        let pairs = self.data.iter().zip(&other.data);
        Array::new(&self.shape, pairs.map(|(&a, &b)| f(a, b)).collect())
    }

    pub fn expand(&self, shape: &[usize]) -> Array {
        let data = (0..count(shape)).map(|at| self.data[source(at, &self.shape, shape)]).collect();
        Array::new(shape, data)
    }

    /// Returns the sum over all axes that broadcast from `shape`.
    pub fn sum_to(&self, shape: &[usize]) -> Array {
        let mut parts: Vec<Vec<Number>> = vec![Vec::new(); count(shape)];
        for (at, &number) in self.data.iter().enumerate() {
            parts[source(at, shape, &self.shape)].push(number);
        }
        let sum = |part: Vec<Number>| match part[..] {
            [one] => one,
            _ => Number::sum(part),
        };
        Array::new(shape, parts.into_iter().map(sum).collect())
    }

    pub fn reshape(&self, shape: &[usize]) -> Array {
        Array::new(shape, self.data.clone())
    }

    /// Returns the transpose of a matrix.
    pub fn transpose(&self) -> Array {
        let (rows, columns) = (self.shape[0], self.shape[1]);
        let at = |n: usize| self.data[n % rows * columns + n / rows];
        Array::new(&[columns, rows], (0..rows * columns).map(at).collect())
    }

    pub fn matmul(&self, other: &Array) -> Array {
        let (rows, inner, columns) = (self.shape[0], self.shape[1], other.shape[1]);
        let one = |n: usize| {
            let (row, column) = (n / columns, n % columns);
            let term = |k: usize| self.data[row * inner + k] * other.data[k * columns + column];
            Number::sum((0..inner).map(term))
        };
        Array::new(&[rows, columns], (0..rows * columns).map(one).collect())
    }

    /// Returns the number of elements for each index of the first axis.
    fn row(&self) -> usize {
        count(&self.shape[1..])
    }

    /// Returns the part from `start` on along the first axis.
    pub fn slice(&self, start: usize, len: usize) -> Array {
        let row = self.row();
        let mut shape = self.shape.clone();
        shape[0] = len;
        Array::new(&shape, self.data[start * row..(start + len) * row].to_vec())
    }

    /// Returns zeros of extent `total` along the first axis, with this array from `start` on.
    pub fn pad(&self, start: usize, total: usize) -> Array {
        let mut shape = self.shape.clone();
        shape[0] = total;
        let mut padded = Array::zeros(&shape);
        let row = self.row();
        padded.data[start * row..start * row + self.data.len()].copy_from_slice(&self.data);
        padded
    }

    /// Returns this array with other rows from `start` on.
    pub fn with_rows(&self, start: usize, rows: &Array) -> Array {
        let mut all = self.clone();
        let at = start * self.row();
        all.data[at..at + rows.data.len()].copy_from_slice(&rows.data);
        all
    }

    /// Concatenates arrays along the first axis.
    pub fn concat(parts: &[&Array]) -> Array {
        let mut shape = parts[0].shape.clone();
        shape[0] = parts.iter().map(|part| part.shape[0]).sum();
        Array::new(&shape, parts.iter().flat_map(|part| part.data.clone()).collect())
    }
}
