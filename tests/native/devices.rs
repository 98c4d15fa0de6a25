//! Tests the discovery and choice of devices, and tensors that move between devices.

use crate::shared::Report;
use pollster::block_on;
use warpweft::backend::{DeviceKind, Info};
use warpweft::device::{Device, Found, Preference};
use warpweft::dtype::DType;
use warpweft::error::{ErrorKind, Result};
use warpweft::tensor::Tensor;

/// Returns typical devices, in the order of discovery.
fn machines(kinds: &[(DeviceKind, &str)]) -> Vec<Info> {
    let machine = |&(kind, name): &(DeviceKind, &str)| {
        let (vendor, driver) = Default::default();
        Info { backend: "vulkan", name: name.to_string(), vendor, kind, driver }
    };
    kinds.iter().map(machine).collect()
}

/// Returns the devices of a laptop: two GPUs and a software GPU.
fn laptop() -> Vec<Info> {
    machines(&[
        (DeviceKind::DiscreteGpu, "Large Card"),
        (DeviceKind::IntegratedGpu, "Small Graphics"),
        (DeviceKind::Cpu, "Processor"),
        (DeviceKind::Software, "llvmpipe"),
    ])
}

#[test]
fn selection_automatically() {
    assert_eq!(Preference::Auto.rank(&laptop()), [0, 1, 2]);
    // A software GPU is chosen only on request, even if there is no other GPU.
    let server = machines(&[(DeviceKind::Cpu, "Processor"), (DeviceKind::Software, "llvmpipe")]);
    assert_eq!(Preference::Auto.rank(&server), [0]);
    assert_eq!(Preference::Auto.rank(&server[1..]), [0usize; 0]);
    let device = block_on(Device::with(Preference::Auto)).expect("there is the CPU at least");
    assert_ne!(device.info().kind, DeviceKind::Software);
    let is_cpu = device.info().kind == DeviceKind::Cpu;
    assert_eq!(device.fallback().is_some(), is_cpu, "{:?}", device.fallback());
}

#[test]
fn selection_by_preference() {
    let laptop = laptop();
    assert_eq!(Preference::Gpu.rank(&laptop), [0, 1]);
    assert_eq!(Preference::LowPower.rank(&laptop), [1, 0]);
    assert_eq!(Preference::Cpu.rank(&laptop), [2]);
    assert_eq!(Preference::Software.rank(&laptop), [3]);
    for (word, kind) in [("cpu", DeviceKind::Cpu), ("software", DeviceKind::Software)] {
        match block_on(Device::with(word.parse().expect("any word is one"))) {
            Ok(device) => assert_eq!(device.info().kind, kind),
            // The CPU always exists. A software GPU must be installed.
            Err(error) => assert_eq!((error.kind(), word), (ErrorKind::NoDevice, "software")),
        }
    }
}

#[test]
fn selection_by_index() {
    let found = found();
    for (index, it) in found.iter().enumerate() {
        let device = block_on(Device::with(Preference::Index(index))).expect("it opens");
        assert_eq!(device.info(), &it.info);
        // On request, the CPU is not a fallback.
        assert_eq!(device.fallback(), None);
    }
    let beyond = block_on(Device::with(Preference::Index(99))).expect_err("there are not so many");
    assert_eq!(beyond.kind(), ErrorKind::NoDevice);
    assert!(beyond.message().contains(&found[0].info.name), "{beyond}");
}

#[test]
fn selection_by_name() {
    assert_eq!(Preference::parse("GRAPHICS").rank(&laptop()), [1]);
    // A backend's word takes precedence over names that contain it.
    let mut infos = laptop();
    infos[0].name = "Metal Card".to_string();
    assert_eq!(Preference::parse("Metal").rank(&infos), [0]);
    infos[1].backend = "metal";
    assert_eq!(Preference::parse("Metal").rank(&infos), [1]);
    for it in found() {
        // Half of a name, in upper case.
        let name: String = it.info.name.chars().take(it.info.name.len() / 2).collect();
        let device = block_on(Device::with(Preference::parse(&name.to_uppercase())));
        let device = device.expect("it opens");
        let taken = &device.info().name;
        assert!(taken.to_lowercase().contains(&name.to_lowercase()), "{taken} for {name}");
    }
    let error = block_on(Device::with(Preference::parse("no such device"))).expect_err("none");
    assert_eq!(error.kind(), ErrorKind::NoDevice);
}

#[test]
fn words_are_preferences() {
    let words = ["", "auto", "gpu", "high-performance", "low-power", "cpu", " cpu ", "software"];
    let meant = [
        Preference::Auto,
        Preference::Auto,
        Preference::Gpu,
        Preference::Gpu,
        Preference::LowPower,
        Preference::Cpu,
        Preference::Cpu,
        Preference::Software,
    ];
    assert_eq!(words.map(Preference::parse), meant);
    assert_eq!(Preference::parse("2"), Preference::Index(2));
    assert_eq!(Preference::parse("RTX 4090"), Preference::Name("RTX 4090".into()));
}

