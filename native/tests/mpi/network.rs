//! A slow network between two hosts on this machine. The hosts are network namespaces of Linux with separate host names and
//! process numbers.
//!
//! Each namespace has a TUN device, whose packets a program reads and writes. Threads of this process carry the packets from
//! one device to the other. They delay and drop packets as the link says. Other than the kernel's `netem`, TUN devices exist on
//! all common kernels.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Arc;
use std::thread::{spawn, JoinHandle};
use std::time::{Duration, Instant};

/// The text that tests print if there can be no network.
const SKIPPED: &str = "SKIPPED: no network namespaces (needs root)";
/// The name of the device in each namespace.
const DEVICE: &str = "warpweft0";
/// The addresses of the hosts.
const ADDRESSES: [&str; 2] = ["10.77.0.1", "10.77.0.2"];
/// The number of the call that names a TUN device.
const TUNSETIFF: libc::c_ulong = 0x4004_54ca;

/// The properties of the connection, in each direction.
#[derive(Clone, Copy, Default)]
pub struct Link {
    pub delay: Duration,
    /// One in this many packets is lost, or none for 0.
    pub loss: u32,
}

/// Two hosts with a connection. Dropping it removes them, and ends their processes.
pub struct Network {
    /// The names of the namespaces, which are also the host names.
    hosts: [String; 2],
    folder: PathBuf,
    switch: Arc<Switch>,
    threads: Vec<JoinHandle<()>>,
}

/// The state of the connection.
#[derive(Default)]
struct Switch {
    is_cut: AtomicBool,
    is_closed: AtomicBool,
}

/// Runs a program, and returns its error as a text.
fn run(program: &str, arguments: &str) -> Result<(), String> {
    let mut command = Command::new(program);
    let output = command.args(arguments.split(' ')).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    output.status.success().then_some(()).ok_or(format!("{program} {arguments}: {error}"))
}

/// Creates a TUN device, which exists until the file is closed. Returns its name.
fn open_device() -> Result<(File, String), String> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
    let file = options.open("/dev/net/tun").map_err(|error| format!("/dev/net/tun: {error}"))?;
    // SAFETY: zeros are a valid request. The kernel writes the name of the device into it.
    let name = unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
        if libc::ioctl(file.as_raw_fd(), TUNSETIFF as _, &mut request) != 0 {
            return Err(format!("TUNSETIFF: {}", std::io::Error::last_os_error()));
        }
        std::ffi::CStr::from_ptr(request.ifr_name.as_ptr()).to_string_lossy().into_owned()
    };
    Ok((file, name))
}

