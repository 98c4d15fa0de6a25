//! `warpweft devices`: a table of the available devices.

use comfy_table::{presets, Table};
use serde_json::{json, Value};
use warpweft_native::device::{Found, Limits};
use warpweft_native::prelude::*;

/// Prints the devices, and the backends that have none.
///
/// # Errors
/// `NoDevice` if no device exists, not even the CPU.
pub fn run(json: bool) -> Result<()> {
    let found = Device::discover_blocking();
    match json {
        true => println!("{:#}", found.iter().map(figures).collect::<Value>()),
        false => {
            println!("{}\n\n* is the default; choose another with --device NUMBER", table(&found))
        }
    }
    match found.iter().any(Found::is_available) {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::NoDevice,
            "devices: there must be a device, got none, not even the CPU",
        )),
    }
}

fn table(found: &[Found]) -> Table {
    let mut table = Table::new();
    let head = [
        "",
        "device",
        "backend",
        "kind",
        "memory",
        "largest buffer",
        "largest workgroup",
        "features",
    ];
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_header(head);
    for (number, it) in found.iter().enumerate() {
        let Some(limits) = &it.limits else {
            let none = format!("none: {}", it.reason.as_deref().unwrap_or_default());
            table.add_row(["", &none, it.info.backend]);
            continue;
        };
        let mark = if it.recommended { "*" } else { " " };
        table.add_row([
            format!("{mark} {number}"),
            description(it),
            it.info.backend.to_string(),
            it.info.kind.name().to_string(),
            it.memory.map_or("unknown".to_string(), size),
            size(limits.binding_bytes),
            format!("{} threads\n{}", limits.workgroup_size, size(limits.workgroup_bytes.into())),
            features(limits).join("\n"),
        ]);
    }
    table
}

/// Returns the name, the vendor and driver, and the reason why the device is not usable, each on a line.
fn description(it: &Found) -> String {
    let (vendor, driver) = (it.info.vendor.trim(), it.info.driver.trim());
    let words: Vec<&str> = [vendor, driver].into_iter().filter(|word| !word.is_empty()).collect();
    let reason = it.reason.as_ref().map(|reason| format!("not the default: {reason}"));
    let lines = [Some(it.info.name.clone()), Some(words.join(", ")), reason];
    lines.into_iter().flatten().filter(|line| !line.is_empty()).collect::<Vec<String>>().join("\n")
}

/// Returns the optional features of a device.
fn features(limits: &Limits) -> Vec<&'static str> {
    let all = [
        (limits.f16, "f16"),
        (limits.subgroups, "subgroups"),
        (limits.timestamps, "timestamps"),
        (limits.cooperative, "cooperative matrices"),
    ];
    all.into_iter().filter(|(has, _)| *has).map(|(_, name)| name).collect()
}

/// Formats bytes for people.
fn size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let (shift, unit) = units.into_iter().find(|(shift, _)| bytes >> shift > 0).unwrap_or((0, "B"));
    let number = format!("{:.1}", bytes as f64 / (1u64 << shift) as f64);
    format!("{} {unit}", number.trim_end_matches(".0"))
}

/// Formats a device as JSON.
fn figures(it: &Found) -> Value {
    let limits = it.limits.as_ref().map(|limits| {
        json!({
            "buffersPerKernel": limits.buffers_per_kernel,
            "bindingBytes": limits.binding_bytes,
            "workgroups": limits.workgroups,
            "workgroupSize": limits.workgroup_size,
            "workgroupBytes": limits.workgroup_bytes,
            "f16": limits.f16,
            "subgroups": limits.subgroups,
            "timestamps": limits.timestamps,
            "cooperative": limits.cooperative,
        })
    });
    json!({
        "backend": it.info.backend,
        "name": it.info.name,
        "vendor": it.info.vendor,
        "kind": it.info.kind.name(),
        "driver": it.info.driver,
        "memory": it.memory,
        "limits": limits,
        "available": it.is_available(),
        "recommended": it.recommended,
        "reason": it.reason,
    })
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_are_in_the_largest_unit_that_fits() {
        let sizes = [0, 1023, 1536, 128 << 20, 6 << 30].map(size);
        assert_eq!(sizes, ["0 B", "1023 B", "1.5 KiB", "128 MiB", "6 GiB"]);
    }
}
