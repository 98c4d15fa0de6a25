//! Tests optimizers against PyTorch in 64 bits, step by step. `tests/golden/optimisers.py` writes the numbers.

use super::array::Array;
use super::check::Suite;
use super::golden::arrays;
use std::collections::HashMap;
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::{Error, ErrorKind, Result};
use warpweft::optim::*;
use warpweft::tensor::{Tensor, Variable};

const FILE: &str = include_str!("../golden/optimisers.txt");

/// The allowed error of the values: relative to their norm, and an absolute term for small values.
const RELATIVE: f64 = 1e-5;
const ABSOLUTE: f64 = 1e-6;

/// The changes to an optimizer that has only the rule.
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
        false => Err(Error::state(format!(
            "{what}: {distance} off of {size}: {got:?}, not {:?}",
            want.data
        ))),
    }
}

/// Returns the parameters of a case.
fn parameters(device: &Device, keys: &[&str]) -> Result<Vec<Variable>> {
    let all = arrays(FILE, "all");
    keys.iter().map(|&key| Ok(Variable::new(&all[key].f32(device)?))).collect()
}

/// Returns a loss with the gradients of the file.
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

/// Checks twenty steps.
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
        false => Err(Error::state(format!("{case}: {compared} compared"))),
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
    like(s, "asgd", Asgd { weight_decay: 0.1, ..Asgd::new(0.05) });
    let averaging = Asgd { lambd: 0.3, alpha: 0.5, t0: 4.0, ..Asgd::new(0.05) };
    like(s, "asgd, options", averaging);
    like(s, "rprop", Rprop::new(0.05));
    let narrow = Rprop { etas: (0.4, 1.5), step_sizes: (0.03, 0.1), ..Rprop::new(0.05) };
    like(s, "rprop, options", narrow);
    let belief = AdaBelief { betas: (0.9, 0.99), eps: 1e-8, weight_decay: 0.1, lr: 0.02 };
    like(s, "adabelief", belief);
    like(s, "yogi", Yogi { betas: (0.9, 0.99), weight_decay: 0.1, ..Yogi::new(0.02) });
    s.fallible("averages of Asgd are in its state", move |device| async move {
        let all = arrays(FILE, "all");
        let of = parameters(&device, &["a"])?;
        let mut optimizer = Optimizer::new(averaging, &of)?;
        for n in 1..=20 {
            optimizer.minimize(&loss(&device, &all, &["a"], &of, n)?)?;
        }
        let state = optimizer.state_dict()?;
        let found = state.iter().find(|(name, _)| name.ends_with("ax"));
        let (name, average) = found.ok_or_else(|| Error::state("there is no ax"))?;
        near(name.clone(), average, &arrays(FILE, "asgd, averages")["ax"]).await
    });
    like(s, "lamb", Lamb { betas: (0.9, 0.99), weight_decay: 0.1, ..Lamb::new(0.02) });
    like(s, "muon", Muon::new(0.02));
    let plain = Muon { weight_decay: 0.0, momentum: 0.9, nesterov: false, ..Muon::new(0.02) };
    like(s, "muon, plain", plain);
    changed(s, "clipped by norm", Sgd::new(0.1), |optimizer| optimizer.clip_norm(2.0));
    changed(s, "clipped by value", Sgd::new(0.1), |optimizer| optimizer.clip_value(0.5));
    ways(s);
    apart(s);
    pending(s);
    refused(s);
    suite
}

