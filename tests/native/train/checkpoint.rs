//! Tests checkpoints: a resumed training gives the same bits as an uninterrupted one.

use super::{bits, classifier, everywhere, noise};
use crate::suite::Place;
use pollster::block_on;
use std::collections::BTreeMap;
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::{Error, Result};
use warpweft::io;
use warpweft::nn::*;
use warpweft::optim::*;
use warpweft::tensor::{Tensor, Variable};
use warpweft::train::metrics::Accuracy;
use warpweft::train::*;

fn data(device: &Device, seed: u32, count: usize) -> Result<Dataset> {
    let x = noise(count * 3, seed);
    let y: Vec<i32> = x.chunks(3).map(|row| i32::from(row[0] * row[1] > 0.0)).collect();
    Dataset::new(&device.tensor(&x, &[count, 3])?, &device.tensor(&y, &[count])?)
}

fn loss(model: &Sequential, x: &Tensor, y: &Tensor) -> Result<(Tensor, Tensor)> {
    let scores = model.forward(x)?;
    Ok((scores.cross_entropy(y, CrossEntropyOptions::default())?, scores))
}

/// Returns a trainer with eight steps per epoch and every kind of state.
fn trainer(device: &Device, seed: u32, batch_size: usize) -> Result<Trainer<Sequential>> {
    let model = classifier(device, seed)?;
    let optimizer = Optimizer::new(AdamW::new(0.05), &model.parameters())?.clip_norm(1.0);
    let loader = DataLoader::new(&data(device, 3, 45)?, batch_size)?.shuffle(5);
    let options = PlateauOptions { factor: 0.5, patience: 0, threshold: 0.3, ..Default::default() };
    let stopping = EarlyStopping { patience: 2, ..EarlyStopping::default() };
    Ok(Trainer::new(model, optimizer, loader, loss)?
        .validate_on(DataLoader::new(&data(device, 4, 20)?, 8)?)
        .metric(Accuracy::new())
        .reduce_on_plateau(ReduceLrOnPlateau::new(0.05, options)?)
        .early_stopping(stopping)
        .epochs(9))
}

fn steps(trainer: &mut Trainer<Sequential>, end: u64) -> Result<()> {
    while trainer.steps() < end && block_on(trainer.next_step())?.is_some() {}
    Ok(())
}

/// Returns the results of the epochs, without their durations.
fn history(trainer: &Trainer<Sequential>) -> Vec<Epoch> {
    trainer.history().iter().map(|epoch| Epoch { seconds: 0.0, ..epoch.clone() }).collect()
}

fn memory(trainer: &Trainer<Sequential>) -> Vec<Vec<u8>> {
    let state = trainer.optimizer.state_dict().expect("a state");
    state.values().map(|x| block_on(x.read_bytes()).expect("read")).collect()
}

#[test]
fn a_training_goes_on_to_the_same_bits() {
    everywhere("checkpoints", |device| {
        for saved in [10, 16, 0] {
            let mut whole = trainer(device, 1, 6)?;
            steps(&mut whole, saved)?;
            let notes = BTreeMap::from([("by".to_string(), "hand".to_string())]);
            let file = block_on(whole.save(&notes))?;
            steps(&mut whole, 20)?;
            // Different initial values, and another position of the generator.
            let mut later = trainer(device, 2, 6)?;
            steps(&mut later, 3)?;
            // The seeds of its dropout come from the seed of its creation.
            let mut later_same = trainer(device, 1, 6)?;
            assert_eq!(block_on(later_same.load(&file))?, notes);
            assert_eq!(later_same.steps(), saved);
            steps(&mut later_same, 20)?;
            assert_eq!(bits(&later_same.model), bits(&whole.model), "from {saved}");
            assert_eq!(memory(&later_same), memory(&whole));
            assert_eq!(history(&later_same), history(&whole));
            // The state of epochs is restored, too: both stop at the same time, with the same weights.
            block_on(whole.fit())?;
            block_on(later_same.fit())?;
            assert_eq!(history(&later_same), history(&whole));
            assert_eq!(bits(&later_same.model), bits(&whole.model));
            // Without the restored draws of dropout, the bits would differ.
            block_on(later.load(&file))?;
            steps(&mut later, 20)?;
            assert_ne!(bits(&later.model), bits(&whole.model), "another seed of dropout");
        }
        Ok(())
    });
}

