//! The ends of the way: a POST on a connection that is kept, and no more of HTTP than that.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::super::now;

/// A connection to a part of the way.
pub struct Connection(BufReader<TcpStream>);

impl Connection {
    /// To a port on loopback.
    pub fn to(port: &str) -> Self {
        let stream = TcpStream::connect(format!("127.0.0.1:{port}")).expect("it listens");
        stream.set_nodelay(true).unwrap();
        Self(BufReader::new(stream))
    }

    /// A request of so many bytes, until its answer is there.
    pub fn post(&mut self, bytes: usize) {
        self.ask(bytes).expect("the other end is there");
    }

    /// The same; gives when the answer began, and `None` when nobody is there any more.
    pub fn ask(&mut self, bytes: usize) -> Option<Duration> {
        let head = format!("POST / HTTP/1.1\r\nhost: way\r\ncontent-length: {bytes}\r\n\r\n");
        let request = [head.into_bytes(), vec![b'x'; bytes]].concat();
        self.0.get_mut().write_all(&request).ok()?;
        let mut line = String::new();
        self.0.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let began = now();
        let mut length = 0;
        while line.trim_end() != "" {
            line.clear();
            self.0.read_line(&mut line).ok()?;
            if let Some(("content-length", value)) = line.split_once(':') {
                length = value.trim().parse().expect("a length");
            }
        }
        self.0.read_exact(&mut vec![0; length]).ok()?;
        Some(began)
    }
}