/// Tests different ways to compute the same steps.
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
        let step = optimizer.step();
        says("a step without gradients", step, ErrorKind::InvalidState, "there must be gradients")
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
        let added = optimizer.add_group(Sgd::new(1.0), &of[1..]);
        says("a parameter in two groups", added, ErrorKind::InvalidArgument, "must be in one group")
    });
    s.fallible("a schedule keeps the ratios between the rates of groups", |device| async move {
        let one = device.ones(&[1])?;
        let (a, b) = (Variable::new(&one), Variable::new(&one));
        let mut optimizer = Optimizer::new(Sgd::new(0.1), std::slice::from_ref(&a))?;
        optimizer.add_group(Sgd::new(0.3), std::slice::from_ref(&b))?;
        // A warm-up may begin with the rate 0.
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
                return Err(Error::state(format!("{one:?} and {other:?}")));
            }
        }
        let mut short = state.clone();
        short.remove("0.1.max_exp_avg_sq");
        let loaded = resumed.load_state_dict(&short).await;
        says("a state that lacks one", loaded, ErrorKind::Format, "must have `0.1.max_exp_avg_sq`")
    });
    s.fallible("a parameter that another optimiser took over is an error", |device| async move {
        let of = parameters(&device, KEYS)?;
        let mut first = Optimizer::new(Sgd::new(0.1), &of)?;
        let mut second = Optimizer::new(Sgd::new(0.1), &of[1..])?;
        second.minimize(&of[1].value().sum(())?)?;
        let step = first.minimize(&of[1].value().sum(())?);
        says("a lost parameter", step, ErrorKind::InvalidState, "got parameter 1 of another")
    });
}

/// Returns an error unless both values are equal.
fn same_as<T: PartialEq + std::fmt::Debug>(what: &str, got: T, want: T) -> Result<()> {
    match got == want {
        true => Ok(()),
        false => Err(Error::state(format!("{what}: {got:?}, not {want:?}"))),
    }
}

fn says<T>(what: &str, result: Result<T>, kind: ErrorKind, words: &str) -> Result<()> {
    match result {
        Err(error) if error.kind() == kind && error.message().contains(words) => Ok(()),
        Err(error) => Err(Error::state(format!("{what}: {:?}: {error}", error.kind()))),
        Ok(_) => Err(Error::state(format!("{what} is taken"))),
    }
}

fn variable(device: &Device, values: &[f32]) -> Result<Variable> {
    Ok(Variable::new(&device.tensor(values, &[values.len()])?))
}

/// Returns the whole state of the optimizer, and the values.
async fn everything(optimizer: &Optimizer, of: &[&Variable]) -> Result<Vec<Vec<u32>>> {
    let state = optimizer.state_dict()?.into_iter().filter(|(name, _)| name != "steps");
    let mut all = Vec::new();
    for x in state.map(|(_, x)| x).chain(of.iter().map(|x| x.value())) {
        all.push(x.read::<f32>().await?.into_iter().map(f32::to_bits).collect());
    }
    Ok(all)
}

/// Trains two parameters. The second is trained alone in some steps. Then the first must stay constant, and the second must
/// match training without the first.
async fn stays<R: Rule + Clone + 'static>(device: Device, rule: R) -> Result<()> {
    let make = || -> Result<(Variable, Variable)> {
        let value = |seed| Ok(Variable::new(&device.normal(&[3, 2], 0.0, 1.0, seed)?));
        Ok((value(1)?, value(2)?))
    };
    let (a, b) = make()?;
    let (_, alone) = make()?;
    let mut both = Optimizer::new(rule.clone(), &[a.clone(), b.clone()])?;
    let mut one = Optimizer::new(rule, std::slice::from_ref(&alone))?;
    let of = |x: &Variable| x.value().square().sum(());
    for n in 0..6 {
        let before = everything(&both, &[&a]).await?;
        match n {
            0 | 1 => both.minimize(&of(&a)?.add(&of(&b)?)?)?,
            2 | 3 => both.minimize(&of(&b)?)?,
            4 => {
                both.accumulate(&of(&b)?)?;
                both.step()?;
            }
            _ => {
                of(&b)?.backward(&[&a, &b])?;
                both.step()?;
            }
        }
        one.minimize(&of(&alone)?)?;
        let (after, single) = (everything(&both, &[&a]).await?, everything(&one, &[]).await?);
        // State is ordered by name: the state of the first parameter precedes that of the second, and its value is last.
        let own = |all: &[Vec<u32>]| [&all[..single.len()], &all[2 * single.len()..]].concat();
        same_as(&format!("step {n}: the first stays"), own(&before) == own(&after), n >= 2)?;
        same_as(
            "what is remembered of the second",
            &after[single.len()..][..single.len()],
            &single,
        )?;
        let pair: [Vec<f32>; 2] = [b.value().read().await?, alone.value().read().await?];
        same_as("the second", &pair[0], &pair[1])?;
    }
    same_as("steps", both.steps(), 6)
}