#[test]
fn learning_rates_that_were_set_by_hand_are_in_checkpoints() {
    let device = Place::Cpu.open().expect("the CPU is there");
    let make = || -> Result<Trainer<Sequential>> {
        let model = classifier(&device, 1)?;
        let parameters = model.parameters();
        let (first, rest) = parameters.split_at(1);
        let mut optimizer = Optimizer::new(AdamW::new(0.05), first)?;
        optimizer.add_group(AdamW::new(0.01), rest)?;
        let loader = DataLoader::new(&data(&device, 3, 45)?, 6)?;
        Ok(Trainer::new(model, optimizer, loader, loss)?.epochs(4))
    };
    let mut whole = make().expect("a trainer");
    steps(&mut whole, 5).expect("it trains");
    whole.optimizer.set_group_lr(0, 0.1 / 3.0).expect("there is a first group");
    whole.optimizer.set_group_lr(1, 1e-3 / 7.0).expect("there is a second group");
    whole.optimizer.schedule_lr(0.1 / 7.0);
    let file = block_on(whole.save(&BTreeMap::new())).expect("saved");
    let mut later = make().expect("a trainer");
    block_on(later.load(&file)).expect("its checkpoint");
    assert_eq!(later.optimizer.lr().to_bits(), (0.1f64 / 7.0).to_bits());
    // Groups keep the ratio that they had when the checkpoint was saved.
    for trainer in [&mut whole, &mut later] {
        steps(trainer, 9).expect("it trains");
        trainer.optimizer.schedule_lr(0.02);
        steps(trainer, 12).expect("it trains");
    }
    assert_eq!(bits(&later.model), bits(&whole.model));
}

#[test]
fn a_checkpoint_is_a_file_of_weights() {
    let device = Place::Cpu.open().expect("the CPU is there");
    let mut trained = trainer(&device, 1, 6).expect("a trainer");
    steps(&mut trained, 10).expect("it trains");
    let file = block_on(trained.save(&BTreeMap::new())).expect("saved");
    let mut tensors = io::load_safetensors(&device, &file).expect("a file").tensors;
    tensors.retain(|name, _| !name.starts_with("trainer/"));
    let model = classifier(&device, 7).expect("a model");
    model.load_state_dict(&tensors).expect("its weights");
    assert_eq!(bits(&model), bits(&trained.model));
}

