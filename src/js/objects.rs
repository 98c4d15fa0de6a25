//! The objects behind the JavaScript classes. Each JavaScript object owns a slot in a thread-local list, and frees it when it
//! is collected. The slot becomes empty when the object, or the device it is on, is disposed of.
//!
//! For example, `x.add(y)` takes the tensor of `x` from the slot that its object owns. The host returns the handle of `y`,
//! which leads to the slot of the other tensor. The sum gets a new slot, whose handle the new JavaScript object claims.

use super::host::host;
#[cfg(feature = "js-models")]
use super::language::core::Object as Language;
#[cfg(feature = "js-nn")]
use super::nn::object::Object as Model;
use super::{Answer, Thrown};
use crate::device::{Device, Plan};
use crate::error::{Error, Result};
use crate::profile::Profile;
use crate::tensor::{Batch, ElementFunction, Program, Shader, Tensor, Variable};
use js_sys::WeakRef;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use wasm_bindgen::prelude::*;

/// The value behind a JavaScript object.
#[derive(Clone)]
pub enum Object {
    Device(Device),
    Tensor(Tensor),
    Variable(Rc<Held>),
    Batch(Device, Rc<RefCell<Batch>>),
    Program(Device, Rc<Program>),
    Plan(Device, Arc<Plan>),
    ElementFunction(Device, Rc<ElementFunction>),
    Shader(Device, Rc<Shader>),
    Profile(Device, Arc<Profile>),
    #[cfg(feature = "js-nn")]
    Nn(Model),
    #[cfg(feature = "js-models")]
    Language(Language),
}

/// A variable, and the JavaScript objects of its value, which it disposes of when the next value comes. The references are
/// weak, so an object that only the page looked at is still collected.
pub struct Held {
    pub variable: Variable,
    /// The object that was returned for the value.
    pub value: RefCell<Option<WeakRef>>,
    /// The object that was assigned.
    pub assigned: RefCell<Option<WeakRef>>,
    pub device: Device,
}

impl Object {
    /// Returns the device of the object, if it has one.
    fn device(&self) -> Option<Device> {
        let device = match self {
            Object::Device(device)
            | Object::Batch(device, _)
            | Object::Program(device, _)
            | Object::Plan(device, _)
            | Object::ElementFunction(device, _)
            | Object::Shader(device, _)
            | Object::Profile(device, _) => device,
            Object::Tensor(tensor) => tensor.device(),
            Object::Variable(held) => &held.device,
            #[cfg(feature = "js-nn")]
            Object::Nn(object) => return object.device().cloned(),
            #[cfg(feature = "js-models")]
            Object::Language(object) => return Some(object.device()),
        };
        Some(device.clone())
    }
}

#[derive(Default)]
struct Slots {
    objects: Vec<Option<Object>>,
    vacant: Vec<u32>,
    /// The number of slots whose JavaScript object is being made.
    unclaimed: u32,
}

thread_local!(static SLOTS: RefCell<Slots> = RefCell::default());

/// A slot in the list, owned by a JavaScript object.
pub struct Slot {
    /// The index plus 1. 0 is an empty slot that is not in the list.
    handle: u32,
    claimed: Cell<bool>,
}

impl Slot {
    /// Makes a slot for an object.
    pub fn new(object: Object) -> Slot {
        let handle = SLOTS.with_borrow_mut(|slots| {
            slots.unclaimed += 1;
            match slots.vacant.pop() {
                Some(handle) => {
                    slots.objects[handle as usize - 1] = Some(object);
                    handle
                }
                None => {
                    slots.objects.push(Some(object));
                    slots.objects.len() as u32
                }
            }
        });
        Slot { handle, claimed: Cell::new(false) }
    }

    /// Makes an empty slot, for an object that is already disposed of.
    pub fn empty() -> Slot {
        SLOTS.with_borrow_mut(|slots| slots.unclaimed += 1);
        Slot { handle: 0, claimed: Cell::new(false) }
    }

    /// Marks the slot as claimed by a JavaScript object, and returns its handle.
    pub fn claim(&self) -> u32 {
        if !self.claimed.replace(true) {
            SLOTS.with_borrow_mut(|slots| slots.unclaimed -= 1);
        }
        self.handle
    }

    /// Gives up ownership without freeing the slot, and returns its handle.
    #[cfg(feature = "wgpu-interop")]
    pub fn leave(self) -> u32 {
        self.claim();
        std::mem::ManuallyDrop::new(self).handle
    }

