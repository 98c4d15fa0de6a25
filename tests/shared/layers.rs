//! Tests layers against PyTorch in 64 bits: results, gradients by inputs and parameters, and running statistics.
//! `tests/golden/layers.py` writes the numbers.

use super::array::Array;
use super::check::{near, Check, Suite};
use super::golden::arrays;
use super::tolerance::Tolerance;
use std::collections::{BTreeMap, HashMap};
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::{Error, Result};
use warpweft::nn::*;
use warpweft::tensor::{AttentionOptions, ConvOptions, ConvTransposeOptions, Tensor};

const FILE: &str = include_str!("../golden/layers.txt");

/// The tolerance of sums of some tens of products of numbers below 1, and of their roots in norms, in `f32`.
fn by(want: &Array<f64>) -> Tolerance {
    let size = want.data.iter().fold(1.0f64, |most, x| most.max(x.abs()));
    Tolerance { absolute: 4e-6 * size, relative: 0.0 }
}

/// Adds a case of the file. `make` creates the module, and `run` applies it to the inputs.
fn like<M: Module + 'static>(
    suite: &mut Suite,
    case: &str,
    make: impl Fn(&Generator) -> Result<M> + 'static,
    run: impl Fn(&M, &[Tensor]) -> Result<Vec<Tensor>> + 'static,
) {
    let case = case.to_string();
    suite.add(format!("like PyTorch: {case}"), move |device| {
        let arrays = arrays(FILE, &case);
        let module = make(&Generator::new(device, 3))?;
        let mut state = BTreeMap::new();
        for (name, array) in &arrays {
            if let Some(path) = name.strip_prefix("p ") {
                state.insert(path.to_string(), array.f32(device)?);
            }
        }
        module.load_state_dict(&state)?;
        if case.ends_with("evaluation") {
            module.eval();
        }
        let mut inputs = Vec::new();
        while let Some(array) = arrays.get(&format!("x{}", inputs.len())) {
            inputs.push(match case.starts_with("embedding") {
                true => device.tensor(
                    &array.data.iter().map(|&x| x as i32).collect::<Vec<_>>(),
                    &array.shape,
                )?,
                false => array.f32(device)?,
            });
        }
        let results = run(&module, &inputs)?;
        let mut checks: Vec<Check> = Vec::new();
        let mut loss = device.zeros(&[])?;
        for (n, result) in results.iter().enumerate() {
            let want = arrays[&format!("y{n}")].clone();
            loss = loss.add(result.mul(arrays[&format!("w{n}")].f32(device)?)?.sum(())?)?;
            let allowed = by(&want);
            checks.push(near(format!("result {n}"), result.clone(), want, allowed));
        }
        if arrays.contains_key(&format!("y{}", results.len())) {
            return Err(Error::state(format!("{case}: a result is missing")));
        }
        let mut wrt: HashMap<String, Tensor> = HashMap::new();
        for (n, input) in inputs.iter().enumerate() {
            wrt.insert(format!("x{n}"), input.clone());
        }
        for (path, variable) in module.named_parameters() {
            wrt.insert(path, variable.value());
        }
        for (name, want) in &arrays {
            let Some(path) = name.strip_prefix("d ") else { continue };
            let gradient = loss.grad(&[&wrt[path]])?.remove(0);
            checks.push(near(name.clone(), gradient, want.clone(), by(want)));
        }
        if PROGRAMS.iter().any(|part| case.contains(part)) {
            checks.extend(of_program(device, &arrays, &inputs, |x| run(&module, x))?);
        }
        for (path, value) in module.state_dict() {
            if let Some(want) = arrays.get(&format!("b {path}")) {
                checks.push(near(format!("{path} afterwards"), value, want.clone(), by(want)));
            }
        }
        Ok(checks)
    });
}

/// Parts of the names of cases that also run as compiled programs.
const PROGRAMS: [&str; 5] = ["relu", "projected", "bilinear", "bias_kv", "zeros"];