#[test]
fn what_is_no_checkpoint_is_refused_and_changes_nothing() {
    let device = Place::Cpu.open().expect("the CPU is there");
    let mut saved = trainer(&device, 1, 6).expect("a trainer");
    steps(&mut saved, 10).expect("it trains");
    let notes = BTreeMap::new();
    let file = block_on(saved.save(&notes)).expect("saved");
    let before = (bits(&saved.model), memory(&saved));

    let plain = block_on(io::save_safetensors(&saved.model.state_dict(), &notes)).expect("saved");
    let with_note = |edit: &dyn Fn(&str) -> String| {
        let mut all = io::load_safetensors(&device, &file).expect("a file");
        let note = edit(&all.metadata["trainer"]);
        all.metadata.insert("trainer".into(), note);
        block_on(io::save_safetensors(&all.tensors, &all.metadata)).expect("saved")
    };
    let without = |name: &str| {
        let mut all = io::load_safetensors(&device, &file).expect("a file");
        assert!(all.tensors.remove(name).is_some(), "{name}");
        block_on(io::save_safetensors(&all.tensors, &all.metadata)).expect("saved")
    };
    for (file, words) in [
        (plain, "without the note `trainer`"),
        (file[..file.len() - 4].to_vec(), "load_safetensors: "),
        (with_note(&|_| "[".into()), "whose note is not JSON"),
        (with_note(&|_| "[]".into()), "of version null"),
        (with_note(&|note| note.replace("\"version\":2", "\"version\":3")), "of version 3"),
        (with_note(&|note| note.replace("\"steps\":10", "\"steps\":-1")), "no usable `steps`"),
        (
            with_note(&|note| note.replace("\"steps\":10,", "\"steps\":18446744073709551615,")),
            "whose `steps` is 18446744073709551615, above 9007199254740991",
        ),
        (
            with_note(&|note| note.replace("\"examples\":12,", "\"examples\":18446744073709551615,")),
            "whose `examples` is 18446744073709551615, above 9007199254740991",
        ),
        (with_note(&|note| note.replace("\"batch\":2", "\"batch\":11")), "more steps in an epoch"),
        (with_note(&|note| note.replace("\"batch\":2", "\"batch\":0")), "batches and no steps"),
        (with_note(&|note| note.replace("\"worse\":", "\"worse_\":")), "no usable `worse`"),
        (with_note(&|note| note.replace("\"cooldown\":", "\"c\":")), "no usable `cooldown`"),
        (
            with_note(&|note| note.replace("\"draws\":[", "\"draws\":[1,")),
            "of 2 generators; this training has 1",
        ),
        (
            with_note(&|note| note.replace("\"rates\":[", "\"rates\":[[\"1\",\"1\"],")),
            "of 2 groups",
        ),
        (with_note(&|note| note.replace("[[\"0.05\"", "[[\"-1\"")), "no usable `rates`"),
        (with_note(&|note| note.replace("by seed 5", "by seed 6")), "from batch 2 of other data"),
        (without("trainer/mean"), "without `trainer/mean`"),
        (without("0.weight"), "load_state_dict: the state must have all names of the model, got one without `0.weight`"),
        (without("trainer/optimizer/0.1.exp_avg"), "load_state_dict: the state must have `0.1.exp_avg`, got none"),
    ] {
        let error = block_on(saved.load(&file)).expect_err(words);
        assert!(error.message().contains(words), "{error}, not {words}");
        assert_eq!((bits(&saved.model), memory(&saved)), before, "{words}");
        assert_eq!(saved.steps(), 10);
    }
    let own = BTreeMap::from([("trainer".to_string(), String::new())]);
    let error: Error = block_on(saved.save(&own)).expect_err("its own");
    assert_eq!(
        error.message(),
        "save: names of parameters and notes must not be reserved for the trainer, got `trainer`"
    );
    // At the end of an epoch, another batch size does not matter.
    let mut other = trainer(&device, 1, 9).expect("a trainer");
    assert!(block_on(other.load(&file)).is_err());
    steps(&mut saved, 16).expect("it trains");
    let file = block_on(saved.save(&notes)).expect("saved");
    block_on(other.load(&file)).expect("the end of an epoch");
}

#[test]
fn steps_on_other_batches_do_not_move_the_position_in_the_data() {
    everywhere("batches of one's own", |device| {
        // The loss of each batch is its number.
        let make = || -> Result<Trainer<Sequential>> {
            let on = device.clone();
            let batches = move |epoch: u64| {
                let on = on.clone();
                (0..5).map(move |n| {
                    let number = on.full(&[2, 3], (10 * epoch + n) as f64, DType::F32)?;
                    Ok((number, on.zeros((&[2], DType::I32))?))
                })
            };
            let model = classifier(device, 1)?;
            let optimizer = Optimizer::new(Sgd::new(0.0), &model.parameters())?;
            let number = |model: &Sequential, x: &Tensor, _: &Tensor| {
                model.forward(x)?.mul(0)?.mean(())?.add(&x.mean(())?)
            };
            Ok(Trainer::new(model, optimizer, batches, number)?.epochs(2))
        };
        let own = (device.full(&[2, 3], 99.0, DType::F32)?, device.zeros((&[2], DType::I32))?);
        let number = |step: &Step| block_on(step.loss.item::<f32>());
        let (mut whole, mut file, mut seen, mut means) = (make()?, None, Vec::new(), Vec::new());
        for round in 0..10 {
            if [1, 2, 4].contains(&round) {
                let step = block_on(whole.step(&own.0, &own.1))?;
                assert_eq!((number(&step)?, step.batch), (99.0, whole.batch() - 1));
            }
            let step = block_on(whole.next_step())?.expect("two epochs");
            seen.push(number(&step)?);
            means.extend(step.ended.map(|ended| ended.loss));
            if round == 2 {
                assert_eq!((whole.batch(), whole.position(), whole.steps()), (5, 3, 5));
                file = Some(block_on(whole.save(&BTreeMap::new()))?);
            }
        }
        let want: Vec<f32> = (0..5).chain(10..15).map(|n| n as f32).collect();
        assert_eq!(seen, want);
        // The other batches count in the epoch's mean.
        assert!((means[0] - (10.0 + 3.0 * 99.0) / 8.0).abs() < 1e-4, "{means:?}");
        let file = file.expect("saved");
        for (mut later, what) in [(make()?, "another"), (whole, "the same")] {
            block_on(later.load(&file))?;
            let mut left = Vec::new();
            while let Some(step) = block_on(later.next_step())? {
                left.push(number(&step)?);
            }
            assert_eq!(left, want[3..], "{what}");
        }
        Ok(())
    });
}