/// Tests parameters outside the loss.
fn apart(s: &mut Suite) {
    s.fallible("a parameter outside the loss stays: momentum", |device| {
        stays(device, Sgd { momentum: 0.9, weight_decay: 0.1, ..Sgd::new(0.1) })
    });
    s.fallible("a parameter outside the loss stays: adam", |device| stays(device, Adam::new(0.1)));
    s.fallible("a parameter outside the loss stays: adamw, amsgrad", |device| {
        stays(device, AdamW { amsgrad: true, ..AdamW::new(0.1) })
    });
    s.fallible("a parameter outside the loss stays: lion", |device| {
        stays(device, Lion { weight_decay: 0.1, ..Lion::new(0.1) })
    });
    s.fallible("a parameter that gradients do not pass to stays", |device| async move {
        let (a, b) = (variable(&device, &[1.0, 2.0])?, variable(&device, &[3.0])?);
        let mut optimizer = Optimizer::new(Adam::new(0.1), &[a.clone(), b.clone()])?;
        optimizer.minimize(&a.value().sum(())?.mul(&b.value().sum(())?)?)?;
        let before = everything(&optimizer, &[&a]).await?;
        // Comparisons and detached tensors have no gradients.
        let chosen = a.value().gt(1.5)?.cast(DType::F32)?.add(&a.value().detach())?;
        optimizer.minimize(&chosen.sum(())?.mul(&b.value().sum(())?)?)?;
        let after = everything(&optimizer, &[&a]).await?;
        same_as("the first moment", &before[0], &after[0])?;
        same_as("the value", before.last(), after.last())?;
        // A gradient of zeros counts as a gradient.
        optimizer.minimize(&a.value().floor().sum(())?.add(&b.value().sum(())?)?)?;
        same_as("it moves", everything(&optimizer, &[&a]).await?.last() == after.last(), false)
    });
    s.fallible("a group that takes no part stays", |device| async move {
        let (a, b) = (variable(&device, &[1.0])?, variable(&device, &[1.0])?);
        let rule = Sgd { momentum: 0.5, ..Sgd::new(0.5) };
        let mut optimizer = Optimizer::new(rule, std::slice::from_ref(&a))?.clip_norm(100.0);
        optimizer.add_group(rule, std::slice::from_ref(&b))?;
        optimizer.minimize(&a.value().add(b.value())?.sum(())?)?;
        optimizer.minimize(&a.value().sum(())?)?;
        near("a".into(), &a.value(), &Array { shape: vec![1], data: vec![-0.25] }).await?;
        near("b".into(), &b.value(), &Array { shape: vec![1], data: vec![0.5] }).await
    });
    s.fallible("a group counts its own steps", |device| async move {
        let (a, b) = (variable(&device, &[1.0])?, variable(&device, &[1.0])?);
        let mut optimizer = Optimizer::new(Adam::new(0.1), std::slice::from_ref(&a))?;
        for _ in 0..20 {
            optimizer.minimize(&a.value().sum(())?)?;
        }
        optimizer.add_group(Adam::new(0.1), std::slice::from_ref(&b))?;
        optimizer.minimize(&a.value().add(b.value())?.sum(())?)?;
        near("b".into(), &b.value(), &Array { shape: vec![1], data: vec![0.9] }).await?;
        same_as("steps", optimizer.steps(), 21)?;
        let mut state = optimizer.state_dict()?;
        same_as("saved", state["steps"].read::<i32>().await?, vec![21, 1])?;
        let mut other = Optimizer::new(Adam::new(0.1), &[variable(&device, &[1.0])?])?;
        other.add_group(Adam::new(0.1), &[variable(&device, &[1.0])?])?;
        other.load_state_dict(&state).await?;
        same_as("loaded", other.state_dict()?["steps"].read::<i32>().await?, vec![21, 1])?;
        // Old files had only one step count.
        state.insert("steps".into(), device.tensor(&[7i32], &[1])?);
        other.load_state_dict(&state).await?;
        same_as("one for all", other.state_dict()?["steps"].read::<i32>().await?, vec![7, 7])?;
        state.insert("steps".into(), device.tensor(&[7i32; 3], &[3])?);
        let loaded = other.load_state_dict(&state).await;
        says("three for two", loaded, ErrorKind::Shape, "`steps` must have 2 numbers")
    });
}

