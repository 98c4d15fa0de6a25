//! Compares gradients with finite differences of a function in `f64`.

use super::super::array::{random, word, Array};
use super::super::check::{said, Outcome, Suite};
use std::rc::Rc;
use warpweft::device::Device;
use warpweft::error::Result;
use warpweft::tensor::Tensor;

/// The function on tensors that is differentiated.
type Build = Rc<dyn Fn(&[Tensor]) -> Result<Tensor>>;
/// The same function in `f64`.
type Meaning = Rc<dyn Fn(&[Array<f64>]) -> Array<f64>>;

/// The most elements of an input whose gradients are compared one by one.
const ELEMENTS: usize = 40;

/// Checks the gradients of the sum of `build` times random numbers by each of `inputs`. Compares them with `meaning` at single
/// elements and along random directions.
async fn agree(
    device: Device,
    inputs: Rc<Vec<Array<f64>>>,
    build: Build,
    meaning: Meaning,
    step: f64,
) -> Outcome {
    let tensors: Result<Vec<Tensor>> = inputs.iter().map(|x| x.f32(&device)).collect();
    let tensors = tensors.map_err(said)?;
    let result = build(&tensors).map_err(said)?;
    let want = meaning(&inputs);
    if result.shape() != want.shape {
        return Err(format!("{:?} instead of {:?}", result.shape(), want.shape));
    }
    let seed = random(&want.shape, -1.0, 1.0, 99);
    let wrt: Vec<&Tensor> = tensors.iter().collect();
    let gradients = result.vjp(&seed.f32(&device).map_err(said)?, &wrt).map_err(said)?;
    let mut batch = device.batch();
    for gradient in &gradients {
        batch.add(gradient).map_err(said)?;
    }
    batch.run().map_err(said)?;
    for (n, (gradient, x)) in gradients.iter().zip(inputs.iter()).enumerate() {
        if gradient.shape() != x.shape {
            return Err(format!("by {n}: {:?} instead of {:?}", gradient.shape(), x.shape));
        }
        let got = gradient.read::<f32>().await.map_err(said)?;
        let at = |direction: &[f64], by: f64| -> f64 {
            let mut moved = inputs.to_vec();
            moved[n].data.iter_mut().zip(direction).for_each(|(x, d)| *x += d * by);
            meaning(&moved).data.iter().zip(&seed.data).map(|(y, s)| y * s).sum()
        };
        let count = got.len();
        let one = |e: usize| (0..count).map(|i| f64::from(u8::from(i == e))).collect();
        let mut directions: Vec<Vec<f64>> = if count <= ELEMENTS {
            (0..count).map(one).collect()
        } else {
            (0..ELEMENTS).map(|i| one(word(7, i) as usize % count)).collect()
        };
        directions.push(random(&[count], -1.0, 1.0, 5).data);
        let size = got.iter().fold(0.0f64, |most, g| most.max(f64::from(g.abs())));
        for (i, direction) in directions.iter().enumerate() {
            let want = (at(direction, step) - at(direction, -step)) / (2.0 * step);
            let got: f64 = got.iter().zip(direction).map(|(g, d)| f64::from(*g) * d).sum();
            let allowed = 1e-3 * want.abs() + 1e-4 * size + 1e-6;
            // Written so that NaN fails.
            let fine = (got - want).abs() <= allowed;
            if !fine {
                return Err(format!("by {n}, direction {i}: got {got:e}, want {want:e}"));
            }
        }
    }
    Ok(())
}

/// Adds a case that calls [`agree`].
pub fn holds(
    suite: &mut Suite,
    name: impl AsRef<str>,
    inputs: Vec<Array<f64>>,
    build: impl Fn(&[Tensor]) -> Result<Tensor> + 'static,
    meaning: impl Fn(&[Array<f64>]) -> Array<f64> + 'static,
) {
    let (inputs, build, meaning): (_, Build, Meaning) =
        (Rc::new(inputs), Rc::new(build), Rc::new(meaning));
    suite.steps(name, move |device| {
        agree(device, inputs.clone(), build.clone(), meaning.clone(), 1e-4)
    });
}

/// Adds a case of second derivatives: of a number by the first input, differentiated again by all inputs.
pub fn twice(
    suite: &mut Suite,
    name: impl AsRef<str>,
    inputs: Vec<Array<f64>>,
    build: impl Fn(&[Tensor]) -> Result<Tensor> + 'static,
    meaning: impl Fn(&[Array<f64>]) -> f64 + 'static,
) {
    const STEP: f64 = 1e-3;
    let inputs = Rc::new(inputs);
    let build: Build = Rc::new(move |x: &[Tensor]| Ok(build(x)?.grad(&[&x[0]])?.remove(0)));
    let slopes = move |x: &[Array<f64>]| {
        let at = |n: usize, by: f64| {
            let mut moved = x.to_vec();
            moved[0].data[n] += by;
            meaning(&moved)
        };
        let slope = |n: usize| (at(n, STEP) - at(n, -STEP)) / (2.0 * STEP);
        Array::new(&x[0].shape, (0..x[0].data.len()).map(slope).collect())
    };
    let meaning: Meaning = Rc::new(slopes);
    suite.steps(name, move |device| {
        agree(device, inputs.clone(), build.clone(), meaning.clone(), STEP)
    });
}