/// Carries packets in one direction until the connection is closed.
fn carry(mut from: File, mut to: File, link: Link, switch: &Switch) {
    let mut queue: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
    let (mut packet, mut count, mut random) = (vec![0; 1 << 16], 0u32, 1u64);
    while !switch.is_closed.load(Ordering::Relaxed) {
        let due = queue.front().map(|(due, _)| due.saturating_duration_since(Instant::now()));
        let wait = due.unwrap_or(Duration::from_millis(50)).as_micros().div_ceil(1000) as i32;
        let mut poll = libc::pollfd { fd: from.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: there is one entry.
        unsafe { libc::poll(&mut poll, 1, wait) };
        while let Ok(len) = from.read(&mut packet) {
            count += 1;
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let is_lost = link.loss > 0 && ((random >> 33) as u32).is_multiple_of(link.loss);
            if !is_lost && !switch.is_cut.load(Ordering::Relaxed) {
                queue.push_back((Instant::now() + link.delay, packet[..len].to_vec()));
            }
            if count % 64 == 0 {
                break;
            }
        }
        while queue.front().is_some_and(|(due, _)| *due <= Instant::now()) {
            // A full device loses packets, as a network does.
            queue.pop_front().map(|(_, packet)| to.write(&packet).ok());
        }
    }
}

impl Network {
    /// Creates two hosts with a connection.
    ///
    /// # Errors
    /// The reason why this is not possible, such as a user other than root.
    pub fn new(link: Link) -> Result<Network, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let hosts = ["a", "b"].map(|host| format!("warpweft-{number}-{host}"));
        let folder = std::env::temp_dir().join(format!("warpweft-network-{number}"));
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let (switch, threads) = (Arc::default(), Vec::new());
        // From here, errors remove what exists.
        let mut network = Network { hosts, folder, switch, threads };
        let [a, b] = [0, 1].map(|host| network.add_host(host));
        let (a, b) = (a?, b?);
        let copy = |file: &File| file.try_clone().map_err(|error| error.to_string());
        for (from, to) in [(copy(&a)?, copy(&b)?), (b, a)] {
            let switch = network.switch.clone();
            network.threads.push(spawn(move || carry(from, to, link, &switch)));
        }
        network.write_files().map_err(|error| error.to_string())?;
        Ok(network)
    }

    /// Creates two hosts, or prints why this is not possible. Where the environment variable `WARPWEFT_REQUIRE` has `netns`,
    /// this is a failure.
    pub fn or_skip(link: Link) -> Option<Network> {
        let network = Network::new(link).map_err(|reason| format!("{SKIPPED}: {reason}"));
        let required = std::env::var("WARPWEFT_REQUIRE").unwrap_or_default();
        let is_required = required.split(',').any(|name| name == "netns");
        match network {
            Ok(network) => Some(network),
            Err(text) => {
                // The standard error is printed also for tests that pass.
                writeln!(std::io::stderr(), "{text}").ok();
                assert!(!is_required, "{text}");
                None
            }
        }
    }

    /// Creates a namespace with a device.
    fn add_host(&self, host: usize) -> Result<File, String> {
        let (name, address) = (&self.hosts[host], ADDRESSES[host]);
        run("ip", &format!("netns add {name}"))?;
        let (file, device) = open_device()?;
        run("ip", &format!("link set dev {device} netns {name} name {DEVICE}"))?;
        run("ip", &format!("-n {name} link set dev lo up"))?;
        run("ip", &format!("-n {name} addr add {address}/24 dev {DEVICE}"))?;
        run("ip", &format!("-n {name} link set dev {DEVICE} txqueuelen 10000 up"))?;
        Ok(file)
    }

    /// Writes the list of hosts, and the program that starts commands on the second, as `ssh` does.
    fn write_files(&self) -> std::io::Result<()> {
        let hosts = ADDRESSES.map(|address| format!("{address} slots=1\n")).concat();
        fs::write(self.folder.join("hosts"), hosts)?;
        let agent = self.folder.join("agent");
        let inside = self.inside(1).join(" ");
        fs::write(&agent, format!("#!/bin/sh\nshift\nexec {inside} /bin/sh -c \"$*\"\n"))?;
        fs::set_permissions(&agent, fs::Permissions::from_mode(0o755))
    }

    /// Returns the start of a command that runs on a host.
    fn inside(&self, host: usize) -> Vec<String> {
        let name = &self.hosts[host];
        let start = format!("ip netns exec {name} unshare --uts --pid --fork --kill-child");
        let set_name = [
            "/bin/sh".to_string(),
            self.folder.join(format!("host-{host}")).to_str().expect("UTF-8").to_string(),
        ];
        let script = format!("hostname {name}\nexec \"$@\"\n");
        fs::write(&set_name[1], script).expect("a writable folder");
        start.split(' ').map(String::from).chain(set_name).collect()
    }

    /// Returns the command that runs `program` as one rank on each host. `arguments` are those of `mpirun`.
    pub fn mpirun(&self, arguments: &[String], program: &[String]) -> Command {
        let inside = self.inside(0);
        let mut command = Command::new(&inside[0]);
        let path = |name: &str| self.folder.join(name).to_str().expect("UTF-8").to_string();
        command.args(&inside[1..]).arg("mpirun").args(["-n", "2", "--map-by", "node"]);
        command.args(["--hostfile", &path("hosts"), "--mca", "plm_rsh_agent", &path("agent")]);
        for (name, value) in
            [("btl", "tcp,self"), ("btl_tcp_if_include", DEVICE), ("oob_tcp_if_include", DEVICE)]
        {
            command.args(["--mca", name, value]);
        }
        command.args(arguments).args(program);
        command
    }

    /// Cuts the connection: all packets are lost from now on.
    pub fn cut(&self) {
        self.switch.is_cut.store(true, Ordering::Relaxed);
    }

    /// Returns the name of a host.
    pub fn host(&self, host: usize) -> &str {
        &self.hosts[host]
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.switch.is_closed.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().ok();
        }
        for host in &self.hosts {
            let processes = Command::new("ip").args(["netns", "pids", host]).output();
            let processes = processes.map(|output| output.stdout).unwrap_or_default();
            for process in String::from_utf8_lossy(&processes).split_whitespace() {
                // SAFETY: the process runs in the namespace, which only this network uses.
                process.parse().map(|process| unsafe { libc::kill(process, libc::SIGKILL) }).ok();
            }
            run("ip", &format!("netns delete {host}")).ok();
            // The folder of Open MPI, which stays if its processes are killed.
            let left = std::env::temp_dir().join(format!("ompi.{host}.0"));
            fs::remove_dir_all(left).ok();
        }
        fs::remove_dir_all(&self.folder).ok();
    }
}
