//! As much of HTTP/1.1 as it takes: one connection, one POST at a time, answers by length or in chunks.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// A connection to a port on loopback, made when needed.
#[derive(Debug)]
pub struct Connection {
    port: u16,
    header: String,
    stream: Option<BufReader<TcpStream>>,
}

impl Connection {
    /// To this port, with this header on each request.
    pub const fn new(port: u16, header: String) -> Self {
        Self { port, header, stream: None }
    }

    /// Sends a POST and gives the answer's body to `each` as it comes.
    pub fn post(&mut self, path: &str, body: &str, mut each: impl FnMut(&[u8])) -> std::io::Result<()> {
        let done = self.exchange(path, body, &mut each);
        if done.is_err() {
            self.stream = None;
        }
        done
    }

    fn exchange(&mut self, path: &str, body: &str, each: &mut dyn FnMut(&[u8])) -> std::io::Result<()> {
        let port = self.port;
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => none.insert(BufReader::new(TcpStream::connect(("127.0.0.1", port))?)),
        };
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n{}\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\ncontent-length: {}\r\n\r\n",
            self.header,
            body.len()
        );
        let mut request = head.into_bytes();
        request.extend_from_slice(body.as_bytes());
        stream.get_mut().write_all(&request)?;
        let status = line(stream)?;
        let (mut length, mut chunked) = (0, false);
        loop {
            let header = line(stream)?.to_ascii_lowercase();
            match header.split_once(':') {
                None => break,
                Some(("content-length", value)) => length = value.trim().parse().unwrap_or(0),
                Some(("transfer-encoding", value)) => chunked = value.trim() == "chunked",
                Some(_) => {}
            }
        }
        if chunked {
            chunks(stream, each)?;
        } else {
            exactly(stream, length, each)?;
        }
        let good = status.split(' ').nth(1).is_some_and(|code| code.starts_with('2'));
        if good { Ok(()) } else { Err(std::io::Error::other(format!("answered {status:?}"))) }
    }
}

fn line(stream: &mut BufReader<TcpStream>) -> std::io::Result<String> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    line.truncate(line.trim_end().len());
    Ok(line)
}

fn exactly(
    stream: &mut BufReader<TcpStream>,
    length: usize,
    each: &mut dyn FnMut(&[u8]),
) -> std::io::Result<()> {
    let mut part = vec![0; length];
    stream.read_exact(&mut part)?;
    each(&part);
    Ok(())
}

fn chunks(stream: &mut BufReader<TcpStream>, each: &mut dyn FnMut(&[u8])) -> std::io::Result<()> {
    loop {
        let length = usize::from_str_radix(&line(stream)?, 16).map_err(std::io::Error::other)?;
        exactly(stream, length, each)?;
        line(stream)?;
        if length == 0 {
            return Ok(());
        }
    }
}
