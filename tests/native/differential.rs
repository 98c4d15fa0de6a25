//! Compares every kernel of the suite with the reference backend. Both get the same bytes, kernel by kernel, and must write the
//! same results.

use crate::shared::{Case, Report, GROUPS};
use crate::suite::{absent, every, run_cases, sampled, say, Place};
use crate::wrapper::{self, Wrapper};
use pollster::block_on;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;
use warpweft::backend::reference::ReferenceBackend;
use warpweft::backend::{Backend, BufferId, Counters};
use warpweft::dtype::DType;
use warpweft::error::{Error, Result};
use warpweft::kernel::{self, Dispatch, Plan, Slot};

/// A backend whose kernels are compared with the reference.
struct Beside {
    inner: Box<dyn Backend>,
    /// The number of batches. The inner backend sees single kernels instead.
    batches: AtomicU64,
    compared: Arc<AtomicUsize>,
}

impl Beside {
    /// Runs one kernel on both backends, on the current contents of the buffers.
    fn dispatch(
        &self,
        batch: &Plan,
        dispatch: &Dispatch,
        buffers: &[BufferId],
        scalars: &[u32],
    ) -> Result<()> {
        let read = |slot: usize| {
            block_on(self.inner.read(buffers[slot], 0, batch.slots[slot].bytes.next_multiple_of(4)))
        };
        // In a batch of one kernel, every slot is an input, including the outputs, because all buffers already exist.
        let given = |(n, slot): (usize, &Slot)| Slot {
            storage: kernel::SlotStorage::Input(n),
            ..slot.clone()
        };
        let one = Arc::new(Plan {
            slots: batch.slots.iter().enumerate().map(given).collect(),
            dispatches: vec![dispatch.clone()],
            ..batch.clone()
        });
        let reference = ReferenceBackend::new(self.inner.limits().clone());
        let copies = batch.slots.iter().enumerate().map(|(n, slot)| {
            let copy = reference.allocate(slot.bytes.next_multiple_of(4).max(4))?;
            if dispatch.inputs.contains(&n) || dispatch.outputs.contains(&n) {
                reference.write(copy, 0, &read(n)?)?;
            }
            Ok(copy)
        });
        let copies = copies.collect::<Result<Vec<BufferId>>>()?;
        reference.run(&one, &copies, scalars)?;
        self.inner.run(&one, buffers, scalars)?;
        self.inner.release(&one);
        for &slot in &dispatch.outputs {
            let bytes = batch.slots[slot].bytes.next_multiple_of(4);
            let want = block_on(reference.read(copies[slot], 0, bytes))?;
            let dtype = batch.slots[slot].dtype;
            if let Some(what) = difference(dtype, &read(slot)?, &want) {
                let kind = dispatch.kernel.kind();
                return Err(Error::state(format!("beside: {kind} {}: {what}", dispatch.label)));
            }
            self.compared.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Describes a difference that is larger than the errors of functions and of reordered sums.
fn difference(dtype: DType, got: &[u8], want: &[u8]) -> Option<String> {
    if got == want {
        return None;
    }
    let numbers = |bytes: &[u8]| -> Vec<f64> {
        let number = |element: &[u8]| {
            let word = element.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte));
            dtype.number(dtype.load(word))
        };
        bytes.chunks(dtype.size()).map(number).collect()
    };
    let (got, want) = (numbers(got), numbers(want));
    let most = want.iter().filter(|x| x.is_finite()).fold(0.0f64, |most, x| most.max(x.abs()));
    // Sums of numbers of both signs have the rounding error of their largest terms.
    let part = match dtype {
        DType::F32 => 1e-5,
        DType::F16 => 1e-3,
        _ => 0.0,
    };
    let differs = |&(_, (got, want)): &(usize, (&f64, &f64))| {
        let same = got == want || got.is_nan() && want.is_nan();
        let near = (got - want).abs() <= part * want.abs().max(most).max(1.0);
        !same && !near
    };
    let first = got.iter().zip(&want).enumerate().find(differs);
    first.map(|(at, (got, want))| format!("element {at} is {got}, not {want} ({dtype:?})"))
}

impl Wrapper for Beside {
    fn inner(&self) -> &dyn Backend {
        &*self.inner
    }
    fn run(&self, batch: &Arc<Plan>, buffers: &[BufferId], scalars: &[u32]) -> Result<()> {
        self.batches.fetch_add(1, Ordering::Relaxed);
        let one = |dispatch| self.dispatch(batch, dispatch, buffers, scalars);
        batch.dispatches.iter().try_for_each(one)
    }
    fn counters(&self) -> Counters {
        let submits = self.batches.load(Ordering::Relaxed);
        Counters { submits, ..self.inner.counters() }
    }
}

/// The group whose kernels sum distances that cancel, so that only rounding errors remain. Its cases compare the results with
/// `f64`.
const CANCELLING: &str = "readings";

/// Compares every n-th case on a place with the reference. Returns the number of compared outputs.
fn compare(place: Place, each: usize) -> Option<usize> {
    let inner = match place.backend() {
        Ok(inner) => inner,
        Err(error) => {
            absent(place, "kernels beside the reference", &error);
            return None;
        }
    };
    let compared = Arc::new(AtomicUsize::new(0));
    let beside = Beside { inner, batches: AtomicU64::new(0), compared: compared.clone() };
    let device = wrapper::device(beside);
    let mut report = Report::default();
    for group in GROUPS.iter().filter(|group| group.name != CANCELLING) {
        let cases: Vec<Case> =
            sampled((group.cases)().cases, 0).into_iter().step_by(each).collect();
        report.join(run_cases(Place::Reference, &device, &cases, group.name));
    }
    assert!(report.failures.is_empty(), "{place:?}:\n  {}", report.failures.join("\n  "));
    let compared = compared.load(Ordering::Relaxed);
    say(&format!("{}: {compared} outputs of kernels beside the reference", place.name()));
    Some(compared)
}

#[test]
fn kernels_of_the_cpu_are_those_of_the_reference() {
    let compared = compare(Place::Cpu, 3).expect("the CPU is there");
    assert!(compared * every() > 1000, "{compared} outputs were compared");
}

#[test]
fn kernels_of_a_gpu_are_those_of_the_reference() {
    if let Some(compared) = compare(Place::Wgpu, 11) {
        assert!(compared * every() > 100, "{compared} outputs were compared");
    }
}

#[test]
fn differences_are_seen() {
    let bytes = |x: &[f32]| x.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let differs =
        |got: &[f32], want: &[f32]| difference(DType::F32, &bytes(got), &bytes(want)).is_some();
    assert!(!differs(&[1.0, f32::NAN], &[1.000_001, f32::NAN]));
    assert!(!differs(&[1e-5, 1e3], &[0.0, 1e3]));
    assert!(differs(&[1.0], &[1.1]));
    assert!(differs(&[f32::NAN], &[1.0]));
    assert!(differs(&[1.0], &[f32::NAN]));
    assert!(differs(&[f32::INFINITY], &[f32::MAX]));
    assert!(difference(DType::I32, &[1, 0, 0, 0], &[2, 0, 0, 0]).is_some());
}
