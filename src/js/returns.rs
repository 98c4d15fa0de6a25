//! Conversion of results to JavaScript values.

use super::host::host;
use super::objects::{keep, JsDevice, JsPlan, JsTensor, Object, Slot};
use super::{Answer, Thrown};
use crate::device::{Device, Plan};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{future_to_promise, JsFuture};

/// Conversion of a result for JavaScript.
pub trait IntoJs {
    /// The type that wasm-bindgen passes.
    type Js;
    /// Converts the result.
    ///
    /// # Errors
    /// The error that the result carries.
    fn into_js(self) -> Result<Self::Js>;
}

/// Converts the result of a method. One instance per type, instead of inline code in each method, keeps the WebAssembly small.
///
/// # Errors
/// The error that the result carries, with `op` as its operation.
#[inline(never)]
pub fn given<T: IntoJs>(result: T, op: &str) -> std::result::Result<T::Js, Thrown> {
    result.into_js().map_err(|error| Thrown::from(error.within(op)))
}

impl<T: IntoJs> IntoJs for Result<T> {
    type Js = T::Js;
    fn into_js(self) -> Result<T::Js> {
        self?.into_js()
    }
}

impl IntoJs for Tensor {
    type Js = JsTensor;
    fn into_js(self) -> Result<JsTensor> {
        keep(self)
    }
}

impl IntoJs for Vec<Tensor> {
    type Js = Vec<JsTensor>;
    fn into_js(self) -> Result<Vec<JsTensor>> {
        self.into_iter().map(keep).collect()
    }
}

/// Implements conversion for plain values.
macro_rules! plain {
    ($($ty:ty => $js:ty, |$value:ident| $made:expr;)*) => { $(
        impl IntoJs for $ty {
            type Js = $js;
            fn into_js(self) -> Result<$js> {
                let $value = self;
                Ok($made)
            }
        }
    )* };
}
plain! {
    () => (), |value| value;
    bool => bool, |value| value;
    usize => f64, |value| value as f64;
    u64 => f64, |value| value as f64;
    u32 => f64, |value| f64::from(value);
    f64 => f64, |value| value;
    String => String, |value| value;
    &str => String, |value| value.to_string();
    Option<&str> => Option<String>, |value| value.map(str::to_string);
    Option<u64> => Option<f64>, |value| value.map(|value| value as f64);
    &[usize] => Vec<JsValue>, |value| value.iter().map(|&n| JsValue::from(n as f64)).collect();
    DType => JsValue, |value| word_of(value);
    &Device => JsValue, |device| device_object(device);
}

/// Returns the name of an element type as a JavaScript string. The few strings are cached.
fn word_of(dtype: DType) -> JsValue {
    thread_local!(static WORDS: [JsValue; DType::ALL.len()] = {
        DType::ALL.map(|dtype| dtype.name().into())
    });
    WORDS.with(|words| words[dtype as usize].clone())
}

/// Returns the object for a device. It is the same object each time, as long as it is not collected.
pub fn device_object(device: &Device) -> JsValue {
    let known = host(|host| host.known(device.address()));
    if !known.is_undefined() {
        return known;
    }
    let made: JsValue = JsDevice(Slot::new(Object::Device(device.clone()))).into();
    host(|host| host.remember(device.address(), &made));
    made
}

/// Makes the object for a plan.
pub fn plan_object(device: &Device, plan: Arc<Plan>) -> JsPlan {
    JsPlan(Slot::new(Object::Plan(device.clone(), plan)))
}

/// Conversion of a field of a returned object.
pub trait Value {
    fn value(&self) -> JsValue;
}

impl Value for bool {
    fn value(&self) -> JsValue {
        JsValue::from_bool(*self)
    }
}

macro_rules! values {
    ($($ty:ty)*) => { $(
        impl Value for $ty {
            fn value(&self) -> JsValue {
                JsValue::from_f64(*self as f64)
            }
        }
    )* };
}
values!(usize u64 u32 f64);

impl Value for String {
    fn value(&self) -> JsValue {
        JsValue::from_str(self)
    }
}

impl Value for &'static str {
    fn value(&self) -> JsValue {
        JsValue::from_str(self)
    }
}

impl Value for Vec<usize> {
    fn value(&self) -> JsValue {
        self.iter().map(Value::value).collect::<js_sys::Array>().into()
    }
}

impl Value for DType {
    fn value(&self) -> JsValue {
        word_of(*self)
    }
}

impl<T: Value> Value for Option<T> {
    fn value(&self) -> JsValue {
        self.as_ref().map_or(JsValue::UNDEFINED, Value::value)
    }
}

/// Makes an object with these names and values.
pub fn named(names: &[&str], values: impl IntoIterator<Item = JsValue>) -> JsValue {
    let values = values.into_iter().collect();
    host(|host| host.object(&names.join(" "), values))
}

/// Conversion of a tuple of tensors.
pub trait Returned {
    /// Converts the tensors to objects.
    ///
    /// # Errors
    /// The returned error, or the error that a tensor carries, with `op` as its operation.
    fn returned(self, op: &str) -> std::result::Result<[JsValue; 2], Thrown>;
}

impl Returned for Result<(Tensor, Tensor)> {
    fn returned(self, op: &str) -> std::result::Result<[JsValue; 2], Thrown> {
        let named = |error: Error| error.within(op);
        let (a, b) = self.map_err(named)?;
        Ok([keep(a).map_err(named)?.into(), keep(b).map_err(named)?.into()])
    }
}

/// Makes a promise of a future's result. If the future completes immediately, as on the CPU, the page still gets a turn from
/// time to time.
pub fn promise<T>(work: impl Future<Output = Result<T>> + 'static) -> js_sys::Promise
where
    T: IntoJs + 'static,
    T::Js: Settled,
{
    to_promise(Box::pin(async move {
        let done = work.await?;
        Ok(Box::new(move || Ok(done.into_js()?.settled())) as Made)
    }))
}

/// Converts a result to the value that a promise resolves to, after all borrows of the future have ended.
pub type Made = Box<dyn FnOnce() -> Answer<JsValue>>;

/// Makes a promise of a future that may also end with a value thrown by user code. It is one function for all futures, which
/// keeps the WebAssembly small.
pub fn to_promise(mut work: Pin<Box<dyn Future<Output = Answer<Made>>>>) -> js_sys::Promise {
    // The first part runs immediately, because other work may be waiting for its submission.
    let begun = work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let promise = future_to_promise(async move {
        let done = match begun {
            Poll::Ready(done) => done,
            Poll::Pending => work.await,
        };
        if let Some(turn) = host(|host| host.turn()) {
            JsFuture::from(turn).await.ok();
        }
        done.and_then(|made| made()).map_err(JsValue::from)
    });
    host(|host| host.waiting(&promise))
}

/// Conversion to the value that a promise resolves to.
pub trait Settled {
    fn settled(self) -> JsValue;
}

impl Settled for () {
    fn settled(self) -> JsValue {
        JsValue::UNDEFINED
    }
}

macro_rules! settled {
    ($($ty:ty)*) => { $(
        impl Settled for $ty {
            fn settled(self) -> JsValue {
                self.into()
            }
        }
    )* };
}
settled!(JsTensor JsDevice JsValue f64);

impl IntoJs for JsValue {
    type Js = JsValue;
    fn into_js(self) -> Result<JsValue> {
        Ok(self)
    }
}

impl IntoJs for JsDevice {
    type Js = JsDevice;
    fn into_js(self) -> Result<JsDevice> {
        Ok(self)
    }
}