/// Returns the results of a compiled program, and the gradient by its first input.
fn of_program(
    device: &Device,
    arrays: &HashMap<String, Array<f64>>,
    inputs: &[Tensor],
    run: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
) -> Result<Vec<Check>> {
    let specs: Vec<_> = inputs.iter().map(|input| (input.shape(), input.dtype())).collect();
    let program = device.compile(&specs, run)?;
    let mut checks = Vec::new();
    let mut loss = device.zeros(&[])?;
    for (n, result) in program.run(&inputs.iter().collect::<Vec<_>>())?.into_iter().enumerate() {
        let want = arrays[&format!("y{n}")].clone();
        loss = loss.add(result.mul(arrays[&format!("w{n}")].f32(device)?)?.sum(())?)?;
        let allowed = by(&want);
        checks.push(near(format!("result {n} of a program"), result, want, allowed));
    }
    let want = arrays["d x0"].clone();
    let (gradient, allowed) = (loss.grad(&[&inputs[0]])?.remove(0), by(&want));
    checks.push(near("gradient of a program", gradient, want, allowed));
    Ok(checks)
}

/// Adds a case of a layer.
fn layer<L: Layer + 'static>(
    suite: &mut Suite,
    case: &str,
    make: impl Fn(&Generator) -> Result<L> + 'static,
) {
    like(suite, case, make, |layer, x| Ok(vec![layer.forward(&x[0])?]));
}

pub fn cases() -> Suite {
    let mut suite = Suite::new("layers");
    let s = &mut suite;
    layer(s, "linear", |g| Linear::new(g, 3, 4));
    layer(s, "linear without bias", |g| Linear::without_bias(g, 3, 4));
    for (case, sizes) in [("bilinear", [3, 4, 2]), ("bilinear without bias", [2, 3, 4])] {
        let make = move |g: &Generator| {
            let layer = Bilinear::new(g, sizes[0], sizes[1], sizes[2])?;
            Ok(match case {
                "bilinear" => layer,
                _ => Bilinear { bias: None, ..layer },
            })
        };
        like(s, case, make, |m, x| Ok(vec![m.run(&x[0], &x[1])?]));
    }
    layer(s, "embedding", |g| Embedding::new(g, 6, 3));
    convolutions(s);
    norms(s);
    recurrent(s);
    transformers(s);
    begin(s);
    suite
}

fn convolutions(s: &mut Suite) {
    layer(s, "conv1d", |g| {
        let options =
            ConvOptions { stride: [2], padding: 1.into(), groups: 2, ..Default::default() };
        Conv1d::new(g, 2, 4, [3], options)
    });
    layer(s, "conv2d", |g| {
        let options = ConvOptions { padding: 1.into(), dilation: [2, 2], ..Default::default() };
        Conv2d::new(g, 2, 3, [3, 2], options)
    });
    layer(s, "conv3d", |g| Conv3d::new(g, 1, 2, [2, 2, 2], ConvOptions::default()));
    layer(s, "conv_transpose1d", |g| {
        let options = ConvTransposeOptions { stride: [2], groups: 2, ..Default::default() };
        ConvTranspose1d::new(g, 4, 2, [3], options)
    });
    layer(s, "conv_transpose2d", |g| {
        let (stride, output_padding) = ([2, 2], [1, 1]);
        let options = ConvTransposeOptions {
            stride,
            padding: 1.into(),
            output_padding,
            ..Default::default()
        };
        ConvTranspose2d::new(g, 2, 3, [3, 3], options)
    });
    layer(s, "conv_transpose3d", |g| {
        ConvTranspose3d::new(g, 2, 1, [2, 2, 2], ConvTransposeOptions::default())
    });
}

