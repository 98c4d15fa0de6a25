//! Tests losses and their gradients against PyTorch in 64 bits. `tests/golden/losses.py` writes the numbers. Where PyTorch
//! rejects inputs or gives NaN, the expected values follow our documentation.

use super::array::Array;
use super::check::{exact, near, said, typed, Suite};
use super::golden::arrays;
use super::tolerance::Tolerance;
use std::collections::{BTreeMap, HashMap};
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::{ErrorKind, Result};
use warpweft::nn::{
    BinaryCrossEntropyOptions, BinaryCrossEntropyWithLogitsOptions, CrossEntropyOptions,
    GaussianNllOptions, LossReduction, NllOptions, PoissonNllOptions, TripletMarginOptions,
};
use warpweft::tensor::Tensor;

const FILE: &str = include_str!("../golden/losses.txt");

/// The tolerance of some logarithms, each with an absolute error of 2^-21 on GPUs, times weights of at most 2.
const BY: Tolerance = Tolerance { absolute: 5e-6, ..Tolerance::F32 };

const NONE: LossReduction = LossReduction::None;
const MEAN: LossReduction = LossReduction::Mean;

pub fn cases() -> Suite {
    let mut suite = Suite::new("losses");
    goldens(&mut suite);
    no_classes(&mut suite);
    beyond_pytorch(&mut suite);
    higher(&mut suite);
    half(&mut suite);
    refusals(&mut suite);
    suite
}

/// The parsed title of a case, `name key=value ... label`.
struct Title<'a> {
    name: &'a str,
    options: HashMap<&'a str, &'a str>,
    label: String,
}

