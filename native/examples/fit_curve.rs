//! Fits a curve to points with gradients: y = a sin(b x) + c, with Adam.
//! `cargo run -p warpweft-native --example fit_curve`

use warpweft_native::prelude::*;

/// A parameter, and Adam's two moments of its gradient (Kingma and Ba 2015).
struct Parameter {
    value: Variable,
    mean: Variable,
    square: Variable,
}

impl Parameter {
    fn new(device: &Device, start: f32) -> Result<Parameter> {
        let zero = device.zeros(&[])?;
        let value = Variable::new(&device.tensor(&[start], &[])?);
        Ok(Parameter { value, mean: Variable::new(&zero), square: Variable::new(&zero) })
    }

    fn step(&self, rate: f64, number: i32) -> Result<()> {
        let gradient = self.value.take_gradient().expect("backward left one");
        let mean = self.mean.value().mul(0.9)?.add(&gradient.mul(0.1)?)?;
        let square = self.square.value().mul(0.999)?.add(&gradient.square().mul(0.001)?)?;
        // Numbers like these are data, so a new value needs no new kernel.
        let (one, two) = (1.0 - 0.9f64.powi(number), 1.0 - 0.999f64.powi(number));
        let change = mean.div(one)?.div(&square.div(two)?.sqrt().add(1e-8)?)?;
        self.value.assign(&self.value.value().sub(&change.mul(rate)?)?)?;
        self.mean.assign(&mean)?;
        self.square.assign(&square)
    }
}

fn main() -> Result<()> {
    let device = Device::new_blocking()?;
    // The points: a curve with noise.
    let x = device.linspace(-3.0, 3.0, 256)?;
    let noise = device.normal(&[256], 0.0, 0.05, 1)?;
    let y = x.mul(1.7)?.sin().mul(2.5)?.add(0.5)?.add(&noise)?;

    let [a, b, c] = [1.0, 1.4, 0.0].map(|start| Parameter::new(&device, start));
    let (a, b, c) = (a?, b?, c?);
    for step in 1..=600 {
        let curve = x.mul(&b.value.value())?.sin().mul(&a.value.value())?.add(&c.value.value())?;
        let loss = curve.sub(&y)?.square().mean(&[])?;
        loss.backward(&[&a.value, &b.value, &c.value])?;
        [&a, &b, &c].into_iter().try_for_each(|parameter| parameter.step(0.02, step))?;
        // Reading waits, so it is done rarely. The steps in between are recorded and submitted automatically.
        if step % 200 == 0 {
            println!("step {step}: loss {:.5}", loss.item_blocking::<f32>()?);
        }
    }
    let [a, b, c] = [a, b, c].map(|parameter| parameter.value.value());
    let found = device.read_blocking::<f32>(&[&a, &b, &c])?.concat();
    println!("y = {:.2} sin({:.2} x) + {:.2}", found[0], found[1], found[2]);
    Ok(())
}
