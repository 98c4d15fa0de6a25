//! Helpers of the expected computations, in `f64` and independent of the library.

/// A row-major matrix.
#[derive(Clone, Debug)]
pub struct Matrix {
    pub rows: usize,
    pub columns: usize,
    pub data: Vec<f64>,
}

impl Matrix {
    pub fn new(rows: usize, columns: usize, data: &[f64]) -> Matrix {
        assert_eq!(data.len(), rows * columns, "the test's own data");
        Matrix { rows, columns, data: data.to_vec() }
    }

    pub fn from_fn(rows: usize, columns: usize, f: impl Fn(usize, usize) -> f64) -> Matrix {
        let mut data = Vec::with_capacity(rows * columns);
        for i in 0..rows {
            data.extend((0..columns).map(|j| f(i, j)));
        }
        Matrix { rows, columns, data }
    }

    pub fn eye(n: usize) -> Matrix {
        Matrix::from_fn(n, n, |i, j| f64::from(u8::from(i == j)))
    }

    pub fn at(&self, i: usize, j: usize) -> f64 {
        self.data[i * self.columns + j]
    }

    pub fn row(&self, i: usize) -> &[f64] {
        &self.data[i * self.columns..(i + 1) * self.columns]
    }

    pub fn turned(&self) -> Matrix {
        Matrix::from_fn(self.columns, self.rows, |i, j| self.at(j, i))
    }

    pub fn times(&self, other: &Matrix) -> Matrix {
        assert_eq!(self.columns, other.rows, "the test's own shapes");
        let mut product = Matrix::from_fn(self.rows, other.columns, |_, _| 0.0);
        for i in 0..self.rows {
            for k in 0..self.columns {
                let factor = self.at(i, k);
                for j in 0..other.columns {
                    product.data[i * other.columns + j] += factor * other.at(k, j);
                }
            }
        }
        product
    }

    pub fn on(&self, x: &[f64]) -> Vec<f64> {
        (0..self.rows).map(|i| dot(self.row(i), x)).collect()
    }

    pub fn map(&self, f: impl Fn(f64) -> f64) -> Matrix {
        Matrix { data: self.data.iter().map(|&v| f(v)).collect(), ..*self }
    }

    pub fn with(&self, other: &Matrix, f: impl Fn(f64, f64) -> f64) -> Matrix {
        Matrix { data: zip(&self.data, &other.data, f), ..*self }
    }
}

pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

pub fn zip(a: &[f64], b: &[f64], f: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    assert_eq!(a.len(), b.len(), "the test's own lengths");
    a.iter().zip(b).map(|(&a, &b)| f(a, b)).collect()
}

pub fn softmax(x: &[f64]) -> Vec<f64> {
    let most = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = x.iter().map(|v| (v - most).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|v| v / sum).collect()
}

/// Returns the index of the first largest element.
pub fn largest(x: &[f64]) -> usize {
    (0..x.len()).fold(0, |best, at| if x[at] > x[best] { at } else { best })
}

/// Half the distance of a central difference. Its error is about this squared.
const STEP: f64 = 1e-5;

/// Returns the gradient of `f` by central differences.
pub fn slopes(at: &[f64], f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let mut moved = at.to_vec();
    let mut slopes = Vec::with_capacity(at.len());
    for (n, &value) in at.iter().enumerate() {
        moved[n] = value + STEP;
        let above = f(&moved);
        moved[n] = value - STEP;
        slopes.push((above - f(&moved)) / (2.0 * STEP));
        moved[n] = value;
    }
    slopes
}

pub fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}