impl<'a> Title<'a> {
    fn new(title: &'a str) -> Title<'a> {
        let mut words = title.split(' ');
        let name = words.next().unwrap_or_default();
        let (options, label): (Vec<&str>, Vec<&str>) = words.partition(|word| word.contains('='));
        let options = options.iter().filter_map(|option| option.split_once('=')).collect();
        Title { name, options, label: label.join(" ") }
    }

    fn number(&self, key: &str, usual: f64) -> f64 {
        self.options.get(key).map_or(usual, |text| text.parse().expect("a number"))
    }

    fn flag(&self, key: &str, usual: bool) -> bool {
        self.options.get(key).map_or(usual, |&text| text == "True")
    }

    fn reduction(&self) -> LossReduction {
        match self.options["reduction"] {
            "none" => LossReduction::None,
            "mean" => LossReduction::Mean,
            "sum" => LossReduction::Sum,
            "batchmean" => LossReduction::BatchMean,
            other => panic!("no reduction {other}"),
        }
    }

    /// Returns the loss of these inputs.
    fn loss(&self, inputs: &HashMap<String, Tensor>) -> Result<Tensor> {
        let (x, reduction) = (&inputs["x"], self.reduction());
        let of = |key: &str| &inputs[key];
        let weight = inputs.get("weight");
        let ignore_index = self.number("ignore_index", -100.0) as i32;
        match self.name {
            "mse_loss" => x.mse_loss(of("target"), reduction),
            "l1_loss" => x.l1_loss(of("target"), reduction),
            "smooth_l1_loss" => x.smooth_l1_loss(of("target"), self.number("beta", 1.0), reduction),
            "huber_loss" => x.huber_loss(of("target"), self.number("delta", 1.0), reduction),
            "gaussian_nll_loss" => {
                let (full, eps) = (self.flag("full", false), self.number("eps", 1e-6));
                let options = GaussianNllOptions { full, eps, reduction };
                x.gaussian_nll_loss(of("target"), of("variance"), options)
            }
            "poisson_nll_loss" => {
                let (log_input, full) = (self.flag("log_input", true), self.flag("full", false));
                let eps = self.number("eps", 1e-8);
                let options = PoissonNllOptions { log_input, full, eps, reduction };
                x.poisson_nll_loss(of("target"), options)
            }
            "cross_entropy" => {
                let label_smoothing = self.number("label_smoothing", 0.0);
                let options =
                    CrossEntropyOptions { weight, ignore_index, label_smoothing, reduction };
                x.cross_entropy(of("target"), options)
            }
            "nll_loss" => x.nll_loss(of("target"), NllOptions { weight, ignore_index, reduction }),
            "kl_div" => x.kl_div(of("target"), self.flag("log_target", false), reduction),
            "binary_cross_entropy" => {
                let options = BinaryCrossEntropyOptions { weight, reduction };
                x.binary_cross_entropy(of("target"), options)
            }
            "binary_cross_entropy_with_logits" => {
                let pos_weight = inputs.get("pos_weight");
                let options = BinaryCrossEntropyWithLogitsOptions { weight, pos_weight, reduction };
                x.binary_cross_entropy_with_logits(of("target"), options)
            }
            "soft_margin_loss" => x.soft_margin_loss(of("target"), reduction),
            "hinge_embedding_loss" => {
                x.hinge_embedding_loss(of("target"), self.number("margin", 1.0), reduction)
            }
            "margin_ranking_loss" => {
                let margin = self.number("margin", 0.0);
                x.margin_ranking_loss(of("other"), of("target"), margin, reduction)
            }
            "cosine_embedding_loss" => {
                let margin = self.number("margin", 0.0);
                x.cosine_embedding_loss(of("other"), of("target"), margin, reduction)
            }
            "triplet_margin_loss" => {
                let options = TripletMarginOptions {
                    margin: self.number("margin", 1.0),
                    p: self.number("p", 2.0),
                    eps: self.number("eps", 1e-6),
                    swap: self.flag("swap", false),
                    reduction,
                };
                x.triplet_margin_loss(of("positive"), of("negative"), options)
            }
            other => panic!("no loss {other}"),
        }
    }
}

/// Adds a case for each loss and label, with all options that the file contains.
fn goldens(suite: &mut Suite) {
    let mut titles: BTreeMap<String, Vec<&'static str>> = BTreeMap::new();
    for line in FILE.lines() {
        let text = line.split('|').next().unwrap_or_default();
        let title = Title::new(text);
        let group = format!("{} {}", title.name, title.label);
        let group = titles.entry(group.trim().to_string()).or_default();
        if group.last() != Some(&text) {
            group.push(text);
        }
    }
    for (name, titles) in titles {
        suite.add(format!("{name} like PyTorch"), move |device| {
            let mut checks = Vec::new();
            for &text in &titles {
                let (title, arrays) = (Title::new(text), arrays(FILE, text));
                let indices = ["cross_entropy", "nll_loss"].contains(&title.name)
                    && !title.label.contains("probabilities");
                let mut inputs = HashMap::new();
                for (key, array) in &arrays {
                    let tensor = array.f32(device)?;
                    let tensor = match indices && key == "target" {
                        true => tensor.cast(DType::I32)?,
                        false => tensor,
                    };
                    inputs.insert(key.clone(), tensor);
                }
                let loss = title.loss(&inputs)?;
                let by: Vec<&str> =
                    arrays.keys().filter_map(|key| key.strip_prefix("d ")).collect();
                assert!(by.contains(&"x"), "{text}: nothing is differentiated");
                let wrt: Vec<&Tensor> = by.iter().map(|&key| &inputs[key]).collect();
                let gradients = loss.vjp(&inputs["seed"], &wrt)?;
                checks.push(near(text, loss, arrays["loss"].clone(), BY));
                for (key, gradient) in by.iter().zip(gradients) {
                    let key = format!("d {key}");
                    checks.push(near(format!("{text}, {key}"), gradient, arrays[&key].clone(), BY));
                }
            }
            Ok(checks)
        });
    }
}

fn scores(device: &Device) -> Result<Tensor> {
    device.tensor(&[0.5f32, -1.0, 2.0, 0.0, 1.0, -0.5, 1.5, 0.25, 3.0, -2.0, 0.0, 1.0], &[4, 3])
}

/// Returns `log(sum(exp(row))) - row[class]`.
fn entropy(row: &[f64], class: usize) -> f64 {
    row.iter().map(|x| x.exp()).sum::<f64>().ln() - row[class]
}

/// Tests that targets outside the classes act as if their rows did not exist.
fn no_classes(suite: &mut Suite) {
    for smoothing in [0.0, 0.3] {
        suite.add(
            format!("targets that are no class count for nothing, smoothed {smoothing}"),
            move |d| {
                let x = scores(d)?;
                let options =
                    CrossEntropyOptions { label_smoothing: smoothing, ..Default::default() };
                let target = d.tensor(&[3i32, 2, -1, i32::MIN], &[4])?;
                let loss = x.cross_entropy(&target, options)?;
                let gradient = loss.grad(&[&x])?.remove(0);
                let row = [0.0, 1.0, -0.5];
                let all: f64 = (0..3).map(|class| entropy(&row, class)).sum();
                let want = (1.0 - smoothing) * entropy(&row, 2) + smoothing / 3.0 * all;
                let whole: f64 = row.iter().map(|x| x.exp()).sum();
                let slope = Array::from_fn(&[4, 3], |at| match at[0] {
                    1 => {
                        let kept = if at[1] == 2 { 1.0 - smoothing } else { 0.0 };
                        row[at[1]].exp() / whole - kept - smoothing / 3.0
                    }
                    _ => 0.0,
                });
                Ok(vec![
                    near("the mean", loss, Array::new(&[], vec![want]), BY),
                    near("the gradient", gradient, slope, BY),
                ])
            },
        );
    }
    suite.add("targets of u32", |d| {
        let x = scores(d)?;
        let target = d.tensor(&[0u32, 2, u32::MAX, 1], &[4])?;
        let losses = x
            .log_softmax(1)?
            .nll_loss(&target, NllOptions { reduction: NONE, ..Default::default() })?;
        let want = vec![
            entropy(&[0.5, -1.0, 2.0], 0),
            entropy(&[0.0, 1.0, -0.5], 2),
            0.0,
            entropy(&[-2.0, 0.0, 1.0], 1),
        ];
        Ok(vec![near("losses", losses, Array::new(&[4], want), BY)])
    });
}

/// Tests inputs for which PyTorch returns NaN, overflows, or waits for the data.
fn beyond_pytorch(suite: &mut Suite) {
    suite.add("classes that are ruled out by a score of -inf", |d| {
        let x = d.tensor(&[1.0f32, f32::NEG_INFINITY, 2.0], &[1, 3])?;
        let target = d.tensor(&[0i32], &[1])?;
        let loss = x.cross_entropy(&target, CrossEntropyOptions::default())?;
        let gradient = loss.grad(&[&x])?.remove(0);
        let p = 1.0 / (1.0 + 1f64.exp());
        Ok(vec![
            near("the loss", loss, Array::new(&[], vec![-p.ln()]), BY),
            near("the gradient", gradient, Array::new(&[1, 3], vec![p - 1.0, 0.0, 1.0 - p]), BY),
        ])
    });
    suite.add("gradients by targets of 0", |d| {
        let x = d.tensor(&[-1.0f32, -2.0], &[1, 2])?;
        let target = d.tensor(&[0.0f32, 1.0], &[1, 2])?;
        let divergence = x.kl_div(&target, false, LossReduction::Sum)?;
        let options = PoissonNllOptions { full: true, ..Default::default() };
        let count = d.tensor(&[0.0f32, 3.0], &[1, 2])?;
        let poisson = x.poisson_nll_loss(&count, options)?.mul(2.0)?;
        let by_three = 2.0 + 3f64.ln() + 0.5 / 3.0;
        Ok(vec![
            near(
                "kl_div",
                divergence.grad(&[&target])?.remove(0),
                Array::new(&[1, 2], vec![1.0, 3.0]),
                BY,
            ),
            near(
                "poisson_nll_loss",
                poisson.grad(&[&count])?.remove(0),
                Array::new(&[1, 2], vec![1.0, by_three]),
                BY,
            ),
        ])
    });
    suite.add("what is no probability gives NaN", |d| {
        let x = d.tensor(&[-0.5f32, 1.5, f32::NAN], &[3])?;
        let losses = x.binary_cross_entropy(
            &d.full(&[3], 0.5, DType::F32)?,
            BinaryCrossEntropyOptions { reduction: NONE, ..Default::default() },
        )?;
        Ok(vec![near("losses", losses, Array::new(&[3], vec![f64::NAN; 3]), BY)])
    });
    suite.add("NaN is not hidden by a hinge", |d| {
        let x = d.tensor(&[f32::NAN], &[1])?;
        let (one, minus) = (d.ones(&[1])?, d.ones(&[1])?.neg());
        let nan = || Array::new(&[1], vec![f64::NAN]);
        let ranking = x.margin_ranking_loss(&one, &one, 0.0, NONE)?;
        let options = TripletMarginOptions { reduction: NONE, ..Default::default() };
        let triplet =
            x.unsqueeze(0)?.triplet_margin_loss(&one.unsqueeze(0)?, &one.unsqueeze(0)?, options)?;
        Ok(vec![
            near("hinge_embedding_loss", x.hinge_embedding_loss(&minus, 1.0, NONE)?, nan(), BY),
            near("margin_ranking_loss", ranking, nan(), BY),
            near("triplet_margin_loss", triplet, nan(), BY),
        ])
    });
    suite.add("products that exp(..) has no room for", |d| {
        let x = d.tensor(&[1000.0f32, -1000.0], &[2])?;
        let one = d.ones(&[2])?;
        let soft = x.soft_margin_loss(&one, NONE)?;
        let slope = soft.vjp(&one, &[&x])?.remove(0);
        let binary = x.binary_cross_entropy_with_logits(
            &one,
            BinaryCrossEntropyWithLogitsOptions { reduction: NONE, ..Default::default() },
        )?;
        let want = || Array::new(&[2], vec![0.0, 1000.0]);
        Ok(vec![
            near("soft_margin_loss", soft, want(), BY),
            near("its gradient", slope, Array::new(&[2], vec![0.0, -1.0]), BY),
            near("binary_cross_entropy_with_logits", binary, want(), BY),
        ])
    });
}

fn higher(suite: &mut Suite) {
    suite.add("the second derivative of binary_cross_entropy", |d| {
        let x = d.tensor(&[0.25f32, 0.5, 0.75, 0.0], &[4])?;
        let target = d.tensor(&[1.0f32, 0.5, 0.25, 1.0], &[4])?;
        let loss = x.binary_cross_entropy(
            &target,
            BinaryCrossEntropyOptions { reduction: LossReduction::Sum, ..Default::default() },
        )?;
        let slope = loss.grad(&[&x])?.remove(0);
        let curve = slope.vjp(&d.ones(&[4])?, &[&x])?.remove(0);
        // t / x^2 + (1 - t) / (1 - x)^2
        let want = vec![16.0, 4.0, 0.25 / 0.5625 + 0.75 / 0.0625, 0.0];
        Ok(vec![near("curvature", curve, Array::new(&[4], want), BY)])
    });
}

fn half(suite: &mut Suite) {
    let case = suite.add("losses of f16", |d| {
        let x = d.tensor(&[0.0f32, 0.5, 1.0], &[3])?.cast(DType::F16)?;
        let target = d.tensor(&[1.0f32, 0.5, 0.0], &[3])?.cast(DType::F16)?;
        let losses = x.binary_cross_entropy(
            &target,
            BinaryCrossEntropyOptions { reduction: NONE, ..Default::default() },
        )?;
        let slope = losses.vjp(&d.ones(&[3])?.cast(DType::F16)?, &[&x])?.remove(0);
        let by = BY.stored(DType::F16);
        let classes = scores(d)?.cast(DType::F16)?;
        let indices = d.tensor(&[2i32, 1, 0, 2], &[4])?;
        let entropies = classes.cross_entropy(
            &indices,
            CrossEntropyOptions { reduction: NONE, ..Default::default() },
        )?;
        let rows = [[0.5, -1.0, 2.0], [0.0, 1.0, -0.5], [1.5, 0.25, 3.0], [-2.0, 0.0, 1.0]];
        let want = [2, 1, 0, 2].iter().zip(&rows).map(|(&class, row)| entropy(row, class));
        let ends = Array::new(&[3], vec![-65504.0, 0.0, 65504.0]);
        let loss = Array::new(&[3], vec![100.0, 2f64.ln(), 100.0]);
        Ok(vec![
            typed("binary_cross_entropy", losses, DType::F16, loss, by),
            typed("its gradient", slope, DType::F16, ends, Tolerance { relative: 0.01, ..by }),
            typed("cross_entropy", entropies, DType::F16, Array::new(&[4], want.collect()), by),
        ])
    });
    case.half();
}

type Refused = fn(&Device) -> Result<Tensor>;

fn floats(d: &Device, shape: &[usize]) -> Tensor {
    d.ones(shape).expect("ones of a small shape")
}

fn ints(d: &Device, shape: &[usize]) -> Tensor {
    floats(d, shape).cast(DType::I32).expect("i32 is everywhere")
}

const PLAIN: CrossEntropyOptions =
    CrossEntropyOptions { weight: None, ignore_index: -100, label_smoothing: 0.0, reduction: MEAN };

/// Rejected calls: the operation, the kind of error, a part of the message, and the call.
const REFUSALS: &[(&str, ErrorKind, &str, Refused)] = &[
    ("mse_loss", ErrorKind::Shape, "[4, 1] and [4]", |d| {
        floats(d, &[4, 1]).mse_loss(&floats(d, &[4]), MEAN)
    }),
    ("l1_loss", ErrorKind::Shape, "[2] and []", |d| floats(d, &[2]).l1_loss(&floats(d, &[]), MEAN)),
    ("l1_loss", ErrorKind::DType, "i32", |d| floats(d, &[2]).l1_loss(&ints(d, &[2]), MEAN)),
    ("mse_loss", ErrorKind::DType, "i32", |d| ints(d, &[2]).mse_loss(&ints(d, &[2]), MEAN)),
    ("smooth_l1_loss", ErrorKind::InvalidArgument, "-1", |d| {
        floats(d, &[2]).smooth_l1_loss(&floats(d, &[2]), -1.0, MEAN)
    }),
    ("huber_loss", ErrorKind::InvalidArgument, "NaN", |d| {
        floats(d, &[2]).huber_loss(&floats(d, &[2]), f64::NAN, MEAN)
    }),
    ("huber_loss", ErrorKind::InvalidArgument, "above 0", |d| {
        floats(d, &[2]).huber_loss(&floats(d, &[2]), 0.0, MEAN)
    }),
    ("gaussian_nll_loss", ErrorKind::Shape, "[4, 3] and [3]", |d| {
        let x = floats(d, &[4, 3]);
        x.gaussian_nll_loss(&x, &floats(d, &[3]), GaussianNllOptions::default())
    }),
    ("gaussian_nll_loss", ErrorKind::InvalidArgument, "eps", |d| {
        floats(d, &[2]).gaussian_nll_loss(
            &floats(d, &[2]),
            &floats(d, &[2]),
            GaussianNllOptions { eps: 0.0, ..Default::default() },
        )
    }),
    ("poisson_nll_loss", ErrorKind::Shape, "[2] and [1]", |d| {
        floats(d, &[2]).poisson_nll_loss(&floats(d, &[1]), PoissonNllOptions::default())
    }),
    ("cross_entropy", ErrorKind::Shape, "[4, 3] and [4, 1]", |d| {
        floats(d, &[4, 3]).cross_entropy(&ints(d, &[4, 1]), PLAIN)
    }),
    ("cross_entropy", ErrorKind::DType, "must be i32 or u32, got f32 of shape [4]", |d| {
        floats(d, &[4, 3]).cross_entropy(&floats(d, &[4]), PLAIN)
    }),
    ("cross_entropy", ErrorKind::Shape, "[]", |d| {
        floats(d, &[]).cross_entropy(&ints(d, &[]), PLAIN)
    }),
    ("cross_entropy", ErrorKind::Shape, "[4, 3] and [4]", |d| {
        floats(d, &[4, 3]).cross_entropy(
            &ints(d, &[4]),
            CrossEntropyOptions { weight: Some(&floats(d, &[4])), ..PLAIN },
        )
    }),
    ("cross_entropy", ErrorKind::DType, "bool", |d| {
        floats(d, &[4, 3]).cross_entropy(&floats(d, &[4]).gt(0.0)?, PLAIN)
    }),
    ("cross_entropy", ErrorKind::DType, "i32", |d| {
        floats(d, &[4, 3]).cross_entropy(
            &ints(d, &[4]),
            CrossEntropyOptions { weight: Some(&ints(d, &[3])), ..PLAIN },
        )
    }),
    ("cross_entropy", ErrorKind::InvalidArgument, "1.5", |d| {
        let options = CrossEntropyOptions { label_smoothing: 1.5, ..PLAIN };
        floats(d, &[4, 3]).cross_entropy(&ints(d, &[4]), options)
    }),
    ("nll_loss", ErrorKind::DType, "f32", |d| {
        floats(d, &[4, 3]).nll_loss(&floats(d, &[4, 3]), NllOptions::default())
    }),
    ("kl_div", ErrorKind::Shape, "[2] and [1]", |d| {
        floats(d, &[2]).kl_div(&floats(d, &[1]), false, MEAN)
    }),
    ("binary_cross_entropy", ErrorKind::Shape, "[4] and [3]", |d| {
        floats(d, &[4]).binary_cross_entropy(
            &floats(d, &[4]),
            BinaryCrossEntropyOptions { weight: Some(&floats(d, &[3])), ..Default::default() },
        )
    }),
    ("binary_cross_entropy", ErrorKind::Shape, "[4] and [2, 4]", |d| {
        floats(d, &[4]).binary_cross_entropy(
            &floats(d, &[4]),
            BinaryCrossEntropyOptions { weight: Some(&floats(d, &[2, 4])), ..Default::default() },
        )
    }),
    ("binary_cross_entropy_with_logits", ErrorKind::Shape, "[4] and [2, 4]", |d| {
        let (x, wide) = (floats(d, &[4]), floats(d, &[2, 4]));
        x.binary_cross_entropy_with_logits(
            &x,
            BinaryCrossEntropyWithLogitsOptions { pos_weight: Some(&wide), ..Default::default() },
        )
    }),
    ("binary_cross_entropy_with_logits", ErrorKind::DType, "i32", |d| {
        floats(d, &[4]).binary_cross_entropy_with_logits(
            &floats(d, &[4]),
            BinaryCrossEntropyWithLogitsOptions {
                pos_weight: Some(&ints(d, &[4])),
                ..Default::default()
            },
        )
    }),
    ("soft_margin_loss", ErrorKind::Shape, "[4] and [1]", |d| {
        floats(d, &[4]).soft_margin_loss(&floats(d, &[1]), MEAN)
    }),
    ("hinge_embedding_loss", ErrorKind::Shape, "[4] and [1]", |d| {
        floats(d, &[4]).hinge_embedding_loss(&floats(d, &[1]), 1.0, MEAN)
    }),
    ("margin_ranking_loss", ErrorKind::Shape, "[4] and [1]", |d| {
        floats(d, &[4]).margin_ranking_loss(&floats(d, &[1]), &floats(d, &[4]), 0.0, MEAN)
    }),
    ("cosine_embedding_loss", ErrorKind::Shape, "[4, 3] and [3]", |d| {
        floats(d, &[4, 3]).cosine_embedding_loss(&floats(d, &[4, 3]), &floats(d, &[3]), 0.0, MEAN)
    }),
    ("cosine_embedding_loss", ErrorKind::Shape, "[]", |d| {
        floats(d, &[]).cosine_embedding_loss(&floats(d, &[]), &floats(d, &[]), 0.0, MEAN)
    }),
    ("triplet_margin_loss", ErrorKind::Shape, "[]", |d| {
        let x = floats(d, &[]);
        x.triplet_margin_loss(&x, &x, TripletMarginOptions::default())
    }),
    ("triplet_margin_loss", ErrorKind::InvalidArgument, "NaN", |d| {
        let x = floats(d, &[2, 2]);
        x.triplet_margin_loss(&x, &x, TripletMarginOptions { p: f64::NAN, ..Default::default() })
    }),
];

fn refusals(suite: &mut Suite) {
    suite.steps("what losses refuse", |device| async move {
        for (n, (name, kind, part, refused)) in REFUSALS.iter().enumerate() {
            let error = match refused(&device) {
                Ok(_) => return Err(format!("the {n}-th, of {name}, is not refused")),
                Err(error) => error,
            };
            let begins = error.message().starts_with(&format!("{name}: "));
            if error.kind() != *kind || !begins || !error.message().contains(part) {
                return Err(format!("the {n}-th, of {name}: {:?}: {}", error.kind(), said(error)));
            }
        }
        Ok(())
    });
    suite.add("losses of nothing", |d| {
        let (x, target) = (d.zeros(&[0, 3])?, d.zeros(&[0, 3])?);
        let classes = target.sum(1)?.cast(DType::I32)?;
        let nan = || Array::new(&[], vec![f64::NAN]);
        Ok(vec![
            near("mse_loss", x.mse_loss(&target, MEAN)?, nan(), BY),
            near("cross_entropy", x.cross_entropy(&classes, PLAIN)?, nan(), BY),
            exact(
                "their sum",
                x.mse_loss(&target, LossReduction::Sum)?,
                DType::F32,
                Array::new(&[], vec![0.0]),
            ),
        ])
    });
}
