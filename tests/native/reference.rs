//! Tests the errors of the reference backend. The suite tests its results (`on_reference`).

use std::sync::Arc;
use warpweft::backend::reference::ReferenceBackend;
use warpweft::backend::{Backend, BufferId};
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::expr::Binary;
use warpweft::kernel::{
    Atom, Builder, Dispatch, Index, Inst, Kernel, Plan, Program, Slot, SlotStorage, Space, Store,
};

/// Returns a device on the reference backend, with a browser's limits.
pub fn device() -> Device {
    Device::from_backend(Box::new(ReferenceBackend::default()), None)
}

/// Returns `stride * i + offset`, where i is the only coordinate.
fn index(stride: i64, offset: i64) -> Index {
    let mut index = Index::constant(offset);
    index.add(&Index::coordinate(0), stride);
    index
}

fn load(b: &mut Builder, index: Index) -> u32 {
    b.push(Inst::Load { input: 0, index, dtype: DType::F32 })
}

fn store(b: &mut Builder, index: Index, value: u32) {
    b.store(Store { output: 0, index, value, dtype: DType::F32 });
}

/// Returns a batch of one map over four coordinates, which reads slot 0 and writes slot 1.
fn batch(program: Program, change: impl FnOnce(&mut Dispatch)) -> Plan {
    let slot = |place| Slot { storage: place, bytes: 16, dtype: DType::F32 };
    let space = Space { dims: vec![4], outer: 1 };
    let mut dispatch = Dispatch {
        kernel: Arc::new(Kernel::Loop { space, program }),
        inputs: vec![0],
        outputs: vec![1],
        params: Vec::new(),
        label: "four".into(),
    };
    change(&mut dispatch);
    Plan {
        slots: vec![slot(SlotStorage::Input(0)), slot(SlotStorage::Output(0))],
        dispatches: vec![dispatch],
        outputs: vec![16],
        inputs: 1,
        ..Plan::default()
    }
}

/// Runs a batch on 1, 2, 3 and 4.
fn run(batch: Plan) -> Result<Vec<f32>> {
    let backend = ReferenceBackend::default();
    let buffers: Vec<BufferId> =
        (0..2).map(|_| backend.allocate(16)).collect::<Result<Vec<_>>>()?;
    backend.write(buffers[0], 0, &bytes_of(&[1.0, 2.0, 3.0, 4.0]))?;
    let ran = backend.run(&Arc::new(batch), &buffers, &[]);
    let bytes = pollster::block_on(backend.read(buffers[1], 0, 16))?;
    buffers.into_iter().for_each(|buffer| backend.free(buffer));
    assert_eq!(backend.counters().bytes, 0);
    ran?;
    let word = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().expect("four bytes"));
    Ok(bytes.chunks_exact(4).map(word).collect())
}

