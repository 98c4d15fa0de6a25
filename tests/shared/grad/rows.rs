//! Tests the gradient of every row of the pointwise table by every operand. It must match the reference, and be finite wherever
//! the value is.

use super::super::array::{word, Array};
use super::super::call::call;
use super::super::check::{said, Outcome, Suite};
use super::super::reference::{self, slope, Reference};
use super::super::tolerance::allowance;
use warpweft::backend::DeviceKind;
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::op::pointwise::TABLE;
use warpweft::op::{Row, Types};
use warpweft::tensor::{Operand, Tensor};

/// Magnitudes at which gradients must be finite, with both signs.
const EXTREMES: [f32; 10] = [0.0, 1e-30, 1e-4, 0.5, 1.0, 3.0, 30.0, 88.8, 100.0, 1e4];

/// The number of random points for each row.
const RANDOM: usize = 200;

pub fn cases(suite: &mut Suite) {
    for row in TABLE {
        let Some(reference) = reference::float(row.name).filter(|_| is_float(row)) else {
            continue;
        };
        suite.steps(format!("the row {}", row.name), move |device| slopes(device, row, reference));
    }
}

fn types(row: &Row) -> Vec<DType> {
    let mut types = vec![DType::F32; row.operands.len()];
    if row.types == Types::Select {
        types[0] = DType::Bool;
    }
    types
}

/// Whether the row computes floats from floats.
fn is_float(row: &Row) -> bool {
    row.dtype(&types(row)) == Ok(DType::F32)
}

/// Returns points, and the gradient of the row by each operand of dtype `f32` there.
async fn gradients(
    device: &Device,
    row: &Row,
    columns: Vec<Vec<f64>>,
    parameters: &[f64],
) -> std::result::Result<(Vec<Vec<f64>>, Vec<(usize, Vec<f32>)>), String> {
    let count = columns[0].len();
    let mut points = vec![Vec::new(); count];
    let mut operands: Vec<Tensor> = Vec::new();
    for (column, dtype) in columns.iter().zip(types(row)) {
        let column = match dtype {
            DType::Bool => column.iter().map(|x| f64::from(u8::from(*x > 0.5))).collect(),
            _ => column.clone(),
        };
        points.iter_mut().zip(&column).for_each(|(point, &x)| point.push(x));
        operands.push(Array::new(&[count], column).on(device, dtype).map_err(said)?);
    }
    points.iter_mut().for_each(|point| point.extend(parameters));
    let differentiable: Vec<usize> =
        (0..operands.len()).filter(|&n| operands[n].dtype() == DType::F32).collect();
    let work = || -> Result<Vec<Tensor>> {
        let rest: Vec<Operand> = operands[1..].iter().map(Operand::from).collect();
        let result = call(row.name, &operands[0], &rest, parameters)?;
        let wrt: Vec<&Tensor> = differentiable.iter().map(|&n| &operands[n]).collect();
        result.vjp(&device.ones(&[count])?, &wrt)
    };
    let gradients = work().map_err(said)?;
    let mut batch = device.batch();
    for gradient in &gradients {
        batch.add(gradient).map_err(said)?;
    }
    batch.run().map_err(said)?;
    let mut found = Vec::new();
    for (gradient, n) in gradients.iter().zip(differentiable) {
        found.push((n, gradient.read::<f32>().await.map_err(said)?));
    }
    Ok((points, found))
}

/// Returns points in the domain of a row, then combinations of extremes.
fn columns(row: &Row) -> Vec<Vec<f64>> {
    let values: Vec<f64> = EXTREMES.iter().flat_map(|&x| [f64::from(x), -f64::from(x)]).collect();
    let operands = row.operands.len();
    let digit = |at: usize, n: usize| at / values.len().pow(n as u32) % values.len();
    let count = values.len().pow(operands as u32);
    let column = |n: usize| {
        let (low, high) = *row.domain.get(n).or(row.domain.last()).expect("a domain");
        let random = |at: usize| {
            let unit = f64::from(word(n as u32 + 31, at)) / 4_294_967_296.0;
            f64::from((low + (high - low) * unit) as f32)
        };
        (0..RANDOM).map(random).chain((0..count).map(|at| values[digit(at, n)])).collect()
    };
    (0..operands).map(column).collect()
}

async fn slopes(device: Device, row: &'static Row, reference: Reference) -> Outcome {
    let parameters: Vec<f64> = row.parameters.iter().map(|p| f64::from(p.1 as f32)).collect();
    let (points, found) = gradients(&device, row, columns(row), &parameters).await?;
    let gpu = device.info().kind != DeviceKind::Cpu;
    for (n, got) in found {
        in_domain(row, &reference, gpu, n, points.iter().zip(&got).take(RANDOM))?;
        at_extremes(row, &reference, n, points.iter().zip(&got).skip(RANDOM))?;
    }
    Ok(())
}

fn in_domain<'a>(
    row: &Row,
    reference: &Reference,
    gpu: bool,
    n: usize,
    found: impl Iterator<Item = (&'a Vec<f64>, &'a f32)>,
) -> Outcome {
    let mut compared = 0;
    for (point, &got) in found {
        let Some((want, noise)) = slope(reference, point, n) else { continue };
        compared += 1;
        let scale = reference.slope_scale.map_or(0.0, |scale| scale(point));
        // The derivative of a GPU's sine has the same error as its value.
        let device = match row.name {
            "sin" | "cos" | "tan" => allowance(gpu, row.name, point).absolute,
            _ => 0.0,
        };
        let allowed = 1e-3 * want.abs() + noise + 1e-6 * scale + device + 1e-6;
        let fine = (f64::from(got) - want).abs() <= allowed;
        if !fine {
            return Err(format!("{point:?} by {n}: got {got:e}, want {want:e}"));
        }
    }
    match compared > RANDOM / 2 {
        true => Ok(()),
        false => Err(format!("{compared} slopes compared")),
    }
}

/// Whether the function is finite but its slope is not.
fn is_vertical(name: &str, point: &[f64], n: usize) -> bool {
    match name {
        "sqrt" => point[0] == 0.0,
        "asin" | "acos" => point[0].abs() == 1.0,
        "acosh" => point[0] == 1.0,
        // 1 / x^2 exceeds the range of `f32`.
        "digamma" => point[0].abs() < 1e-18,
        "pow" => n == 0 && point[0] == 0.0 && 0.0 < point[1] && point[1] < 1.0,
        _ => false,
    }
}

fn at_extremes<'a>(
    row: &Row,
    reference: &Reference,
    n: usize,
    found: impl Iterator<Item = (&'a Vec<f64>, &'a f32)>,
) -> Outcome {
    // Values that overflow in `f32` need not be finite.
    let fits = |value: f64| value.abs() < 0.99 * f64::from(f32::MAX);
    for (point, &got) in found {
        let slope = slope(reference, point, n);
        let steep = slope.is_some_and(|(slope, _)| !fits(slope));
        let excused = steep || is_vertical(row.name, point, n);
        // By the exponent, the derivative of a power of a negative number is NaN.
        let undefined = row.name == "pow" && n == 1 && point[0] < 0.0;
        let bad = !undefined && got.is_nan() || !excused && got.is_infinite();
        if fits((reference.value)(point)) && bad {
            return Err(format!("{point:?} by {n}: got {got:e}, slope {slope:?}"));
        }
    }
    Ok(())
}
