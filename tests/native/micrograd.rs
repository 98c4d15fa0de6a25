//! Tests micrograd-style expressions of numbers, and drawings of a tensor's graph.

use pollster::block_on;
use warpweft::device::{Device, Preference};
use warpweft::dtype::DType;
use warpweft::error::{ErrorKind, Result};
use warpweft::nn::{Generator, Linear, Module};
use warpweft::optim::{Optimizer, Sgd};
use warpweft::tensor::{Tensor, Variable};

fn device() -> Device {
    block_on(Device::with(Preference::Cpu)).expect("the CPU is there")
}

fn number(device: &Device, value: f32) -> Result<Variable> {
    Ok(Variable::new(&device.tensor(&[value], &[])?))
}

fn item(x: &Tensor) -> f64 {
    f64::from(block_on(x.item::<f32>()).expect("one number"))
}

/// Tests the expression and the numbers of micrograd's README.
#[test]
fn an_expression_reads_as_in_micrograd() {
    let device = device();
    let run = || -> Result<()> {
        let (a, b) = (number(&device, -4.0)?, number(&device, 2.0)?);
        let mut c = &a + &b;
        let mut d = &a * &b + b.value().pow(3)?;
        c += &c + 1;
        c += 1 + &c - &a;
        d += &d * 2 + (&b + &a).relu();
        d += 3 * &d + (&b - &a).relu();
        let e = &c - &d;
        let f = e.square();
        let mut g = &f / 2.0;
        g += 10.0 / &f;
        g.backward(&[&a, &b])?;
        let gradient = |x: &Variable| item(&x.gradient().expect("backward left one"));
        let got = [item(&g), gradient(&a), gradient(&b)];
        for (got, want) in got.into_iter().zip([24.7041, 138.8338, 645.5773]) {
            assert!((got - want).abs() < 1e-3, "{got}, not {want}");
        }
        // The gradient is still available, and is then taken.
        assert!(a.take_gradient().is_some() && a.gradient().is_none());
        let mut h = -&a - 1.5;
        h -= &a;
        h *= 2;
        h /= &b;
        h %= 3;
        assert_eq!(item(&h), 6.5 % 3.0);
        Ok(())
    };
    run().expect("it computes");
}

/// Returns the drawing of `e = tanh(a b + c)` with names, values and gradients.
fn small(device: &Device) -> Result<(String, String)> {
    let (a, b, c) = (number(device, 2.0)?, number(device, -3.0)?, number(device, 6.5)?);
    let d = &a * &b;
    let e = (&d + &c).tanh();
    let names =
        [("a", &a.value()), ("b <&\">", &b.value()), ("c", &c.value()), ("d", &d), ("e", &e)];
    let graph = block_on(e.graph(&names)?.with_values())?;
    Ok((graph.dot(), graph.svg()))
}

#[test]
fn a_graph_has_names_values_and_gradients() {
    let (dot, svg) = small(&device()).expect("it is drawn");
    let slope = 1.0 - 0.5f64.tanh().powi(2);
    let boxes = [
        format!("[label=\"a\\nf32 []\\nvalue 2\\ngradient {:.4}\"]", -3.0 * slope),
        format!("[label=\"b <&\\\">\\nf32 []\\nvalue -3\\ngradient {:.4}\"]", 2.0 * slope),
        format!("[label=\"c\\nf32 []\\nvalue 6.5\\ngradient {slope:.4}\"]"),
        format!("[label=\"d = mul\\nf32 []\\nvalue -6\\ngradient {slope:.4}\"]"),
        format!("[label=\"add\\nf32 []\\nvalue 0.5\\ngradient {slope:.4}\"]"),
        format!("[label=\"e = tanh\\nf32 []\\nvalue {:.4}\\ngradient 1\"]", 0.5f64.tanh()),
    ];
    for want in boxes {
        assert!(dot.contains(&want), "no {want} in {dot}");
    }
    assert_eq!(dot.matches(" -> ").count(), 5, "{dot}");
    assert!(dot.starts_with("digraph {\n") && dot.ends_with("}\n"), "{dot}");
    assert!(svg.contains("b &lt;&amp;\"&gt;</text>"), "{svg}");
    // Each box and edge, and the background.
    assert_eq!(svg.matches("<rect").count(), 7, "{svg}");
    assert_eq!(svg.matches("fill=\"none\"").count(), 5, "{svg}");
    let open = svg.matches("<text").count();
    assert_eq!((open, svg.matches("</text>").count()), (24, 24));
}

