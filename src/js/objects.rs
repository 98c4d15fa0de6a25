//! What JavaScript's objects stand for: each owns a place in one list per thread, and gives it back when it goes. A place is
//! empty once the object, or the device that it lives on, was disposed.

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

/// What an object of JavaScript stands for.
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

/// A variable, and the objects that it disposes of when the next value comes. That the page looked at one of them keeps
/// nothing, so they are weak references.
pub struct Held {
    pub variable: Variable,
    /// The object that was given out for the value.
    pub value: RefCell<Option<WeakRef>>,
    /// The object that was assigned.
    pub assigned: RefCell<Option<WeakRef>>,
    pub device: Device,
}

impl Object {
    /// What it lives on, if it does.
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
struct Places {
    objects: Vec<Option<Object>>,
    vacant: Vec<u32>,
    /// Places whose JavaScript object is being made.
    unclaimed: u32,
}

thread_local!(static PLACES: RefCell<Places> = RefCell::default());

/// A place in the list.
pub struct Place {
    /// From 1 on; 0 is no place.
    handle: u32,
    claimed: Cell<bool>,
}

impl Place {
    /// A place for an object.
    pub fn new(object: Object) -> Place {
        let handle = PLACES.with_borrow_mut(|places| {
            places.unclaimed += 1;
            match places.vacant.pop() {
                Some(handle) => {
                    places.objects[handle as usize - 1] = Some(object);
                    handle
                }
                None => {
                    places.objects.push(Some(object));
                    places.objects.len() as u32
                }
            }
        });
        Place { handle, claimed: Cell::new(false) }
    }

    /// The place of what was disposed.
    pub fn gone() -> Place {
        PLACES.with_borrow_mut(|places| places.unclaimed += 1);
        Place { handle: 0, claimed: Cell::new(false) }
    }

    /// Its number, for the object of JavaScript that is made for it.
    pub fn claim(&self) -> u32 {
        if !self.claimed.replace(true) {
            PLACES.with_borrow_mut(|places| places.unclaimed -= 1);
        }
        self.handle
    }

    /// Leaves it without an owner; its number.
    #[cfg(feature = "wgpu-interop")]
    pub fn leave(self) -> u32 {
        self.claim();
        std::mem::ManuallyDrop::new(self).handle
    }

    /// The place that was left with this number.
    #[cfg(feature = "wgpu-interop")]
    pub fn left(handle: u32) -> Place {
        Place { handle, claimed: Cell::new(true) }
    }

    pub fn get(&self) -> Option<Object> {
        at(self.handle)
    }