    /// Takes ownership of a slot that `leave` gave up.
    #[cfg(feature = "wgpu-interop")]
    pub fn left(handle: u32) -> Slot {
        Slot { handle, claimed: Cell::new(true) }
    }

    pub fn get(&self) -> Option<Object> {
        at(self.handle)
    }

    /// Empties the slot.
    pub fn clear(&self) {
        // Dropped here, outside of the borrow, because dropping an object may use the list again.
        drop(SLOTS.with_borrow_mut(|slots| slots.objects.get_mut(index(self.handle)?)?.take()));
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.claim();
        self.clear();
        if self.handle > 0 {
            SLOTS.with_borrow_mut(|slots| slots.vacant.push(self.handle));
        }
    }
}

fn index(handle: u32) -> Option<usize> {
    (handle as usize).checked_sub(1)
}

/// Returns the object at a slot.
pub fn at(handle: u32) -> Option<Object> {
    SLOTS.with_borrow(|slots| slots.objects.get(index(handle)?)?.clone())
}

/// Whether the core is making a JavaScript object. Constructors refuse all other calls, so pages cannot forge handles.
#[wasm_bindgen(skip_typescript)]
pub fn unclaimed() -> bool {
    SLOTS.with_borrow(|slots| slots.unclaimed > 0)
}

/// Empties the slots of a device and of all objects on it.
pub fn dispose_device(device: &Device) {
    let gone: Vec<Option<Object>> = SLOTS.with_borrow_mut(|slots| {
        let lives = |object: &&mut Option<Object>| {
            let device_of = object.as_ref().and_then(Object::device);
            device_of.is_some_and(|own| own.is_same(device))
        };
        slots.objects.iter_mut().filter(lives).map(Option::take).collect()
    });
    drop(gone);
}

/// A JavaScript class, and the type of the value behind it.
pub trait Shell: Sized {
    /// The type of the value.
    type Core;
    /// Returns the value. The error for a disposed object names `op`.
    fn core(&self, op: &str) -> Result<Self::Core>;
}

/// The error for an object that was disposed of.
pub fn gone(op: &str) -> Error {
    Error::state(format!(
        "{op}: the object must not be disposed, got one after dispose() or its scope()"
    ))
}

/// The error for a method of a class whose receiver was disposed of, or is an object of another class.
pub(super) fn unusable(op: &str, class: &str, receiver: Option<Object>) -> Error {
    match receiver {
        None => gone(op),
        Some(_) => {
            Error::argument(format!("{op}: the object must be a {class}, got one of another class"))
        }
    }
}

