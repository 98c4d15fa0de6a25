//! Gradients from scratch, as in micrograd: an expression of numbers with a drawing of its graph, and a net of 2-16-16-1
//! neurons that separates two moons.
//! `cargo run -p warpweft-native --example micrograd`

use std::f32::consts::PI;
use warpweft_native::{nn::*, prelude::*};

/// Returns points on two half circles, and -1 or 1 for the circle of each point.
fn moons(device: &Device, count: usize) -> Result<(Tensor, Tensor)> {
    let (mut points, mut labels) = (Vec::new(), Vec::new());
    for n in 0..count {
        let angle = PI * n as f32 / count as f32;
        points.extend([angle.cos(), angle.sin(), 1.0 - angle.cos(), 0.5 - angle.sin()]);
        labels.extend([-1.0f32, 1.0]);
    }
    let noise = device.normal(&[2 * count, 2], 0.0, 0.1, 1)?;
    Ok((device.tensor(&points, &[2 * count, 2])? + noise, device.tensor(&labels, &[2 * count, 1])?))
}

fn main() -> Result<()> {
    let device = Device::new_blocking()?;

    let number = |x: f32| Ok(Variable::new(&device.tensor(&[x], &[])?));
    let (a, b, c): (Variable, Variable, Variable) = (number(2.0)?, number(-3.0)?, number(10.0)?);
    let d = &a * &b + &c;
    let e = (d.square() / 10.0 - &a).tanh();
    e.backward(&[&a, &b, &c])?;
    let gradient = |x: &Variable| x.gradient().expect("backward left one").item_blocking::<f32>();
    println!("gradients: {:.4} {:.4} {:.4}", gradient(&a)?, gradient(&b)?, gradient(&c)?);

    // A drawing of the graph, with the values and the gradients.
    let names = [("a", &a.value()), ("b", &b.value()), ("c", &c.value()), ("d", &d), ("e", &e)];
    let file = std::env::temp_dir().join("warpweft-micrograd.svg");
    let svg = e.graph(&names)?.with_values_blocking()?.svg();
    std::fs::write(&file, svg).map_err(|error| Error::argument(format!("the picture: {error}")))?;
    println!("its graph: {}", file.display());

    let (x, y) = moons(&device, 50)?;
    let generator = Generator::new(&device, 1337);
    let model = Sequential::new()
        .push(Linear::new(&generator, 2, 16)?)
        .push(|x: &Tensor| Ok(x.relu()))
        .push(Linear::new(&generator, 16, 16)?)
        .push(|x: &Tensor| Ok(x.relu()))
        .push(Linear::new(&generator, 16, 1)?);
    println!("parameters of 2-16-16-1: {}", model.parameter_count());
    let parameters = model.parameters();
    for step in 0..=100 {
        let scores = model.forward(&x)?;
        let mut loss = (1.0 - &y * &scores).relu().mean(())?; // a hinge: the largest margin
        for p in &parameters {
            loss += (p * p).sum(())? * 1e-4;
        }
        loss.backward(&parameters.iter().collect::<Vec<_>>())?;
        let rate = 1.0 - 0.009 * step as f64;
        for p in &parameters {
            p.assign(&(p - p.take_gradient().expect("backward left one") * rate))?;
        }
        if step % 20 == 0 {
            let right = (&y * &scores).gt(0)?.cast(DType::F32)?.mean(())?;
            let read = device.read_blocking::<f32>(&[&loss, &right])?.concat();
            println!("step {step}: loss {:.4}, {:.0} % right", read[0], 100.0 * read[1]);
        }
    }
    Ok(())
}