#[test]
fn files_of_version_1_are_read() {
    everywhere("an old file", |device| {
        let mut whole = trainer(device, 1, 6)?;
        steps(&mut whole, 19)?;
        let file = block_on(whole.save(&BTreeMap::new()))?;
        steps(&mut whole, 30)?;
        // An old file has one number for the batches and steps of the epoch, and no state of early stopping and plateaus.
        let mut all = io::load_safetensors(device, &file)?;
        let mut note: serde_json::Value =
            serde_json::from_str(&all.metadata["trainer"]).expect("it is JSON");
        let entries = note.as_object_mut().expect("an object");
        for new in ["position", "patience", "plateau", "restored"] {
            assert!(entries.remove(new).is_some(), "{new}");
        }
        entries.insert("version".into(), 1.into());
        all.metadata.insert("trainer".into(), note.to_string());
        let old = block_on(io::save_safetensors(&all.tensors, &all.metadata))?;
        let mut later = trainer(device, 1, 6)?;
        block_on(later.load(&old))?;
        steps(&mut later, 30)?;
        assert_eq!(bits(&later.model), bits(&whole.model));
        assert_eq!((memory(&later), history(&later)), (memory(&whole), history(&whole)));
        Ok(())
    });
}

#[test]
fn gradients_that_wait_are_in_checkpoints_and_none_survives_a_load() {
    everywhere("gradients that wait", |device| {
        let batch = |seed: u32| -> Result<Batch> {
            let data = data(device, seed, 6)?;
            Ok((data.features().clone(), data.targets().clone()))
        };
        let wait = |trainer: &mut Trainer<Sequential>, seed: u32| -> Result<()> {
            let (x, y) = batch(seed)?;
            let (first, _) = loss(&trainer.model, &x, &y)?;
            trainer.optimizer.accumulate(&first)?;
            let (second, _) =
                loss(&trainer.model, &y.cast(DType::F32)?.reshape(&[6, 1])?.add(&x)?, &y)?;
            // Only one parameter has a gradient of this kind.
            second.backward(&[&trainer.model.parameters()[1]])
        };
        for waits in [false, true] {
            let mut whole = trainer(device, 1, 6)?;
            steps(&mut whole, 3)?;
            if waits {
                wait(&mut whole, 8)?;
            }
            let file = block_on(whole.save(&BTreeMap::new()))?;
            let names = io::load_safetensors(device, &file)?.tensors;
            let there = |what: &str| names.keys().filter(|name| name.contains(what)).count();
            let counts = [there(".accumulated_gradient"), there("trainer/gradient/")];
            assert_eq!(counts, if waits { [whole.model.parameters().len(), 1] } else { [0, 0] });
            let state = memory(&whole);
            steps(&mut whole, 6)?;
            let want = (bits(&whole.model), memory(&whole));
            wait(&mut whole, 9)?;
            let mut later = trainer(device, 1, 6)?;
            wait(&mut later, 10)?;
            for mut trainer in [whole, later] {
                block_on(trainer.load(&file))?;
                assert_eq!(memory(&trainer), state, "waits: {waits}");
                steps(&mut trainer, 6)?;
                assert_eq!((bits(&trainer.model), memory(&trainer)), want, "waits: {waits}");
            }
        }
        Ok(())
    });
}

