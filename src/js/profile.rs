//! Profiles and debug output.

use super::host::host;
use super::objects::{Object, Slot};
use super::returns::{promise, Settled};
use super::{named, Answer, IntoJs, JsDevice, JsProfile, Shell, Value};
use crate::debug::{place_by, print_by, set_debug};
use crate::device::HeldTensor;
use crate::error::Result;
use js_sys::Promise;
use std::sync::Arc;
use wasm_bindgen::prelude::*;

#[wasm_bindgen(js_class = "Device")]
impl JsDevice {
    /// Begins a profile, before the work.
    #[wasm_bindgen(js_name = beginProfile, skip_typescript, skip_jsdoc)]
    pub fn begin_profile(&self) -> Answer<Promise> {
        let device = self.core("profile")?;
        Ok(promise(async move { device.begin_profile().await }))
    }

    /// Ends a profile, after the work. Returns a promise of the profile.
    #[wasm_bindgen(js_name = endProfile, skip_typescript, skip_jsdoc)]
    pub fn end_profile(&self) -> Answer<Promise> {
        let device = self.core("profile")?;
        Ok(promise(async move {
            let profile = Arc::new(device.end_profile().await?);
            Ok(JsProfile(Slot::new(Object::Profile(device, profile))))
        }))
    }

    /// Cancels a profile after the work failed.
    #[wasm_bindgen(js_name = stopProfile, skip_typescript, skip_jsdoc)]
    pub fn stop_profile(&self) {
        if let Ok(device) = self.core("profile") {
            device.stop_profile();
        }
    }

    /// Measures the peak rates of the device, once: bytes per second of a copy kernel, and operations per second of a matrix
    /// product. Later profiles report the fraction of these rates that a kernel reaches. Other work on the device disturbs the
    /// measurement.
    #[wasm_bindgen(
        js_name = measureCeilings,
        unchecked_return_type = "Promise<{ bytesPerSecond: number; flopsPerSecond: number }>"
    )]
    pub fn measure_ceilings(&self) -> Answer<Promise> {
        let device = self.core("measureCeilings")?;
        Ok(promise(async move {
            let most = device.measure_ceilings().await?;
            let rates = [most.bytes_per_second.value(), most.flops_per_second.value()];
            Ok(named(&["bytesPerSecond", "flopsPerSecond"], rates))
        }))
    }
}

#[wasm_bindgen(js_class = "Profile")]
impl JsProfile {
    /// The profile as a readable table, the slowest kernels first.
    #[wasm_bindgen(getter)]
    pub fn text(&self) -> Answer<String> {
        Ok(self.core("profile")?.1.to_string())
    }

    /// Returns the profile as JSON, without the timeline.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn json(&self) -> Answer<String> {
        Ok(self.core("profile")?.1.to_json())
    }

    /// Returns the timeline in the Chrome trace event format. Save it as a `.json` file and open it at
    /// <https://ui.perfetto.dev>.
    #[wasm_bindgen(js_name = toChromeTrace)]
    pub fn to_chrome_trace(&self) -> Answer<String> {
        Ok(self.core("profile")?.1.to_chrome_trace())
    }
}

impl Settled for JsProfile {
    fn settled(self) -> JsValue {
        self.into()
    }
}

impl IntoJs for JsProfile {
    type Js = JsProfile;
    fn into_js(self) -> Result<JsProfile> {
        Ok(self)
    }
}

impl Value for Vec<HeldTensor> {
    fn value(&self) -> JsValue {
        let all = self.iter().map(|held| held.into_js().unwrap_or_default());
        js_sys::Array::from_iter(all).into()
    }
}

/// Sets the debug output of this core, which is printed on the console.
#[wasm_bindgen(js_name = setDebug, skip_typescript, skip_jsdoc)]
pub fn debug(words: &str) -> Answer<()> {
    print_by(|text| host(|host| host.print(text)));
    place_by(|| host(|host| host.place()));
    Ok(set_debug(words)?)
}
