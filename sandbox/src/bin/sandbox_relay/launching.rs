//! The order, and the real launcher.

use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;

use gatehouse_sandbox::launch::{
    Confined, Confinement, Hold, LaunchError, LaunchRequest, Launcher, Streams, program_files,
};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Instructions;

/// An order as the launching side writes it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    launch: LaunchRequest,
    confinement: Confinement,
}

/// The order with the changes. It is written down beside the executable, for the test.
pub fn changed(mut from: File, instructions: &Instructions, place: &Path) -> Order {
    let mut text = Vec::new();
    from.read_to_end(&mut text).expect("an order");
    let mut order: Order = serde_json::from_slice(&text).expect("an order for a confined program");
    let launch = &mut order.launch;
    launch.argv.extend(instructions.append.iter().map(Into::into));
    let environment = instructions.environment.iter();
    launch.env.extend(environment.map(|(name, value)| (name.clone(), value.into())));
    if let [program, ..] = &instructions.instead[..] {
        launch.argv.splice(0..1, instructions.instead.iter().map(Into::into));
        order.confinement.programs = program_files(Path::new(program)).expect("a program");
    }
    write(place, "order.json", &serde_json::to_vec(&order).expect("it came as JSON"));
    order
}

/// Writes a file so that whoever looks sees it whole or not at all.
pub fn write(place: &Path, name: &str, content: &[u8]) {
    let new = place.join(format!("{name}.new"));
    std::fs::write(&new, content).expect("a writable directory");
    std::fs::rename(new, place.join(name)).expect("a writable directory");
}

/// Has it carried out, and says on the status pipe what came of it.
pub async fn launch(order: &Order, instructions: &Instructions, mut status: File) -> Option<Confined> {
    let streams = Streams { stdin: Stdio::inherit(), stdout: Stdio::inherit(), stderr: Stdio::inherit() };
    let launcher = Launcher::at(&instructions.launcher);
    let (line, confined) = match launcher.start_confined(&order.launch, &order.confinement, streams).await {
        Ok(confined) => (json!({"ready": confined.enforced_by}), Some(confined)),
        Err(LaunchError::Layer(failure)) => (json!({"failed": {"layer": failure}}), None),
        Err(LaunchError::Step { stage, errno }) => {
            (json!({"failed": {"step": {"stage": stage, "errno": errno}}}), None)
        }
        Err(other) => panic!("{other}"),
    };
    writeln!(status, "{line}").expect("the shim reads it");
    confined
}

/// Hands over what the keeper hands over: the first process inside, and the listeners.
pub fn hand_over(control: &UnixStream, hold: &Hold, listeners: &[TcpListener]) {
    let fds: Vec<BorrowedFd<'_>> =
        std::iter::once(hold.init()).chain(listeners.iter().map(AsFd::as_fd)).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)), "too many listeners");
    rustix::net::sendmsg(control, &[IoSlice::new(b"+")], &mut ancillary, SendFlags::NOSIGNAL)
        .expect("the shim receives it");
}