#[test]
fn averages_are_in_checkpoints() {
    everywhere("averages", |device| {
        let make = || -> Result<(Trainer<Sequential>, WeightAverage)> {
            let trainer = trainer(device, 1, 6)?;
            let average = WeightAverage::new(&trainer.optimizer, 0.9)?;
            Ok((trainer, average))
        };
        let run = |(trainer, average): &mut (Trainer<Sequential>, WeightAverage),
                   end: u64|
         -> Result<_> {
            while trainer.steps() < end {
                block_on(trainer.next_step())?;
                average.update()?;
            }
            average.swap()?;
            let seen = bits(&trainer.model);
            average.swap()?;
            Ok(seen)
        };
        let mut whole = make()?;
        run(&mut whole, 5)?;
        let file = block_on(whole.0.save(&BTreeMap::new()))?;
        let want = run(&mut whole, 12)?;
        for mut later in [make()?, whole] {
            block_on(later.0.load(&file))?;
            assert_eq!(run(&mut later, 12)?, want);
        }
        // A file without averages: the averages start from its weights.
        let mut plain = trainer(device, 1, 6)?;
        steps(&mut plain, 5)?;
        let old = block_on(plain.save(&BTreeMap::new()))?;
        let mut later = make()?;
        run(&mut later, 2)?;
        block_on(later.0.load(&old))?;
        later.1.swap()?;
        assert_eq!(bits(&later.0.model), bits(&plain.model));
        // A trainer without averages rejects the file, and keeps its state.
        let before = (bits(&plain.model), memory(&plain));
        let error = block_on(plain.load(&file)).expect_err("it has an average");
        assert_eq!(
            error.message(),
            "load_state_dict: the state must have no other names, got `average.0.0.0`"
        );
        assert_eq!((bits(&plain.model), memory(&plain)), before);
        // A dropped average is not part of the state.
        let (trainer, average) = make()?;
        let count = trainer.optimizer.state_dict()?.len();
        drop(average);
        assert_eq!(trainer.optimizer.state_dict()?.len(), count - trainer.model.parameters().len());
        Ok(())
    });
}

#[test]
fn patience_and_falling_rates_go_on_where_they_were() {
    let device = Place::Cpu.open().expect("the CPU is there");
    // No epoch counts as better, so it stops after two more.
    let make = || -> Result<Trainer<Sequential>> {
        let trainer = trainer(&device, 1, 6)?;
        let rule = EarlyStopping { patience: 2, min_delta: 9.0, ..EarlyStopping::default() };
        Ok(trainer.early_stopping(rule).epochs(20))
    };
    let run = || -> Result<()> {
        let mut whole = make()?;
        assert_eq!(block_on(whole.fit())?.len(), 3);
        // After `epochs` is set again, the patience starts over. The history does not contain this.
        whole = whole.epochs(20);
        steps(&mut whole, 30)?;
        let file = block_on(whole.save(&BTreeMap::new()))?;
        assert_eq!(block_on(whole.fit())?.len(), 5);
        let mut later = make()?;
        block_on(later.load(&file))?;
        assert!(!later.is_over());
        block_on(later.fit())?;
        assert_eq!(history(&later), history(&whole));
        // A plateau schedule that is added late has not seen the earlier epochs.
        let options =
            PlateauOptions { factor: 0.5, patience: 1, threshold: 0.99, ..Default::default() };
        let late = |trainer: Trainer<Sequential>| -> Result<Trainer<Sequential>> {
            Ok(trainer.reduce_on_plateau(ReduceLrOnPlateau::new(0.08, options)?))
        };
        let mut whole = trainer(&device, 1, 6)?
            .early_stopping(EarlyStopping { patience: 50, ..EarlyStopping::default() });
        steps(&mut whole, 17)?;
        let mut whole = late(whole)?;
        steps(&mut whole, 27)?;
        let file = block_on(whole.save(&BTreeMap::new()))?;
        steps(&mut whole, 60)?;
        let patient = EarlyStopping { patience: 50, ..EarlyStopping::default() };
        let mut later = late(trainer(&device, 1, 6)?.early_stopping(patient))?;
        block_on(later.load(&file))?;
        steps(&mut later, 60)?;
        let rates = |trainer: &Trainer<Sequential>| {
            trainer.history().iter().map(|epoch| epoch.lr).collect::<Vec<_>>()
        };
        assert_eq!(rates(&later), rates(&whole));
        Ok(())
    };
    run().expect("it runs");
}

