//! Optimisers as PyTorch has them in 64 bits, step by step: `tests/golden/optimisers.py` writes them.

use super::array::Array;
use super::check::Suite;
use super::golden::arrays;
use std::collections::HashMap;
use warpweft::device::Device;
use warpweft::error::{Error, Result};
use warpweft::optim::*;
use warpweft::tensor::{Tensor, Variable};

const FILE: &str = include_str!("../golden/optimisers.txt");

/// How far the values may be off by norm, and an absolute term for those that are small.
const RELATIVE: f64 = 1e-5;
const ABSOLUTE: f64 = 1e-6;

/// What differs from the rule alone.
type Change = fn(Optimizer) -> Optimizer;

fn same(optimizer: Optimizer) -> Optimizer {
    optimizer
}

async fn near(what: String, got: &Tensor, want: &Array<f64>) -> Result<()> {
    let got: Vec<f32> = got.read().await?;
    let far = |(g, w): (&f32, &f64)| (f64::from(*g) - w).powi(2);
    let distance = got.iter().zip(&want.data).map(far).sum::<f64>().sqrt();
    let size = want.data.iter().map(|w| w * w).sum::<f64>().sqrt();
    match distance <= RELATIVE * size + ABSOLUTE && got.len() == want.data.len() {
        true => Ok(()),
        false => Err(Error::data(format!(
            "{what}: {distance} off of {size}: {got:?}, not {:?}",
            want.data
        ))),
    }
}

/// The parameters of a case.
fn parameters(device: &Device, keys: &[&str]) -> Result<Vec<Variable>> {
    let all = arrays(FILE, "all");
    keys.iter().map(|&key| Ok(Variable::new(&all[key].f32(device)?))).collect()
}

/// A loss whose gradients are those of the file.
fn loss(
    device: &Device,
    all: &HashMap<String, Array<f64>>,
    keys: &[&str],
    of: &[Variable],
    n: usize,
) -> Result<Tensor> {
    let mut loss = device.zeros(&[])?;
    for (&key, parameter) in keys.iter().zip(of) {
        let gradient = all[&format!("g {key} {n}")].f32(device)?;
        loss = loss.add(parameter.value().mul(&gradient)?.sum(())?)?;
    }
    Ok(loss)
}

/// Twenty steps.
async fn follow(
    device: Device,
    case: &'static str,
    mut optimizer: Optimizer,
    keys: &[&str],
    of: &[Variable],
) -> Result<()> {
    let (all, want) = (arrays(FILE, "all"), arrays(FILE, case));
    let rate = optimizer.lr();
    let mut compared = 0;
    for n in 1..=20 {
        if case.ends_with("falling rate") {
            optimizer.set_lr(rate * 0.9f64.powi(n as i32 - 1));
        }
        optimizer.minimize(&loss(&device, &all, keys, of, n)?)?;
        for (key, parameter) in keys.iter().zip(of) {
            if let Some(want) = want.get(&format!("{key} {n}")) {
                near(format!("{key} after step {n}"), &parameter.value(), want).await?;
                compared += 1;
            }
        }
    }
    match compared == 3 * keys.len() {
        true => Ok(()),
        false => Err(Error::data(format!("{case}: {compared} compared"))),
    }
}

fn like<R: Rule + Clone + 'static>(suite: &mut Suite, case: &'static str, rule: R) {
    changed(suite, case, rule, same);
}

fn changed<R: Rule + Clone + 'static>(
    suite: &mut Suite,
    case: &'static str,
    rule: R,
    change: Change,
) {
    let keys: &[&str] = if case.starts_with("muon") { &["a"] } else { &["a", "b"] };
    suite.fallible(format!("like PyTorch: {case}"), move |device| {
        let rule = rule.clone();
        async move {
            let of = parameters(&device, keys)?;
            let optimizer = change(Optimizer::new(rule, &of)?);
            follow(device, case, optimizer, keys, &of).await
        }
    });
}

