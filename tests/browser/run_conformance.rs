//! Runs external conformance vectors in a browser. The test stage (`www/tools/conformance.mjs`) copies them to the test
//! runner's server, with an index of the existing ones. Without the index, the tests fail.

use crate::conformance::exceptions::EXCEPTIONS;
use crate::conformance::vectors::{parse, Case};
use crate::conformance::{self, FILES, OWN};
use js_sys::{ArrayBuffer, Uint8Array};
use serde_json::Value;
use warpweft::backend::DeviceKind;
use warpweft::device::{Device, Preference};
use wasm_bindgen::JsCast;
use wasm_bindgen_futures::JsFuture;
use wasm_bindgen_test::{console_log, wasm_bindgen_test};
use web_sys::Response;

/// Returns the bytes of a staged file.
async fn staged(name: &str) -> Vec<u8> {
    let bytes = fetched(name).await;
    bytes.unwrap_or_else(|| panic!("{name} is not there: was this started by `npm test`?"))
}

async fn fetched(name: &str) -> Option<Vec<u8>> {
    let path = format!("/target/conformance/{name}");
    let window = web_sys::window().expect("tests run in a page");
    let response = JsFuture::from(window.fetch_with_str(&path)).await.expect("a response");
    let response: Response = response.unchecked_into();
    if !response.ok() {
        return None;
    }
    let bytes = JsFuture::from(response.array_buffer().expect("a body")).await.expect("bytes");
    Some(Uint8Array::new(&bytes.unchecked_into::<ArrayBuffer>()).to_vec())
}

/// Returns n, where one in n of the cases without `f16` runs. The default is 1, which means all.
pub async fn every() -> usize {
    let index = fetched("index.json").await;
    let index: Option<Value> = index.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    index.and_then(|index| index["every"].as_u64()).map_or(1, |every| every.max(1) as usize)
}

async fn cases(index: &Value) -> Vec<Case> {
    let mut cases = parse(OWN.0, OWN.1).unwrap_or_else(|what| panic!("onnx: {what}"));
    for name in FILES.iter().filter(|name| index["files"][**name] == true) {
        let json = String::from_utf8(staged(&format!("{name}.json")).await).expect("text");
        let bytes = staged(&format!("{name}.bin")).await;
        cases.extend(parse(&json, &bytes).unwrap_or_else(|what| panic!("{name}: {what}")));
    }
    cases
}

async fn run(device: &Device, place: &str) {
    let index: Value = serde_json::from_slice(&staged("index.json").await).expect("an index");
    let mut cases = cases(&index).await;
    if FILES.iter().any(|name| index["files"][*name] != true) {
        assert!(index["required"] != true, "there are no vectors");
        console_log!("conformance: {FILES:?} NOT RUN on {place}: not all vectors were staged");
    }
    let lenient = device.info().kind == DeviceKind::Gpu;
    let (every, mut numbers) = (every().await, 0..);
    cases.retain(|case| numbers.next().is_some_and(|n: usize| n % every == 0) || case.half());
    let mut report = conformance::run(device, place, &cases, EXCEPTIONS, lenient).await;
    if every == 1 {
        report.check(&cases, EXCEPTIONS);
    }
    console_log!("{}", report.summary());
    if index["report"] == true {
        console_log!("conformance-report {}", report.to_json(&device.info().name));
    }
    let (wrong, all) = (report.failures.len(), cases.len());
    assert!(wrong == 0, "{wrong} of {all}:\n  {}", report.failures.join("\n  "));
}

#[cfg(feature = "gpu")]
#[wasm_bindgen_test]
async fn on_webgpu() {
    let place = if crate::in_firefox() { "webgpu in Firefox" } else { "webgpu" };
    run(&crate::webgpu().await.expect("this browser has WebGPU"), place).await;
}

#[wasm_bindgen_test]
async fn on_cpu() {
    let device = Device::with(Preference::Cpu).await.expect("the CPU is there");
    run(&device, "cpu in a browser").await;
}
