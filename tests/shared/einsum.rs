//! Tests `einsum`, compared with NumPy and JAX, and the errors for operands that do not fit.

use super::array::{integers, random, Array};
use super::check::{exact, near, said, Suite};
use super::linalg::{equations, like};
use super::tolerance::Tolerance;
use warpweft::dtype::DType;
use warpweft::tensor::Tensor;

pub fn cases() -> Suite {
    let mut suite = Suite::new("einsum");
    for equation in equations() {
        let text = equation.strip_suffix(" of 1").unwrap_or(&equation).to_string();
        like(&mut suite, &format!("einsum {equation}"), 1.0, move |x| {
            let operands: Vec<&Tensor> = (0..x.len()).map(|n| &x[&format!("x{n}")]).collect();
            Ok(vec![Tensor::einsum(&text[..], &operands)?])
        });
    }
    others(&mut suite);
    refused(&mut suite);
    suite
}

fn others(suite: &mut Suite) {
    suite.add("integers, spaces, halves of nothing", |device| {
        let (x, y) = (integers(&[3, 4], -9, 9, 1), integers(&[4, 2], -9, 9, 2));
        let (a, b) = (x.on(device, DType::I32)?, y.on(device, DType::I32)?);
        let want = Array::from_fn(&[3, 2], |at| {
            (0..4).map(|k| x.at(&[at[0], k]) * y.at(&[k, at[1]])).sum()
        });
        let none = device.zeros(&[3, 0])?;
        let empty = Tensor::einsum("ij,jk->ik", &[&none, &device.zeros(&[0, 2])?])?;
        let diagonal = Tensor::einsum("ii->i", &[&device.zeros(&[0, 0])?])?;
        Ok(vec![
            exact("integers", Tensor::einsum(" i j , jk -> i k ", &[&a, &b])?, DType::I32, want),
            near("of nothing", empty, Array::new(&[3, 2], vec![0.0; 6]), Tolerance::EXACT),
            near("a diagonal of nothing", diagonal, Array::new(&[0], vec![]), Tolerance::EXACT),
        ])
    });
    suite.add("larger products", |device| {
        let (x, y) = (random(&[2, 33, 5, 31], -1.0, 1.0, 3), random(&[5, 31, 40], -1.0, 1.0, 4));
        let want = Array::from_fn(&[2, 33, 40], |at| {
            let sum = |h: usize| -> f64 {
                (0..31).map(|d| x.at(&[at[0], at[1], h, d]) * y.at(&[h, d, at[2]])).sum()
            };
            (0..5).map(sum).sum()
        });
        let got = Tensor::einsum("blhd,hde->ble", &[&x.f32(device)?, &y.f32(device)?])?;
        let dotted = x.f32(device)?.tensordot(&y.f32(device)?, &[2, -1], &[0, 1])?;
        let by = Tolerance::sum(155, 1.0);
        Ok(vec![near("einsum", got, want.clone(), by), near("tensordot", dotted, want, by)])
    });
    suite.add("diagonals and traces", |device| {
        let x = integers(&[3, 2, 4], -9, 9, 5);
        let a = x.f32(device)?;
        let mut checks = Vec::new();
        for offset in -3i32..5 {
            let places = (0..3i32).map(|row| (row, row + offset));
            let inside: Vec<(i32, i32)> = places.filter(|(_, c)| (0..4).contains(c)).collect();
            let want = Array::from_fn(&[2, inside.len()], |at| {
                let (row, column) = inside[at[1]];
                x.at(&[row as usize, at[0], column as usize])
            });
            let got = a.diagonal(offset, 0, -1)?;
            checks.push(near(format!("diagonal {offset}"), got, want, Tolerance::EXACT));
        }
        let trace = Array::from_fn(&[3], |at| x.at(&[at[0], 0, 0]) + x.at(&[at[0], 1, 1]));
        checks.push(near("trace", a.trace()?, trace, Tolerance::EXACT));
        Ok(checks)
    });
}

/// Checks that messages about operands that do not fit name the letter and the shapes.
fn refused(suite: &mut Suite) {
    const WRONG: &[(&str, &[&[usize]], &str)] = &[
        (
            "ij,jk->ik",
            &[&[2, 3], &[4, 5]],
            "'j' of \"ij,jk->ik\" must have one extent, got 3 in operand 0, shape [2, 3], and 4 in",
        ),
        ("ij,jk", &[&[2, 3], &[4, 5]], "and 4 in operand 1, shape [4, 5]"),
        (
            "ii->i",
            &[&[2, 3]],
            "'i' of \"ii->i\" must have one extent, got 2 in operand 0, shape [2, 3], and 3 in operand 0",
        ),
        ("ii->i", &[&[1, 3]], "'i' of \"ii->i\" must have one extent, got 1"),
        ("ij->k", &[&[2, 3]], "must be those of an operand, got 'k' in \"ij->k\""),
        ("ij->ii", &[&[2, 3]], "must be distinct, got 'i' in \"ij->ii\""),
        ("ijk->i", &[&[2, 3]], "operand 0 of \"ijk->i\" must have rank 3, got shape [2, 3]"),
        ("i->i", &[&[2, 3]], "operand 0 of \"i->i\" must have rank 1, got shape [2, 3]"),
        ("...ijk->i", &[&[2, 3]], "must have rank 3 or more, got shape [2, 3]"),
        ("ij,jk->ik", &[&[2, 3]], "\"ij,jk->ik\" must have one term for each of 1 operands, got 2"),
        ("i1->i", &[&[2, 3]], "got '1' in \"i1->i\""),
        ("i..j->i", &[&[2, 3]], "got '.' in \"i..j->i\""),
        ("...i...->i", &[&[2, 3]], "at most one ellipsis"),
        ("iä->i", &[&[2, 3]], "got 'ä' in \"iä->i\""),
        ("...i,...i->...", &[&[2, 3], &[4, 3]], "1 from the end of '...' of"),
    ];
    suite.steps("what does not fit is said", |device| async move {
        for (equation, shapes, wanted) in WRONG {
            let mut operands = Vec::new();
            for shape in *shapes {
                operands.push(device.zeros(*shape).map_err(said)?);
            }
            let Err(error) = Tensor::einsum(*equation, &operands) else {
                return Err(format!("{equation} of {shapes:?} is not refused"));
            };
            let message = error.to_string();
            if !(message.starts_with("einsum: ") && message.contains(wanted)) {
                return Err(format!("{equation}: {message:?} does not say {wanted:?}"));
            }
        }
        let none: [Tensor; 0] = [];
        let x = device.zeros(&[2]).map_err(said)?;
        if Tensor::einsum("i", &none).is_ok() || x.tensordot(&x, &[0], &[]).is_ok() {
            return Err("no operands, or lists of two lengths".into());
        }
        Ok(())
    });
}