/// Tests pending gradients, and losses without gradients.
fn pending(s: &mut Suite) {
    s.fallible("minimize takes what was left and added up", |device| async move {
        for way in 0..2 {
            let w = variable(&device, &[8.0])?;
            let mut optimizer = Optimizer::new(Sgd::new(1.0), std::slice::from_ref(&w))?;
            let loss = |factor: f64| w.value().mul(factor)?.sum(());
            match way {
                0 => optimizer.accumulate(&loss(2.0)?)?,
                _ => loss(2.0)?.backward(&[&w])?,
            }
            // A failed step does not consume the gradients.
            optimizer.set_lr(f64::NAN);
            says(
                "no rate",
                optimizer.minimize(&loss(1.0)?),
                ErrorKind::InvalidArgument,
                "minimize: ",
            )?;
            says("no rate", optimizer.step(), ErrorKind::InvalidArgument, "step: lr must be")?;
            optimizer.set_lr(1.0);
            optimizer.minimize(&loss(1.0)?)?;
            same_as("the sum", w.value().read::<f32>().await?, vec![5.0])?;
            says(
                "nothing is left",
                optimizer.step(),
                ErrorKind::InvalidState,
                "there must be gradients",
            )?;
        }
        Ok(())
    });
    s.fallible("a loss of none of the parameters is an error", |device| async move {
        let (w, other) = (variable(&device, &[1.0])?, variable(&device, &[1.0])?);
        let rule = Sgd { momentum: 0.9, ..Sgd::new(0.5) };
        let mut optimizer = Optimizer::new(rule, std::slice::from_ref(&w))?;
        let once = w.value();
        optimizer.minimize(&once.square().sum(())?)?;
        let before = everything(&optimizer, &[&w]).await?;
        let none = "the loss must depend on a parameter";
        let earlier = "the loss must be computed from";
        let (argument, state) = (ErrorKind::InvalidArgument, ErrorKind::InvalidState);
        let losses = [
            (once.square().sum(())?, state, earlier),
            (device.ones(&[])?, argument, none),
            (other.value().sum(())?, argument, none),
        ];
        for (loss, kind, words) in losses {
            let says = |done, op: &str| says(op, done, kind, &format!("{op}: {words}"));
            says(optimizer.minimize(&loss), "minimize")?;
            says(optimizer.accumulate(&loss), "accumulate")?;
        }
        says(
            "nothing waits",
            optimizer.step(),
            ErrorKind::InvalidState,
            "there must be gradients",
        )?;
        same_as("steps", optimizer.steps(), 1)?;
        same_as("what is there", everything(&optimizer, &[&w]).await?, before)
    });
}