pub fn cases() -> Suite {
    let mut suite = Suite::new("optimisers");
    let s = &mut suite;
    like(s, "sgd", Sgd::new(0.1));
    like(s, "sgd, weight decay", Sgd { weight_decay: 0.2, ..Sgd::new(0.1) });
    let momentum = Sgd { momentum: 0.9, dampening: 0.3, weight_decay: 0.1, ..Sgd::new(0.05) };
    like(s, "sgd, momentum", momentum);
    like(s, "sgd, nesterov", Sgd { momentum: 0.8, nesterov: true, ..Sgd::new(0.05) });
    like(s, "adam", Adam::new(0.05));
    like(
        s,
        "adam, options",
        Adam { betas: (0.8, 0.95), eps: 1e-3, weight_decay: 0.1, ..Adam::new(0.05) },
    );
    like(s, "adam, amsgrad", Adam { betas: (0.9, 0.8), amsgrad: true, ..Adam::new(0.05) });
    like(s, "adam, falling rate", Adam::new(0.05));
    like(s, "adamw", AdamW { weight_decay: 0.3, ..AdamW::new(0.05) });
    like(s, "adamw, amsgrad", AdamW { betas: (0.9, 0.8), amsgrad: true, ..AdamW::new(0.05) });
    like(s, "adamax", Adamax { weight_decay: 0.1, ..Adamax::new(0.05) });
    let nadam = NAdam { weight_decay: 0.1, ..NAdam::new(0.05) };
    like(s, "nadam", nadam);
    like(
        s,
        "nadam, decoupled",
        NAdam { momentum_decay: 0.1, decoupled_weight_decay: true, ..nadam },
    );
    let radam = RAdam { weight_decay: 0.1, ..RAdam::new(0.05) };
    like(s, "radam", radam);
    like(s, "radam, decoupled", RAdam { betas: (0.9, 0.9), decoupled_weight_decay: true, ..radam });
    like(s, "rmsprop", RmsProp { weight_decay: 0.1, ..RmsProp::new(0.02) });
    let centered =
        RmsProp { alpha: 0.9, eps: 1e-4, momentum: 0.8, centered: true, ..RmsProp::new(0.02) };
    like(s, "rmsprop, options", centered);
    let adagrad = Adagrad { lr_decay: 0.1, weight_decay: 0.1, ..Adagrad::new(0.1) };
    like(s, "adagrad", Adagrad { initial_accumulator_value: 0.5, ..adagrad });
    like(s, "adadelta", Adadelta { rho: 0.8, eps: 1e-4, weight_decay: 0.1, ..Adadelta::new(1.0) });
    like(s, "lion", Lion { weight_decay: 0.1, ..Lion::new(0.01) });
    like(s, "lamb", Lamb { betas: (0.9, 0.99), weight_decay: 0.1, ..Lamb::new(0.02) });
    like(s, "muon", Muon::new(0.02));
    let plain = Muon { weight_decay: 0.0, momentum: 0.9, nesterov: false, ..Muon::new(0.02) };
    like(s, "muon, plain", plain);
    changed(s, "clipped by norm", Sgd::new(0.1), |optimizer| optimizer.clip_norm(2.0));
    changed(s, "clipped by value", Sgd::new(0.1), |optimizer| optimizer.clip_value(0.5));
    ways(s);
    suite
}

