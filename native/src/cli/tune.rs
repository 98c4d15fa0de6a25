//! `warpweft tune`: finds the fastest kernels of a device.

use comfy_table::{presets, CellAlignment, Table};
use indicatif::ProgressBar;
use std::time::Duration;
use warpweft_native::prelude::*;
use warpweft_native::tuned;

/// Measures the kernels, prints the times, and stores the fastest kernels.
///
/// # Errors
/// The errors of the device.
pub fn run(preference: Preference) -> Result<()> {
    let device = Device::with_blocking(preference)?;
    println!("{} ({})", device.info().name, device.info().backend);
    if let Some(why) = device.fallback() {
        println!("{why}");
    }
    let turning = ProgressBar::new_spinner().with_message("measuring");
    turning.enable_steady_tick(Duration::from_millis(100));
    let tuned = device.tune_blocking(true);
    turning.finish_and_clear();
    let tuned = tuned?;
    if tuned.figures.is_empty() {
        println!("this device has no kernels to choose from");
        return Ok(());
    }
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(["work", "ms", "kernels"]);
    table.column_mut(1).expect("it has three").set_cell_alignment(CellAlignment::Right);
    let mut work = "";
    for figure in &tuned.figures {
        // Only the first row of a kind of work has its name.
        let named = if figure.work == work { "" } else { figure.work };
        work = figure.work;
        let time = figure.milliseconds.map_or("-".to_string(), |ms| format!("{ms:.3}"));
        table.add_row([named.to_string(), time, figure.config.to_string()]);
    }
    println!("\n{table}\n\nfastest: {}", tuned.config);
    if let Some(store) = tuned::Store::usual() {
        println!("saved to {}", store.file.display());
    }
    Ok(())
}
