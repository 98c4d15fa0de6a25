//! How much memory a GPU has. wgpu does not tell; Vulkan does.

/// Bytes of the memory that is the device's own; of an integrated GPU, of what it shares. Told by Vulkan only.
#[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
#[allow(unsafe_code)]
pub fn bytes(adapter: &wgpu::Adapter) -> Option<u64> {
    /// `VK_MEMORY_HEAP_DEVICE_LOCAL_BIT`.
    const OWN: u32 = 1;
    // SAFETY: asked of the caller is that nothing of the adapter is destroyed, and that the physical device is one of this
    // instance; both live in `adapter`, and only a table of numbers is read.
    let memory = unsafe {
        let vulkan = adapter.as_hal::<wgpu::hal::api::Vulkan>()?;
        let instance = vulkan.shared_instance().raw_instance();
        instance.get_physical_device_memory_properties(vulkan.raw_physical_device())
    };
    let heaps = memory.memory_heaps.iter().take(memory.memory_heap_count as usize);
    let own = heaps.filter(|heap| heap.flags.as_raw() & OWN != 0);
    Some(own.map(|heap| heap.size).sum()).filter(|&bytes| bytes > 0)
}

/// Not told.
#[cfg(not(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd")))]
pub fn bytes(_: &wgpu::Adapter) -> Option<u64> {
    None
}
