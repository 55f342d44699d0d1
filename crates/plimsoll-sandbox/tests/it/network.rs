//! The network, and sockets of other programs on this machine.

use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::time::Duration;

use plimsoll_sandbox::{Guard, SandboxConfig};

use crate::support::{Yard, can, has_python};

#[test]
fn there_is_no_tcp_and_no_udp() {
    if !can(&[Guard::Network]) {
        return;
    }
    let yard = Yard::new();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    tcp.set_nonblocking(true).unwrap();
    udp.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let (tcp_port, udp_port) = (tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
    for command in [
        format!("echo x > /dev/tcp/127.0.0.1/{tcp_port}"),
        format!("echo x > /dev/udp/127.0.0.1/{udp_port}"),
        format!("env -i bash -c 'echo x > /dev/tcp/localhost/{tcp_port}'"),
        format!("setsid -w bash -c 'echo x > /dev/udp/127.0.0.1/{udp_port}'"),
        format!("unshare -r bash -c 'echo x > /dev/tcp/127.0.0.1/{tcp_port}'"),
    ] {
        let output = yard.bash(&command);
        assert!(output.contains("[exit code"), "{command}: {output}");
    }
    assert!(tcp.accept().is_err(), "nothing came");
    assert!(udp.recv(&mut [0; 8]).is_err(), "nothing came");
}

const PROGRAM: &str = r#"
import ctypes, fcntl, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, what):
    try:
        what()
        print("DONE", name)
    except OSError as error:
        print("refused", name, error.errno)
def call(number, *arguments):
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "syscall")
def stream(address):
    s = socket.socket(socket.AF_UNIX); s.connect(address); s.sendall(b"x")
def datagram(address):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.sendto(b"x", address)
def pair(kind, address):
    a, b = socket.socketpair(socket.AF_UNIX, kind); a.sendto(b"x", address)
attempt("stream", lambda: stream("OUT/stream"))
attempt("datagram", lambda: datagram("OUT/datagram"))
attempt("abstract", lambda: stream("\0NAME"))
attempt("pair of datagrams", lambda: pair(socket.SOCK_DGRAM, "OUT/datagram"))
attempt("raw pair", lambda: pair(socket.SOCK_RAW, "OUT/datagram"))
attempt("inet6", lambda: socket.socket(socket.AF_INET6))
attempt("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))
attempt("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
attempt("vsock", lambda: socket.socket(socket.AF_VSOCK))
attempt("high half", lambda: call(41, ctypes.c_ulong(0x100000002), 1, 0))
attempt("x32", lambda: call(0x40000000 + 41, 2, 1, 0))
"#;

#[test]
fn sockets_of_other_programs_cannot_be_reached() {
    if !can(&[Guard::Network, Guard::UnixSockets]) || !has_python() {
        return;
    }
    let yard = Yard::new();
    let stream = UnixListener::bind(yard.outside.join("stream")).unwrap();
    let datagram = UnixDatagram::bind(yard.outside.join("datagram")).unwrap();
    let name = format!("plimsoll-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let hidden = UnixListener::bind_addr(&address).unwrap();
    for socket in [&stream, &hidden] {
        socket.set_nonblocking(true).unwrap();
    }
    datagram.set_nonblocking(true).unwrap();
    let output = yard.python(&PROGRAM.replace("NAME", &name));
    assert!(!output.contains("DONE") && output.matches("refused").count() == 11, "{output}");
    assert!(stream.accept().is_err() && hidden.accept().is_err() && datagram.recv(&mut [0]).is_err());
    // Programs still talk to their own children.
    let output = yard
        .python("import socket\na, b = socket.socketpair()\na.sendall(b'own')\nprint(b.recv(3).decode())\n");
    assert_eq!(output.trim(), "own");
}

#[test]
fn the_network_can_be_allowed_without_the_sockets_of_other_programs() {
    if !can(&[Guard::Network, Guard::UnixSockets]) || !has_python() {
        return;
    }
    let yard = Yard::with(SandboxConfig::default().network(true));
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = UnixListener::bind(yard.outside.join("stream")).unwrap();
    stream.set_nonblocking(true).unwrap();
    let port = tcp.local_addr().unwrap().port();
    let output = yard.bash(&format!("echo x > /dev/tcp/127.0.0.1/{port} && echo sent"));
    assert_eq!(output.trim(), "sent");
    let output = yard.python(PROGRAM);
    assert!(output.contains("refused stream") && output.contains("refused datagram"), "{output}");
    assert!(output.contains("refused packet") && output.contains("DONE inet6"), "{output}");
    assert!(stream.accept().is_err());
    // Both at once.
    let config = SandboxConfig::default().network(true).unix_sockets(true);
    let open = Yard::with(config);
    let stream = UnixListener::bind(open.outside.join("stream")).unwrap();
    let output = open.python(PROGRAM);
    assert!(output.contains("DONE stream"), "{output}");
    assert!(stream.accept().is_ok());
    assert!(open.bash("echo x > OUT/new").contains("Permission denied"), "files stay closed");
}

#[test]
fn text_cannot_be_inserted_into_the_users_terminal() {
    if !can(&[Guard::Network]) || !has_python() {
        return;
    }
    let yard = Yard::new();
    // On a device that is not a terminal the kernel would return "inappropriate ioctl" (25).
    let output = yard
        .python(
            "import fcntl\nfor request in (0x5412, 0x541c, 0x100005412):\n    try:\n        fcntl.ioctl(open('/dev/null'), request & 0xffffffff, b'x')\n    \
             except OSError as error:\n        print(error.errno)\n",
        );
    assert_eq!(output.split_whitespace().collect::<Vec<_>>(), ["1", "1", "1"]);
}
