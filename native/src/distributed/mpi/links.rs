//! Connections that end with a process. Each rank on another machine than rank 0 has a TCP connection with rank 0, on which
//! nothing is sent. If a process ends, its kernel closes the connection, and the other side notices it at once.
//!
//! A firewall may forbid such connections. Then only `mpirun` and the timeout notice the end of ranks on other machines.

use std::io::{Read as _, Result, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Duration;

/// The longest time to connect to an address of rank 0.
const CONNECT: Duration = Duration::from_secs(1);
/// The longest time in which a connected rank sends its number.
const GREET: Duration = Duration::from_millis(200);
/// The handles that are reserved for connections.
const RESERVED: usize = 64;
/// The addresses of rank 0 that other ranks try.
const MAX_ADDRESSES: usize = 8;

/// Handles with low numbers.
///
/// A process that ends closes its handles in the order of their numbers. The other side must notice the end before Open MPI
/// does, because Open MPI ends the other process, too. So the numbers of the connections are reserved before MPI is opened.
pub struct Reserved(Vec<OwnedFd>);

impl Reserved {
    pub fn new() -> Reserved {
        let open = || std::fs::File::open("/dev/null").ok();
        Reserved(std::iter::repeat_with(open).take(RESERVED).flatten().map(OwnedFd::from).collect())
    }

    /// Moves a connection to a reserved handle, while there are any.
    pub fn take(&mut self, link: OwnedFd) -> OwnedFd {
        let Some(reserved) = self.0.pop() else { return link };
        // SAFETY: both handles are open, and `reserved` keeps its number.
        unsafe {
            if libc::dup2(link.as_raw_fd(), reserved.as_raw_fd()) < 0 {
                return link;
            }
            libc::fcntl(reserved.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC);
        }
        reserved
    }
}

/// The side of rank 0, which accepts connections.
pub struct Listener {
    listener: TcpListener,
    /// A number that strangers do not know.
    token: u64,
}

impl Listener {
    pub fn open() -> Result<Listener> {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        listener.set_nonblocking(true)?;
        let mut token = [0; 8];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut token)?;
        Ok(Listener { listener, token: u64::from_le_bytes(token) })
    }

    /// Returns a line with the token, the port and the addresses, for `connect`.
    pub fn invitation(&self) -> String {
        let port = self.listener.local_addr().map_or(0, |address| address.port());
        let addresses = addresses().into_iter().take(MAX_ADDRESSES);
        let words = [self.token.to_string(), port.to_string()].into_iter();
        words.chain(addresses.map(|address| address.to_string())).collect::<Vec<_>>().join(" ")
    }

    /// Returns the connections that other ranks have made, with their ranks.
    pub fn accept(&self) -> Vec<(usize, OwnedFd)> {
        let accepted = std::iter::from_fn(|| self.listener.accept().ok());
        accepted.filter_map(|(stream, _)| self.greet(stream).ok().flatten()).collect()
    }

    fn greet(&self, mut stream: TcpStream) -> Result<Option<(usize, OwnedFd)>> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(GREET))?;
        let mut bytes = [0; 16];
        stream.read_exact(&mut bytes)?;
        let (token, rank) = bytes.split_at(8);
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        Ok((number(token) == self.token).then(|| (number(rank) as usize, stream.into())))
    }
}

/// Connects to rank 0. Returns `None` if no address can be reached.
pub fn connect(invitation: &str, rank: usize) -> Option<OwnedFd> {
    let mut words = invitation.split(' ');
    let (token, port): (u64, u16) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let mut addresses = words.filter_map(|word| word.parse::<Ipv4Addr>().ok());
    addresses.find_map(|address| {
        let address = SocketAddr::from((address, port));
        let mut stream = TcpStream::connect_timeout(&address, CONNECT).ok()?;
        let greeting = [token.to_le_bytes(), (rank as u64).to_le_bytes()].concat();
        stream.write_all(&greeting).ok()?;
        Some(stream.into())
    })
}

/// Returns the addresses of this machine, without those that mean the machine itself.
fn addresses() -> Vec<Ipv4Addr> {
    let mut all = Vec::new();
    let mut first = std::ptr::null_mut();
    // SAFETY: the list is valid until it is freed. The family says which kind of address an entry has.
    unsafe {
        if libc::getifaddrs(&mut first) != 0 {
            return all;
        }
        let mut entry = first;
        while let Some(interface) = entry.as_ref() {
            let address = interface.ifa_addr;
            if !address.is_null() && i32::from((*address).sa_family) == libc::AF_INET {
                let address = address.cast::<libc::sockaddr_in>().read_unaligned();
                all.push(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)));
            }
            entry = interface.ifa_next;
        }
        libc::freeifaddrs(first);
    }
    all.retain(|address| !address.is_loopback());
    all
}
