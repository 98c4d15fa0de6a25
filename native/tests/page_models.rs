//! Tests model files between a page and native code. `www/tests/models.mjs` saves some in a page, runs this test to read them
//! and write others, and reads those in the page. Without its folder, `WARPWEFT_PAGE_MODELS`, the test does nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use warpweft_native::files;
use warpweft_native::nn::*;
use warpweft_native::optim::{Adam, Optimizer};
use warpweft_native::prelude::*;
use warpweft_native::train::{DataLoader, Dataset, Trainer};

/// Dense layers, as in `www/demo/mlp.js`.
struct Mlp(Vec<Linear>);

impl Mlp {
    fn new(generator: &Generator) -> Result<Mlp> {
        let sizes = [2, 8, 8, 1];
        let layer = |pair: &[usize]| Linear::new(generator, pair[0], pair[1]);
        Ok(Mlp(sizes.windows(2).map(layer).collect::<Result<_>>()?))
    }
}

impl Module for Mlp {
    fn members(&self, members: &mut Members) {
        members.children("layers", &self.0);
    }
}

impl Layer for Mlp {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let [first, second, last] = &self.0[..] else { unreachable!("three layers") };
        let hidden = second.forward(&first.forward(x)?.tanh())?.tanh();
        last.forward(&hidden)?.squeeze(1)
    }
}

/// Returns convolutions, as in `www/demo/cnn.js`.
fn cnn(generator: &Generator) -> Result<Sequential> {
    let same = ConvOptions { padding: 1.into(), ..ConvOptions::default() };
    Ok(Sequential::new()
        .push(Conv2d::new(generator, 1, 8, [3, 3], same)?)
        .push(|x: &Tensor| Ok(x.relu()))
        .push(Conv2d::new(generator, 8, 16, [3, 3], same)?)
        .push(|x: &Tensor| Ok(x.relu()))
        .push(|x: &Tensor| x.max_pool(PoolOptions::new([2, 2])))
        .push(|x: &Tensor| x.flatten(1..))
        .push(Linear::new(generator, 256, 64)?)
        .push(|x: &Tensor| Ok(x.relu()))
        .push(Linear::new(generator, 64, 10)?))
}

/// A transformer over five characters, as in `www/demo/transformer.js`.
struct Transformer {
    token: Embedding,
    position: Embedding,
    layers: Vec<TransformerEncoderLayer>,
    norm: LayerNorm,
    head: Linear,
}

impl Transformer {
    fn new(generator: &Generator) -> Result<Transformer> {
        let options = TransformerOptions {
            dim_feedforward: 32,
            activation: Activation::Gelu,
            norm_first: true,
            dropout: 0.0,
        };
        let layer = |_| TransformerEncoderLayer::new(generator, 8, 2, options);
        Ok(Transformer {
            token: Embedding::new(generator, 5, 8)?,
            position: Embedding::new(generator, 6, 8)?,
            layers: (0..2).map(layer).collect::<Result<_>>()?,
            norm: LayerNorm::new(generator, &[8])?,
            head: Linear::new(generator, 8, 5)?,
        })
    }
}

impl Module for Transformer {
    fn members(&self, members: &mut Members) {
        members.child("token", &self.token).child("position", &self.position);
        members.children("layers", &self.layers).child("norm", &self.norm);
        members.child("head", &self.head);
    }
}

impl Layer for Transformer {
    fn forward(&self, text: &Tensor) -> Result<Tensor> {
        let mut x = self.token.forward(text)?.add(&self.position.weight.value())?;
        for layer in &self.layers {
            x = layer
                .run(&x, AttentionOptions { is_causal: true, ..AttentionOptions::default() })?;
        }
        self.head.forward(&self.norm.forward(&x)?)
    }
}

fn near(what: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (n, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() < 1e-4 * b.abs().max(1.0), "{what} {n}: {a} instead of {b}");
    }
}

/// Reads a page's weights, predicts what the page predicted, and writes weights of another seed for the page.
fn exchange(
    folder: &Path,
    name: &str,
    device: &Device,
    make: impl Fn(&Generator) -> Result<Box<dyn Layer>>,
) -> Result<()> {
    let path = |which: &str| folder.join(format!("{name}.{which}.safetensors"));
    let values = files::load_safetensors(device, path("values"))?.tensors;
    let (x, expected) = (&values["input"], values["prediction"].read_blocking::<f32>()?);
    let model = make(&Generator::new(device, 77))?;
    model.eval();
    model.load_state_dict(&files::load_safetensors(device, path("page"))?.tensors)?;
    near(name, &model.forward(x)?.read_blocking::<f32>()?, &expected);
    let other = make(&Generator::new(device, 78))?;
    other.eval();
    let none = BTreeMap::new();
    files::save_safetensors(path("native"), &other.state_dict(), &none)?;
    let predicted = BTreeMap::from([("prediction".to_string(), other.forward(x)?)]);
    files::save_safetensors(path("predicted"), &predicted, &none)
}

/// Resumes from a page's checkpoint. The next loss must equal the page's next loss.
fn go_on(folder: &Path, device: &Device) -> Result<()> {
    let values = files::load_safetensors(device, folder.join("training.values.safetensors"))?;
    let data = Dataset::new(&values.tensors["x"], &values.tensors["y"])?;
    let model = cnn(&Generator::new(device, 5))?;
    let optimizer = Optimizer::new(Adam::new(2e-3), &model.parameters())?;
    let loader = DataLoader::new(&data, 8)?.shuffle(3);
    let mut trainer = Trainer::new(model, optimizer, loader, |model, x, y| {
        model.forward(x)?.cross_entropy(y, CrossEntropyOptions::default())
    })?
    .epochs(3);
    let notes = files::load_checkpoint(folder.join("training.page.safetensors"), &mut trainer)?;
    assert_eq!(notes["by"], "a page");
    assert_eq!((trainer.steps(), trainer.history().len()), (4, 1));
    near("epoch", &[trainer.history()[0].loss as f32], &values.tensors["epoch"].read_blocking()?);
    let step = trainer.next_step_blocking()?.expect("there are steps left");
    near("loss", &step.loss.read_blocking::<f32>()?, &values.tensors["next"].read_blocking()?);
    Ok(())
}

#[test]
fn a_page_and_this_read_each_others_models() -> Result<()> {
    let Some(folder) = std::env::var_os("WARPWEFT_PAGE_MODELS").map(PathBuf::from) else {
        println!("no folder of a page's models: WARPWEFT_PAGE_MODELS says where it is");
        return Ok(());
    };
    let device = &Device::with_blocking(Preference::Cpu)?;
    exchange(&folder, "mlp", device, |g| Ok(Box::new(Mlp::new(g)?)))?;
    exchange(&folder, "cnn", device, |g| Ok(Box::new(cnn(g)?)))?;
    exchange(&folder, "transformer", device, |g| Ok(Box::new(Transformer::new(g)?)))?;
    go_on(&folder, device)
}
