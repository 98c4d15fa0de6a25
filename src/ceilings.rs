//! The ceilings of a device: the highest measured rates of copying and of multiplying.

use crate::backend::{Clock, DeviceKind};
use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::profile::{Ceilings, Profile};
use crate::tensor::{Program, Tensor};

/// The bytes that are copied. They exceed caches. WebAssembly uses fewer, because its memory never shrinks.
const COPY: u64 = if cfg!(target_arch = "wasm32") { 16 << 20 } else { 64 << 20 };

/// The sizes of products that are tried, until one takes longer than `LONG` seconds.
const SIZES: [usize; 5] = [256, 512, 1024, 2048, 4096];
const LONG: f64 = 3e-3;

/// The least total seconds of a measurement's runs, and the most runs. Clocks may be rounded to 100 us, so runs are added up.
const SUM: f64 = 1e-2;
const MOST_RUNS: usize = 256;

/// The number of measurements, of which the best counts.
const TIMES: usize = 3;

impl Device {
    /// Measures the highest rates of the device, unless they were measured before. Profiles then contain the fraction that
    /// each kernel reaches. This took a tenth of a second on the CPU, and a second on software GPUs. Other work on the device
    /// disturbs the measurement.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let most = device.measure_ceilings().await?;
    /// println!("{:.1} GB/s", most.bytes_per_second / 1e9);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// The errors of computing. `InvalidState` while the device is being profiled.
    pub async fn measure_ceilings(&self) -> Result<Ceilings> {
        if let Some(known) = self.ceilings() {
            return Ok(known);
        }
        let ceilings = measure(self).await?;
        self.set_ceilings(ceilings);
        self.trim();
        Ok(ceilings)
    }
}

async fn measure(device: &Device) -> Result<Ceilings> {
    let most = device.limits().binding_bytes;
    let software = device.info().kind == DeviceKind::Software;
    let elements = (COPY.min(most) / if software { 8 } else { 4 }) as usize;
    let copy = device.compile(&[(&[elements], DType::F32)], |x| Ok(vec![x[0].mul(0.5)?]))?;
    let x = device.zeros(&[elements])?;
    let seconds = seconds(device, &copy, &[&x]).await?;
    let bytes_per_second = 8.0 * elements as f64 / seconds;
    let mut flops_per_second = 0.0f64;
    for size in SIZES {
        let shape: &[usize] = &[size, size];
        let inputs = [(shape, DType::F32), (shape, DType::F32)];
        let product = device.compile(&inputs, |x| Ok(vec![x[0].matmul(&x[1])?]))?;
        let x = device.uniform(shape, -0.5, 0.5, 1)?;
        let seconds = self::seconds(device, &product, &[&x, &x]).await?;
        flops_per_second = flops_per_second.max(2.0 * (size as f64).powi(3) / seconds);
        if seconds > LONG {
            break;
        }
    }
    Ok(Ceilings { bytes_per_second, flops_per_second })
}

/// Returns the best seconds for a run, averaged over several.
async fn seconds(device: &Device, program: &Program, inputs: &[&Tensor]) -> Result<f64> {
    program.run(inputs)?;
    device.synchronize().await?;
    let (mut runs, mut left, mut best) = (1, TIMES, f64::INFINITY);
    while left > 0 {
        let work = async { (0..runs).try_for_each(|_| program.run(inputs).map(drop)) };
        let ((), profile) = device.profile(work).await?;
        let all = measured(&profile);
        if all < SUM && runs < MOST_RUNS {
            runs =
                (2 * runs).max((runs as f64 * SUM / all.max(SUM / 16.0)) as usize).min(MOST_RUNS);
            continue;
        }
        best = best.min(all.max(f64::MIN_POSITIVE) / runs as f64);
        left -= 1;
    }
    Ok(best)
}

fn measured(profile: &Profile) -> f64 {
    let time = match profile.clock() {
        Clock::None => profile.total(),
        _ => profile.device_time(),
    };
    time.as_secs_f64()
}