fn norms(s: &mut Suite) {
    for case in ["batch norm of rows", "batch norm", "batch norm, evaluation"] {
        layer(s, case, |g| BatchNorm::new(g, 3));
    }
    layer(s, "layer norm", |g| LayerNorm::new(g, &[3, 4]));
    layer(s, "rms norm", |g| {
        let mut norm = RmsNorm::new(g, &[5])?;
        // PyTorch used this epsilon when it wrote the file in `f64`.
        norm.eps = f64::EPSILON;
        Ok(norm)
    });
    layer(s, "group norm", |g| GroupNorm::new(g, 2, 4));
    layer(s, "instance norm", |_| Ok(InstanceNorm::default()));
    layer(s, "instance norm, affine", |g| InstanceNorm::affine(g, 3));
}

fn recurrent(s: &mut Suite) {
    let plain = RecurrentOptions::default();
    let both = RecurrentOptions { num_layers: 2, bidirectional: true, ..plain };
    let pair = |(y, h): (Tensor, Tensor)| vec![y, h];
    let three = |(y, (h, c)): (Tensor, (Tensor, Tensor))| vec![y, h, c];
    like(s, "rnn", move |g| Rnn::new(g, 3, 4, plain), move |m, x| Ok(pair(m.run(&x[0], None)?)));
    like(s, "gru", move |g| Gru::new(g, 3, 4, plain), move |m, x| Ok(pair(m.run(&x[0], None)?)));
    like(s, "lstm", move |g| Lstm::new(g, 3, 4, plain), move |m, x| Ok(three(m.run(&x[0], None)?)));
    like(
        s,
        "rnn in layers, both ways",
        move |g| Rnn::new(g, 2, 3, both),
        move |m, x| Ok(pair(m.run(&x[0], Some(&x[1]))?)),
    );
    like(
        s,
        "gru in layers, both ways",
        move |g| Gru::new(g, 2, 3, both),
        move |m, x| Ok(pair(m.run(&x[0], Some(&x[1]))?)),
    );
    like(
        s,
        "lstm in layers, both ways",
        move |g| Lstm::new(g, 2, 3, both),
        move |m, x| Ok(three(m.run(&x[0], Some((&x[1], &x[2])))?)),
    );
    let relu = RecurrentOptions { nonlinearity: Nonlinearity::Relu, ..plain };
    like(
        s,
        "rnn, relu",
        move |g| Rnn::new(g, 3, 4, relu),
        move |m, x| Ok(pair(m.run(&x[0], None)?)),
    );
    let narrow = RecurrentOptions { proj_size: 2, ..plain };
    like(
        s,
        "lstm, projected",
        move |g| Lstm::new(g, 3, 4, narrow),
        move |m, x| Ok(three(m.run(&x[0], None)?)),
    );
    like(
        s,
        "lstm, projected, in layers, both ways",
        move |g| Lstm::new(g, 2, 3, RecurrentOptions { proj_size: 2, ..both }),
        move |m, x| Ok(three(m.run(&x[0], Some((&x[1], &x[2])))?)),
    );
    like(
        s,
        "lstm without bias",
        move |g| Lstm::new(g, 3, 2, RecurrentOptions { bias: false, ..plain }),
        move |m, x| Ok(three(m.run(&x[0], None)?)),
    );
}

