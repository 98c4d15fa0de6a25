//! Tests calls that are rejected before they do harm: too many results, and values that exist only inside a program. Also tests
//! messages about vectors and long lists.

mod complete;
mod learning;

use crate::shared::refusals::Refusal;
use pollster::block_on;
use std::cell::RefCell;
use warpweft::device::{Device, Preference};
use warpweft::dtype::DType;
use warpweft::error::{Error, ErrorKind, Result};
use warpweft::optim::{Optimizer, Sgd};
use warpweft::tensor::{PadMode, Tensor, Variable};

fn cpu() -> Device {
    block_on(Device::with(Preference::Cpu)).expect("the CPU is there")
}

#[track_caller]
fn refused<T>(result: Result<T>, kind: ErrorKind, start: &str) -> Error {
    let error = result.err().unwrap_or_else(|| panic!("{start} was not refused"));
    assert!(error.kind() == kind && error.message().starts_with(start), "{error}");
    assert!(error.message().len() < 500, "{} letters", error.message().len());
    error
}

/// Tests lists of too many tensors, which would fill the memory before the first tensor is used.
#[test]
fn one_call_makes_only_so_many_tensors() -> Result<()> {
    let device = cpu();
    let most = 1 << 16;
    assert_eq!(device.zeros(&[most])?.split(1, 0)?.len(), most);
    for long in [most + 1, 1 << 30] {
        let x = device.zeros(&[long])?;
        refused(
            x.split(1, 0),
            ErrorKind::Limit,
            "split: a call must return at most 65536 tensors, got ",
        );
        refused(
            x.chunk(long, 0),
            ErrorKind::Limit,
            "chunk: a call must return at most 65536 tensors, got ",
        );
        refused(
            x.unbind(0),
            ErrorKind::Limit,
            "unbind: a call must return at most 65536 tensors, got ",
        );
        refused(device.zeros(&[long, 0])?.unbind(0), ErrorKind::Limit, "unbind: ");
        refused(x.diff(most + 1, 0), ErrorKind::Limit, "diff: ");
    }
    refused(device.zeros(&[2])?.split(vec![0; most + 1], 0), ErrorKind::Limit, "split: ");
    assert_eq!(block_on(device.tensor(&[1.0f32, 2.0], &[2])?.add(1.0)?.read::<f32>())?, [2.0, 3.0]);
    Ok(())
}

/// Tests that messages about a vector and a matrix give the shape of the vector, not of the row or column that replaces it.
#[test]
fn products_with_vectors_are_refused_with_the_shapes_that_were_given() -> Result<()> {
    let device = cpu();
    let shapes: [(&[usize], &[usize], &str); 4] = [
        (&[3], &[4], "[3] and [4]"),
        (&[3], &[4, 2], "[3] and [4, 2]"),
        (&[2, 3], &[4], "[2, 3] and [4]"),
        (&[3], &[5, 4, 2], "[3] and [5, 4, 2]"),
    ];
    for (a, b, got) in shapes {
        let start = format!("matmul: the inner extents must be equal, got {got}");
        refused(device.zeros(a)?.matmul(&device.zeros(b)?), ErrorKind::Shape, &start);
    }
    Ok(())
}

/// Tests that messages show only the beginning of a long list.
#[test]
fn messages_tell_the_beginning_of_long_lists() -> Result<()> {
    let x = cpu().zeros(&[2, 3])?;
    let long = vec![1usize; 1 << 15];
    refused(
        x.split(long.clone(), 0),
        ErrorKind::Shape,
        "split: the lengths must add up to axis 0 of shape [2, 3], got [1, 1, ",
    );
    refused(
        x.tile(&long),
        ErrorKind::Shape,
        "tile: there must be one count for each axis, got [1, 1, ",
    );
    refused(x.reshape(&long), ErrorKind::Shape, "reshape: ");
    refused(x.expand(&long), ErrorKind::Shape, "expand: ");
    refused(x.permute(&vec![0; 1 << 15]), ErrorKind::Shape, "permute: ");
    refused(x.device().zeros(&long[..]), ErrorKind::Shape, "zeros: ");
    for equation in ["i".repeat(1 << 15), "é".repeat(1 << 15), ",".repeat(1 << 15)] {
        refused(Tensor::einsum(&equation, &[&x]), ErrorKind::Shape, "einsum: ");
    }
    let error = refused(
        Tensor::einsum("ij->k", &[&x]),
        ErrorKind::Shape,
        "einsum: axes of the result must be those of an operand, got 'k' ",
    );
    assert!(error.message().contains("\"ij->k\""), "{error}");
    Ok(())
}

