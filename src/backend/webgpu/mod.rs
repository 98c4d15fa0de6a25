//! GPUs through the browser's WebGPU. The objects live on JavaScript's side, in `adapters.js` and `bridge.js`, and are
//! known here by numbers; a batch is described to it once and then run by one call.

mod adapters;
mod bridge;
mod later;

pub use super::gpu::{fold, Choice, Power};
pub use adapters::{adapters, is_available, open, Adapter};

use super::gpu::{Fate, GpuBackend, Ledger, Machine, Run, Step, Usage};
use super::Pending;
use crate::error::{need_room, Error, ErrorKind, Result};
use bridge::{Gpu, Reading};
use later::{listener, Later};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

/// An open GPU.
pub type WebGpuBackend = GpuBackend<WebGpu>;

/// WebGPU's side of an open GPU.
pub struct WebGpu {
    gpu: Gpu,
    told: Rc<Told>,
    /// A read follows the next batch, as a rule: at worst that waits for the end of what JavaScript does now.
    held: Cell<bool>,
}

/// What JavaScript tells, at any time.
#[derive(Default)]
struct Told {
    ledger: Ledger,
    late: RefCell<Vec<Late>>,
}

/// A call that may fail later. It is numbered by the moment of the call.
struct Late {
    at: u64,
    what: String,
    fate: Option<Fate>,
}

impl Told {
    /// The number of a call that is made now; its errors begin with `what`.
    fn expect(&self, what: String, fate: Option<&Fate>) -> f64 {
        let at = self.ledger.tick();
        self.late.borrow_mut().push(Late { at, what, fate: fate.cloned() });
        at as f64
    }

    /// How a call went: nothing is wrong, no memory was there (no words), or something else was.
    /// Number 0 tells that the device is lost.
    fn tell(&self, number: f64, error: Option<String>) {
        if number == 0.0 {
            return self.ledger.lose(&error.unwrap_or_default());
        }
        let late = {
            let mut late = self.late.borrow_mut();
            let Some(at) = late.iter().position(|late| late.at as f64 == number) else { return };
            late.remove(at)
        };
        let Late { at, what, fate } = late;
        let error = error.map(|words| match &*words {
            "" => Error::new(ErrorKind::Memory, what + ": the device is out of memory"),
            words => Error::new(ErrorKind::Unsupported, what + ": " + words),
        });
        if let Some(fate) = fate {
            fate.settle(error.clone());
        }
        if let Some(error) = error {
            self.ledger.store(at, error);
        }
    }
}

/// Bytes on their way; dropped early, what they come through is freed.
struct Arrival(Reading);

impl Drop for Arrival {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Machine for WebGpu {
    /// Its number; JavaScript's numbers hold all that are ever used.
    type Buffer = f64;
    type Pipeline = u32;
    /// A number, and 0 for what can not be run.
    type Recorded = u32;

    fn ledger(&self) -> &Ledger {
        &self.told.ledger
    }

    fn create(&self, number: u64, usage: Usage, bytes: u64, fate: &Fate) -> Result<f64> {
        let operation = if usage == Usage::Uniform { "run" } else { "allocate" };
        let call = self.told.expect(format!("{operation}: {bytes} bytes"), Some(fate));
        self.gpu.create(call, number as f64, bytes as f64, usage == Usage::Uniform);
        Ok(number as f64)
    }

    fn discard(&self, buffer: &f64) {
        self.gpu.discard(*buffer);
    }

    fn compile(
        &self,
        text: &str,
        (inputs, outputs): (usize, usize),
        label: &str,
        what: String,
        fate: &Fate,
    ) -> u32 {
        let call = self.told.expect(what, Some(fate));
        self.gpu.compile(call, text, inputs as u32, outputs as u32, label)
    }

    fn record(&self, steps: Vec<Step<u32>>) -> u32 {
        let mut words = Vec::new();
        for step in steps {
            let Some(pipeline) = step.pipeline.compiled else { return 0 };
            let Some((x, y)) = step.grid else { continue };
            let count = step.slots.len() as u32;
            words.extend_from_slice(&[pipeline, x, y, step.offset, step.block as u32, count]);
            for &(slot, bytes) in &step.slots {
                words.push(slot as u32);
                words.push((bytes / 16) as u32);
            }
        }
        self.gpu.record(&words)
    }

    fn forget(&self, recorded: &u32) {
        self.gpu.forget(*recorded);
    }

    fn hold(&self) {
        self.held.set(true);
    }

    fn submit(&self, run: Run<'_, WebGpu>) {
        let call = self.told.expect("run".to_string(), run.fate);
        let mut slots = Vec::with_capacity(run.slots.len());
        for &&buffer in run.slots {
            slots.push(buffer);
        }
        let held = self.held.take();
        self.gpu.submit(call, *run.recorded, *run.uniform, run.params, &slots, held);
    }

    fn write(&self, buffer: &f64, offset: u64, data: &[u8]) -> Result<()> {
        let call = self.told.expect("write".to_string(), None);
        self.gpu.write(call, *buffer, offset as f64, data);
        Ok(())
    }

    fn read(&self, buffer: &f64, range: Range<u64>) -> Result<Pending<Option<Vec<u8>>>> {
        let bytes = range.end - range.start;
        need_room("read", bytes)?;
        let call = self.told.expect(format!("read: {bytes} bytes"), None);
        let reading = self.gpu.read(call, *buffer, range.start as f64, bytes as f64);
        let (mapped, arrival) = (Later::of(&reading.mapped()), Arrival(reading));
        Ok(Box::pin(async move {
            let arrived = mapped.await.is_ok() && need_room("read", bytes).is_ok();
            arrived.then(|| arrival.0.copy()).flatten()
        }))
    }

    fn done(&self) -> Pending<()> {
        let done = Later::of(&self.gpu.done());
        Box::pin(async move {
            // Where it is rejected the device is lost, and the ledger says so.
            let _ = done.await;
        })
    }

    fn bind_groups(&self) -> u64 {
        self.gpu.bind_groups().into()
    }

    fn destroy(&self) {
        self.gpu.destroy();
    }

    fn close(&self) {
        self.gpu.close();
    }
}

impl WebGpu {
    /// Opens an adapter; the words of what went wrong otherwise.
    async fn open(adapter: &bridge::Adapter) -> std::result::Result<WebGpu, String> {
        let told = Rc::<Told>::default();
        let hears = told.clone();
        let tell = listener(move |number, error| hears.tell(number, error.as_string()));
        match Later::of(&adapter.open()).await {
            Ok(device) => Ok(WebGpu { gpu: Gpu::new(&device, &tell), told, held: Cell::default() }),
            Err(error) => Err(error.as_string().unwrap_or_default()),
        }
    }
}