#[test]
fn best_weights_are_given_back_once() {
    let device = Place::Cpu.open().expect("the CPU is there");
    let run = || -> Result<()> {
        let mut whole = trainer(&device, 1, 6)?.epochs(2);
        block_on(whole.fit())?;
        // The best weights are restored. Later assignments persist, also in a checkpoint.
        let parameter = whole.model.parameters().remove(0);
        parameter.assign(&parameter.value().mul(0)?.detach())?;
        let file = block_on(whole.save(&BTreeMap::new()))?;
        let want = bits(&whole.model);
        assert!(block_on(whole.next_step())?.is_none());
        assert_eq!(bits(&whole.model), want);
        let mut later = trainer(&device, 1, 6)?.epochs(2);
        block_on(later.load(&file))?;
        assert!(block_on(later.next_step())?.is_none());
        assert_eq!(bits(&later.model), want);
        Ok(())
    };
    run().expect("it runs");
}

/// Returns a trainer whose loss has a learned factor that is not part of the model.
fn tempered(device: &Device) -> Result<(Trainer<Sequential>, Variable)> {
    let generator = Generator::new(device, 1);
    let model = Sequential::new().push(Linear::new(&generator, 3, 2)?);
    let factor = Variable::new(&device.tensor(&[1.0f32], &[])?);
    let mut parameters = model.parameters();
    parameters.push(factor.clone());
    let optimizer = Optimizer::new(Sgd::new(0.1), &parameters)?;
    let known = factor.clone();
    let forward = move |model: &Sequential, x: &Tensor, y: &Tensor| {
        let scores = model.forward(x)?.mul(known.value())?;
        scores.cross_entropy(y, CrossEntropyOptions::default())
    };
    let loader = DataLoader::new(&data(device, 3, 45)?, 6)?.shuffle(5);
    let stopping = EarlyStopping { monitor: "loss".into(), ..EarlyStopping::default() };
    let trainer = Trainer::new(model, optimizer, loader, forward)?.early_stopping(stopping);
    Ok((trainer.epochs(3), factor))
}

#[test]
fn parameters_that_are_not_the_models_are_saved() {
    everywhere("other parameters", |device| {
        let (mut whole, factor) = tempered(device)?;
        steps(&mut whole, 5)?;
        let file = block_on(whole.save(&BTreeMap::new()))?;
        let read = |factor: &Variable| block_on(factor.value().item::<f32>());
        let saved = read(&factor)?;
        steps(&mut whole, 12)?;
        let (end, after) = (bits(&whole.model), read(&factor)?);
        assert_ne!(saved, after);
        // In the same trainer, and in another.
        let (mut other, of_other) = tempered(device)?;
        for (trainer, factor) in [(&mut whole, &factor), (&mut other, &of_other)] {
            block_on(trainer.load(&file))?;
            assert_eq!(read(factor)?, saved);
            steps(trainer, 12)?;
            assert_eq!((bits(&trainer.model), read(factor)?), (end.clone(), after));
        }
        // The best weights are those of both.
        let best = read(&of_other)?;
        while !other.is_over() {
            of_other.assign(&device.tensor(&[-9.0f32], &[])?)?;
            block_on(other.next_step())?;
        }
        assert_ne!(
            read(&of_other)?,
            -9.0,
            "the best factor, at the end of an epoch, was about {best}"
        );
        // Gradients of `backward` are part of the file, too, and are replaced when it is loaded.
        factor.value().mul(3)?.backward(&[&factor])?;
        let with_gradient = block_on(whole.save(&BTreeMap::new()))?;
        block_on(other.load(&with_gradient))?;
        let gradient = of_other.gradient().expect("a gradient");
        assert_eq!(block_on(gradient.item::<f32>())?, 3.0);
        block_on(other.load(&file))?;
        assert!(of_other.gradient().is_none());
        // A trainer without the factor refuses the file, and does not change.
        let model = Sequential::new().push(Linear::new(&Generator::new(device, 1), 3, 2)?);
        let optimizer = Optimizer::new(Sgd::new(0.1), &model.parameters())?;
        let loader = DataLoader::new(&data(device, 3, 45)?, 6)?.shuffle(5);
        let mut without = Trainer::new(model, optimizer, loader, loss)?;
        let before = bits(&without.model);
        let error = block_on(without.load(&file)).expect_err("the file has one more");
        let says = "got one with 1 parameters that are not the model's; this optimizer has 0";
        assert!(error.message().contains(says), "{error}");
        assert_eq!(bits(&without.model), before);
        Ok(())
    });
}
