//! Tests batches: their examples, and that each device selects the same ones.

use super::{everywhere, noise};
use crate::suite::Place;
use pollster::block_on;
use std::collections::BTreeSet;
use std::sync::Mutex;
use warpweft::device::Device;
use warpweft::error::{ErrorKind, Result};
use warpweft::train::{Batches, DataLoader, Dataset};

/// Returns examples whose targets are their numbers, and whose features are ten times and a hundred times the number.
fn numbered(device: &Device, count: usize) -> Result<Dataset> {
    let x: Vec<f32> = (0..count).flat_map(|n| [n as f32 * 10.0, n as f32 * 100.0]).collect();
    let y: Vec<i32> = (0..count as i32).collect();
    Dataset::new(&device.tensor(&x, &[count, 2])?, &device.tensor(&y, &[count])?)
}

/// Returns the numbers of the examples of each batch. Checks that the features match.
fn numbers(loader: &DataLoader, epoch: u64) -> Result<Vec<Vec<i32>>> {
    let mut all = Vec::new();
    for batch in loader.epoch(epoch)? {
        let (x, y) = batch?;
        let (x, y) = (block_on(x.read::<f32>())?, block_on(y.read::<i32>())?);
        let features: Vec<f32> =
            y.iter().flat_map(|&n| [n as f32 * 10.0, n as f32 * 100.0]).collect();
        assert_eq!(x, features);
        all.push(y);
    }
    Ok(all)
}

#[test]
fn an_epoch_has_each_example_once() {
    everywhere("batches", |device| {
        let data = numbered(device, 23)?;
        let loader = DataLoader::new(&data, 5)?;
        let plain: Vec<Vec<i32>> = (0..5).map(|n| (n * 5..(n * 5 + 5).min(23)).collect()).collect();
        assert_eq!(numbers(&loader, 3)?, plain);
        let shuffled = loader.clone().shuffle(9);
        let mut orders = BTreeSet::new();
        for epoch in 0..4 {
            let order = numbers(&shuffled, epoch)?;
            assert_eq!(order.iter().map(Vec::len).collect::<Vec<_>>(), [5, 5, 5, 5, 3]);
            let mut all = order.concat();
            assert!(orders.insert(all.clone()), "epoch {epoch} is one before");
            all.sort_unstable();
            assert_eq!(all, (0..23).collect::<Vec<_>>());
        }
        // The order of the next seed is not the order of the next epoch.
        assert!(orders.insert(numbers(&loader.clone().shuffle(10), 0)?.concat()));
        let dropped = shuffled.clone().drop_last(true);
        assert_eq!(numbers(&dropped, 1)?, numbers(&shuffled, 1)?[..4]);
        assert_eq!((dropped.steps(), shuffled.steps()), (Some(4), Some(5)));
        Ok(())
    });
}

#[test]
fn every_device_has_the_same_order() {
    let first = Mutex::new(None);
    everywhere("orders", |device| {
        let loader = DataLoader::new(&numbered(device, 1000)?, 64)?.shuffle(1);
        let (part, rest) = numbered(device, 1000)?.split(0.3, 2)?;
        let parts = [block_on(part.targets().read::<i32>())?, block_on(rest.targets().read())?];
        let got = (numbers(&loader, 7)?, parts);
        assert_eq!(*first.lock().expect("whole").get_or_insert(got.clone()), got);
        Ok(())
    });
}

#[test]
fn batches_are_passed_over() {
    everywhere("batches passed over", |device| {
        let loader = DataLoader::new(&numbered(device, 30)?, 4)?.shuffle(3);
        let all = numbers(&loader, 0)?;
        let mut left = loader.epoch(0)?;
        assert!(left.nth(2).is_some());
        let (_, y) = left.next().expect("a fourth")?;
        assert_eq!(block_on(y.read::<i32>())?, all[3]);
        assert_eq!(left.size_hint(), (4, Some(4)));
        assert!(left.nth(100).is_none() && left.next().is_none());
        Ok(())
    });
}

#[test]
fn a_split_has_all_examples() {
    everywhere("a split", |device| {
        let data = numbered(device, 10)?;
        // As in train_test_split: 0.25 of 10 are 3, 0.1 is 1, and 0.3 is 3.
        for (fraction, second) in [(0.25, 3), (0.1, 1), (0.3, 3), (0.85, 9)] {
            let (a, b) = data.split(fraction, 4)?;
            assert_eq!((a.len(), b.len()), (10 - second, second), "{fraction}");
            let mut all = block_on(a.targets().read::<i32>())?;
            all.extend(block_on(b.targets().read::<i32>())?);
            assert_ne!(all, (0..10).collect::<Vec<_>>());
            all.sort_unstable();
            assert_eq!(all, (0..10).collect::<Vec<_>>());
        }
        Ok(())
    });
}

#[test]
fn functions_give_batches() {
    let device = Place::Cpu.open().expect("the CPU is there");
    let rows = move |epoch: u64| {
        let device = device.clone();
        (0..3u32).map(move |n| {
            let x = device.tensor(&noise(4, epoch as u32 * 3 + n), &[2, 2])?;
            Ok((x.clone(), x))
        })
    };
    assert_eq!(rows.steps(), None);
    let (x, _) = rows.epoch(1).expect("it begins").nth(1).expect("a second").expect("a batch");
    assert_eq!(block_on(x.read::<f32>()).expect("read"), noise(4, 4));
}

#[test]
fn data_that_cannot_be_is_refused() {
    let device = Place::Cpu.open().expect("the CPU is there");
    let other = Place::Cpu.open().expect("the CPU is there");
    let zeros = |device: &Device, shape: &[usize]| device.zeros(shape).expect("zeros");
    let refused = |x, y| Dataset::new(&x, &y).expect_err("refused");
    let error = refused(zeros(&device, &[3, 2]), zeros(&device, &[4]));
    assert_eq!(error.kind(), ErrorKind::Shape);
    assert!(error.message().contains("[3, 2] and [4]"), "{error}");
    assert_eq!(refused(zeros(&device, &[]), zeros(&device, &[])).kind(), ErrorKind::Shape);
    assert_eq!(
        refused(zeros(&device, &[3]), zeros(&other, &[3])).kind(),
        ErrorKind::InvalidArgument
    );
    let data = numbered(&device, 5).expect("five");
    for fraction in [0.0, 1.0, -1.0, 2.0, 0.95, f64::NAN] {
        let error = data.split(fraction, 0).expect_err("refused");
        assert!(error.message().starts_with("split: "), "{error}");
    }
    let error = DataLoader::new(&data, 0).expect_err("refused");
    assert_eq!(error.message(), "loader: examples and batch size must be at least 1, got 5 and 0");
    let none = Dataset::new(&zeros(&device, &[0, 2]), &zeros(&device, &[0])).expect("none");
    assert!(DataLoader::new(&none, 3).is_err());
}

#[test]
fn more_batches_than_exist_can_be_skipped() {
    let device = Place::Cpu.open().expect("the CPU is there");
    let loader = DataLoader::new(&numbered(&device, 5).expect("five"), usize::MAX).expect("one");
    assert_eq!(numbers(&loader, 0).expect("a batch"), [[0, 1, 2, 3, 4]]);
    let mut left = loader.epoch(0).expect("it begins");
    assert!(left.nth(usize::MAX).is_none() && left.next().is_none());
}
