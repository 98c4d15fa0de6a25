//! Old names do what the new ones do, as long as they are there.
#![allow(deprecated)]

use warpweft::tensor::{Axes, Pointwise, Value};
use warpweft_native::prelude::*;

/// What an operation gives, and what it gave under its old name.
type Pair = (&'static str, fn(&Tensor) -> Result<Tensor>, fn(&Tensor) -> Result<Tensor>);

const PAIRS: &[Pair] = &[
    ("rem", |x| x.rem(2.0), |x| x.fmod(2.0)),
    ("floor_mod", |x| x.floor_mod(2.0), |x| x.remainder(2.0)),
    ("recip", |x| Ok(x.recip()), |x| Ok(x.reciprocal())),
    ("shl", |x| whole(x)?.shl(2), |x| whole(x)?.bitwise_left_shift(2)),
    ("shr", |x| whole(x)?.shr(1), |x| whole(x)?.bitwise_right_shift(1)),
    ("top_k", |x| Ok(x.top_k(0, 1, true)?.0), |x| Ok(x.topk(1, 0, true)?.0)),
    ("top_k's order", |x| Ok(x.top_k(1, 2, false)?.0), |x| Ok(x.topk(2, 1, false)?.0)),
    ("take_along", |x| x.take_along(1, &whole(x)?), |x| x.gather(1, &whole(x)?)),
    ("sum_keepdim", |x| x.sum_keepdim(&[1]), |x| x.sum(Axes::from(1).keepdim(true))),
    ("mean_keepdim", |x| x.mean_keepdim(&[]), |x| x.mean(Axes::from(()).keepdim(true))),
    ("var_keepdim", |x| x.var_keepdim(&[0], 0.0), |x| x.var(Axes::from(0).keepdim(true), 0.0)),
    ("norm_l2_keepdim", |x| x.norm_l2_keepdim(&[0]), |x| x.norm_l2(Axes::from(0).keepdim(true))),
];

fn whole(x: &Tensor) -> Result<Tensor> {
    x.cast(DType::I32)
}

#[test]
fn old_names_pass_on() {
    let device = Device::with_sync(Preference::Cpu).expect("the CPU is there");
    let x = device.tensor(&[1.5f32, -2.5, 0.25, 3.0, -1.0, 2.0], &[2, 3]).expect("it fits");
    for (name, old, new) in PAIRS {
        let (old, new) = (old(&x).expect(name), new(&x).expect(name));
        assert_eq!((old.shape(), old.dtype()), (new.shape(), new.dtype()), "{name}");
        let read = |x: &Tensor| x.read_bytes_sync().expect(name);
        assert_eq!(read(&old), read(&new), "{name}");
    }
    assert_eq!(Pointwise::select, Pointwise::where_cond);
    assert!(matches!(Value::from(1.0), Operand::Number(1.0)));
}

/// A message names what was called, and not what that is made of.
#[test]
fn messages_name_what_was_called() {
    let device = Device::with_sync(Preference::Cpu).expect("the CPU is there");
    let said = |result: Result<Tensor>| result.expect_err("it is refused").to_string();
    let huge = &[1 << 16, 1 << 16][..];
    assert!(said(device.ones(huge)).contains("ones: "), "{}", said(device.ones(huge)));
    assert!(said(device.zeros(huge)).contains("zeros: "));
    let x = device.zeros((&[2, 3], DType::I32)).expect("it fits");
    for (name, result) in [
        ("mean", x.mean(-1)),
        ("std", x.std(-1, 1.0)),
        ("mean", x.mean(7)),
        ("std", x.std(7, 1.0)),
        ("logsumexp", x.logsumexp(7)),
        ("norm", x.norm(3.0, ())),
        ("full_like", x.full_like(0.5)),
        ("clamp_min", x.clamp_min(0.5)),
        ("pad_with", x.pad_with(&[(1, 1)], PadMode::Edge)),
        ("softmax", x.softmax(-1)),
    ] {
        let message = said(result);
        assert!(message.contains(&format!("{name}: ")), "{name}: {message}");
    }
}
