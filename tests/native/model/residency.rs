//! Tests weights and caches that are evicted when memory is short, and devices that are lost while text is generated. The text
//! must continue unchanged.

use super::tiny::{close, devices};
use super::toy_reference::Toy;
use crate::suite::{every, gpu};
use crate::wrapper::{Wrapped, Wrapper};
use pollster::block_on;
use std::io::Cursor;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;
use warpweft::backend::cpu::CpuBackend;
use warpweft::backend::wgpu::WgpuBackend;
use warpweft::backend::{Backend, BufferId, Pending, ReadRange};
use warpweft::device::{Device, KernelConfig};
use warpweft::error::{Error, ErrorKind, Result};
use warpweft::kernel::Plan;
use warpweft::model::{
    Context, Example, GenerateOptions, LanguageModel, LoadOptions, LoraAdapter, LoraOptions,
    SamplingOptions,
};
use warpweft_native::prelude::*;

/// Returns a model that can be loaded again, and the number of its loads.
fn load(device: &Device, toy: &Toy) -> (LanguageModel, Arc<AtomicUsize>) {
    let (file, loads) = (toy.file(), Arc::new(AtomicUsize::new(0)));
    let count = loads.clone();
    let load = move |device: Device| {
        count.fetch_add(1, SeqCst);
        let options =
            LoadOptions { context: Some(32), cache: Some(DType::F32), ..LoadOptions::default() };
        let model = LanguageModel::load(&device, Cursor::new(file.clone()), options);
        Box::pin(std::future::ready(model)) as Pending<_>
    };
    (block_on(LanguageModel::reloadable(device, load)).expect("a model"), loads)
}

/// Returns options with which each token depends on all earlier ones and on the number of random draws.
fn options() -> GenerateOptions {
    let sampling = SamplingOptions {
        temperature: 1.5,
        top_k: 20,
        repetition_penalty: 1.2,
        logit_bias: vec![(3, 1.0)],
        seed: 5,
        ..SamplingOptions::default()
    };
    let max_tokens = Some(12);
    GenerateOptions { sampling, max_tokens, ignore_end: true, ..GenerateOptions::default() }
}

fn tokens(context: &mut Context) -> Result<Vec<u32>> {
    let generation = context.generate(&[3, 14, 15, 39, 2], options())?;
    generation.tokens_blocking().map(|token| Ok(token?.id)).collect()
}

/// A backend that is lost after some calls.
struct Mortal<B> {
    machine: B,
    lose: fn(&B),
    calls: Arc<AtomicU64>,
    last: u64,
    is_lost: AtomicBool,
}

impl<B: Backend> Mortal<B> {
    fn call(&self) -> Result<()> {
        let call = self.calls.fetch_add(1, SeqCst);
        if call == self.last {
            (self.lose)(&self.machine);
        }
        // Stays lost, although the calls of the next backend are counted from 0.
        match self.is_lost.fetch_or(call >= self.last, SeqCst) || call >= self.last {
            false => Ok(()),
            true => Err(Error::new(ErrorKind::DeviceLost, "test: the device was lost")),
        }
    }
}

impl<B: Backend> Wrapper for Mortal<B> {
    fn inner(&self) -> &dyn Backend {
        &self.machine
    }
    fn allocate(&self, bytes: u64) -> Result<BufferId> {
        self.call().and_then(|()| self.machine.allocate(bytes))
    }
    fn write(&self, buffer: BufferId, offset: u64, data: &[u8]) -> Result<()> {
        self.call().and_then(|()| self.machine.write(buffer, offset, data))
    }
    fn run(&self, batch: &Arc<Plan>, buffers: &[BufferId], scalars: &[u32]) -> Result<()> {
        self.call().and_then(|()| self.machine.run(batch, buffers, scalars))
    }
    fn read_parts(&self, parts: Vec<ReadRange>) -> Pending<Result<()>> {
        match self.call() {
            Ok(()) => self.machine.read_parts(parts),
            Err(lost) => Box::pin(std::future::ready(Err(lost))),
        }
    }
}

/// A device whose backends are lost.
pub struct Losing {
    pub device: Device,
    /// The number of opened backends.
    pub opened: Arc<AtomicUsize>,
    /// The number of calls on the last backend.
    pub calls: Arc<AtomicU64>,
}

/// Returns the CPU with a simulated loss, or a GPU that `devices` found and that is destroyed. The n-th backend is lost after
/// the n-th number of calls. Later backends are never lost.
pub fn losing(is_gpu: bool, last: Vec<u64>) -> Losing {
    let (opened, calls) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU64::new(0)));
    let (count, counted) = (opened.clone(), calls.clone());
    let open = move || {
        let last = last.get(count.fetch_add(1, SeqCst)).copied().unwrap_or(u64::MAX);
        let (calls, is_lost) = (counted.clone(), AtomicBool::new(false));
        calls.store(0, SeqCst);
        let machine: Box<dyn Backend> = if is_gpu {
            let machine = gpu(KernelConfig::default()).expect("a GPU");
            Box::new(Wrapped(Mortal { machine, lose: WgpuBackend::destroy, calls, last, is_lost }))
        } else {
            let machine = CpuBackend::new();
            Box::new(Wrapped(Mortal { machine, lose: |_| {}, calls, last, is_lost }))
        };
        Box::pin(std::future::ready(Ok(machine))) as Pending<_>
    };
    let device = block_on(Device::from_opener(open)).expect("a device");
    Losing { device, opened, calls }
}

