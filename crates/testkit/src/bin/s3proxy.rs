//! The recording fault proxy as a process: `s3proxy --upstream http://127.0.0.1:8333 [--listen 127.0.0.1:0]`.
//!
//! Prints `{"endpoint_url": "http://127.0.0.1:PORT"}` when it listens, and ends when its standard input does, so that
//! it cannot outlive the test that started it. Everything else goes through the paths under `/__proxy/`.

use std::io::Read;
use std::net::SocketAddr;
use std::process::ExitCode;

use seqferry_testkit::proxy::Proxy;

const USAGE: &str = "usage: s3proxy --upstream http://HOST:PORT [--listen ADDRESS:PORT]";

fn start() -> Result<Proxy, String> {
    let mut upstream = None;
    let mut listen: SocketAddr = ([127, 0, 0, 1], 0).into();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().ok_or(USAGE)?;
        match argument.as_str() {
            "--upstream" => upstream = Some(value),
            "--listen" => listen = value.parse().map_err(|error| format!("--listen {value}: {error}"))?,
            _ => return Err(USAGE.to_owned()),
        }
    }
    Proxy::listen(listen, &upstream.ok_or(USAGE)?).map_err(|error| error.to_string())
}

fn main() -> ExitCode {
    match start() {
        Ok(proxy) => {
            println!("{{\"endpoint_url\": \"{}\"}}", proxy.endpoint_url());
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("s3proxy: {problem}");
            ExitCode::from(2)
        }
    }
}
