//! Tests gradients of tensors with many uses: a tensor that is sliced at every step, and a weight that is multiplied at every
//! step.

use super::super::array::{random, Array};
use super::super::check::Suite;
use super::super::matmul::product;
use super::{holds, twice};
use warpweft::error::Result;
use warpweft::tensor::Tensor;

pub fn cases(suite: &mut Suite) {
    const LONG: usize = 20;
    let every: Vec<_> = (0..LONG).map(|at| (0, at, 1, 1)).collect();
    let gaps = [1, 2, 4, 5, 7, 9, 10, 13, 16, 17].map(|at| (0, at, 1, 1)).to_vec();
    let mut again = every.clone();
    again.extend([0, 3, 3, 19, 3].map(|at| (0, at, 1, 1)));
    let overlapping = (0..LONG - 3).map(|at| (0, at, 4, 1)).collect();
    let lengths =
        [(0, 0), (3, 5), (8, 1), (4, 7), (9, 2), (0, 20), (11, 1), (12, 8), (2, 2), (19, 1)];
    let lengths = lengths.map(|(at, len)| (0, at, len, 1)).to_vec();
    let axes = (0..LONG)
        .map(|at| (at % 2, at % 3, 1, 1))
        .chain((0..LONG).map(|at| (0, at, 1, 1)))
        .collect();
    let apart = (0..LONG - 8).map(|at| (0, at, 3, 4)).collect();
    let kinds: [(&str, Vec<Place>); 7] = [
        ("each place once", every),
        ("with gaps", gaps),
        ("some places again", again),
        ("windows that overlap", overlapping),
        ("of several lengths", lengths),
        ("along two axes", axes),
        ("in steps", apart),
    ];
    for (name, places) in kinds {
        let (ours, theirs) = (places.clone(), places.clone());
        holds(
            suite,
            format!("many slices: {name}"),
            vec![random(&[LONG, 3, 2], -1.0, 1.0, 91)],
            move |x| cubes(&x[0], &ours),
            move |x| Array::new(&[], vec![cubes_wanted(&x[0], &theirs)]),
        );
        let ours = places.clone();
        twice(
            suite,
            format!("twice: many slices: {name}"),
            vec![random(&[LONG, 3, 2], -1.0, 1.0, 92)],
            move |x| cubes(&x[0], &ours),
            move |x| cubes_wanted(&x[0], &places),
        );
    }
    // Few rows make thin products, which are joined. More rows are not joined.
    for (batch, size) in [(1, 8), (2, 8), (6, 4)] {
        let inputs = move |seed| {
            vec![
                random(&[size, size], -0.4, 0.4, seed),
                random(&[size, size], -0.4, 0.4, seed + 1),
                random(&[12, batch, size], -1.0, 1.0, seed + 2),
            ]
        };
        let number = |x: Array<f64>| Array::new(&[], vec![x.data.iter().map(|x| x * x).sum()]);
        holds(
            suite,
            format!("a network of 12 steps, {batch} rows of {size}"),
            inputs(93),
            |x| recurrent(x)?.square().sum(()),
            move |x| number(recurrent_wanted(x)),
        );
        twice(
            suite,
            format!("twice: a network of 12 steps, {batch} rows of {size}"),
            inputs(96),
            |x| recurrent(x)?.square().sum(()),
            move |x| number(recurrent_wanted(x)).data[0],
        );
    }
    holds(
        suite,
        "a weight from the left at 12 steps",
        vec![random(&[5, 5], -0.4, 0.4, 99), random(&[5, 1], -1.0, 1.0, 100)],
        |x| (0..12).try_fold(x[1].clone(), |h, _| Ok(x[0].matmul(&h)?.sin() + &x[1])),
        |x| {
            let step = |h: Array<f64>, _| product(&x[0], &h).zip(&x[1], |h, x| h.sin() + x);
            (0..12).fold(x[1].clone(), step)
        },
    );
}

/// An axis, a start, a number of elements, and the step between them.
type Place = (usize, usize, usize, usize);

/// Returns the sum of the cubes of slices, each with a different factor.
fn cubes(x: &Tensor, places: &[Place]) -> Result<Tensor> {
    let mut sum = x.device().zeros(&[])?;
    for (n, &(axis, start, len, step)) in places.iter().enumerate() {
        let to = (start + len * step).min(x.shape()[axis]);
        let (from, to) = (start as isize, to as isize);
        let part = x.slice_step(axis as isize, from..to, step)?;
        sum += (part.square() * part * factor(n)).sum(())?;
    }
    Ok(sum)
}

fn cubes_wanted(x: &Array<f64>, places: &[Place]) -> f64 {
    let mut sum = 0.0;
    for (n, &(axis, start, len, step)) in places.iter().enumerate() {
        let part = x.slice(axis, start, len, step as isize);
        sum += part.data.iter().map(|x| x * x * x * factor(n)).sum::<f64>();
    }
    sum
}

fn factor(n: usize) -> f64 {
    1.0 + 0.25 * (n % 5) as f64
}

/// Returns the last state of `tanh(x_t w + h u)`.
fn recurrent(inputs: &[Tensor]) -> Result<Tensor> {
    let [w, u, x] = inputs else { unreachable!("three inputs") };
    let mut h = x.select(0, 0)?;
    for t in 0..x.shape()[0] {
        h = (x.select(0, t as isize)?.matmul(w)? + h.matmul(u)?).tanh();
    }
    Ok(h)
}

fn recurrent_wanted(inputs: &[Array<f64>]) -> Array<f64> {
    let [w, u, x] = inputs else { unreachable!("three inputs") };
    let row = |t: usize| x.slice(0, t, 1, 1).reshape(&x.shape[1..]);
    let mut h = row(0);
    for t in 0..x.shape[0] {
        h = product(&row(t), w).zip(&product(&h, u), |a, b| (a + b).tanh());
    }
    h
}
