//! Compiles every stored shader, and the source of every sample kernel, with the browser's compiler.

#[path = "../shared/kernels.rs"]
mod kernels;

use js_sys::{Array, Function, Promise};
use std::collections::BTreeMap;
use warpweft::codegen::Dialect;
use wasm_bindgen_futures::wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use wasm_bindgen_test::{console_log, wasm_bindgen_test};

const STORED: [(&str, &str); 7] = [
    ("attention.wgsl", include_str!("../../shaders/attention.wgsl")),
    ("conv2d_plain.wgsl", include_str!("../../shaders/conv2d_plain.wgsl")),
    ("matmul_plain.wgsl", include_str!("../../shaders/matmul_plain.wgsl")),
    ("attention_few.wgsl", include_str!("../../shaders/attention_few.wgsl")),
    ("matmul.wgsl", include_str!("../../shaders/matmul.wgsl")),
    ("matmul_large.wgsl", include_str!("../../shaders/matmul_large.wgsl")),
    ("packed_matmul.wgsl", include_str!("../../shaders/packed_matmul.wgsl")),
];

/// Parses and validates each text, and creates pipelines of the stored ones, which is slow on a software GPU. Returns the
/// rejected texts, and the number of texts that need a feature that this browser lacks.
const COMPILE: &str = "return (async () => {
    const adapter = await navigator.gpu.requestAdapter();
    const optional = { f16: 'shader-f16', subgroups: 'subgroups' };
    const wanted = Object.values(optional).filter((feature) => adapter.features.has(feature));
    const device = await adapter.requestDevice({ requiredFeatures: wanted });
    const refused = [];
    let without = 0;
    for (const [name, code] of texts) {
        const enabled = [...code.matchAll(/^enable (\\w+);/gm)].map(([, name]) => optional[name]);
        if (!enabled.every((feature) => wanted.includes(feature))) { without += 1; continue; }
        const module = device.createShaderModule({ code });
        const { messages } = await module.getCompilationInfo();
        const wrong = messages.filter(({ type }) => type === 'error').map(({ message }) => message);
        if (wrong.length) refused.push(name + ': ' + wrong.join('; '));
        if (wrong.length || !name.endsWith('.wgsl')) continue;
        try {
            await device.createComputePipelineAsync({ layout: 'auto', compute: { module, entryPoint: 'main' } });
        } catch (error) { refused.push(name + ': ' + error.message); }
    }
    device.destroy();
    return [refused, without];
})();";

/// Returns the texts that the browser rejects, and the number of texts that it cannot check.
async fn refused(texts: &BTreeMap<String, String>) -> (Vec<String>, f64) {
    let pair = |(text, name): (&String, &String)| Array::of2(&name.into(), &text.into());
    let texts: Array = texts.iter().map(pair).collect();
    let compile = Function::new_with_args("texts", COMPILE);
    let promise = compile.call1(&JsValue::NULL, &texts).expect("it is only begun");
    let outcome = JsFuture::from(promise.unchecked_into::<Promise>()).await;
    let outcome: Array =
        outcome.expect("this browser has no WebGPU: is it started with it?").into();
    let refused = outcome.get(0).unchecked_into::<Array>();
    let refused = refused.iter().filter_map(|text| text.as_string()).collect();
    (refused, outcome.get(1).as_f64().expect("a count"))
}

#[wasm_bindgen_test]
async fn all_shaders_compile() {
    let mut texts = BTreeMap::new();
    for (name, text) in STORED {
        texts.insert(text.to_string(), name.to_string());
    }
    for (name, kernel) in kernels::samples().into_iter().chain(kernels::windows()) {
        for config in kernels::configs() {
            let source = kernels::source(&kernel, config, Dialect::BROWSER);
            let read: Vec<_> = (0..source.sizes.len()).map(Some).collect();
            texts.insert(source.dynamic(&read).text, format!("{name}, sizes read"));
            texts.insert(source.text, name.clone());
        }
    }
    let (refused, without) = refused(&texts).await;
    console_log!("shaders: {} texts, of them {without} with features not here", texts.len());
    assert!(texts.len() > 300 && refused.is_empty(), "{}", refused.join("\n"));
}

#[wasm_bindgen_test]
async fn a_wrong_shader_is_seen() {
    let wrong = "@compute @workgroup_size(1) fn main() { let x: f32 = 1u; }";
    let texts = BTreeMap::from([(wrong.to_string(), "wrong".to_string())]);
    assert_eq!(refused(&texts).await.0.len(), 1);
}