fn transformers(s: &mut Suite) {
    let all = AttentionOptions::default;
    let causal = || AttentionOptions { is_causal: true, ..AttentionOptions::default() };
    like(
        s,
        "attention",
        |g| MultiheadAttention::new(g, 6, 2, 0.0),
        move |m, x| Ok(vec![m.attend(&x[0], &x[1], &x[2], all())?]),
    );
    like(
        s,
        "attention, causal",
        |g| MultiheadAttention::new(g, 6, 3, 0.0),
        move |m, x| Ok(vec![m.attend(&x[0], &x[0], &x[0], causal())?]),
    );
    for case in ["bias_kv", "zeros", "bias_kv and zeros", "bias_kv, causal"] {
        let make = move |g: &Generator| {
            let heads = if case == "bias_kv, causal" { 3 } else { 2 };
            let mut attention = MultiheadAttention::new(g, 6, heads, 0.0)?;
            attention.add_zero_attn = case != "bias_kv";
            match case {
                "zeros" => Ok(attention),
                _ => attention.with_bias_kv(g),
            }
        };
        like(s, &format!("attention, {case}"), make, move |m, x| {
            let is_causal = x.len() == 1;
            let (key, value) = (x.get(1).unwrap_or(&x[0]), x.get(2).unwrap_or(&x[0]));
            let options = AttentionOptions { is_causal, ..AttentionOptions::default() };
            Ok(vec![m.attend(&x[0], key, value, options)?])
        });
    }
    let options = TransformerOptions { dim_feedforward: 5, dropout: 0.0, ..Default::default() };
    layer(s, "encoder layer", move |g| TransformerEncoderLayer::new(g, 6, 2, options));
    layer(s, "encoder layer, norm first", move |g| {
        let options =
            TransformerOptions { activation: Activation::Gelu, norm_first: true, ..options };
        TransformerEncoderLayer::new(g, 6, 2, options)
    });
    like(
        s,
        "decoder layer",
        move |g| TransformerDecoderLayer::new(g, 6, 2, options),
        move |m, x| Ok(vec![m.run(&x[0], &x[1], causal(), all())?]),
    );
}

/// Tests the parts that do not come from PyTorch, because their random numbers differ.
fn begin(s: &mut Suite) {
    spread(s);
    orthogonal(s);
    dropout(s);
    states(s);
}

fn spread(s: &mut Suite) {
    s.fallible("first values are spread as their formulas say", |device| async move {
        let g = Generator::new(&device, 7);
        let root = |x: f64| x.sqrt();
        // The name, the values, the standard deviation, and the largest allowed magnitude.
        let made = [
            ("linear", Linear::new(&g, 100, 90)?.weight.value(), 0.1 / root(3.0), 0.1),
            (
                "xavier uniform",
                init::xavier_uniform(&g, &[80, 120], init::Gain::Tanh)?,
                5.0 / 3.0 * 0.1,
                0.3,
            ),
            ("xavier normal", init::xavier_normal(&g, &[80, 120], init::Gain::Linear)?, 0.1, 1.0),
            (
                "kaiming uniform",
                init::kaiming_uniform(&g, &[90, 10, 3, 3], init::Gain::Relu)?,
                root(2.0 / 90.0),
                0.26,
            ),
            (
                "kaiming normal",
                init::kaiming_normal(&g, &[90, 100], init::Gain::Relu)?,
                root(0.02),
                1.0,
            ),
            // The normal distribution, truncated at 2 standard deviations.
            (
                "truncated",
                init::trunc_normal(&g, &[9000], (0.0, 0.5), (-1.0, 1.0))?,
                0.5 * 0.8796,
                1.0,
            ),
        ];
        for (name, values, deviation, most) in made {
            let got: Vec<f32> = values.read().await?;
            let count = got.len() as f64;
            let mean = got.iter().map(|&x| f64::from(x)).sum::<f64>() / count;
            let square = got.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / count;
            let largest = got.iter().fold(0f32, |most, x| most.max(x.abs()));
            // Within 4 % for some thousand numbers, and the mean within its sampling error.
            let near =
                (square.sqrt() / deviation - 1.0).abs() < 0.04 && mean.abs() < 0.05 * deviation;
            if !near || f64::from(largest) > most * 1.0001 {
                let text =
                    format!("{name}: mean {mean}, deviation {}, up to {largest}", square.sqrt());
                return Err(Error::state(text));
            }
        }
        Ok(())
    });
}