fn bytes_of(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Runs a map of the instructions that `write` adds.
fn map(write: impl FnOnce(&mut Builder)) -> Result<Vec<f32>> {
    let mut builder = Builder::default();
    write(&mut builder);
    run(batch(builder.finish(), |_| {}))
}

fn refused(result: Result<Vec<f32>>, why: &str) {
    let error = result.expect_err(why);
    assert!(error.message().contains(why), "{error}");
}

#[test]
fn values_from_outside_may_only_be_thrown_away() {
    let shifted = map(|b| {
        let (next, at) = (load(b, index(1, 1)), b.push(Inst::Coord(0)));
        let (three, zero) = (b.number(DType::I32, 3.0), b.number(DType::F32, 0.0));
        let inside = b.push(Inst::Binary(Binary::Lt, at, three));
        let value = b.push(Inst::Select(inside, next, zero));
        store(b, index(1, 0), value);
    });
    assert_eq!(shifted.expect("it is thrown away"), [2.0, 3.0, 4.0, 0.0]);
    let kept = map(|b| {
        let next = load(b, index(1, 1));
        store(b, index(1, 0), next);
    });
    refused(kept, "a store of what lies outside a buffer");
}

#[test]
fn elements_are_written_once_and_inside() {
    let copy = |stride, offset| {
        map(|b| {
            let value = load(b, index(1, 0));
            store(b, index(stride, offset), value);
        })
    };
    assert_eq!(copy(-1, 3).expect("each has its own"), [4.0, 3.0, 2.0, 1.0]);
    refused(copy(0, 2), "element 2 of output 0 is written twice");
    refused(copy(1, 1), "a store behind its buffer");
    refused(copy(1, -1), "a store before its buffer");
}

#[test]
fn what_nobody_writes_is_garbage() {
    let first = map(|b| {
        let value = load(b, index(1, 0));
        store(b, index(1, 0), value);
    });
    assert!(first.is_ok_and(|all| all.iter().all(|x| x.is_finite())));
    let mut builder = Builder::default();
    let value = load(&mut builder, index(1, 0));
    store(&mut builder, index(1, 0), value);
    let few = run(batch(builder.finish(), |dispatch| {
        let Kernel::Loop { program, .. } = &*dispatch.kernel else { return };
        let space = Space { dims: vec![2], outer: 1 };
        dispatch.kernel = Arc::new(Kernel::Loop { space, program: program.clone() });
    }));
    let few = few.expect("two are written");
    assert_eq!(few[..2], [1.0, 2.0]);
    assert!(few[2..].iter().all(|x| x.to_bits() == 0xfefe_fefe), "{few:?}");
}

#[test]
fn dispatches_that_break_the_contract() {
    let program = || {
        let mut builder = Builder::default();
        let value = load(&mut builder, index(1, 0));
        store(&mut builder, index(1, 0), value);
        builder.finish()
    };
    let with = |change: fn(&mut Dispatch)| run(batch(program(), change));
    refused(with(|d| d.inputs = vec![1]), "a buffer is written and used otherwise too");
    refused(with(|d| d.inputs = vec![0; 8]), "9 buffers");
    refused(with(|d| d.inputs = vec![2]), "a slot or number that does not exist");
    refused(with(|d| d.params = vec![0]), "a slot or number that does not exist");
    refused(with(|d| d.inputs.clear()), "operands must exist");
    let mut other = batch(program(), |_| {});
    other.slots.truncate(1);
    refused(run(other), "must be those of the batch");
    let mut large = batch(program(), |_| {});
    large.slots[0].bytes = 20;
    refused(run(large), "must be inside the buffer");
}

#[test]
fn programs_that_are_not_well_formed() {
    let program = |insts: Vec<Inst>| Program {
        types: vec![DType::F32; insts.len()],
        stores: vec![Store {
            output: 0,
            index: index(1, 0),
            value: insts.len() as u32 - 1,
            dtype: DType::F32,
        }],
        insts,
    };
    let ran = |program| run(batch(program, |_| {}));
    let load = || Inst::Load { input: 0, index: index(1, 0), dtype: DType::F32 };
    assert!(ran(program(vec![load()])).is_ok());
    let and = Inst::Binary(Binary::And, 0, 0);
    refused(ran(program(vec![load(), and])), "has no meaning for its operands' type");
    let later = Inst::Binary(Binary::Add, 0, 1);
    refused(ran(program(vec![load(), later])), "values must be computed before they are used");
    refused(ran(program(vec![Inst::Accumulator])), "operands must exist");
    refused(ran(program(vec![Inst::Coord(1)])), "operands must exist");
    let far = Inst::Load { input: 0, index: Index::atom(Atom::Value(0)), dtype: DType::F32 };
    refused(ran(program(vec![far])), "values must be computed before they are used");
    let mut untyped = program(vec![load()]);
    untyped.types.clear();
    refused(ran(untyped), "values must have a dtype");
}

#[test]
fn buffers_have_a_most() {
    let backend = ReferenceBackend::default();
    let most = backend.limits().binding_bytes;
    let error = backend.allocate(most + 4).expect_err("it is too large");
    assert!(error.message().contains(&most.to_string()), "{error}");
    let buffer = backend.allocate(8).expect("there is room");
    assert!(backend.write(buffer, 4, &[0; 8]).is_err());
    assert!(backend.write(BufferId(99), 0, &[0; 4]).is_err());
    assert!(pollster::block_on(backend.read(buffer, u64::MAX, 8)).is_err());
    backend.free(buffer);
    assert!(pollster::block_on(backend.read(buffer, 0, 8)).is_err());
}