/// Tests that the message names the user's operation, not one that the planner introduced.
#[test]
fn a_sum_that_is_too_long_is_refused_as_a_sum() -> Result<()> {
    let sum = cpu().zeros(&[i32::MAX as usize])?.sum(())?;
    refused(block_on(sum.item::<f32>()), ErrorKind::Limit, "sum: ");
    Ok(())
}

/// Compiles a program that assigns a variable in its build function. Checks the error and returns the value of `variable`
/// afterwards.
fn assigned(
    device: &Device,
    variable: &Variable,
    start: &str,
    assign: impl Fn(&Tensor) -> Result<()>,
) -> Result<Vec<f32>> {
    let kept = RefCell::new(None);
    let program = device.compile(&[(&[2], DType::F32)], |x| {
        *kept.borrow_mut() = Some(assign(&x[0]));
        Ok(vec![x[0].mul(2.0)?])
    })?;
    refused(kept.take().expect("it was built"), ErrorKind::InvalidState, start);
    let x = device.ones(&[2])?;
    assert_eq!(block_on(program.run(&[&x])?[0].read::<f32>())?, [2.0, 2.0]);
    block_on(variable.value().read())
}

/// Tests that tensors computed from a program's input stay inside the program. Outside, they have no data, and neither would a
/// variable or a gradient of them.
#[test]
fn what_is_made_of_inputs_stays_in_its_program() -> Result<()> {
    let device = cpu();
    let v = Variable::new(&device.tensor(&[1.0f32, 2.0], &[2])?);
    let backward = |x: &Tensor| v.value().mul(x)?.sum(())?.backward(&[&v]);
    assert_eq!(assigned(&device, &v, "backward: ", backward)?, [1.0, 2.0]);
    assert!(v.gradient().is_none());
    let failed = |x: &Tensor| v.assign(&Variable::new(&x.add(1.0)?).value());
    assert_eq!(assigned(&device, &v, "variable: ", failed)?, [1.0, 2.0]);
    let mut sgd = Optimizer::new(Sgd::new(1.0), std::slice::from_ref(&v))?;
    let step = |x: &Tensor| sgd.minimize(&v.value().mul(x)?.sum(())?);
    let step = RefCell::new(step);
    let minimized = |x: &Tensor| (step.borrow_mut())(x);
    assert_eq!(assigned(&device, &v, "assign: ", minimized)?, [1.0, 2.0]);
    Ok(())
}

/// Tests that an invalid assignment in the compiled function is rejected, and changes nothing.
#[test]
fn assignments_in_programs_must_fit() -> Result<()> {
    let device = cpu();
    let v = Variable::new(&device.tensor(&[1.0f32, 2.0], &[2])?);
    assert_eq!(block_on(device.ones(&[2])?.read::<f32>())?, [1.0; 2]);
    let other = cpu();
    let compile = |value: &dyn Fn(&Tensor) -> Result<Tensor>| {
        let build = |x: &[Tensor]| {
            v.assign(&v.value().mul(2.0)?)?;
            v.assign(&value(&x[0])?)?;
            Ok(vec![x[0].clone()])
        };
        device.compile(&[(&[2], DType::F32)], build)
    };
    let shape = "assign: the value must have the shape of the variable, got [2] and [4]";
    refused(compile(&|x| Tensor::concat(&[x, x], 0)), ErrorKind::Shape, shape);
    refused(compile(&|x| x.cast(DType::I32)), ErrorKind::DType, "assign: the value must be f32");
    refused(compile(&|_| other.zeros(&[2])), ErrorKind::InvalidArgument, "assign: ");
    assert_eq!(block_on(v.value().read::<f32>())?, [1.0, 2.0]);
    Ok(())
}