fn orthogonal(s: &mut Suite) {
    s.add("orthogonal rows or columns", |device| {
        let g = Generator::new(device, 1);
        let mut checks = Vec::new();
        for (rows, columns) in [(5, 9), (9, 5), (4, 4)] {
            let w = init::orthogonal(&g, &[rows, columns], 2.0)?;
            let less = rows.min(columns);
            let gram = match rows < columns {
                true => w.matmul(&w.transpose(0, 1)?)?,
                false => w.transpose(0, 1)?.matmul(&w)?,
            };
            let want = Array::from_fn(&[less, less], |at| if at[0] == at[1] { 4.0 } else { 0.0 });
            checks.push(near(
                format!("{rows} x {columns}"),
                gram,
                want,
                Tolerance { absolute: 1e-5, relative: 0.0 },
            ));
        }
        Ok(checks)
    });
}

fn dropout(s: &mut Suite) {
    s.add("dropout drops by the generator, and only while it trains", |device| {
        let x = device.ones(&[100])?;
        let made = |seed| Dropout::new(&Generator::new(device, seed), 0.5);
        let (dropout, same, other) = (made(1)?, made(1)?, made(2)?);
        let first = dropout.forward(&x)?;
        let each = |value: f64| Array::new(&[100], vec![value; 100]);
        let yes = || Array::new(&[], vec![1.0]);
        let differ =
            |a: &Tensor, b: &Tensor| a.ne(b)?.cast(DType::F32)?.sum(())?.gt(10)?.cast(DType::F32);
        let checks = vec![
            near("the same seed", same.forward(&x)?.sub(&first)?, each(0.0), Tolerance::EXACT),
            near("another seed", differ(&other.forward(&x)?, &first)?, yes(), Tolerance::EXACT),
            near("the next draw", differ(&dropout.forward(&x)?, &first)?, yes(), Tolerance::EXACT),
            near("what stays", first.maximum(2.0)?, each(2.0), Tolerance::EXACT),
        ];
        dropout.eval();
        let all = near("evaluation", dropout.forward(&x)?, each(1.0), Tolerance::EXACT);
        Ok(checks.into_iter().chain([all]).collect())
    });
}

fn states(s: &mut Suite) {
    s.fallible("a state that does not fit is refused whole, and says why", |device| async move {
        let g = Generator::new(&device, 0);
        let model = Sequential::new()
            .push(Linear::new(&g, 2, 3)?)
            .push(|x: &Tensor| Ok(x.tanh()))
            .push(Residual::new(Linear::new(&g, 3, 3)?));
        let before: Vec<f32> = model.state_dict()["0.weight"].read().await?;
        let state = model.state_dict();
        let doubled: BTreeMap<String, Tensor> =
            state.iter().map(|(name, x)| Ok((name.clone(), x.mul(2)?))).collect::<Result<_>>()?;
        let mut short = doubled.clone();
        short.remove("0.bias");
        let mut surplus = doubled.clone();
        surplus.insert("3.weight".into(), device.ones(&[1])?);
        // The counter of PyTorch's batch norms is not a surplus entry.
        let mut counted = state.clone();
        counted.insert("1.num_batches_tracked".into(), device.ones(&[])?);
        model.load_state_dict(&counted)?;
        let mut misshapen = doubled.clone();
        misshapen.insert("2.layer.weight".into(), device.ones(&[3, 4])?);
        let wrong = [
            (short, "load_state_dict: the state must have all names of the model, got one without `0.bias`"),
            (surplus, "load_state_dict: the state must have no other names, got one with `3.weight`"),
            (misshapen, "load_state_dict: `2.layer.weight` must have shape [3, 3], got [3, 4]"),
        ];
        for (state, want) in wrong {
            let got = model.load_state_dict(&state).map_err(|error| error.message().to_string());
            if got != Err(want.to_string()) {
                return Err(Error::state(format!("{want}: {got:?}")));
            }
        }
        let after: Vec<f32> = model.state_dict()["0.weight"].read().await?;
        model.load_state_dict(&doubled)?;
        let loaded: Vec<f32> = model.state_dict()["0.weight"].read().await?;
        let right =
            before == after && loaded.iter().zip(&before).all(|(new, old)| *new == 2.0 * old);
        right.then_some(()).ok_or_else(|| Error::state("a refused state was taken".to_string()))
    });
}
