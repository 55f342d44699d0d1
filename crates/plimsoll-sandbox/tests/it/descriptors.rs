//! Descriptors that this process was given by its own parent: nothing that it starts inherits them.

use std::fs::File;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, RawFd};

use plimsoll_sandbox::{SandboxConfig, SandboxMode};
use rstest::rstest;
use rustix::io::{FdFlags, fcntl_setfd};

use crate::support::Yard;

/// Make a descriptor one that children inherit, as one is that a shell opened for this process.
fn inherit(descriptor: &(impl AsFd + AsRawFd)) -> RawFd {
    fcntl_setfd(descriptor, FdFlags::empty()).unwrap();
    descriptor.as_raw_fd()
}

/// A file that may be written through a descriptor of this process.
fn open_file(yard: &Yard) -> File {
    File::create(yard.outside.join("open")).unwrap()
}

fn leaked(yard: &Yard) -> String {
    std::fs::read_to_string(yard.outside.join("open")).unwrap()
}

#[rstest]
#[case::confined(SandboxMode::Auto)]
#[case::not_confined(SandboxMode::Off)]
fn a_command_inherits_no_file(#[case] mode: SandboxMode) {
    let yard = Yard::with(SandboxConfig::default().mode(mode));
    let file = open_file(&yard);
    let number = inherit(&file);
    let output = yard.bash(&format!("echo leaked >&{number}"));
    assert!(output.contains("Bad file descriptor"), "{output}");
    assert_eq!(leaked(&yard), "");
}

#[test]
fn a_command_inherits_no_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut peer, _) = listener.accept().unwrap();
    let number = inherit(&socket);
    let yard = Yard::new();
    let output = yard.bash(&format!("echo leaked >&{number}"));
    assert!(output.contains("Bad file descriptor"), "{output}");
    drop(socket);
    let mut received = String::new();
    peer.read_to_string(&mut received).unwrap();
    assert_eq!(received, "");
}
