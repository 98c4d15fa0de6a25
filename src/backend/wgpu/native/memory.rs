//! The size of a GPU's memory. wgpu does not report it, but Vulkan does.

/// Returns the bytes of device-local memory. An integrated GPU shares this memory with the CPU. `None` without Vulkan.
#[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
#[allow(unsafe_code)]
pub fn bytes(adapter: &wgpu::Adapter) -> Option<u64> {
    /// `VK_MEMORY_HEAP_DEVICE_LOCAL_BIT`.
    const OWN: u32 = 1;
    // SAFETY: the caller must not destroy anything of the adapter, and the physical device must belong to this instance. Both
    // are kept alive by `adapter`, and only a table of numbers is read.
    let memory = unsafe {
        let vulkan = adapter.as_hal::<wgpu::hal::api::Vulkan>()?;
        let instance = vulkan.shared_instance().raw_instance();
        instance.get_physical_device_memory_properties(vulkan.raw_physical_device())
    };
    let heaps = memory.memory_heaps.iter().take(memory.memory_heap_count as usize);
    let own = heaps.filter(|heap| heap.flags.as_raw() & OWN != 0);
    Some(own.map(|heap| heap.size).sum()).filter(|&bytes| bytes > 0)
}

/// Returns `None`, because the size is read through Vulkan only.
#[cfg(not(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd")))]
pub fn bytes(_: &wgpu::Adapter) -> Option<u64> {
    None
}