/// Returns the number in an attribute.
fn attribute(line: &str, name: &str) -> f64 {
    let rest = line.split_once(&format!(" {name}=\"")).expect("it has the attribute").1;
    rest.split('"').next().and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
fn boxes_lie_beside_each_other_and_inside() {
    let device = device();
    let run = || -> Result<String> {
        let x = device.ones(&[3, 4])?;
        let mut y = x.exp();
        for n in 0..8 {
            y = y.sin().add(&x)?.mul(y.sum(())?)?.sub(n)?;
        }
        Ok(y.graph(&[("x", &x)])?.svg())
    };
    let svg = run().expect("it is drawn");
    let head = svg.lines().next().expect("a line");
    let (width, height) = (attribute(head, "width"), attribute(head, "height"));
    let mut boxes: Vec<[f64; 4]> = Vec::new();
    for line in svg.lines().filter(|line| line.starts_with("<rect x")) {
        let [x, y, w, h] = ["x", "y", "width", "height"].map(|name| attribute(line, name));
        assert!(x > 0.0 && y > 0.0 && x + w < width && y + h < height, "{line} of {head}");
        let apart =
            |b: &[f64; 4]| x + w < b[0] || b[0] + b[2] < x || y + h < b[1] || b[1] + b[3] < y;
        assert!(boxes.iter().all(apart), "{line} lies over another");
        boxes.push([x, y, w, h]);
    }
    // x, exp, and for each round five operations, a reshape after the sum, and a number.
    assert_eq!(boxes.len(), 2 + 8 * 7);
}

#[test]
fn parameters_of_an_optimiser_are_data() {
    let device = device();
    let run = || -> Result<String> {
        let model = Linear::new(&Generator::new(&device, 1), 3, 2)?;
        let mut optimizer = Optimizer::new(Sgd::new(0.1), &model.parameters())?;
        let x = device.ones(&[5, 3])?;
        let (weight, bias) = (&model.weight, model.bias.clone().expect("it has one"));
        let mut dot = String::new();
        for _ in 0..2 {
            let loss = warpweft::nn::Layer::forward(&model, &x)?.square().mean(())?;
            let names = [("weight", &weight.value()), ("bias", &bias.value())];
            dot = loss.graph(&names)?.dot();
            optimizer.minimize(&loss)?;
        }
        Ok(dot)
    };
    let dot = run().expect("it is drawn");
    assert!(dot.contains("[label=\"weight\\nf32 [2, 3]\"]"), "{dot}");
    assert!(dot.contains("[label=\"bias\\nf32 [2]\"]"), "{dot}");
    assert!(!dot.contains("slice"), "{dot}");
}

#[test]
fn what_is_too_large_is_refused() {
    let device = device();
    let x = device.ones(&[2]).expect("data");
    let mut y = x.clone();
    for _ in 0..499 {
        y = y.exp();
    }
    assert_eq!(y.graph(&[]).expect("500 are drawn").dot().matches("label").count(), 500);
    let error = y.exp().graph(&[]).expect_err("one more is not");
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(error.message().starts_with("graph: the drawing must have at most 500"), "{error}");
    // Many operations whose results are used twice, and a wide one.
    let many: Vec<Tensor> = (0..600).map(|_| x.exp()).collect();
    let wide = Tensor::concat(&many, 0).expect("joined");
    assert_eq!(wide.graph(&[]).expect_err("it is too wide").kind(), ErrorKind::Limit);
    let bad = device.ones(&[2]).expect("data").cast(DType::Bool).expect("cast").exp();
    assert_eq!(bad.graph(&[]).expect_err("it is none").kind(), ErrorKind::DType);
}

#[test]
fn a_drawing_leaves_gradients_as_they_are() {
    let device = device();
    // In JavaScript, the garbage collector drops intermediate results at any time.
    let run = |holds: bool| -> Result<Vec<f32>> {
        let w = Variable::new(&device.tensor(&[1.0f32, 2.0, 3.0], &[3])?);
        let mean = w.value().square().mean(())?;
        let loss = mean.mul(3)?;
        let held = holds.then_some(mean);
        for _ in 0..3 {
            block_on(loss.graph(&[])?.with_values())?;
        }
        drop(held);
        block_on(loss.grad(&[&w.value()])?[0].read::<f32>())
    };
    for holds in [false, true] {
        assert_eq!(run(holds).expect("gradients pass what was drawn"), [2.0, 4.0, 6.0]);
    }
}
