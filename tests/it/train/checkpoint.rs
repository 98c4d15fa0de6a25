//! Checkpoints: a training that goes on gives the same bits as one that did not end.

use super::{bits, classifier, everywhere, noise};
use crate::suite::Place;
use pollster::block_on;
use std::collections::BTreeMap;
use warpweft::device::Device;
use warpweft::error::{Error, Result};
use warpweft::io;
use warpweft::nn::*;
use warpweft::optim::*;
use warpweft::tensor::Tensor;
use warpweft::train::metrics::Accuracy;
use warpweft::train::*;

fn data(device: &Device, seed: u32, count: usize) -> Result<Dataset> {
    let x = noise(count * 3, seed);
    let y: Vec<i32> = x.chunks(3).map(|row| i32::from(row[0] * row[1] > 0.0)).collect();
    Dataset::new(&device.tensor(&x, &[count, 3])?, &device.tensor(&y, &[count])?)
}

fn loss(model: &Sequential, x: &Tensor, y: &Tensor) -> Result<(Tensor, Tensor)> {
    let scores = model.forward(x)?;
    Ok((scores.cross_entropy(y, None, CrossEntropyOptions::default())?, scores))
}

/// Eight steps an epoch; everything that there is to remember.
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

/// What came of the epochs, but for how long they took.
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
            // Other first values, and a generator that was drawn from elsewhere.
            let mut later = trainer(device, 2, 6)?;
            steps(&mut later, 3)?;
            // The seeds of its dropout are the seed's of its making.
            let mut later_same = trainer(device, 1, 6)?;
            assert_eq!(block_on(later_same.load(&file))?, notes);
            assert_eq!(later_same.steps(), saved);
            steps(&mut later_same, 20)?;
            assert_eq!(bits(&later_same.model), bits(&whole.model), "from {saved}");
            assert_eq!(memory(&later_same), memory(&whole));
            assert_eq!(history(&later_same), history(&whole));
            // What it remembers of epochs, too: both stop alike, with the same weights.
            block_on(whole.fit())?;
            block_on(later_same.fit())?;
            assert_eq!(history(&later_same), history(&whole));
            assert_eq!(bits(&later_same.model), bits(&whole.model));
            // Without dropout's draws the bits would differ.
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
    // Groups keep the ratio that they had when it was saved.
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
        (plain, "it has no note `trainer`"),
        (file[..file.len() - 4].to_vec(), "load_safetensors: "),
        (with_note(&|_| "[".into()), "its note is no JSON"),
        (with_note(&|_| "[]".into()), "of version null"),
        (with_note(&|note| note.replace("\"version\":2", "\"version\":3")), "of version 3"),
        (with_note(&|note| note.replace("\"steps\":10", "\"steps\":-1")), "no usable `steps`"),
        (with_note(&|note| note.replace("\"batch\":2", "\"batch\":11")), "more steps in an epoch"),
        (
            with_note(&|note| note.replace("\"draws\":[", "\"draws\":[1,")),
            "of 2 generators, here are 1",
        ),
        (
            with_note(&|note| note.replace("\"rates\":[", "\"rates\":[[\"1\",\"1\"],")),
            "of 2 groups",
        ),
        (with_note(&|note| note.replace("[[\"0.05\"", "[[\"-1\"")), "no usable `rates`"),
        (with_note(&|note| note.replace("by seed 5", "by seed 6")), "of batch 2 of other batches"),
        (without("trainer/mean"), "`trainer/mean` is missing"),
        (without("0.weight"), "load_state_dict: missing: `0.weight`"),
        (without("trainer/optimizer/0.1.exp_avg"), "load_state_dict: missing: `0.1.exp_avg`"),
    ] {
        let error = block_on(saved.load(&file)).expect_err(words);
        assert!(error.message().contains(words), "{error}, not {words}");
        assert_eq!((bits(&saved.model), memory(&saved)), before, "{words}");
        assert_eq!(saved.steps(), 10);
    }
    let own = BTreeMap::from([("trainer".to_string(), String::new())]);
    let error: Error = block_on(saved.save(&own)).expect_err("its own");
    assert_eq!(error.message(), "save: `trainer` is a name of the trainer's own");
    // Batches of another size are no matter at an epoch's end.
    let mut other = trainer(&device, 1, 9).expect("a trainer");
    assert!(block_on(other.load(&file)).is_err());
    steps(&mut saved, 16).expect("it trains");
    let file = block_on(saved.save(&notes)).expect("saved");
    block_on(other.load(&file)).expect("the end of an epoch");
}