/// Tests that errors of convolutions name the called operation and its operands.
#[test]
fn convolutions_speak_of_what_was_called() -> Result<()> {
    let device = cpu();
    let zeros = |dims: &[usize]| device.zeros(dims);
    let error = zeros(&[1, 2, 5])?.conv1d(&zeros(&[1, 3, 3])?, None, Default::default());
    let error = refused(
        error,
        ErrorKind::Shape,
        "conv1d: the input must have 3 channels (1 groups of 3), ",
    );
    assert!(error.message().ends_with("got input [1, 2, 5] and weight [1, 3, 3]"), "{error}");
    let error = zeros(&[1, 2, 2])?.conv1d(&zeros(&[1, 2, 3])?, None, Default::default());
    let error = refused(
        error,
        ErrorKind::Shape,
        "conv1d: the kernel must not be empty, nor longer than the padded ",
    );
    assert!(
        error
            .message()
            .ends_with("input (2 along axis 2), got input [1, 2, 2] and weight [1, 2, 3]"),
        "{error}"
    );
    let error =
        zeros(&[1, 2, 2, 5, 5])?.conv3d(&zeros(&[1, 2, 3, 3, 3])?, None, Default::default());
    refused(error, ErrorKind::Shape, "conv3d: the kernel must not be empty");
    let (x, bias) = (zeros(&[1, 2, 5])?, zeros(&[3])?);
    let error = x.conv1d(&zeros(&[4, 2, 3])?, Some(&bias), Default::default());
    refused(
        error,
        ErrorKind::Shape,
        "conv1d: the bias must have shape [4], one number for each output channel, got [3]",
    );
    let error = x.conv_transpose1d(&zeros(&[3, 2, 3])?, None, Default::default());
    refused(error, ErrorKind::Shape, "conv_transpose1d: the input must have 3 channels");
    Ok(())
}

/// Tests that a result that is too large is rejected with the name of the operation, although another operation computes it.
#[test]
fn large_convolutions_are_refused_by_name() -> Result<()> {
    let device = crate::reference::device();
    let x = device.zeros(&[1, 1, 4096, 4096])?;
    for kernel in [1, 3] {
        let weight = device.zeros(&[64, 1, kernel, kernel])?;
        refused(
            x.conv2d(&weight, None, Default::default()),
            ErrorKind::Limit,
            "conv2d: a tensor must have at most ",
        );
    }
    Ok(())
}

/// Tests class indices that are floats. The remedy is a cast, not another shape.
#[test]
fn class_indices_must_be_integers() -> Result<()> {
    let device = cpu();
    let (scores, target) = (device.zeros(&[4, 3])?, device.zeros(&[4])?);
    let error = scores.cross_entropy(&target, Default::default());
    let error = refused(
        error,
        ErrorKind::DType,
        "cross_entropy: class indices must be i32 or u32, got f32",
    );
    assert!(error.message().ends_with("of shape [4]; cast the target"), "{error}");
    // A target of another shape is neither indices nor probabilities.
    let error = scores.cross_entropy(&device.zeros(&[3])?, Default::default());
    refused(error, ErrorKind::Shape, "cross_entropy: ");
    Ok(())
}

/// Tests that a message names the called operation, not the operations that it is composed of.
#[test]
fn messages_name_what_was_called() {
    let device = cpu();
    let message_of = |result: Result<Tensor>| result.expect_err("it is refused").to_string();
    let huge = &[1 << 16, 1 << 16][..];
    assert!(message_of(device.ones(huge)).contains("ones: "), "{}", message_of(device.ones(huge)));
    assert!(message_of(device.zeros(huge)).contains("zeros: "));
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
        let message = message_of(result);
        assert!(message.contains(&format!("{name}: ")), "{name}: {message}");
    }
}