macro_rules! shells {
    ($($(#[$($doc:tt)*])+ $class:literal $shell:ident => $core:ty, $pattern:pat => $value:expr;)*) => { $(
        $(#[$($doc)*])+
        #[wasm_bindgen(js_name = $class)]
        pub struct $shell(pub(super) Slot);

        impl Shell for $shell {
            type Core = $core;
            #[inline(never)]
            fn core(&self, op: &str) -> Result<$core> {
                match self.0.get() {
                    Some($pattern) => Ok($value),
                    other => Err(unusable(op, $class, other)),
                }
            }
        }

        #[wasm_bindgen(js_class = $class)]
        impl $shell {
            /// Returns the handle of the object's slot, and marks it as claimed.
            #[wasm_bindgen(skip_typescript, skip_jsdoc)]
            pub fn claim(&self) -> u32 {
                self.0.claim()
            }

            /// Makes a disposed object.
            #[wasm_bindgen(skip_typescript, skip_jsdoc)]
            pub fn gone() -> $shell {
                $shell(Slot::empty())
            }

            /// Whether the object, or the device it is on, was disposed of.
            #[wasm_bindgen(getter)]
            pub fn disposed(&self) -> bool {
                self.0.get().is_none()
            }
        }
    )* };
}
#[cfg(feature = "js-nn")]
pub(super) use shells;

shells! {
    /// A GPU or CPU that computes with tensors. Operations are only recorded when they are called. Reading a tensor,
    /// {@link Device.submit} or a batch runs everything that is needed, in one submission.
    ///
    /// @example
    /// ```ts
    /// const device = await Device.new();
    /// if (device.fallback) console.warn(device.fallback);
    /// ```
    "Device" JsDevice => Device, Object::Device(device) => device;

    /// An immutable n-dimensional array on a device. Operations are only recorded when they are called. Reading a tensor runs
    /// everything that it needs, in one submission.
    ///
    /// Methods throw a `WarpweftError` with a `code`. `Shape` means that sizes or axes do not fit, and `DType` that types do
    /// not. `InvalidArgument` means that another argument is wrong, and `InvalidState` that a tensor was disposed of.
    ///
    /// @example
    /// ```ts
    /// const x = device.tensor([[1, -2], [3, 4]]);
    /// const y = x.matmul(x).add(1).relu();
    /// console.log(y.shape, await y.read()); // [2, 2] Float32Array [0, 0, 16, 11]
    /// y.dispose(); // or `using y = ...`; or left to the garbage collector
    /// ```
    "Tensor" JsTensor => Tensor, Object::Tensor(tensor) => tensor;

    /// A mutable slot for a tensor of fixed shape and type, used for parameters and state. A variable owns its value, and
    /// disposes of the value when it is replaced.
    ///
    /// Assigning runs nothing. Call {@link Device.submit} at the end of a step. The step's loss, gradients and new values then
    /// become one submission.
    ///
    /// @example
    /// ```ts
    /// const w = new Variable(device.tensor([3]));
    /// for (let step = 0; step < 50; step++) {
    ///   w.value.sub(1).square().sum().backward([w]);
    ///   w.assign(w.value.sub(w.takeGradient()!.mul(0.1)));
    ///   device.submit();
    /// }
    /// console.log(await w.value.item()); // close to 1
    /// ```
    "Variable" JsVariable => Rc<Held>, Object::Variable(held) => held;

    /// Tensors to compute together, in one submission. They can be read afterwards in any order.
    ///
    /// @example
    /// ```ts
    /// const [sum, top] = [x.exp().sum(), x.max()];
    /// const batch = device.batch().add(sum).add(top);
    /// console.log(batch.plan().text);
    /// batch.run();
    /// console.log(await sum.item(), await top.item());
    /// ```
    "Batch" JsBatch => (Device, Rc<RefCell<Batch>>), Object::Batch(device, batch) => (device, batch);

    /// A compiled computation. Later runs plan and compile nothing. They allocate nothing either, once earlier results are
    /// disposed of.
    ///
    /// @example
    /// ```ts
    /// const program = device.compile([{ shape: [2] }], (x) => x.mul(2).relu());
    /// const [y] = program.run(device.tensor([3, -1]));
    /// console.log(await y.read()); // Float32Array [6, 0]
    /// ```
    "Program" JsProgram => (Device, Rc<Program>), Object::Program(device, program) => (device, program);

    /// An elementwise function from WGSL source. {@link Device.elementFunction} compiles it.
    ///
    /// @example
    /// ```ts
    /// const softClip = await device.elementFunction(
    ///   "fn soft_clip(x: f32, limit: f32) -> f32 { return x / (1.0 + abs(x) / limit); }",
    ///   { fallback: (x, limit) => x.div(x.abs().div(limit).add(1)) },
    /// );
    /// console.log(await softClip.call(device.tensor([1, -3]), 1).read()); // Float32Array [0.5, -0.75]
    /// ```
    "ElementFunction" JsElementFunction => (Device, Rc<ElementFunction>),
        Object::ElementFunction(device, function) => (device, function);

    /// A compute shader from WGSL source. {@link Device.shader} compiles it.
    "Shader" JsShader => (Device, Rc<Shader>), Object::Shader(device, shader) => (device, shader);

    /// The plan of a submission: its kernels and buffers.
    "Plan" JsPlan => (Device, Arc<Plan>), Object::Plan(device, plan) => (device, plan);

    /// A profile: the work and times of a device during a call of {@link Device.profile}.
    "Profile" JsProfile => (Device, Arc<Profile>), Object::Profile(device, profile) => (device, profile);
}

/// Makes the JavaScript object for the result of an operation. If the result carries an error, JavaScript throws it
/// immediately.
pub fn keep(tensor: Tensor) -> Result<JsTensor> {
    match tensor.error() {
        Some(error) => Err(error.clone()),
        None => {
            notify_collector(tensor.device());
            Ok(JsTensor(Slot::new(Object::Tensor(tensor))))
        }
    }
}

/// Notifies the garbage collector when the memory held by tensors has grown much. The collector sees only their small
/// JavaScript objects. It would otherwise keep unused ones until memory runs out.
fn notify_collector(device: &Device) {
    if let Some(bytes) = device.grown() {
        host(|host| host.grown(bytes as f64));
    }
}

/// Makes JavaScript objects for several tensors.
pub fn keep_all(tensors: &[Tensor]) -> Answer<Vec<JsValue>> {
    tensors.iter().map(|tensor| Ok(keep(tensor.clone()).map_err(Thrown::from)?.into())).collect()
}