/// Returns the devices that can be opened.
fn found() -> Vec<Found> {
    block_on(Device::discover()).into_iter().filter(Found::is_available).collect()
}

#[test]
fn discovery_says_what_each_can_do_and_why_it_is_not_taken() {
    let all = block_on(Device::discover());
    assert_eq!(all.iter().filter(|it| it.recommended).count(), 1);
    assert!(all[0].recommended, "{}", all[0]);
    for it in &all {
        assert_eq!(it.reason.is_some(), !it.recommended, "{it}");
        assert_eq!(it.limits.is_some(), it.is_available(), "{it}");
        let asked =
            it.reason.as_deref().is_some_and(|why| why.contains("must be selected explicitly"));
        assert_eq!(asked, it.info.kind == DeviceKind::Software, "{it}");
        let Some(limits) = &it.limits else { continue };
        let opened = block_on(Device::with(Preference::Name(it.info.name.clone())));
        let opened = opened.expect("it opens");
        let can = opened.limits();
        assert_eq!(
            (limits.f16, limits.subgroups, limits.timestamps, limits.binding_bytes),
            (can.f16, can.subgroups, can.timestamps, can.binding_bytes),
            "{it}"
        );
        if cfg!(target_os = "linux") {
            let memory = it.memory.expect("Linux and Vulkan tell");
            assert!((1 << 28..1 << 50).contains(&memory), "{it}: {memory} bytes");
        }
    }
    let backends = |it: &Found| it.info.backend;
    assert!(all.iter().map(backends).any(|word| word == "cpu"));
    if cfg!(target_os = "linux") {
        assert!(all.iter().map(backends).any(|word| word == "vulkan"), "there, or why not");
    }
}

/// Returns tensors of every dtype, including views and extreme shapes, with their expected bytes.
fn tensors(device: &Device) -> Result<Vec<(Tensor, Vec<u8>)>> {
    let floats = [1.5f32, -0.0, f32::INFINITY, f32::from_bits(0x7fc0_1234), 1e-40, 3e38];
    let words = [0u32, 1, 7, u32::MAX, 1 << 31, 12345];
    let bytes = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let bits = floats.map(f32::to_bits);
    let halves: Vec<u8> =
        [0x3c00u16, 0xfc00, 0x0001].iter().flat_map(|h| h.to_le_bytes()).collect();
    let turned = [0, 3, 1, 4, 2, 5].map(|at| words[at]);
    let mut all = vec![
        (device.tensor(&floats, &[2, 3])?, bytes(&bits)),
        (device.tensor(&words.map(|word| word as i32), &[6])?, bytes(&words)),
        (device.tensor(&words, &[2, 3])?.transpose(0, 1)?, bytes(&turned)),
        (device.tensor(&[true, false, true], &[3, 1])?, bytes(&[1, 0, 1])),
        (device.tensor(&[2.5f32], &[])?, bytes(&[2.5f32.to_bits()])),
        (device.tensor::<f32>(&[], &[0, 4])?, Vec::new()),
        (device.tensor(&[1.0f32, 2.0], &[2])?.add(1)?, bytes(&[2.0f32, 3.0].map(f32::to_bits))),
    ];
    if device.limits().f16 {
        all.push((device.tensor_from_bytes(&halves, &[3], DType::F16)?, halves));
    }
    Ok(all)
}

#[test]
fn tensors_go_from_any_device_to_any_other_and_back() {
    let open = |it: &Found| block_on(Device::with(Preference::Name(it.info.name.clone())));
    let mut devices: Vec<Device> = found().iter().map(|it| open(it).expect("it opens")).collect();
    // Two devices on the same machine also count as different.
    devices.extend(found().iter().map(|it| open(it).expect("it opens")));
    let mut report = Report::default();
    for here in &devices {
        for there in &devices {
            for (tensor, bytes) in tensors(here).expect("made") {
                if tensor.dtype() == DType::F16 && !there.limits().f16 {
                    let error = block_on(tensor.to(there)).expect_err("it has no f16");
                    assert_eq!(error.kind(), ErrorKind::Unsupported);
                    continue;
                }
                let moved = block_on(tensor.to(there)).expect("it goes there");
                assert!(moved.device().is_same(there));
                assert_eq!((moved.shape(), moved.dtype()), (tensor.shape(), tensor.dtype()));
                let back = block_on(moved.to(here)).expect("it comes back");
                for (which, got) in [("there", &moved), ("back", &back)] {
                    let got = block_on(got.read_bytes()).expect("read");
                    assert_eq!(got, bytes, "{tensor:?} to {}, {which}", there.info().backend);
                }
                report.ran += 1;
            }
        }
    }
    assert!(report.ran >= 4 * 7, "{}", report.ran);
}