#[test]
fn a_sentence_goes_on_after_the_device_was_lost() {
    for (is_gpu, device) in devices().iter().enumerate() {
        // A software GPU takes long to open and to compile kernels.
        let (families, parts) = match is_gpu {
            0 => (&[false, true][..], &[0, 1, 5, 9, 12][..]),
            _ => (&[false][..], &[5][..]),
        };
        for &gemma in families {
            let toy = Toy::new(gemma, Some(5), true);
            let want = tokens(&mut load(device, &toy).0.context().expect("a context"));
            let want = want.expect("tokens");
            // Counts the calls until there is a context, and then until the end.
            let Losing { device: counting, calls, .. } = losing(is_gpu == 1, Vec::new());
            let model = load(&counting, &toy).0;
            let mut context = model.context().expect("a context");
            let before = calls.load(SeqCst);
            tokens(&mut context).expect("tokens");
            let steps = calls.load(SeqCst) - before;
            for &part in parts {
                // Lost once, and lost again after some progress.
                let first = before + steps * part / 12;
                for last in [vec![first], vec![first, before + steps / 2, before + steps / 3]] {
                    let what = format!("{device:?}, gemma: {gemma}, lost after {last:?} calls");
                    let Losing { device, opened, .. } = losing(is_gpu == 1, last);
                    let (model, loads) = load(&device, &toy);
                    let got = tokens(&mut model.context().expect("a context"));
                    assert_eq!(got.expect(&what), want, "{what}");
                    assert_eq!(loads.load(SeqCst), opened.load(SeqCst), "{what}");
                    if part > 0 && part < 12 {
                        assert!(opened.load(SeqCst) > 1, "{what}");
                        assert!(!model.device().is_same(&device), "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn two_contexts_go_on_and_the_model_is_loaded_once() {
    let toy = Toy::new(false, Some(5), true);
    let cpu = &devices()[0];
    let want = tokens(&mut load(cpu, &toy).0.context().expect("a context")).expect("tokens");
    let Losing { device, opened, .. } = losing(false, vec![400]);
    let (model, loads) = load(&device, &toy);
    let mut contexts = [0, 1].map(|_| model.context().expect("a context"));
    let mut turns = 0;
    while opened.load(SeqCst) == 1 {
        for context in &mut contexts {
            assert_eq!(tokens(context).expect("tokens"), want);
        }
        turns += 1;
        assert!(turns < 100, "the device is never lost");
    }
    assert_eq!((opened.load(SeqCst), loads.load(SeqCst)), (2, 2));
}

#[test]
fn a_loss_that_nothing_helps_is_told() {
    let toy = Toy::new(false, None, true);
    // A model that cannot be loaded again.
    let Losing { device, .. } = losing(false, vec![300]);
    let model = LanguageModel::load(&device, Cursor::new(toy.file()), LoadOptions::default());
    let mut context = model.expect("a model").context().expect("a context");
    let error = (0..100).find_map(|_| tokens(&mut context).err()).expect("an error");
    assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
    // A device that cannot be opened again.
    let (machine, calls) = (CpuBackend::new(), Arc::new(AtomicU64::new(0)));
    let is_lost = AtomicBool::new(false);
    let machine = Wrapped(Mortal { machine, lose: |_| {}, calls, last: 300, is_lost });
    let (model, loads) = load(&Device::from_backend(Box::new(machine), None), &toy);
    let mut context = model.context().expect("a context");
    let error = (0..100).find_map(|_| tokens(&mut context).err()).expect("an error");
    assert_eq!((error.kind(), loads.load(SeqCst)), (ErrorKind::DeviceLost, 1), "{error}");
    assert!(error.message().contains("the model could not be loaded again"), "{error}");
    // A model with an adapter, which is lost.
    let Losing { device, opened, .. } = losing(false, vec![600]);
    let (model, _) = load(&device, &toy);
    let adapter = LoraAdapter::new(&model, &LoraOptions::default()).expect("an adapter");
    let tuned = model.with_adapter(&adapter).expect("a model");
    let mut context = tuned.context().expect("a context");
    let error = (0..100).find_map(|_| tokens(&mut context).err()).expect("an error");
    assert_eq!((error.kind(), opened.load(SeqCst)), (ErrorKind::DeviceLost, 1), "{error}");
    // The model itself continues.
    tokens(&mut model.context().expect("a context")).expect("tokens");
    assert_eq!(opened.load(SeqCst), 2);
    // The adapter stays lost.
    let error = tokens(&mut context).expect_err("the adapter is lost");
    assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
}

#[test]
fn a_context_is_evicted_ten_thousand_times() {
    let times = if every() > 1 { 1000 } else { 10_000 };
    let toy = Toy { layers: 1, ..Toy::new(false, None, true) };
    let device = &devices()[0];
    let (model, loads) = load(device, &toy);
    let mut context = model.context().expect("a context");
    let mut used = 0;
    for n in 0..times {
        let length = 1 + n % 7;
        context.resume(&[3, 14, 15, 39, 2, 6, 5][..length]).expect("logits");
        device.trim();
        device.set_memory_limit(Some(device.stats().used_bytes));
        let refused = device.zeros(&[1 << 22]).and_then(|zeros| zeros.run());
        assert_eq!(refused.expect_err("too large").kind(), ErrorKind::Memory);
        device.set_memory_limit(None);
        match n {
            100 => used = device.stats().used_bytes,
            101.. => assert_eq!(device.stats().used_bytes, used),
            _ => {}
        }
    }
    assert_eq!(loads.load(SeqCst), times);
}

/// Checks the most likely token after each of these tokens, and the following one.
fn expect(context: &mut Context, toy: &Toy, tokens: &[u32]) {
    let logits = context.resume(tokens).expect("logits");
    close(&logits, toy.logits(tokens).last().expect("logits"), "after an eviction");
}

#[test]
fn caches_are_evicted_first_and_then_weights() {
    for device in devices() {
        let toys = [false, true].map(|gemma| Toy::new(gemma, Some(5), true));
        let used = || {
            device.trim();
            device.stats().used_bytes
        };
        let begin = used();
        let models = toys.each_ref().map(|toy| load(&device, toy));
        let weights = used() - begin;
        let context = |at: usize| models[at].0.context().expect("a context");
        let mut contexts = [context(0), context(0), context(1)];
        for (context, toy) in contexts.iter_mut().zip([0, 0, 1]) {
            expect(context, &toys[toy], &[3, 14, 15]);
        }
        // A model without a context could be evicted before the caches, but must not be.
        let (idle, idle_loads) = load(&device, &toys[0]);
        let all = used();
        // Some caches must be evicted for this allocation.
        device.set_memory_limit(Some(all));
        let half = device.zeros(&[weights as usize / 16]).expect("zeros");
        half.run().expect("memory");
        assert!(used() <= all, "{} of {all}", used());
        let loads = || [0, 1].map(|n| models[n].1.load(SeqCst));
        block_on(idle.ready()).expect("weights");
        assert_eq!((loads(), idle_loads.load(SeqCst)), ([1, 1], 1), "{device:?}");
        // All weights must be evicted, too.
        let large = device.zeros(&[(all - begin - weights / 2) as usize / 4]).expect("zeros");
        large.run().expect("memory");
        assert!(used() <= all);
        drop((half, large));
        for (context, toy) in contexts.iter_mut().zip([0, 0, 1]) {
            expect(context, &toys[toy], &[3, 14, 15, 39]);
        }
        assert_eq!(loads(), [2, 2], "{device:?}");
        // Weights that an adapter trains on are not evicted.
        let adapter = LoraAdapter::new(&models[0].0, &LoraOptions::default()).expect("an adapter");
        let large = device.zeros(&[all as usize]).expect("zeros");
        assert_eq!(large.run().expect_err("too large").kind(), ErrorKind::Memory);
        let loss = adapter.loss(&[Example::text(&[3, 14, 15])]).expect("a loss");
        assert!(loss.item_blocking::<f32>().expect("a number") > 0.0);
        device.set_memory_limit(None);
        block_on(models[0].0.ready()).expect("weights");
        assert_eq!(loads(), [2, 2], "{device:?}");
        block_on(models[1].0.ready()).expect("weights");
        assert_eq!(loads(), [2, 3], "{device:?}");
    }
}

#[test]
fn a_model_that_fits_only_without_others_is_loaded() {
    let toy = Toy::new(true, Some(5), true);
    let device = &devices()[0];
    let (first, loads) = load(device, &toy);
    let mut context = first.context().expect("a context");
    expect(&mut context, &toy, &[3, 14, 15]);
    device.trim();
    let limit = device.stats().used_bytes + 30_000; // The temporary memory of a step is estimated, too.
    device.set_memory_limit(Some(limit));
    let (second, _) = load(device, &toy);
    let error = second.context().map(drop).and_then(|()| first.context().map(drop));
    error.expect("the other one's weights make room");
    assert_eq!(loads.load(SeqCst), 2);
    assert!(device.stats().used_bytes <= limit);
    device.set_memory_limit(Some(limit / 4));
    let options = LoadOptions { context: Some(32), ..LoadOptions::default() };
    let refused = LanguageModel::load(device, Cursor::new(toy.file()), options);
    let refused = refused.map(drop).expect_err("too little memory");
    assert_eq!(refused.kind(), ErrorKind::Memory);
    assert!(refused.message().contains("bytes of weights"), "{refused}");
    // Everything that could be evicted was evicted. It is loaded again.
    device.set_memory_limit(None);
    expect(&mut context, &toy, &[3, 14, 15, 39]);
    assert_eq!(loads.load(SeqCst), 3);
}