/// Ways to the same steps.
fn ways(s: &mut Suite) {
    const KEYS: &[&str] = &["a", "b"];
    s.fallible("gradients that backward left, and such as were added up", |device| async move {
        let (all, want) = (arrays(FILE, "all"), arrays(FILE, "adam"));
        let of = parameters(&device, KEYS)?;
        let mut optimizer = Optimizer::new(Adam::new(0.05), &of)?;
        for n in 1..=20 {
            let half = |device: &Device| loss(device, &all, KEYS, &of, n)?.mul(0.5);
            if n % 2 == 0 {
                half(&device)?.backward(&of.iter().collect::<Vec<_>>())?;
                optimizer.accumulate(&half(&device)?)?;
            } else {
                optimizer.accumulate(&half(&device)?)?;
                optimizer.accumulate(&half(&device)?)?;
            }
            optimizer.step()?;
        }
        for (key, parameter) in KEYS.iter().zip(&of) {
            near(key.to_string(), &parameter.value(), &want[&format!("{key} 20")]).await?;
        }
        match optimizer.step() {
            Err(error) if error.message().contains("there are no gradients") => Ok(()),
            other => Err(Error::data(format!("a step without gradients: {other:?}"))),
        }
    });
    s.fallible("groups have rules and rates of their own", |device| async move {
        let all = arrays(FILE, "all");
        let of = parameters(&device, KEYS)?;
        let mut optimizer = Optimizer::new(Adam::new(0.05), &of[..1])?;
        optimizer.add_group(Sgd::new(7.0), &of[1..])?;
        optimizer.set_group_lr(1, 0.1)?;
        for n in 1..=20 {
            optimizer.minimize(&loss(&device, &all, KEYS, &of, n)?)?;
        }
        near("a".into(), &of[0].value(), &arrays(FILE, "adam")["a 20"]).await?;
        near("b".into(), &of[1].value(), &arrays(FILE, "sgd")["b 20"]).await?;
        match optimizer.add_group(Sgd::new(1.0), &of[1..]) {
            Err(error) if error.message().contains("in a group already") => Ok(()),
            other => Err(Error::data(format!("a parameter in two groups: {other:?}"))),
        }
    });
    s.fallible("a schedule keeps the ratios between the rates of groups", |device| async move {
        let one = device.ones(&[1])?;
        let (a, b) = (Variable::new(&one), Variable::new(&one));
        let mut optimizer = Optimizer::new(Sgd::new(0.1), std::slice::from_ref(&a))?;
        optimizer.add_group(Sgd::new(0.3), std::slice::from_ref(&b))?;
        // A warm-up may begin with nothing.
        for lr in [0.05, 0.0, 0.2] {
            optimizer.schedule_lr(lr);
            optimizer.minimize(&a.value().add(b.value())?.sum(())?)?;
        }
        near("a".into(), &a.value(), &Array { shape: vec![1], data: vec![0.75] }).await?;
        near("b".into(), &b.value(), &Array { shape: vec![1], data: vec![0.25] }).await
    });
    s.fallible("what is saved goes on to the same bits", |device| async move {
        let all = arrays(FILE, "all");
        let rule = || Adam { amsgrad: true, ..Adam::new(0.05) };
        let of = parameters(&device, KEYS)?;
        let mut optimizer = Optimizer::new(rule(), &of)?;
        let mut saved = None;
        for n in 1..=12 {
            if n == 7 {
                let values: Vec<Tensor> = of.iter().map(Variable::value).collect();
                saved = Some((values, optimizer.state_dict()?));
            }
            optimizer.minimize(&loss(&device, &all, KEYS, &of, n)?)?;
        }
        let (values, state) = saved.expect("saved");
        let again: Vec<Variable> = values.iter().map(Variable::new).collect();
        let mut resumed = Optimizer::new(rule(), &again)?;
        resumed.load_state_dict(&state).await?;
        for n in 7..=12 {
            resumed.minimize(&loss(&device, &all, KEYS, &again, n)?)?;
        }
        for (one, other) in of.iter().zip(&again) {
            let (one, other): (Vec<f32>, Vec<f32>) =
                (one.value().read().await?, other.value().read().await?);
            if one != other {
                return Err(Error::data(format!("{one:?} and {other:?}")));
            }
        }
        let mut short = state.clone();
        short.remove("0.1.max_exp_avg_sq");
        match resumed.load_state_dict(&short).await {
            Err(error) if error.message() == "load_state_dict: missing: `0.1.max_exp_avg_sq`" => {
                Ok(())
            }
            other => Err(Error::data(format!("a state that lacks one: {other:?}"))),
        }
    });
    s.fallible("a parameter that another optimiser took over is an error", |device| async move {
        let of = parameters(&device, KEYS)?;
        let mut first = Optimizer::new(Sgd::new(0.1), &of)?;
        let mut second = Optimizer::new(Sgd::new(0.1), &of[1..])?;
        second.minimize(&of[1].value().sum(())?)?;
        match first.minimize(&of[1].value().sum(())?) {
            Err(error) if error.message().contains("parameter 1 belongs to another") => Ok(()),
            other => Err(Error::data(format!("{other:?}"))),
        }
    });
}