/// Tests arguments that make no sense.
fn refused(s: &mut Suite) {
    s.fallible("numbers of rules that make no sense are refused", |device| async move {
        let nan = f64::NAN;
        let matrix = Variable::new(&device.ones(&[2, 2])?);
        macro_rules! refuses {
            ($($words:literal: $rule:ident { $($field:ident: $value:expr),* };)*) => { $(
                let rule = $rule { $($field: $value,)* ..$rule::default() };
                let made = Optimizer::new(rule, std::slice::from_ref(&matrix));
                says(stringify!($rule), made, ErrorKind::InvalidArgument, $words)?;
            )* };
        }
        refuses! {
            "optimizer: lr of Sgd must be at least 0, got NaN": Sgd { lr: nan };
            "lr of Adam must be at least 0, got -1.0": Adam { lr: -1.0 };
            "betas of Adam must be in [0, 1), got (1.0, 0.9)": Adam { betas: (1.0, 0.9) };
            "betas of AdamW must be in [0, 1), got (0.9, -0.1)": AdamW { betas: (0.9, -0.1) };
            "betas of Adamax must be": Adamax { betas: (0.9, nan) };
            "eps of Adamax must be": Adamax { eps: -1e-8 };
            "weight_decay of NAdam must be": NAdam { weight_decay: -1.0 };
            "momentum_decay of NAdam must be": NAdam { momentum_decay: nan };
            "betas of RAdam must be": RAdam { betas: (2.0, 0.9) };
            "momentum of Sgd must be": Sgd { momentum: -0.5 };
            "nesterov of Sgd": Sgd { nesterov: true };
            "nesterov of Sgd": Sgd { nesterov: true, momentum: 0.9, dampening: 0.1 };
            "alpha of RmsProp must be": RmsProp { alpha: -0.1 };
            "momentum of RmsProp must be": RmsProp { momentum: nan };
            "lr_decay of Adagrad must be": Adagrad { lr_decay: -0.1 };
            "initial_accumulator_value of Adagrad must be": Adagrad { initial_accumulator_value: -0.1 };
            "rho of Adadelta must be in [0, 1], got 1.1": Adadelta { rho: 1.1 };
            "betas of Lion must be": Lion { betas: (0.9, 1.0) };
            "eps of Lamb must be": Lamb { eps: nan };
            "momentum of Muon must be": Muon { momentum: -0.1 };
            "ns_steps of Muon must be in [0, 100), got 100": Muon { ns_steps: 100 };
        }
        // Values on the edge of a range are valid. The rejected optimizers have not added this variable to a flat variable.
        let edge = Adam { lr: 0.0, betas: (0.0, 0.0), eps: 0.0, ..Adam::default() };
        let mut optimizer = Optimizer::new(edge, std::slice::from_ref(&matrix))?;
        let own = Adadelta { rho: 1.0, ..Adadelta::default() };
        optimizer.add_group(own, &[variable(&device, &[1.0])?])?;
        let bad = optimizer.add_group(Adam::new(nan), &[variable(&device, &[1.0])?]);
        says("a group", bad, ErrorKind::InvalidArgument, "lr of Adam must be at least 0, got NaN")?;
        let rate = optimizer.set_group_lr(1, -1.0);
        says("a rate", rate, ErrorKind::InvalidArgument, "set_group_lr: lr must be at least 0, got -1")
    });
    s.fallible("clipping by what is not above 0 is refused", |device| async move {
        let clips: [fn(Optimizer) -> Optimizer; 4] = [
            |optimizer| optimizer.clip_norm(f64::NAN),
            |optimizer| optimizer.clip_norm(0.0),
            |optimizer| optimizer.clip_value(-1.0),
            |optimizer| optimizer.clip_value(f64::NAN),
        ];
        for clip in clips {
            let w = variable(&device, &[1.0])?;
            let mut optimizer = clip(Optimizer::new(Sgd::new(1.0), std::slice::from_ref(&w))?);
            let done = optimizer.minimize(&w.value().sum(())?);
            says("a step", done, ErrorKind::InvalidArgument, "must be above 0, got")?;
            same_as("it stays", w.value().read::<f32>().await?, vec![1.0])?;
        }
        Ok(())
    });
    s.fallible("parameters of integers are refused", |device| async move {
        let whole = Variable::new(&device.tensor(&[1i32], &[1])?);
        let of = [variable(&device, &[1.0])?, whole];
        let made = Optimizer::new(Sgd::new(0.1), &of);
        says(
            "integers",
            made,
            ErrorKind::DType,
            "optimizer: parameters must be f32 or f16, got i32 for parameter 1",
        )
    });
}
