//! Tests that indices out of range are reported if `check_indices` is on.

use super::check::{said, Outcome, Suite};
use super::refusals::{refuses, t};
use warpweft::device::Device;
use warpweft::dtype::DType::I32;
use warpweft::error::ErrorKind::InvalidArgument;
use warpweft::error::Result;
use warpweft::tensor::{ScatterNdOptions, Tensor};

/// Operations that take positions along an axis of three elements, with their names in messages.
type Indexed = (&'static str, fn(&Device, &Tensor) -> Result<Tensor>);
const INDEXED: &[Indexed] = &[
    ("index_select", |d, i| t(d, &[2, 3])?.index_select(-1, i)),
    ("index_select", |d, i| t(d, &[3, 2])?.transpose(0, 1)?.index_select(1, &i.add(0)?)),
    ("take", |d, i| t(d, &[1, 3])?.take(i)),
    ("gather", |d, i| t(d, &[3])?.gather(0, i)),
    ("scatter", |d, i| t(d, &[3])?.scatter(0, i, &t(d, &[2])?)),
    ("scatter_add", |d, i| t(d, &[3])?.scatter_add(0, i, &t(d, &[2])?)),
    ("index_add", |d, i| t(d, &[3])?.index_add(0, i, &t(d, &[2])?)),
    ("gather_nd", |d, i| t(d, &[3])?.gather_nd(&i.unsqueeze(-1)?)),
    ("scatter_nd", |d, i| {
        t(d, &[3])?.scatter_nd(&i.unsqueeze(-1)?, &t(d, &[2])?, ScatterNdOptions::default())
    }),
];

/// Tests that with [`Device::check_indices`] the next read reports indices out of range, once.
pub fn refusals(suite: &mut Suite) {
    for (at, &(name, of)) in INDEXED.iter().enumerate() {
        suite.steps(format!("{name} of an index out of range {at}"), move |device| async move {
            device.check_indices(true);
            let outcome = out_of_range(&device, name, of).await;
            device.check_indices(false);
            outcome?;
            let index = device.tensor(&[7, 0], &[2]).and_then(|i| of(&device, &i)).map_err(said)?;
            index.read::<f32>().await.map(|_| ()).map_err(said)
        });
    }
    suite.steps(
        "the first of several reads tells of an index, and a program of none",
        |device| async move {
            device.check_indices(true);
            let read = several(&device).await;
            device.check_indices(false);
            read
        },
    );
}

async fn out_of_range(
    device: &Device,
    name: &str,
    of: fn(&Device, &Tensor) -> Result<Tensor>,
) -> Outcome {
    for inside in [[0, 2], [-1, -3]] {
        let index = device.tensor(&inside, &[2]).map_err(said)?;
        of(device, &index).map_err(said)?.read::<f32>().await.map_err(said)?;
    }
    for (outside, told) in [([2, 3], 3), ([-4, 0], -4), ([i32::MAX, 1], i32::MAX)] {
        let index = device.tensor(&outside, &[2]).map_err(said)?;
        let result = of(device, &index).map_err(said)?;
        let what = format!("read: an index of {name} must be in [-3, 3), got {told}");
        refuses(&what, result.read::<f32>().await, InvalidArgument)?;
        result.read::<f32>().await.map_err(said)?;
    }
    let index = device.tensor(&[3u32, 1], &[2]).map_err(said)?;
    let read = of(device, &index).map_err(said)?.read::<f32>().await;
    refuses(&format!("read: an index of {name} must be in [-3, 3), got 3"), read, InvalidArgument)
}

/// Checks that a read of another tensor reports the index, and that later reads and compiled programs work as usual.
async fn several(device: &Device) -> Outcome {
    let x = t(device, &[3]).map_err(said)?;
    let index = device.tensor(&[1, 9], &[2]).map_err(said)?;
    let picked = x.index_select(0, &index).map_err(said)?;
    refuses(
        "read: an index of index_select must be in [-3, 3), got 9",
        x.read::<f32>().await,
        InvalidArgument,
    )?;
    x.read::<f32>().await.map_err(said)?;
    picked.read::<f32>().await.map_err(said)?;
    let program = device.compile(&[(&[2], I32)], |inputs| {
        Ok(vec![inputs[0].device().ones(&[3])?.index_select(0, &inputs[0])?])
    });
    let ran = program.and_then(|program| program.run(&[&index])).map_err(said)?;
    match ran[0].read::<f32>().await.map_err(said)?[..] {
        [1.0, 0.0] => Ok(()),
        ref got => Err(format!("{got:?}")),
    }
}