    /// Empties it.
    pub fn clear(&self) {
        // What goes here gives its memory back outside of the list's borrow.
        drop(PLACES.with_borrow_mut(|places| places.objects.get_mut(index(self.handle)?)?.take()));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.claim();
        self.clear();
        if self.handle > 0 {
            PLACES.with_borrow_mut(|places| places.vacant.push(self.handle));
        }
    }
}

fn index(handle: u32) -> Option<usize> {
    (handle as usize).checked_sub(1)
}

/// The object at a place.
pub fn at(handle: u32) -> Option<Object> {
    PLACES.with_borrow(|places| places.objects.get(index(handle)?)?.clone())
}

/// Whether an object of JavaScript is being made: nobody else says which place is whose.
#[wasm_bindgen(skip_typescript)]
pub fn unclaimed() -> bool {
    PLACES.with_borrow(|places| places.unclaimed > 0)
}

/// Empties the places of a device and of all that lives on it.
pub fn dispose_device(device: &Device) {
    let gone: Vec<Option<Object>> = PLACES.with_borrow_mut(|places| {
        let lives = |object: &&mut Option<Object>| {
            let device_of = object.as_ref().and_then(Object::device);
            device_of.is_some_and(|own| own.is_same(device))
        };
        places.objects.iter_mut().filter(lives).map(Option::take).collect()
    });
    drop(gone);
}

/// A JavaScript class, and what it stands for.
pub trait Shell: Sized {
    /// What it stands for.
    type Core;
    /// That, for a call in the name of `op`.
    fn core(&self, op: &str) -> Result<Self::Core>;
}

/// What was used after it was disposed.
pub fn gone(op: &str) -> Error {
    Error::data(format!("{op}: used after dispose(), or after the scope() that made it"))
}

macro_rules! shells {
    ($($(#[$($doc:tt)*])+ $class:literal $shell:ident => $core:ty, $pattern:pat => $value:expr;)*) => { $(
        $(#[$($doc)*])+
        #[wasm_bindgen(js_name = $class)]
        pub struct $shell(pub(super) Place);

        impl Shell for $shell {
            type Core = $core;
            #[inline(never)]
            fn core(&self, op: &str) -> Result<$core> {
                match self.0.get() {
                    Some($pattern) => Ok($value),
                    _ => Err(gone(op)),
                }
            }
        }

        #[wasm_bindgen(js_class = $class)]
        impl $shell {
            /// The number of its place, once.
            #[wasm_bindgen(skip_typescript, skip_jsdoc)]
            pub fn claim(&self) -> u32 {
                self.0.claim()
            }

            /// What all disposed objects become.
            #[wasm_bindgen(skip_typescript, skip_jsdoc)]
            pub fn gone() -> $shell {
                $shell(Place::gone())
            }

            /// Whether it, or the device it lives on, was disposed.
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
    /// A machine that tensors live on. Nothing runs when an operation is called: it is recorded. Reading a tensor,
    /// {@link Device.flush} or a batch runs all that is needed, as one submission.
    ///
    /// @example
    /// ```ts
    /// const device = await Device.new();
    /// if (device.fallback) console.warn(device.fallback);
    /// ```
    "Device" JsDevice => Device, Object::Device(device) => device;

    /// An n-dimensional array on a device. Immutable. Operations only record what is to be done: reading runs it, all that
    /// is needed as one submission.
    ///
    /// Methods throw a `WarpweftError`, whose `code` says what kind it is: `Shape` where extents or axes do not fit, `DType`
    /// where types do not, `Data` where an argument is not what it should be or a tensor was disposed.
    ///
    /// @example
    /// ```ts
    /// const x = device.tensor([[1, -2], [3, 4]]);
    /// const y = x.matmul(x).add(1).relu();
    /// console.log(y.shape, await y.read()); // [2, 2] Float32Array [0, 0, 16, 11]
    /// y.dispose(); // or `using y = ...`; or left to the garbage collector
    /// ```
    "Tensor" JsTensor => Tensor, Object::Tensor(tensor) => tensor;

    /// A place for a tensor of one shape and type: what a model learns, or keeps between steps. It owns what is assigned
    /// to it and disposes of that when the next value comes.
    ///
    /// Assigning runs nothing. {@link Device.flush} at the end of a step makes one submission of all that was recorded:
    /// the step's loss, gradients and new values.
    ///
    /// @example
    /// ```ts
    /// const w = new Variable(device.tensor([3]));
    /// for (let step = 0; step < 50; step++) {
    ///   w.value.sub(1).square().sum().backward([w]);
    ///   w.assign(w.value.sub(w.takeGradient()!.mul(0.1)));
    ///   device.flush();
    /// }
    /// console.log(await w.value.item()); // close to 1
    /// ```
    "Variable" JsVariable => Rc<Held>, Object::Variable(held) => held;

    /// Tensors that are to be computed together, as one submission. They can be read afterwards in any order.
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

    /// A computation compiled once: running it plans, compiles and (once its earlier results are disposed) allocates
    /// nothing.
    ///
    /// @example
    /// ```ts
    /// const program = device.compile([{ shape: [2] }], (x) => x.mul(2).relu());
    /// const [y] = program.run(device.tensor([3, -1]));
    /// console.log(await y.read()); // Float32Array [6, 0]
    /// ```
    "Program" JsProgram => (Device, Rc<Program>), Object::Program(device, program) => (device, program);

    /// A function of elements, written in WGSL: {@link Device.elementFunction} makes it.
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

    /// A compute shader, written in WGSL: {@link Device.shader} makes it.
    "Shader" JsShader => (Device, Rc<Shader>), Object::Shader(device, shader) => (device, shader);

    /// What a submission does, or would do.
    "Plan" JsPlan => (Device, Arc<Plan>), Object::Plan(device, plan) => (device, plan);

    /// What a device did while something was profiled, and how long that took.
    "Profile" JsProfile => (Device, Arc<Profile>), Object::Profile(device, profile) => (device, profile);
}

/// The object for the result of an operation, unless it carries an error: JavaScript throws at once.
pub fn keep(tensor: Tensor) -> Result<JsTensor> {
    match tensor.error() {
        Some(error) => Err(error.clone()),
        None => {
            tell_collector(tensor.device());
            Ok(JsTensor(Place::new(Object::Tensor(tensor))))
        }
    }
}

/// Tells the garbage collector of what tensors hold, where that has grown by much: it knows their objects alone, which are
/// small, and would leave forgotten ones until there is no memory.
fn tell_collector(device: &Device) {
    if let Some(bytes) = device.grown() {
        host(|host| host.grown(bytes as f64));
    }
}

/// The same as a value.
pub fn keep_all(tensors: &[Tensor]) -> Answer<Vec<JsValue>> {
    tensors.iter().map(|tensor| Ok(keep(tensor.clone()).map_err(Thrown::from)?.into())).collect()
}
